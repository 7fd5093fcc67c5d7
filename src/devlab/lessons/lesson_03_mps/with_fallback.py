"""An operator that an accelerator lacks, run on the CPU."""

from collections.abc import Callable

import torch

from devlab.checks import expect
from devlab.checks.calls import AnswerRaised
from devlab.lessons.lesson_03_mps import apples_rules, lesson

with_fallback = lesson.exercise(
    "with_fallback",
    signature="with_fallback(op, x)",
    facts=("I3", "I4"),
    hints=(
        "Try the operation where x is. If the device lacks it, PyTorch raises one particular exception, and "
        "that one alone is yours to catch.",
        "`except NotImplementedError:` In there, `op(x.cpu())` gives the result on the CPU, and one step is "
        "left: it belongs where x is.",
        "`try: return op(x)`, and `except NotImplementedError: return op(x.cpu()).to(x.device)`.",
    ),
)


def plain(x: torch.Tensor) -> torch.Tensor:
    """An operation that every device has."""
    return x * 2 + 1


def _recorded(
    error: Exception | None = None, anywhere: bool = False, body: Callable = plain
) -> tuple[Callable, list[torch.device]]:
    """Return an operation that does what `body` does, and the list in which it notes where it was to run.

    It raises the error `anywhere`, or anywhere but on the CPU.
    """
    places = []

    def op(x: torch.Tensor) -> torch.Tensor:
        places.append(x.device)
        if error and (anywhere or x.device.type != "cpu"):
            raise error
        return body(x)

    return op, places


def _missing() -> NotImplementedError:
    return NotImplementedError("The operator 'aten::op' is not currently implemented for this device")


def _inputs(trial):
    for seed in trial.seeds:
        yield trial.randn(4, 3, seed=seed)
    yield trial.randn(3, 5).t()
    yield trial.randn(0, 3)
    yield trial.randn(1, seed=9).squeeze()


@with_fallback.row("runs where x is, if it can")
def runs_there(trial):
    for x in _inputs(trial):
        wanted = plain(x.cpu())
        op, places = _recorded()
        got = trial.call(op, x)
        _expect_once(places, trial.device, got)
        expect.tensor(got, wanted, trial.device)
    op, _ = _recorded()
    _, log = trial.watched(op, trial.randn(4, 3))
    if log.transfers:
        causes = " and ".join(dict.fromkeys(copy.cause for copy in log.events.transfers))
        trips = f"{log.transfers} transfer{'' if log.transfers == 1 else 's'}, by {causes}"
        expect.fail("a tensor was moved, although the device lacks nothing here", "no transfer", trips)


def _expect_once(places: list[torch.device], device: torch.device, got: object) -> None:
    if not places:
        expect.fail("op was never called", f"op(x) on {device}", got)
    ran = "on " + ", ".join(map(str, places))
    if places[0] != device:
        expect.fail(f"op ran on {places[0]}, although {device} can do it", f"once, on {device}", ran)
    if len(places) > 1:
        expect.fail(
            f"op ran {len(places)} times, although it worked the first time", f"once, on {device}", ran
        )


@with_fallback.row("what is missing runs on the CPU, and comes back", only="accelerator")
def falls_back(trial):
    whole = trial.randint(-9, 9, (4, 3), seed=trial.seeds[0])
    cases = [(plain, x) for x in (*_inputs(trial), whole)]
    # What comes back is of another dtype than x.
    cases += [(lambda x: x > 0, trial.randn(4, 3, seed=trial.seeds[1]))]
    for body, x in cases:
        wanted = body(x.cpu())
        op, _ = _recorded(_missing(), body=body)
        got = trial.call(op, x)
        if isinstance(got, torch.Tensor) and got.device != trial.device and got.device.type == "cpu":
            expect.fail("the result was left on the CPU", f"the result back on {trial.device}", got)
        expect.tensor(got, wanted, trial.device)
    # What is missing for one input need not be missing for the next.
    places = []

    def narrow(x: torch.Tensor) -> torch.Tensor:
        places.append(x.device)
        if x.dim() == 1 and x.device.type != "cpu":
            raise _missing()
        return plain(x)

    trial.call(narrow, trial.randn(4))
    places.clear()
    got = trial.call(narrow, trial.randn(4, 3))
    _expect_once(places, trial.device, got)


@with_fallback.row("an operator missing under Apple's rules", only="first accelerator")
def falls_back_under_apples_rules(trial):
    gaps: tuple[Callable, ...] = (torch.linalg.matrix_exp, lambda x: torch.mode(x.round(), dim=0).values)
    for seed in trial.seeds:
        x = trial.randn(3, 3, seed=seed)
        for gap in gaps:
            wanted = gap(x.cpu())
            with apples_rules(trial.device):
                got = trial.call(gap, x)
            if isinstance(got, torch.Tensor) and got.device.type == "cpu":
                expect.fail("the result was left on the CPU", f"the result back on {trial.device}", got)
            expect.tensor(got, wanted, trial.device)


def _expect_raised(trial, error: Exception, anywhere: bool, what: str, op: Callable | None = None) -> None:
    """Expect that the operation's own exception reaches the caller."""
    ours, places = _recorded(error, anywhere)
    op = op or ours
    try:
        got = trial.call(op, trial.randn(4, 3))
    except AnswerRaised as raised:
        if raised.error is not error:
            found = f"{type(raised.error).__name__}: {raised.error}"
            alike = type(raised.error) is type(error) and str(raised.error) == str(error)
            got = f"another exception that reads like it: {found}" if alike else found
            expect.fail(f"{what} became another error", f"{type(error).__name__}: {error}", got)
    else:
        expect.fail(f"{what} did not reach the caller", f"{type(error).__name__}: {error}", got)
    if len(places) > 1 and not isinstance(error, NotImplementedError):
        said = f"{what} was caught, and op was tried again"
        expect.fail(said, f"{type(error).__name__}, after one call of op", f"{len(places)} calls of op")


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
    ):
        kind = type(error).__name__
        article = "an" if kind[0] in "AEIOU" else "a"
        _expect_raised(trial, error, trial.device.type == "cpu", f"{article} {kind} of the operation")
    small = ValueError("k is too large")

    def lacking(x: torch.Tensor) -> torch.Tensor:
        raise small if x.is_cpu else _missing()

    _expect_raised(trial, small, False, "a ValueError of the operation on the CPU", lacking)


@with_fallback.row("what the CPU lacks too stays an error")
def missing_everywhere(trial):
    _expect_raised(trial, _missing(), True, "a NotImplementedError of the CPU")
    of_the_cpu, calls = NotImplementedError("The CPU has no such operator"), []

    def lacking(x: torch.Tensor) -> torch.Tensor:
        calls.append(x.device)
        raise of_the_cpu if x.is_cpu else _missing()

    _expect_raised(trial, of_the_cpu, False, "a NotImplementedError of the CPU", lacking)
    if len(calls) > 2:
        said = "what the CPU lacks was tried again there"
        expect.fail(said, "at most one call on each device", f"{len(calls)} calls of op")
