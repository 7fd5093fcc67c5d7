"""The roads on which tensors travel: between host and device, between devices, and inside a memory."""

import functools

import torch

from devlab import sim
from devlab.explore.stopwatch import Lap, lap

INTO, OUT_OF = "from the CPU to the device", "from the device to the CPU"
ORDINARY, PINNED = "ordinary", "pinned"
MIB = 1 << 20


def copy(device: str, direction: str, memory: str, non_blocking: bool, count: int) -> Lap:
    """Copy `count` bytes between the host's memory and the device's, and return how long that took.

    A copy is timed once, and once more under other rules for the simulated device.
    """
    return _copied(device, direction, memory, non_blocking, count, sim.following())


@functools.lru_cache(maxsize=1024)
def _copied(device: str, direction: str, memory: str, non_blocking: bool, count: int, rules: str) -> Lap:
    return _copy(device, direction, memory, non_blocking, count)


def _copy(device: str, direction: str, memory: str, non_blocking: bool, count: int) -> Lap:
    there = torch.empty(count, dtype=torch.uint8, device=device)
    # The CPU is named everywhere: a learner may have set another default device.
    here = torch.empty(count, dtype=torch.uint8, device="cpu", pin_memory=memory == PINNED)
    to, of = (there, here) if direction == INTO else (here, there)
    return lap(lambda: to.copy_(of, non_blocking=non_blocking), device)


def within(device: str, count: int, other: str | None = None) -> Lap:
    """Copy `count` bytes from one place in a device's memory to another, or to another device's memory."""
    of = torch.empty(count, dtype=torch.uint8, device=device)
    to = torch.empty(count, dtype=torch.uint8, device=other or device)
    return lap(lambda: to.copy_(of), device)


def from_host(device: str, memory: str) -> float:
    """Return the bytes per second from the host's memory to the device's."""
    return _rate(device, lambda count: _copy(device, INTO, memory, False, count))


def own(device: str) -> float:
    """Return the bytes per second that a processor reads from and writes to its own memory, together.

    >>> import devlab.sim
    >>> devlab.sim.enable()
    >>> round(own("sim:0") / 1e9)
    300
    """
    return 2 * _rate(device, lambda count: within(device, count))  # a copy reads each byte and writes one


def between(device: str, other: str) -> float:
    """Return the bytes per second from one device's memory to another's."""
    return _rate(device, lambda count: within(device, count, other))


def _rate(device: str, time_of) -> float:
    """Return the bytes per second that a larger copy adds to a smaller one, so without the fee that both pay.

    On a real device both are larger than its caches. Three digits are more than that is worth, and on the
    simulated one they are the same every time.
    """
    small, large = (4 * MIB, 20 * MIB) if device.startswith("sim") else (64 * MIB, 192 * MIB)
    added = max(time_of(large).done - time_of(small).done, 1e-9)
    return float(f"{(large - small) / added:.3g}")
