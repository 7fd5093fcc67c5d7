"""The verbs of judging: each passes a right answer, and says of a wrong one what is wrong."""

from types import SimpleNamespace as Event

import numpy
import pytest
import torch

from devlab.checks import cases, verbs
from devlab.checks.expect import Mismatch
from devlab.checks.trial import Trial
from devlab.devices import bench

CPU, SIM = bench()[:2]


def trial_of(answer, device=CPU, others=()):
    """Return what a row works with."""
    return Trial(answer, "answer(x)", device, others)


def refused(call, *args, **options):
    """Return the headline and the two sides with which a verb refuses."""
    with pytest.raises(Mismatch) as found:
        call(*args, **options)
    return found.value.headline, found.value.expected, found.value.got


doubled = verbs.Same(lambda x: x * 2, {"x was squared": lambda x: x * x}, "2 x")


@pytest.mark.parametrize("device", [CPU, SIM])
def test_same_as_a_reference(device):
    """Values are compared on any device, a slip is named, and what is compared has a name."""
    trial = trial_of(lambda x: x + x, device)
    doubled.each(trial, cases.shapes(trial, (3, 2), (0, 2), (1,)))
    assert refused(doubled, trial_of(lambda x: x * x, device), trial.randn(3))[:2] == ("x was squared", "2 x")
    headline, *_ = refused(doubled, trial_of(lambda x: x * 3, device), trial.randn(3), what="the double")
    assert headline == "the values of the double are wrong"


def test_same_names_no_slip_of_nothing():
    """All empty results of one shape are equal, so none of them tells a slip."""
    headline, *_ = refused(doubled, trial_of(lambda x: x[:0, 0] ** 2), torch.ones(0, 2))
    assert headline == "the result has shape [0], not [0,2]"


def test_same_is_where_the_first_tensor_is_or_where_it_is_asked():
    """A result belongs where the first tensor is, or where the row says."""
    added = verbs.Same(lambda x, y: x + y)
    x, y = torch.ones(2, device=SIM), torch.ones(2)
    added(trial_of(lambda x, y: x + y.to(x.device)), x, y)
    added(trial_of(lambda x, y: x.cpu() + y), x, y, on=CPU)
    assert refused(added, trial_of(lambda x, y: x.cpu() + y), x, y)[0] == "the result is on cpu, not sim:0"


def test_same_with_words_that_depend_on_the_arguments():
    """Slips and what is expected may be functions of the arguments."""
    same = verbs.Same(
        lambda x, n: x * n,
        lambda x, n: {f"{n} was added, and not multiplied": x + n, "no one gives this": lambda: x[99]},
        asked=lambda x, n: f"{n} times x",
    )
    said = refused(same, trial_of(lambda x, n: x + n), torch.tensor([7.0]), 3)
    assert said[:2] == ("3 was added, and not multiplied", "3 times x")


def test_same_tells_lost_digits_of_whichever_argument():
    """A dtype in between shows whichever argument went through it."""
    added = verbs.Same(lambda x, y: x + y, digits=True, within=0.0)
    x, y = (torch.rand(5, dtype=torch.float64) for _ in range(2))
    said = refused(added, trial_of(lambda x, y: x + y.float()), x, y)
    assert said[0] == "digits were lost: the numbers were torch.float32 on the way"


def test_same_looks_first_and_then():
    """A look at any tensor comes first, one at a tensor of the right form after the slips."""
    seen = []
    same = verbs.Same(
        lambda x: x,
        first=lambda trial, got, wanted, x: seen.append("first"),
        then=lambda got, wanted, x: seen.append("then"),
    )
    same(trial_of(lambda x: x.clone()), torch.ones(2))
    assert seen == ["first", "then"]
    refused(same, trial_of(lambda x: x[0]), torch.ones(2))
    assert seen == ["first", "then", "first"]  # that has another shape
    refused(same, trial_of(lambda x: None), torch.ones(2))
    assert len(seen) == 3


def test_a_number():
    """A wrong number is called by the slip that gives it."""
    known = {"that is the number of elements": 3, "that is half": 6, "half again": 6, "never": None}
    known["one or the other"] = None, 7
    assert refused(verbs.number, 7, 12, "wrong", known)[0] == "one or the other"
    verbs.number(12, 12, "wrong", known)
    verbs.number(1.0 + 1e-9, 1.0, "wrong", within=1e-6)
    assert refused(verbs.number, 3, 12, "wrong", known, "{wanted} bytes", "{got} bytes") == (
        "that is the number of elements",
        "12 bytes",
        "3 bytes",
    )
    assert refused(verbs.number, 5, 12, "{got}, not {wanted}", known)[0] == "5, not 12"
    assert refused(verbs.number, 6, 12, "wrong", known)[0] == "that is half"
    assert refused(verbs.number, 6, 12, "wrong", known, otherwise=lambda: "")[0] == "wrong"
    assert refused(verbs.number, 6, 12, "wrong", known, otherwise=lambda: "more")[0] == "more"
    assert refused(verbs.number, 6, 12, "wrong", lambda: known)[0] == "that is half"
    verbs.number(12, 12, "wrong", lambda: pytest.fail("a right number needs no slips"))
    assert refused(verbs.number, True, 1, "wrong")[0] == "the answer is a bool, not an int"


def test_plain_answers():
    """The type is asked first, an index of a device next, and then the value."""
    x = torch.ones(2, device=SIM)
    verbs.answers(trial_of(lambda x: x.device), x, wanted=SIM, why="never")
    bare = trial_of(lambda x: torch.device("sim"))
    assert (
        refused(verbs.answers, bare, x, wanted=SIM, why="never")[0] == "the answer is sim, without its index"
    )
    yes = trial_of(lambda x: True)
    assert refused(verbs.answers, yes, x, wanted=False, why="no, not {got}")[0] == "no, not True"
    assert refused(verbs.answers, yes, x, wanted="no", why="")[0] == "the answer is a bool, not a str"


def test_counts_of_events():
    """Too many or too few events fail, in words that show them."""
    copies = [Event(source="cpu", target="sim:0", cause=".to", line="a")] * 2
    verbs.counts(copies, 2, "never", "two")
    assert refused(
        verbs.counts, copies, 1, "{times} by {causes}: {one.source}", "one, {more}", more="more"
    ) == (
        "2 transfers by .to: cpu",
        "one, more",
        "a",
    )
    assert refused(verbs.counts, [], 2, "{times}", "one", least=1, of="copy") == ("0 copies", "one", "0")
    assert verbs.routes(copies) == "cpu to sim:0, cpu to sim:0"


def test_a_gradient_flows():
    """What keeps a gradient from its leaf is told: no graph, a used one, another leaf, other numbers."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    verbs.flows(x * 3, x, lambda x: x * 3)
    verbs.flows(x * 3, x, None)
    assert refused(verbs.flows, x.detach(), x, None)[0] == "the result has left the graph"
    other = torch.ones(2, requires_grad=True)
    assert refused(verbs.flows, other * 3, x, None, "x")[0] == "no gradient reaches x"
    used = (x * 3).exp()
    used.sum().backward()
    assert refused(verbs.flows, used, x, None)[0] == "no backward leads through the result any more"
    headline, *_ = refused(verbs.flows, x * 2, x, lambda x: x * 3)
    assert headline == "the values of the gradient that reaches x are wrong"


def test_raises():
    """The exception is returned; none, one of another kind and one that says too little are told."""

    def answer(x):
        raise x

    asked = {"kind": ValueError, "asked": "a ValueError", "nothing": "nothing was raised"}
    asked["says"] = {"it does not say no": lambda text: "no" in text}
    trial, good = trial_of(answer), ValueError("no")
    assert verbs.raises(trial, good, **asked) is good
    assert refused(verbs.raises, trial_of(lambda x: 3), good, **asked)[0] == "nothing was raised"
    said = refused(verbs.raises, trial_of(lambda x: x), good, **asked)[0]
    assert said == "a ValueError was returned, and nothing was raised: `raise` it"
    said = refused(verbs.raises, trial, KeyError("no"), **asked)[0]
    assert said == "a KeyError was raised, not a ValueError"
    said = refused(verbs.raises, trial, KeyError("no"), **asked, other="{name}, and not {kind}")[0]
    assert said == "KeyError, and not ValueError"
    assert refused(verbs.raises, trial, ValueError("yes"), **asked)[0] == "it does not say no"


def test_untouched():
    """What a module holds is compared with what it held before the block."""
    model = torch.nn.BatchNorm1d(2)
    with verbs.untouched(model, "never"):
        model.running_mean.tolist()

    def change():
        with verbs.untouched(model, "`{path}` was changed", got="another {path}"):
            model.running_mean.add_(1)

    assert refused(change) == ("`running_mean` was changed", "as it came", "another running_mean")


def test_a_result_that_is_there_at_once():
    """A copy under way is no result yet, in a container or an array either."""
    x = torch.arange(3.0, device=SIM)
    trial = trial_of(lambda x: [x.cpu()], SIM)
    assert torch.equal(verbs.at_once(trial, x)[0], x.cpu())
    late = trial_of(lambda x: [x.to("cpu", non_blocking=True)], SIM)
    assert refused(verbs.at_once, late, x)[0] == "the result[0] was returned before the copy had arrived"
    array = trial_of(lambda x: x.to("cpu", non_blocking=True).numpy(), SIM)
    said = refused(verbs.at_once, array, x, what="the array", values="numbers")
    assert said[:2] == ("the array was returned before its numbers had arrived", "the numbers at once")
    plain = trial_of(lambda x: numpy.ones(2))
    assert verbs.at_once(plain, x).tolist() == [1, 1]


def test_calls_aside_leave_the_verdict_alone():
    """The verdict shows the call before the block."""
    trial = trial_of(lambda x: x)
    trial.call(1)
    before = trial.last_call
    with verbs.aside(trial):
        trial.call(2)
    assert trial.last_call is before
