"""The verbs of judging: each passes a right answer, and says of a wrong one what is wrong."""

from types import SimpleNamespace as Event

import numpy
import pytest
import torch

from devlab.checks import verbs
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
