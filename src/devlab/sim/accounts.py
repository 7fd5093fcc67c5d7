"""Each simulated device's memory, asked in the names of `torch.cuda`; all sizes are in bytes."""

from collections import OrderedDict

from devlab.sim import data, snapshot
from devlab.sim.allocator import PatientAllocator, allocators

# Under the names that they have in `torch.cuda.memory`.
_snapshot, _dump_snapshot = snapshot.take, snapshot.dump
_record_memory_history = snapshot.record_history


def of(device=None) -> PatientAllocator:
    """Return a device's allocator, with every figure up to date; None means the current device."""
    allocator = allocators[data.index_of(device)]
    allocator.settle()
    return allocator


def memory_allocated(device=None) -> int:
    """Return the bytes that live tensors hold.

    >>> import torch, devlab.sim
    >>> devlab.sim.enable()
    >>> before = torch.sim.memory_allocated()
    >>> x = torch.ones(1000, device="sim")
    >>> torch.sim.memory_allocated() - before
    4096
    """
    return of(device).allocated


def max_memory_allocated(device=None) -> int:
    """Return the most that live tensors have held since the peaks were reset."""
    return of(device).all.allocated_bytes.peak


def memory_reserved(device=None) -> int:
    """Return the bytes taken from the device: what live tensors hold, and the cache."""
    return of(device).reserved


def max_memory_reserved(device=None) -> int:
    """Return the most that was taken from the device since the peaks were reset."""
    return of(device).all.reserved_bytes.peak


def empty_cache() -> None:
    """Give every cached segment in which nothing lives back to the device."""
    for allocator in allocators:
        allocator.empty_cache()


def empty_host_cache() -> None:
    """Do nothing: a simulated device keeps no cache of pinned memory on the host."""


def reset_peak_memory_stats(device=None) -> None:
    """Let the peaks start again from the present values."""
    allocator = of(device)
    allocator.count()
    for books in allocator.books:
        for counter in books:
            counter.peak = counter.current


def reset_accumulated_memory_stats(device=None) -> None:
    """Let the totals start again from zero."""
    allocator = of(device)
    allocator.count()
    for books in allocator.books:
        for counter in books:
            counter.reset_total()
    allocator.retries = allocator.failures = 0


def mem_get_info(device=None) -> tuple[int, int]:
    """Return (free, total) bytes of the device."""
    allocator = of(device)
    return allocator.capacity - allocator.reserved, allocator.capacity


def set_capacity(size: int, device=None) -> None:
    """Give the device a memory of `size` bytes."""
    of(device).resize(size)


def memory_stats(device=None) -> OrderedDict[str, int]:
    """Return the allocator's counters under PyTorch's keys, as `allocated_bytes.all.peak`, in order.

    Oversize blocks are not modelled: their counters stay at the values of a GPU that has none.
    """
    allocator = of(device)
    allocator.count()
    parts = ("current", "peak", "allocated", "freed")
    figures = {f"oversize_{name}.{part}": 0 for name in ("allocations", "segments") for part in parts}
    for pool, books in zip(("all", "small_pool", "large_pool"), allocator.books, strict=True):
        for name, counter in books.counters().items():
            figures |= {f"{name}.{pool}.{part}": getattr(counter, part) for part in parts}
    segments = allocator.all.segment
    figures |= {
        "max_split_size": -1,
        "num_alloc_retries": allocator.retries,
        "num_device_alloc": segments.allocated,
        "num_device_free": segments.freed,
        "num_ooms": allocator.failures,
        "num_sync_all_streams": 0,
    }
    return OrderedDict(sorted(figures.items()))


def memory_snapshot(device=None) -> list[dict]:
    """Return a device's segments and their blocks, in the order of their addresses; None means all devices.

    Each is a dict with PyTorch's keys: `address`, `total_size`, `allocated_size`, `segment_type`, `stream`,
    `blocks` and others, and of each block `address`, `size`, `requested_size`, `state` and `frames`.
    """
    asked = range(data.device_count()) if device is None else [device]
    return [segment for one in asked for segment in snapshot.segments(of(one))]


def memory_summary(device=None, abbreviated: bool = False) -> str:
    """Return the present use and the peaks as a small table."""
    allocator = of(device)
    rows = [
        ("allocated", allocator.allocated, allocator.all.allocated_bytes.peak),
        ("reserved", allocator.reserved, allocator.all.reserved_bytes.peak),
    ]
    lines = [f"{data.NAME}:{allocator.index} (simulated), bytes      now         peak"]
    return "\n".join(lines + [f"  {name:<20} {now:>12} {peak:>12}" for name, now, peak in rows])
