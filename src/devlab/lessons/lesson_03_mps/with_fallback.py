"""An operator that an accelerator lacks, run on the CPU."""

from collections.abc import Callable, Iterator

import torch

from devlab.checks import cases, expect
from devlab.checks.calls import AnswerRaised
from devlab.checks.probes import Called
from devlab.checks.scenes import scene
from devlab.checks.seen import Seen, most, must
from devlab.lacking import apples_rules
from devlab.lessons.lesson_03_mps import lesson

with_fallback = lesson.exercise(
    "with_fallback(op, x)",
    ("I3", "I4"),
    "Try the operation where x is. If the device lacks it, PyTorch raises one particular exception, and that "
    "exception alone is yours to catch.",
    "Under `except NotImplementedError:`, `op(x.cpu())` gives the result on the CPU. One step is left, "
    "because the result belongs where x is.",
    "Write `try: return op(x)`, and then `except NotImplementedError: return op(x.cpu()).to(x.device)`.",
)


def ours(op, x):
    try:
        return op(x)
    except NotImplementedError:
        return op(x.cpu()).to(x.device)


def plain(x: torch.Tensor) -> torch.Tensor:
    """Do what every device can."""
    return x * 2 + 1


def make_op(here: Exception | None, on_cpu: Exception | None = None, body: Callable = plain) -> Called:
    """Return an operation that runs `body`, or raises the error given for an accelerator or for the CPU."""

    def op(x: torch.Tensor) -> torch.Tensor:
        if error := on_cpu if x.is_cpu else here:
            raise error
        return body(x)

    return Called(op, "op")


# PyTorch's own exceptions: for an operator that a device lacks, and for an operator of another package.
GAP = NotImplementedError("The operator 'aten::op' is not currently implemented for this device")
OTHER_GAP = NotImplementedError("Could not run 'torchvision::nms' with arguments from the 'XPU' backend")


def list_inputs(t) -> list[torch.Tensor]:
    shapes = cases.shapes(t, (4, 3), (4, 3), (4, 3), (0, 3))
    return [*shapes, t.randn(3, 5).t(), t.randn(1, seed=9).squeeze(), t.randint(-9, 9, (4, 3), t.seeds[0])]


def see_single_run(t, op: Called, x: torch.Tensor) -> Iterator[Seen | tuple]:
    """See the result of an operation that the device has, which runs there and nowhere else."""
    got = t.call(op, x)
    places = [x.device for (x,) in op.calls]
    asked, ran = f"once, on {t.device}", "on " + ", ".join(map(str, places))
    yield must(places, "op was never called", f"op(x) on {t.device}", got)
    yield must(places[0] == t.device, f"op ran on {places[0]}, although {t.device} can do it", asked, ran)
    headline = f"op ran {len(places)} times, although it worked the first time"
    yield must(len(places) == 1, headline, asked, ran)
    yield "the result", got


@scene(with_fallback, ours, "runs where x is, if it can")
def runs_there(t):
    for x in list_inputs(t):
        yield from see_single_run(t, make_op(None), x)
    _, log = t.watched(plain, t.randn(4, 3))
    headline = "a tensor was transferred by {causes}, although the device lacks nothing here"
    yield most(headline, log.events.transfers, 0, "no transfer")


@scene(with_fallback, ours, "what is missing runs on the CPU, and comes back", only="accelerator")
def falls_back(t):
    for x in list_inputs(t):
        for missing in (GAP, OTHER_GAP):
            op = make_op(missing)
            yield "the result", t.call(op, x)
            yield most("op ran {} times", len(op.calls), 2, f"once on {t.device}, and once on the CPU")
    x = t.randn(4, 3, seed=t.seeds[1])  # the result has another dtype than x
    yield "the result", t.call(make_op(GAP, body=lambda x: x > 0), x)

    def narrow(x: torch.Tensor) -> torch.Tensor:
        if x.dim() == 1 and not x.is_cpu:
            raise GAP
        return plain(x)

    op = Called(narrow, "op")
    t.call(op, t.randn(4))
    op.calls.clear()  # an operator that is missing for one input may exist for the next
    yield from see_single_run(t, op, t.randn(4, 3))
    t.second()


@scene(with_fallback, ours, "an operator missing under Apple's rules", only="first accelerator")
def falls_back_under_apples_rules(t):
    for seed in t.seeds:
        for gap in (torch.special.log_ndtr, lambda x: torch.mode(x.round(), dim=0).values):
            with apples_rules(t.device):
                got = t.call(gap, t.randn(3, 3, seed=seed))
            yield "the result", got


def see_raised(t, op: Called, error: Exception, what: str, limit: int) -> Iterator[Seen]:
    """See that the operation's own exception reaches the caller, after so many calls at most."""
    asked, fault = f"{type(error).__name__}: {error}", "did not reach the caller"
    try:
        got = t.call(op, t.randn(4, 3))
    except AnswerRaised as raised:
        fault, found = "became another error", f"{type(raised.error).__name__}: {raised.error}"
        got = f"another exception that reads like it: {found}" if found == asked else found
        fault *= raised.error is not error
    yield must(not fault, f"{what} {fault}", asked, got)
    again, count = f"{what} was caught, and op was tried again", len(op.calls)
    yield must(count <= limit, again, "one call of op on each device at most", f"{count} calls of op")


@scene(with_fallback, ours, "every other error passes through")
def other_errors_pass(t):
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
        op = make_op(error, error if t.device.type == "cpu" else None)
        yield from see_raised(t, op, error, f"{expect.a_type(error)} of the operation", 1)
    for error in (ValueError("k is too large"), RuntimeError("out of range"), TypeError("no such dtype")):
        what = f"{expect.a_type(error)} of the operation on the CPU"
        yield from see_raised(t, make_op(GAP, error), error, what, 2)


@scene(with_fallback, ours, "what the CPU lacks too stays an error")
def missing_everywhere(t):
    for here, error in ((GAP, GAP), (GAP, NotImplementedError("The CPU has no such operator"))):
        yield from see_raised(t, make_op(here, error), error, "a NotImplementedError of the CPU", 2)
