"""Seconds of host and device: medians of many calls, on the clock that belongs to the device."""

import statistics
import time
from collections.abc import Callable

import torch

from devlab.sim import clock


class Stopwatch:
    """Measures calls on one device; that of a simulated one is modelled, and always the same."""

    def __init__(self, device: torch.device):
        self.device = device
        self.real = device.type != "sim"
        self.now = time.perf_counter if self.real else clock.now

    def _often(self, repeats: int) -> range:
        return range(repeats if self.real else min(repeats, 2))

    def wait(self) -> None:
        """Wait until the device has done all that was started."""
        torch.accelerator.synchronize(self.device)

    def host(self, call: Callable, repeats: int = 200, warm: int = 20) -> float:
        """Return the median of the seconds for which a call keeps the host."""
        for _ in self._often(warm):
            call()
        self.wait()
        times = [self._once(call) for _ in self._often(repeats)]
        self.wait()
        return statistics.median(times)

    def whole(self, call: Callable, repeats: int = 20, warm: int = 3) -> float:
        """Return the median of the seconds from a call until its work is done."""
        for _ in self._often(warm):
            call()
        self.wait()

        def done():
            call()
            self.wait()

        return statistics.median(self._once(done) for _ in self._often(repeats))

    def behind(self, work: Callable, call: Callable, repeats: int = 3) -> float:
        """Return the median of the seconds for which a call keeps the host while `work` goes on before it."""
        call()
        self.wait()
        times = []
        for _ in self._often(repeats):
            work()
            times.append(self._once(call))
            self.wait()
        return statistics.median(times)

    def on_device(self, call: Callable, repeats: int = 20, warm: int = 3) -> float:
        """Return the device's seconds for a call, of many in a row, by its events."""
        for _ in self._often(warm):
            call()
        module = torch.get_device_module(self.device)
        begun, ended = (module.Event(enable_timing=True) for _ in range(2))
        self.wait()
        begun.record()
        for _ in self._often(repeats):
            call()
        ended.record()
        self.wait()
        return begun.elapsed_time(ended) / 1e3 / len(self._often(repeats))

    def _once(self, call: Callable) -> float:
        begun = self.now()
        call()
        return self.now() - begun
