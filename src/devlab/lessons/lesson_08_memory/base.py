"""The lesson itself, and what its judgements share: an account of a device's memory, undisturbed."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from devlab.checks import expect
from devlab.checks.exercise import Lesson
from devlab.checks.isolation import undisturbed
from devlab.checks.trial import Skip

lesson = Lesson("08_memory", "Memory")

KIB, MIB = 1 << 10, 1 << 20
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
    """Return a float32 tensor of `count` elements whose contents nobody reads."""
    return torch.empty(count, device=device)


@contextlib.contextmanager
def gaps_filled(module, size: int, device: torch.device) -> Iterator[None]:
    """Run a block with an empty cache, in which whatever takes `size` bytes or more has its own segment.

    A notebook's own tensors may stand in segments with room beside them, which is nobody's to give back: each
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
    peak: int  # the most above what was there before
    after: int  # all that was allocated then
    top: int  # the peak, all in all


def observe(module, device: torch.device, fn: Callable) -> Seen:
    """Run fn and read the account: what an answer should have seen."""
    module.reset_peak_memory_stats(device)
    before = module.memory_allocated(device)
    result = fn()
    after, top = module.memory_allocated(device), module.max_memory_allocated(device)
    del result
    return Seen(after - before, top - before, after, top)


class Once:
    """A function for an answer to run, which counts how often it is called."""

    def __init__(self, fn: Callable):
        self.fn = fn
        self.calls = 0

    def __call__(self) -> object:
        """Run the function."""
        self.calls += 1
        return self.fn()

    def __repr__(self) -> str:
        return self.fn.__name__

    def require_one_call(self) -> None:
        """Expect exactly one call: a second one may find things made by the first."""
        if self.calls != 1:
            times = "never" if not self.calls else f"{self.calls} times"
            expect.fail(f"fn was called {times}, not once", "one call of fn", f"{self.calls} calls")


def bytes_equal(got: object, wanted: int, headline: str, *guesses: tuple[int, str]) -> None:
    """Expect a number of bytes; where it is one of the guesses, the headline says what was counted."""
    expect.kind(got, int, "an int", "the number of bytes")
    if got == wanted:
        return
    found = next((words for value, words in guesses if value == got), headline)
    expect.fail(found, f"{wanted:,} bytes", f"{got:,} bytes")
