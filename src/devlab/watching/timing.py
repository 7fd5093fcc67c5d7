"""`devlab.time_op`: how long a function takes on a device, measured so that the figure can be trusted."""

import math
import statistics
import time
from collections.abc import Callable

import torch

from devlab.devices import UnknownDevice
from devlab.panel import Panel, escape
from devlab.sim import clock
from devlab.watching.memory import duration, size

WARM_UPS = 3
FEWEST = 5
# A short function runs several times a sample, so that starting and stopping the clock counts for little.
SHORTEST_SAMPLE = 1e-3
LONGEST_SAMPLE = 20e-3
PATIENCE = 2.0


class Timing(Panel):
    """How long one call takes, in seconds.

    `times` holds every sample, `median` and `spread` (the lower and the upper quartile) sum them up;
    `calls` is how many calls one sample averages, `modelled` tells whether the time is the simulator's
    own, and `clock` says in words what was timed by; `pinned` counts the bytes that each call copies into
    pinned memory by `pin_memory()`. `float(timing)` is the median.
    """

    def __init__(self, times: list[float], calls: int, device, clock: str, modelled: bool, pinned: int = 0):
        self.times = times
        self.calls = calls
        self.device = device
        self.clock = clock
        self.modelled = modelled
        self.pinned = pinned

    @property
    def median(self) -> float:
        """Return the middle sample."""
        return statistics.median(self.times)

    @property
    def spread(self) -> tuple[float, float]:
        """Return the lower and the upper quartile: half of the samples lie between them."""
        lower, _, upper = statistics.quantiles(self.times, n=4, method="inclusive")
        return lower, upper

    def __float__(self) -> float:
        return self.median

    def text(self) -> str:
        """Return the median, the spread, and how they came about."""
        return f"{self._figure()}\n{self._manner()}"

    def html(self) -> str:
        """Return the same as HTML."""
        return f"<div><strong>{escape(self._figure())}</strong></div><div>{escape(self._manner())}</div>"

    def _figure(self) -> str:
        lower, upper = map(duration, self.spread)
        modelled = "modelled, " if self.modelled else ""
        spread = f"half of the samples from {lower} to {upper}"
        if lower == upper:
            all_alike = duration(min(self.times)) == duration(max(self.times))
            spread = "every sample the same" if all_alike else "half of the samples the same"
        return f"{duration(self.median)} on {self.device} ({modelled}{spread})"

    def _manner(self) -> str:
        each = f"{len(self.times)} samples" + (f" of {self.calls} calls each" if self.calls > 1 else "")
        manner = f"{each} after a warm-up, {self.clock}"
        if self.modelled:
            manner += "; the device is simulated, and so is its time"
        if self.pinned:
            manner += f". Each call pins {size(self.pinned)} anew, and pays for it: to pin once, do so before"
        if not self.median:
            manner += f". Nothing ran on {self.device}: does the function use tensors that are there?"
        return manner

    def __repr__(self) -> str:
        return f"<Timing: {duration(self.median)} on {self.device}>"


def time_op(
    fn: Callable[[], object],
    device: torch.device | str = "cpu",
    *,
    repeats: int = 30,
    show: bool = True,
) -> Timing:
    """Time a function of no arguments on a device, show the median and the spread, and return them.

    The function is warmed up, run at least five times and `repeats` times at most (fewer where it takes
    long), and the device is synchronized around the samples. Where the device keeps events, they time it
    on the device itself. On the simulated accelerator the time is the simulator's model, and is called so.
    What the function raises comes through.

    >>> x = torch.ones(64, 64)
    >>> timing = time_op(lambda: x @ x, "cpu", repeats=5, show=False)
    >>> 0 < timing.spread[0] <= timing.median <= timing.spread[1]
    True
    """
    if not callable(fn):
        raise TypeError(
            f"time_op runs the function itself, and this is its result, {type(fn).__name__}: "
            "write devlab.time_op(lambda: x @ x, device)"
        )
    device = torch.device(device)
    with clock.virtual():
        timing = _sampled(fn, device, repeats)
    if show:
        timing.show()
    return timing


def _sampled(fn: Callable[[], object], device: torch.device, repeats: int) -> Timing:
    device, clock, sample = _ruler(device)
    pinned = _count_pinned(fn)
    for _ in range(WARM_UPS - 1):
        fn()
    modelled = device.type == "sim"
    calls = 1 if modelled else _calls_a_sample(sample, fn)
    times, started = [], time.perf_counter()
    while len(times) < max(FEWEST, repeats):
        times.append(sample(fn, calls) / calls)
        if len(times) >= FEWEST and time.perf_counter() - started > PATIENCE:
            break
    return Timing(times, calls, device, clock, modelled, pinned)


def _count_pinned(fn: Callable) -> int:
    """Run a function, and return how many bytes its calls of `pin_memory()` copied."""
    original, copied, own = torch.Tensor.pin_memory, [], "pin_memory" in vars(torch.Tensor)

    def pin_memory(tensor, *args, **kwargs):
        pinned = original(tensor, *args, **kwargs)
        copied.append(0 if pinned is tensor else pinned.nbytes)
        return pinned

    torch.Tensor.pin_memory = pin_memory
    try:
        fn()
    finally:
        del torch.Tensor.pin_memory
        if own:
            torch.Tensor.pin_memory = original
    return sum(copied)


def _calls_a_sample(sample: Callable, fn: Callable) -> int:
    """Return how many calls make a sample long enough for the clock, and short enough for the reader."""
    started = time.perf_counter()
    took = sample(fn, 1)
    waited = time.perf_counter() - started
    enough = math.ceil(SHORTEST_SAMPLE / max(took, 1e-9))
    return max(1, min(enough, int(LONGEST_SAMPLE / waited)))


def _ruler(device: torch.device) -> tuple[torch.device, str, Callable[[Callable, int], float]]:
    """Return the device with its index, the clock in words, and the function that times some calls by it."""
    if device.type == "cpu":
        return device, "on the host's clock", _by_the_host(lambda: None)
    module = torch.get_device_module(device)
    if not module.is_available():
        raise UnknownDevice(f"{device} is not here; devlab.devices() lists what is")
    if device.index is None and hasattr(module, "current_device"):
        device = torch.device(device.type, module.current_device())
    if hasattr(module, "Event") and hasattr(module, "current_stream"):
        return device, "synchronized, by events in the device's queue", _by_events(device, module)
    return device, "synchronized, on the host's clock", _by_the_host(module.synchronize)


def _by_the_host(synchronize: Callable) -> Callable[[Callable, int], float]:
    """Return what times by the host's clock, and waits for the device before and after."""

    def sample(fn: Callable, calls: int) -> float:
        synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            fn()
        synchronize()
        return time.perf_counter() - start

    return sample


def _by_events(device: torch.device, module) -> Callable[[Callable, int], float]:
    """Return what times by two marks in the device's queue, and the time between them by its own clock."""

    def sample(fn: Callable, calls: int) -> float:
        begin, end = module.Event(enable_timing=True), module.Event(enable_timing=True)
        module.synchronize(device)
        stream = module.current_stream(device)
        begin.record(stream)
        for _ in range(calls):
            fn()
        end.record(stream)
        module.synchronize(device)
        return begin.elapsed_time(end) / 1e3

    return sample
