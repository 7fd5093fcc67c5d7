"""How long something takes on a device, and how fast data travels between memories."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from devlab.sim import clock

WARM_UPS = 2
FEWEST, MOST = 5, 25
PATIENCE = 0.1  # seconds for all the runs of one figure, unless the fewest take longer


@dataclass(frozen=True)
class Lap:
    """One call: seconds until the host could go on, and seconds until the device was done.

    `spread` is between which times the middle half of the runs was done, so that a few disturbed runs do not
    widen it; a model has none. `working` is when the simulated device itself was at work on its latest work.
    """

    returned: float
    done: float
    spread: tuple[float, float] | None = None
    working: tuple[float, float] | None = None


def lap(fn: Callable[[], object], device: str) -> Lap:
    """Time a call on an idle device: the median of a few runs where it is real, its model where not.

    >>> x = torch.ones(64, 64)
    >>> one = lap(lambda: x @ x, "cpu")
    >>> 0 < one.returned <= one.done
    True
    """
    with clock.virtual():
        if device.startswith("sim"):
            return _once(fn, device, clock.now)  # the model gives the same each time
        for _ in range(WARM_UPS):
            fn()
        runs, started = [], time.perf_counter()
        while len(runs) < MOST and (len(runs) < FEWEST or time.perf_counter() - started < PATIENCE):
            runs.append(_once(fn, device, time.perf_counter))
    low, _, high = statistics.quantiles((run.done for run in runs), n=4, method="inclusive")
    middles = (statistics.median(getattr(run, what) for run in runs) for what in ("returned", "done"))
    return Lap(*middles, spread=(low, high))


def _once(fn: Callable[[], object], device: str, now: Callable[[], float]) -> Lap:
    accelerator = torch.device(device).type != "cpu"
    if accelerator:
        torch.accelerator.synchronize(device)
    start = now()
    fn()
    returned = done = now()
    if accelerator:
        torch.accelerator.synchronize(device)
        done = now()
    # The simulator's clock has run for a while: what lies under a tenth of a nanosecond is its rounding.
    returned, done = (round(moment - start, 10) for moment in (returned, done))
    if not device.startswith("sim"):
        return Lap(returned, done)
    queue = clock.current.queues[torch.device(device).index or 0]
    return Lap(returned, done, working=tuple(round(at - start, 10) for at in (queue.began_at, queue.free_at)))


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


def launch_of(device: str) -> float:
    """Return the seconds that the host takes to start work on a simulated device."""
    return clock.devices[torch.device(device).index or 0].spec.launch


def lap_of_copy(of: str, to: str, count: int, pinned: bool = False, non_blocking: bool = False) -> Lap:
    """Time a copy of `count` bytes from one device's memory to another's, or within one memory.

    `pinned` says whether the CPU's end of the copy is in pinned memory.
    """

    def make(place: str) -> torch.Tensor:
        return torch.empty(count, dtype=torch.uint8, device=place, pin_memory=pinned and place == "cpu")

    source, target = make(of), make(to)
    return lap(lambda: target.copy_(source, non_blocking=non_blocking), to if of == "cpu" else of)


def rate(of: str, to: str, pinned: bool = False) -> float:
    """Return the bytes per second of copies from one device's memory to another's, or within one memory.

    They are the bytes that a larger copy adds to a smaller one, so the fee that both copies pay is left out.
    On a real device both are larger than its caches. Three digits are more than a measurement is worth, and
    with three digits a simulated device gives the same rate every time.

    >>> import devlab.sim
    >>> devlab.sim.enable()
    >>> round(2 * rate("sim:0", "sim:0") / 1e9)  # each byte is read and written
    300
    """
    small, large = (4 << 20, 20 << 20) if "sim" in of + to else (64 << 20, 192 << 20)
    added = lap_of_copy(of, to, large, pinned).done - lap_of_copy(of, to, small, pinned).done
    return float(f"{(large - small) / max(added, 1e-9):.3g}")
