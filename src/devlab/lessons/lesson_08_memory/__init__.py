"""Lesson 08: what device memory holds, what the cache keeps, and how to give it back."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from devlab.checks import expect
from devlab.checks.calls import AnswerRaised, leaves
from devlab.checks.exercise import Lesson
from devlab.checks.isolation import undisturbed
from devlab.checks.trial import Skip

lesson = Lesson(
    "08_memory",
    "Memory",
    ("bytes_kept", "peak_bytes", "cached_bytes", "release", "total_loss", "training_bytes", "largest_batch"),
)

KIB, MIB = 1 << 10, 1 << 20
UNITS = {KIB: "kibibytes", MIB: "mebibytes", 1000: "kilobytes", 1_000_000: "megabytes"}
BLOCK = 512  # bytes; every allocator of PyTorch's rounds up to a multiple
NAMES = (
    "memory_allocated",
    "memory_reserved",
    "max_memory_allocated",
    "reset_peak_memory_stats",
    "empty_cache",
)


@contextlib.contextmanager
def books(trial) -> Iterator[object]:
    """Yield the module with the account of the trial's device; raise Skip where PyTorch keeps none."""
    module = torch.get_device_module(trial.device)
    if not all(hasattr(module, name) for name in NAMES):
        raise Skip(f"PyTorch keeps no such account of {trial.device.type}")
    with undisturbed():
        yield module


def floats(count: int, device: torch.device) -> torch.Tensor:
    """Return a float32 tensor of `count` elements whose contents are not read."""
    return torch.empty(count, device=device)


@contextlib.contextmanager
def gaps_filled(module, size: int, device: torch.device) -> Iterator[None]:
    """Run a block with an empty cache, in which whatever takes `size` bytes or more has its own segment.

    A notebook's own tensors may stand in segments with room beside them, which cannot be given back: each
    gap that `size` bytes would fit into is filled until the block ends.
    """
    module.empty_cache()
    fillers, grew = [], False
    while not grew:
        reserved = module.memory_reserved(device)
        fillers.append(torch.empty(size, dtype=torch.uint8, device=device))
        grew = module.memory_reserved(device) > reserved
    fillers.pop()
    module.empty_cache()
    try:
        yield
    finally:
        fillers.clear()
        module.empty_cache()


@dataclass(frozen=True)
class Seen:
    """What a run did to the allocated memory of one device, in bytes."""

    kept: int  # growth while the result was held
    elements: int  # what the elements of the tensors in the result take
    blocks: int  # the same, each tensor rounded up to a block
    left: int  # all that is allocated once the result is gone
    peak: int  # the most above what was there before
    after: int  # all that was allocated then
    top: int  # the peak, all in all


def observe(module, device: torch.device, fn: Callable) -> Seen:
    """Run fn and read the account: what an answer should have seen."""
    module.reset_peak_memory_stats(device)
    before = module.memory_allocated(device)
    result = fn()
    after, top = module.memory_allocated(device), module.max_memory_allocated(device)
    held = [leaf for _, leaf in leaves(result) if isinstance(leaf, torch.Tensor) and leaf.device == device]
    sizes = [tensor.nbytes for tensor in held]
    blocks = sum(-(-size // BLOCK) * BLOCK for size in sizes)
    del result, held
    return Seen(after - before, sum(sizes), blocks, module.memory_allocated(device), top - before, after, top)


class Once:
    """A function for an answer to run, which counts how often it is called."""

    def __init__(self, fn: Callable):
        self.fn = fn
        self.calls = 0
        self.graphs = True

    def __call__(self) -> object:
        """Run the function."""
        self.calls += 1
        self.graphs = self.graphs and torch.is_grad_enabled()
        return self.fn()

    def __repr__(self) -> str:
        return self.fn.__name__

    def require_one_call(self) -> None:
        """Expect exactly one call, with gradients: a second one may find things made by the first."""
        if not self.calls:
            expect.fail("fn was never called", "one call of fn", "no call")
        if self.calls != 1:
            expect.fail(
                f"fn was called {self.calls} times, not once", "one call of fn", f"{self.calls} calls"
            )
        if not self.graphs:
            headline = "fn was called without gradients: it makes no graph then, and takes less"
            expect.fail(headline, "fn as it is called elsewhere", "torch.no_grad() around it")


def bytes_equal(
    got: object,
    wanted: int,
    headline: str,
    *guesses: tuple[int | None, str],
    probe: Callable[[], str] = str,
) -> None:
    """Expect a number of bytes; where it is one of the guesses, the headline says what was counted.

    Where two guesses agree, or none, `probe` is asked, which may find out by further calls.
    """
    expect.kind(got, int, "an int", "the number of bytes")
    if got == wanted:
        return
    found = {words for value, words in guesses if value == got}
    words = found.pop() if len(found) == 1 else probe()
    expect.fail(words or headline, f"{wanted:,} bytes", f"{got:,} bytes")


LARGE = 20 * MIB + 512  # bytes, which need a segment of their own: it is larger by more than a MiB
SEGMENT = 22 * MIB


def asked_of(trial, fn: Callable) -> int | None:
    """Return what the answer says of a function, None where it raises or gives no number."""
    call = trial.last_call
    try:
        got = trial.call(Once(fn), trial.device)
    except (AnswerRaised, expect.Mismatch):
        return None
    finally:
        trial.last_call = call  # verdicts show the call that was judged
    return got if isinstance(got, int) else None


def counted_elsewhere(trial) -> str:
    """Return that another device's account is read, if a tensor there is counted."""
    other = next((one for one in trial.others if one.type == trial.device.type), None)
    if other is None:
        return ""

    def large_elsewhere():
        return floats(LARGE // 4, other)

    def large_here():
        return floats(LARGE // 4, trial.device)

    if (asked_of(trial, large_elsewhere) or 0) <= 0:
        return ""
    if (asked_of(trial, large_here) or 0) > 0:
        return f"memory on {other} is counted as well, and {trial.device} alone was asked about"
    return f"the account of {other} was read, and {trial.device} was asked about: name the device"


def in_units(got: int | None, wanted: int) -> str:
    found = [unit for size, unit in UNITS.items() if got is not None and got == wanted // size]
    return f"that is a number of {found[0]}, and bytes are asked" if found else ""
