"""Lesson 08: what device memory holds, what the cache keeps, and how to give it back."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from devlab.checks import expect, probes, verbs
from devlab.checks.calls import AnswerRaised, leaves
from devlab.checks.exercise import Lesson
from devlab.checks.settings import undisturbed
from devlab.checks.trial import Skip

lesson = Lesson(
    "08_memory",
    "Memory",
    ("bytes_kept", "peak_bytes", "cached_bytes", "release", "total_loss", "training_bytes", "largest_batch"),
)

KIB, MIB = 1 << 10, 1 << 20
UNITS = {KIB: "kibibytes", MIB: "mebibytes", 1000: "kilobytes", 1_000_000: "megabytes"}
BLOCK = 512  # bytes; CUDA's allocator rounds up to a multiple (kMinBlockSize), and so does the simulated one
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


def in_blocks(tensors: Iterable[torch.Tensor]) -> int:
    """Return the bytes of tensors, each rounded up to a block.

    >>> in_blocks([torch.ones(1), torch.ones(129)])
    1536
    """
    return sum(-(-tensor.nbytes // BLOCK) * BLOCK for tensor in tensors)


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
    elements, blocks = sum(tensor.nbytes for tensor in held), in_blocks(held)
    del result, held
    return Seen(after - before, elements, blocks, module.memory_allocated(device), top - before, after, top)


def judge_bytes(
    trial,
    expect_bytes: Callable[[object, object, Seen, int], None],
    *functions: Callable,
    shelf: Sequence[int] | None = None,
    mountain: int = 0,
) -> None:
    """Let the answer say what each function, called with the trial's device, does to that device's account.

    `expect_bytes(module, got, seen, earlier)` judges what the answer says: `seen` is what a run of ours did,
    `earlier` the peak at the time of the call. A tensor of `mountain` float32 numbers, made and freed before
    the call, may have raised that peak. Where a `shelf` is given, each run has a new list of tensors with so
    many elements as its second argument.
    """

    def ready(function: Callable) -> probes.Called:
        given = () if shelf is None else ([floats(count, trial.device) for count in shelf],)
        return probes.Called(lambda: function(trial.device, *given), function.__name__)

    with books(trial) as module:
        ballast = [floats(count, trial.device) for count in (70_001, 300_007)]
        for function in functions:
            seen = observe(module, trial.device, ready(function))
            floats(mountain, trial.device)
            earlier, fn = module.max_memory_allocated(trial.device), ready(function)
            got = trial.call(fn, trial.device)
            fn.require_calls(1, "fn")
            expect_bytes(module, got, seen, earlier)
        del ballast


# Expect a number of bytes, as `verbs.number` does.
bytes_equal = partial(
    verbs.number, asked="{wanted:,} bytes", said="{got:,} bytes", what="the number of bytes"
)

LARGE = 20 * MIB + 512  # bytes that get a segment of their own, which is more than a MiB larger
SEGMENT = 22 * MIB


def large(device: torch.device) -> torch.Tensor:
    """Return a tensor that needs a segment of its own."""
    return floats(LARGE // 4, device)


def nothing(device: torch.device) -> None:
    """Give an answer a function that allocates nothing."""


def free_much_and_make_little(device: torch.device, shelf: list) -> torch.Tensor:
    """Give an answer a function after which less is allocated than before."""
    shelf.clear()
    return floats(1000, device)


def asked_of(trial, function: Callable, *args: object) -> int | None:
    """Return what the answer says of a call, None where it raises or gives no number."""
    with verbs.aside(trial), contextlib.suppress(AnswerRaised, expect.Mismatch):
        got = trial.call(probes.Called(lambda: function(*args), "fn"), trial.device)
        return got if isinstance(got, int) else None
    return None


def counted_elsewhere(trial) -> str:
    """Return that another device's account is read, if a tensor there is counted."""
    other = next((one for one in trial.others if one.type == trial.device.type), None)
    if other is None or (asked_of(trial, large, other) or 0) <= 0:
        return ""
    if (asked_of(trial, large, trial.device) or 0) > 0:
        return f"memory on {other} is counted as well, and {trial.device} alone was asked about"
    return f"the account of {other} was read, and {trial.device} was asked about: name the device"


def in_units(wanted: int) -> dict[str, int]:
    """Return the slips that give a number of larger units than bytes."""
    return {
        f"that is a number of {unit}, and the task asks for bytes": wanted // size
        for size, unit in UNITS.items()
    }
