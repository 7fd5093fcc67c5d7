"""For each operator in float32: whether it makes the host wait, and the bytes that it keeps and needs."""

import functools
import warnings

import torch
from hardware import samples

from devlab.watching.watch import watch

database = functools.cache(samples.database)


def names() -> list[str]:
    """Return the operators that take float32."""
    return [name for name, op in database().items() if torch.float32 in op.dtypes]


def ask(name: str, device: torch.device) -> dict[str, object]:
    """Return bytes kept and peak bytes of the second call, what watch says, and on CUDA what PyTorch says.

    `pytorch says` counts the warnings of `torch.cuda.set_sync_debug_mode`, `watch` the events of one call.
    An `error` stands for all of them.
    """
    op, row = database()[name], {"op": name}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with samples.time_limit():
                sample = samples.first_sample(op, torch.float32)
                samples.called(op, sample, device)  # what happens only once has happened
                row |= _bytes(op, sample, device)
                if device.type == "cuda":
                    row["pytorch says"] = _warnings(op, sample, device)
                row["watch"] = _watched(op, sample, device)
                row["inputs"] = _described(sample)
        except Exception as error:
            row["error"] = samples.told(error)
    return row


def _ready(sample, device: torch.device):
    """Return the arguments of a sample on the device, with nothing left to do there."""
    arguments = samples.moved((sample.input, sample.args, sample.kwargs), device)
    torch.accelerator.synchronize(device)
    return arguments


def _bytes(op, sample, device: torch.device) -> dict[str, int]:
    books = torch.accelerator
    first, args, kwargs = _ready(sample, device)
    before = books.memory_allocated(device)
    books.reset_peak_memory_stats(device)
    result = op(first, *args, **kwargs)
    books.synchronize(device)
    kept = books.memory_allocated(device) - before
    del result
    return {"kept": kept, "peak": books.max_memory_allocated(device) - before}


def _warnings(op, sample, device: torch.device) -> int:
    """Return how often PyTorch warns that the host waits."""
    first, args, kwargs = _ready(sample, device)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            op(first, *args, **kwargs)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    # The mode's own first warning, that it is a prototype, is another.
    return sum("called a synchronizing CUDA operation" in str(one.message) for one in seen)


def _watched(op, sample, device: torch.device) -> dict[str, int]:
    first, args, kwargs = _ready(sample, device)
    with watch() as log:
        op(first, *args, **kwargs)
    transfers = log.events.transfers
    return {
        "synchronizations": log.synchronizations,
        "blocking": sum(bool(one.blocking) for one in transfers),
        "transfers": len(transfers),
        "launches": log.launches,
    }


def _described(sample) -> list[str]:
    first = sample.input
    shape = str(tuple(first.shape)) if isinstance(first, torch.Tensor) else type(first).__name__
    return [shape, repr(sample.args)[:80], repr(sample.kwargs)[:80]]
