"""An operator that an accelerator lacks, run on the CPU."""

from collections.abc import Callable

import torch

from devlab.checks import cases, expect
from devlab.checks.calls import AnswerRaised
from devlab.checks.probes import Called
from devlab.checks.verbs import counts
from devlab.lacking import apples_rules
from devlab.lessons.lesson_03_mps import lesson

with_fallback = lesson.exercise(
    "with_fallback",
    signature="with_fallback(op, x)",
    facts=("I3", "I4"),
    hints=(
        "Try the operation where x is. If the device lacks it, PyTorch raises one particular exception, and "
        "that exception alone is yours to catch.",
        "Under `except NotImplementedError:`, `op(x.cpu())` gives the result on the CPU. One step is left, "
        "because the result belongs where x is.",
        "Write `try: return op(x)`, and then `except NotImplementedError: return op(x.cpu()).to(x.device)`.",
    ),
)


def plain(x: torch.Tensor) -> torch.Tensor:
    """An operation that every device has."""
    return x * 2 + 1


def make_op(here: Exception | None, on_cpu: Exception | None = None, body: Callable = plain) -> Called:
    """Return an operation that runs `body`, or raises the error given for an accelerator or for the CPU."""

    def op(x: torch.Tensor) -> torch.Tensor:
        if error := on_cpu if x.is_cpu else here:
            raise error
        return body(x)

    return Called(op, "op")


def make_gap() -> NotImplementedError:
    return NotImplementedError("The operator 'aten::op' is not currently implemented for this device")


def make_other_gap() -> NotImplementedError:
    """Return the exception in other words: PyTorch's own for an operator of another package."""
    return NotImplementedError("Could not run 'torchvision::nms' with arguments from the 'XPU' backend")


def _list_inputs(trial):
    yield from cases.shapes(trial, (4, 3), (4, 3), (4, 3), (0, 3))
    yield trial.randn(3, 5).t()
    yield trial.randn(1, seed=9).squeeze()


def _expect_result(trial, got: object, op: Callable, x: torch.Tensor) -> None:
    """Expect what an operation, which the CPU has, makes of x, and where x is."""
    if isinstance(got, torch.Tensor) and got.device != trial.device and got.is_cpu:
        expect.fail("the result was left on the CPU", f"the result back on {trial.device}", got)
    expect.tensor(got, op(x.cpu()), x.device)


@with_fallback.row("runs where x is, if it can")
def runs_there(trial):
    for x in (*_list_inputs(trial), trial.randint(-9, 9, (4, 3), seed=trial.seeds[0])):
        op = make_op(None)
        got = trial.call(op, x)
        _expect_once(op, trial.device, got)
        expect.tensor(got, plain(x.cpu()), trial.device)
    _, log = trial.watched(plain, trial.randn(4, 3))
    headline = "a tensor was transferred, although the device lacks nothing here"
    counts(log.events.transfers, 0, headline, "no transfer", "{times}, by {causes}")


def _expect_once(op: Called, device: torch.device, got: object) -> None:
    places = [x.device for (x,) in op.calls]
    if not places:
        expect.fail("op was never called", f"op(x) on {device}", got)
    asked, ran = f"once, on {device}", "on " + ", ".join(map(str, places))
    if places[0] != device:
        expect.fail(f"op ran on {places[0]}, although {device} can do it", asked, ran)
    if len(places) > 1:
        expect.fail(f"op ran {len(places)} times, although it worked the first time", asked, ran)


@with_fallback.row("what is missing runs on the CPU, and comes back", only="accelerator")
def falls_back(trial):
    whole = trial.randint(-9, 9, (4, 3), seed=trial.seeds[0])
    for x in (*_list_inputs(trial), whole):
        for missing in (make_gap(), make_other_gap()):
            op = make_op(missing)
            _expect_result(trial, trial.call(op, x), plain, x)
            if len(op.calls) > 2:
                ran = "on " + ", ".join(str(x.device) for (x,) in op.calls)
                asked = f"once on {trial.device}, and once on the CPU"
                expect.fail(f"op ran {len(op.calls)} times", asked, ran)
    x = trial.randn(4, 3, seed=trial.seeds[1])  # the result has another dtype than x
    _expect_result(trial, trial.call(make_op(make_gap(), body=_is_positive), x), _is_positive, x)

    def narrow(x: torch.Tensor) -> torch.Tensor:
        if x.dim() == 1 and not x.is_cpu:
            raise make_gap()
        return plain(x)

    op = Called(narrow, "op")
    trial.call(op, trial.randn(4))
    op.calls.clear()  # an operator that is missing for one input may exist for the next
    _expect_once(op, trial.device, trial.call(op, trial.randn(4, 3)))
    trial.second()


def _is_positive(x: torch.Tensor) -> torch.Tensor:
    return x > 0


@with_fallback.row("an operator missing under Apple's rules", only="first accelerator")
def falls_back_under_apples_rules(trial):
    for seed in trial.seeds:
        x = trial.randn(3, 3, seed=seed)
        for gap in (torch.special.log_ndtr, lambda x: torch.mode(x.round(), dim=0).values):
            with apples_rules(trial.device):
                got = trial.call(gap, x)
            _expect_result(trial, got, gap, x)


def _expect_raised(trial, op: Called, error: Exception, what: str) -> None:
    """Expect that the operation's own exception reaches the caller."""
    asked = f"{type(error).__name__}: {error}"
    try:
        got = trial.call(op, trial.randn(4, 3))
    except AnswerRaised as raised:
        if raised.error is not error:
            found = f"{type(raised.error).__name__}: {raised.error}"
            got = f"another exception that reads like it: {found}" if found == asked else found
            expect.fail(f"{what} became another error", asked, got)
    else:
        expect.fail(f"{what} did not reach the caller", asked, got)


@with_fallback.row("every other error passes through")
def other_errors_pass(trial):
    for error in (
        RuntimeError("Expected all tensors to be on the same device"),
        ValueError("k is too large"),
        TypeError("Cannot convert to float64"),
        KeyError("weights"),
        AttributeError("no such layer"),
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError("no memory left"),
        OSError("no such file"),
        ZeroDivisionError("division by zero"),
        StopIteration("nothing left"),
        AssertionError("Torch not compiled with CUDA enabled"),
        IndexError("index 7 is out of range"),
        ImportError("no such package"),
        RecursionError("too deep"),
        torch.AcceleratorError("an illegal memory access was encountered"),
        torch.linalg.LinAlgError("the matrix is singular"),
        RuntimeError("The operator 'aten::op' is not currently implemented for this dtype"),
    ):
        op = make_op(error, error if trial.device.type == "cpu" else None)
        what = f"{expect.a_type(error)} of the operation"
        _expect_raised(trial, op, error, what)
        if len(op.calls) > 1:
            asked = f"{type(error).__name__}, after one call of op"
            expect.fail(f"{what} was caught, and op was tried again", asked, f"{len(op.calls)} calls of op")
    for error in (ValueError("k is too large"), RuntimeError("out of range"), TypeError("no such dtype")):
        op, what = make_op(make_gap(), error), f"{expect.a_type(error)} of the operation on the CPU"
        _expect_raised(trial, op, error, what)
        if len(op.calls) > 2:
            asked, got = "one call of op on the CPU", f"{len(op.calls)} calls of op"
            expect.fail(f"{what} was caught, and op was tried again", asked, got)


@with_fallback.row("what the CPU lacks too stays an error")
def missing_everywhere(trial):
    error = make_gap()
    _expect_raised(trial, make_op(error, error), error, "a NotImplementedError of the CPU")
    of_the_cpu = NotImplementedError("The CPU has no such operator")
    op = make_op(make_gap(), of_the_cpu)
    _expect_raised(trial, op, of_the_cpu, "a NotImplementedError of the CPU")
    if len(op.calls) > 2:
        said = "what the CPU lacks was tried again there"
        expect.fail(said, "at most one call on each device", f"{len(op.calls)} calls of op")
