"""Lesson 08: what device memory holds, what the cache keeps, and how to give it back."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch

from devlab.checks import probes
from devlab.checks.exercise import Lesson
from devlab.checks.seen import must
from devlab.checks.settings import current_index, undisturbed
from devlab.checks.trial import Skip

lesson = Lesson(
    "08_memory",
    "Memory",
    (
        "bytes_kept",
        "peak_bytes",
        "release",
        "total_loss",
        "training_bytes",
        "activation_bytes",
        "largest_batch",
    ),
)

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


def see_bytes(trial, *functions: Callable, shelf: Sequence[int] | None = None, mountain: int = 0):
    """See what the answer says that each function does to the account of the trial's device.

    Each function is called once before, which raises the peak; a tensor of `mountain` float32 numbers, made
    and freed, raises it further. Where a `shelf` is given, each run has a new list of tensors with so many
    elements as its second argument.
    """
    held: list[int] = []

    def ready(function: Callable) -> probes.Called:
        given = () if shelf is None else ([floats(count, trial.device) for count in shelf],)

        def run() -> object:
            result = function(trial.device, *given)
            held.append(module.memory_allocated(trial.device))
            return result

        return probes.Called(run, function.__name__)

    with books(trial) as module:
        there = torch.device(trial.device.type, current_index())
        ballast = [floats(count, trial.device) for count in (70_001, 300_007)]
        for function in functions:
            alone = (
                gaps_filled(module, LARGE, trial.device) if function is large else contextlib.nullcontext()
            )
            with alone:
                module.reset_peak_memory_stats(trial.device)
                ready(function)()
                if function is large:  # the second run must not find its segment in the cache
                    module.empty_cache()
                floats(mountain, trial.device)
                fn = ready(function)
                got = trial.call(fn, trial.device)
            fn.require_calls(1, "fn")
            whole = isinstance(got, int) and got in (held[-1], module.max_memory_allocated(trial.device))
            yield must(not whole, "what was there before fn is counted as well", "what fn adds to it", got)
            if got == 0 and there != trial.device and shelf is None and function is not nothing:
                again = trial.call(partial(floats, 44_003, there), trial.device)
                headline = f"the account of {there} was read, and {trial.device} was asked about"
                yield must(not again, f"{headline}: name the device", "what fn does there", got)
            yield "the number of bytes", got
        del ballast


LARGE = 20 * MIB + 512  # bytes that get a segment of their own, which is more than a MiB larger


def large(device: torch.device) -> torch.Tensor:
    """Return a tensor that needs a segment of its own."""
    return floats(LARGE // 4, device)


def in_two_places(there: torch.device) -> Callable:
    """Return a function that makes a tensor here, and a larger one there."""

    def tensors_in_two_places(here: torch.device) -> object:
        return floats(11_003, here), floats(44_003, there)

    return tensors_in_two_places


def nothing(device: torch.device) -> None:
    """Give an answer a function that allocates nothing."""


def free_much_and_make_little(device: torch.device, shelf: list) -> torch.Tensor:
    """Give an answer a function after which less is allocated than before."""
    shelf.clear()
    return floats(1000, device)
