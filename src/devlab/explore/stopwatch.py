"""How long something takes on a device, and how fast data travels between memories."""

import functools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from devlab import sim
from devlab.sim import clock

WARM_UPS = 2
FEWEST, MOST = 3, 25
PATIENCE = 0.1  # seconds for all the runs of one figure, unless the fewest take longer


@dataclass(frozen=True)
class Lap:
    """One call: seconds until the host could go on, and seconds until the device was done."""

    returned: float
    done: float


def lap(fn: Callable[[], object], device: str) -> Lap:
    """Time a call on an idle device: the median of a few runs where it is real, its model where not.

    >>> x = torch.ones(64, 64)
    >>> one = lap(lambda: x @ x, "cpu")
    >>> 0 < one.returned <= one.done
    True
    """
    wait = waiting(device)
    with clock.virtual():
        if device.startswith("sim"):
            return _once(fn, wait, clock.now)  # the model gives the same each time
        for _ in range(WARM_UPS):
            fn()
        runs, started = [], time.perf_counter()
        while len(runs) < MOST and (len(runs) < FEWEST or time.perf_counter() - started < PATIENCE):
            runs.append(_once(fn, wait, time.perf_counter))
    return Lap(*(statistics.median(getattr(run, what) for run in runs) for what in ("returned", "done")))


def _once(fn: Callable[[], object], wait: Callable[[], None] | None, now: Callable[[], float]) -> Lap:
    if wait is not None:
        wait()
    start = now()
    fn()
    returned = done = now()
    if wait is not None:
        wait()
        done = now()
    # The simulator's clock has run for a while: what lies under a tenth of a nanosecond is its rounding.
    return Lap(round(returned - start, 10), round(done - start, 10))


def waiting(device: str) -> Callable[[], None] | None:
    """Return what lets the host wait for a device; None for the CPU, which the host is."""
    if torch.device(device).type == "cpu":
        return None
    return lambda: torch.accelerator.synchronize(device)


def can_pin(device: str) -> bool:
    """Tell whether host memory can be pinned for a device: tried, because Apple's GPUs cannot and others can.

    >>> can_pin("cpu")
    False
    """
    if torch.device(device).type in ("cpu", "mps"):
        return False
    try:
        return torch.empty(1, device="cpu", pin_memory=True).is_pinned()
    except RuntimeError:
        return False


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


def rate_from_host(device: str, memory: str) -> float:
    """Return the bytes per second from the host's memory to the device's."""
    return _rate(device, lambda count: _copy(device, INTO, memory, False, count))


def own_rate(device: str) -> float:
    """Return the bytes per second that a processor reads from and writes to its own memory, together.

    >>> import devlab.sim
    >>> devlab.sim.enable()
    >>> round(own("sim:0") / 1e9)
    300
    """
    return 2 * _rate(device, lambda count: within(device, count))  # a copy reads each byte and writes one


def rate_between(device: str, other: str) -> float:
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
