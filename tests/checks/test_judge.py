"""What judging does around the rows: state kept, errors told apart, everything caught."""

import sys

import numpy
import pytest
import torch

from devlab.checks import expect
from devlab.checks.exercise import Exercise
from devlab.checks.judge import judge
from devlab.checks.result import Outcome
from devlab.checks.trial import NEEDS_TWO, Trial
from devlab.devices import bench

CPU = (torch.device("cpu"),)


def doubling() -> Exercise:
    """Return a small exercise: double a tensor."""
    exercise = Exercise("double", "00_test", "double(x)", ("D1",), ("first hint", "second hint"))

    @exercise.row("twice the value")
    def twice(trial):
        for seed in trial.seeds:
            x = trial.randn(3, 2, seed=seed)
            wanted = 2 * x
            expect.tensor(trial.call(x), wanted, trial.device)

    @exercise.row("an empty tensor is fine")
    def empty(trial):
        x = trial.randn(0, 2)
        expect.tensor(trial.call(x), 2 * x, trial.device)

    return exercise


def verdict(code) -> str:
    """Judge an answer to `double` on the CPU and return the text."""
    return str(judge(doubling(), code, CPU))


def test_a_pass():
    """All rows pass: full points and no details."""
    result = judge(doubling(), lambda x: x + x, CPU)
    assert result.passed
    assert (result.points, result.possible) == (2, 2)
    assert result.details == ()


def test_a_failure_reads_as_the_readme_shows_it():
    """Headline, points, table, and the labelled lines."""
    assert verdict(lambda x: 3 * x) == (
        "✗ double: the values of the result are wrong  1 of 2 points\n"
        "                              cpu\n"
        "  twice the value              ✗\n"
        "  an empty tensor is fine      ✓\n"
        "  called with   double(x=f32[3,2] cpu), judged on cpu\n"
        "  expected      -3.48412 at [2, 1]\n"
        "  got           -5.22618 at [2, 1]\n"
        "  next          devlab.hint(double)"
    )


def test_a_learners_error_points_at_the_learners_line():
    """The innermost line of the learner's own code, not PyTorch's and not ours."""

    def double(x):
        return torch.cat([x, 1])

    result = judge(doubling(), double, CPU)
    assert result.outcome is Outcome.ERROR
    details = dict(result.details)
    assert details["at"].startswith("test_judge.py, line ")
    assert details["at"].endswith("return torch.cat([x, 1])")
    assert details["raised"].startswith("TypeError: ")


def test_the_line_of_a_helper_counts_as_the_learners():
    """An error in a helper that the learner wrote is shown there."""

    def helper(x):
        return x.no_such_attribute

    assert "return x.no_such_attribute" in verdict(lambda x: helper(x))


@pytest.mark.parametrize("error", [SystemExit(3), RecursionError(), MemoryError(), AssertionError("mine")])
def test_whatever_an_answer_raises_is_its_error(error):
    """An assertion of the learner's is no finding of ours, and exit() does not end the kernel."""

    def double(x):
        raise error

    result = judge(doubling(), double, CPU)
    assert result.outcome is Outcome.ERROR
    assert type(error).__name__ in str(result)


def test_an_interrupt_passes_through():
    """A learner who stops a hanging answer gets the prompt back."""

    def double(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judge(doubling(), double, CPU)


def test_a_row_that_breaks_is_our_fault():
    """A result nobody thought of never becomes a traceback."""
    exercise = Exercise("odd", "00_test", "odd(x)", ("D1",), ("a", "b"))

    @exercise.row("breaks on its own")
    def breaks(trial):
        trial.call(1).nonsense()

    result = judge(exercise, lambda x: x, CPU)
    assert result.outcome is Outcome.ERROR
    assert "please report it" in str(result)


def test_changed_inputs_are_seen():
    """In place, swapped, resized: the input must come back as it was."""

    def in_place(x):
        return x.mul_(2)

    assert "the input `x` was changed in place" in verdict(in_place)

    def marked(x):
        x.requires_grad_()
        return (2 * x).detach()

    assert "the input `x` was changed in place" in verdict(marked)


def summing() -> Exercise:
    """Return a small exercise whose input is a NumPy array: a view that runs backwards and holds a nan."""
    exercise = Exercise("total", "00_test", "total(a)", ("D1",), ("a", "b"))

    @exercise.row("returns anything")
    def anything(trial):
        trial.call(numpy.array([1.0, float("nan"), 3.0])[::-1])

    return exercise


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (lambda a: a.sum(), False),
        (lambda a: a.__setitem__(0, 1), True),
        (lambda a: a.setflags(write=False), True),
        (lambda a: a.sort(), True),
    ],
)
def test_changed_arrays_are_seen(change, seen):
    """NumPy arrays are watched as tensors are: numbers, layout and the lock against writing."""
    result = judge(summing(), lambda a: change(a), CPU)
    assert ("the input `a` was changed in place" in str(result)) == seen
    assert "total(a=array f64[3], strides (-8,))" in str(result) or result.passed


def test_the_notebooks_state_is_kept():
    """Seeds, defaults and modes that an answer sets are put back."""
    torch.manual_seed(5)
    numpy.random.seed(5)
    wanted = torch.randn(2), numpy.random.rand()
    torch.manual_seed(5)
    numpy.random.seed(5)

    def double(x):
        torch.manual_seed(0)
        numpy.random.seed(0)
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        torch.set_grad_enabled(False)
        return x + x

    assert "your code changed the default device of the whole program" in verdict(double)
    assert torch.get_default_dtype() is torch.float32
    assert torch.get_default_device().type == "cpu"
    assert torch.is_grad_enabled()
    assert torch.equal(torch.randn(2), wanted[0])
    assert numpy.random.rand() == wanted[1]


def test_a_row_begins_with_the_same_random_numbers_on_every_device():
    """An answer that draws numbers gets the same verdict at every run; the threads are given back."""
    drawn: dict[str, list[float]] = {}

    def double(x):
        numbers = torch.randn(2, device=x.device).tolist()
        drawn.setdefault(str(x.device), []).append(numbers)
        return x + x

    threads = torch.get_num_threads()
    for _ in range(2):
        assert judge(doubling(), double, bench()).passed
        assert torch.get_num_threads() == threads
    for device, numbers in drawn.items():
        assert numbers[: len(numbers) // 2] == numbers[len(numbers) // 2 :], device


def test_a_notebooks_default_device_does_not_reach_the_rows():
    """A learner may have set a default device; the inputs still go where the row says."""
    torch.set_default_device("meta")
    try:
        assert judge(doubling(), lambda x: x + x, CPU).passed
        assert torch.get_default_device().type == "meta"
    finally:
        torch.set_default_device(None)


AROUND = {
    "inference mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "autocast on the device": lambda: torch.autocast("sim", torch.bfloat16),
    "a device": lambda: torch.device("sim:1"),
    "the search for anomalies": lambda: torch.autograd.set_detect_anomaly(True),
}


def modes() -> tuple:
    """Return what the blocks around a line of code have set."""
    autocast = [torch.is_autocast_enabled(kind) for kind in ("cpu", "sim")]
    return torch.is_inference_mode_enabled(), torch.is_anomaly_enabled(), autocast, torch.get_default_device()


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
def test_the_blocks_around_a_check_do_not_reach_the_rows(around):
    """Gradients, dtypes and places are those of a fresh notebook; the block goes on as it was."""
    devices = bench()
    squaring = Exercise("square", "00_test", "square(x)", ("D1",), ("first hint", "second hint"))

    @squaring.row("a product with a graph")
    def product(trial):
        assert not torch.is_anomaly_enabled()
        x = trial.randn(2, 2).requires_grad_()
        got = trial.call(x)
        got.sum().backward()
        expect.tensor(got.detach(), x.detach() @ x.detach(), trial.device)
        expect.device(x.grad, trial.device)
        expect.device(torch.ones(2), torch.device("cpu"))

    outside = modes()
    with around():
        inside = modes()
        assert inside != outside
        result = judge(squaring, lambda x: x @ x, devices)
        assert result.passed, str(result)
        assert modes() == inside
    assert modes() == outside


def test_an_accelerators_random_numbers_go_on():
    """Each row seeds the generators of all devices; the notebook's own numbers go on where they were."""
    devices = bench()
    torch.manual_seed(5)
    wanted = [torch.randn(2, device=device).cpu() for device in devices]
    torch.manual_seed(5)
    assert judge(doubling(), lambda x: x + x, devices).passed
    for device, numbers in zip(devices, wanted, strict=True):
        assert torch.equal(torch.randn(2, device=device).cpu(), numbers), device


def test_prints_of_a_failing_call_are_shown_and_others_are_not(capsys):
    """A learner who debugs by printing sees what the failing call printed, once."""

    def double(x):
        print("shape", tuple(x.shape))
        print("to stderr", file=sys.stderr)
        return x

    assert "printed       shape (3, 2)\n                to stderr" in verdict(double)

    def quiet(x):
        print("hello")
        return 2 * x

    assert judge(doubling(), quiet, CPU).passed
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "")


def test_wrong_parameters_are_named():
    """A changed signature is told as such, not as a TypeError of ours."""
    text = verdict(lambda x, device: x)
    assert "the parameters are not those of the task" in text
    assert "expected      double(x)" in text


def test_a_row_judged_nowhere_is_no_pass():
    """On a machine with the CPU alone, a row about accelerators is skipped, with the reason."""
    exercise = doubling()

    @exercise.row("stays on the accelerator", only="accelerator")
    def stays(trial):
        expect.device(trial.call(trial.randn(2)), trial.device)

    result = judge(exercise, lambda x: x + x, CPU)
    assert result.outcome is Outcome.SKIPPED
    assert not result.passed
    assert "no accelerator here" in result.headline
    assert result.points == 2


def there(trial):
    """Judge a copy to another accelerator."""
    device = trial.second()
    expect.device(trial.call(trial.randn(2, on=device)), device)


def test_a_row_that_needs_two_accelerators_takes_no_pass_away():
    """On one accelerator the answer passes; the row shows –, earns no point and says how to be judged."""
    for only in (None, "accelerator"):
        exercise = doubling()
        exercise.row("there, too", only=only)(there)
        result = judge(exercise, lambda x: x + x, bench()[:2])
        assert result.passed
        assert result.points == 2
        assert result.headline == "passed, as far as this machine can tell"
        assert result.rows[-1].outcomes["sim:0"] is Outcome.SKIPPED
        assert f"not judged    {NEEDS_TWO}" in result.text()
        everywhere = judge(exercise, lambda x: x + x)
        assert everywhere.points == 3
        assert everywhere.headline == "passed"
        assert "not judged" not in everywhere.text()


def test_what_needs_two_accelerators_is_skipped_on_the_cpu_alone():
    """Without an accelerator there is no pass; nor where all that is asked needs two."""
    exercise = doubling()
    exercise.row("there, too")(there)
    assert judge(exercise, lambda x: x + x, CPU).outcome is Outcome.SKIPPED
    alone = Exercise("double", "00_test", "double(x)", ("D1",), ("one", "two"))
    alone.row("there", only="accelerator")(there)
    result = judge(alone, lambda x: x + x, bench()[:2])
    assert (result.outcome, result.headline) == (Outcome.SKIPPED, NEEDS_TWO)


def test_a_module_is_shown_as_its_forward_is_called():
    """nn.Module's own signature takes anything; the learner wrote `forward(self, x)`."""
    trial = Trial(torch.nn.Identity, "class Identity()", CPU[0])
    trial.run(torch.nn.Identity(), torch.zeros(2), label="Identity()")
    assert trial.last_call.reads == "Identity()(input=f32[2] cpu)"
    trial.run(lambda *many: None, 1, 2, label="f")
    assert trial.last_call.reads == "f(1, 2)"


def test_a_row_for_the_first_accelerator_has_one_column():
    """What only one device can be asked is asked of the first, whichever that is."""
    exercise = Exercise("f", "00_test", "f(x)", ("D1",), ("one", "two"))
    exercise.row("asked once", only="first accelerator")(lambda trial: trial.call(1))
    for devices in (bench()[:3], [bench()[0], bench()[2]]):
        outcomes = list(judge(exercise, lambda x: x, devices).rows[0].outcomes.values())
        assert outcomes == [None, Outcome.PASSED, None][: len(devices)]


def test_a_trial_makes_zero_dimensional_numbers():
    """`trial.randn()` is one number without a dimension, not an error of the judge."""
    trial = Trial(lambda x: x, "f(x)", torch.device("cpu"))
    assert trial.randn(seed=1).shape == ()
    assert torch.equal(trial.randn(seed=1), trial.randn(1, seed=1)[0])
