"""How long something takes on a device: the simulator's clock on `sim`, the host's on everything real."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

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
