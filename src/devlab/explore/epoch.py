"""A few batches on their way through loader, copy and computation, timed where they really run.

The loop is an ordinary one, for any device with streams and events. On the simulated device its clock is the
modelled one. Loading is played by waiting, and workers by when their batches would be ready: what they do
meanwhile does not matter here, and what it costs them to hand a batch over is left out. Without workers the
host pins each batch itself, as `DataLoader` does, which is part of the loading.
"""

import contextlib
import functools
import time
from dataclasses import dataclass

import torch

from devlab.sim import clock
from devlab.watching.record import host_clock

AHEAD = 2  # batches that a worker is ahead at most: the prefetch_factor of DataLoader
# How long a step of one batch is to take, about, and its shapes (rows, inputs, outputs). What is simulated is
# computed by the CPU, a hundred times slower than it says, so that is kept short.
SIMULATED = (35e-6, (64, 512, 4096))
REAL = (3e-3, (2048, 2048, 2048))


@dataclass(frozen=True)
class Way:
    """How the loop is written, and how much of it there is; `loading` and `computing` are multiples."""

    batches: int
    loading: int = 1
    computing: int = 1
    pinned: bool = False
    non_blocking: bool = False
    side_stream: bool = False
    workers: int = 0  # 0: the host loads, as with DataLoader


@dataclass(frozen=True)
class Lanes:
    """What happened when: (start, end) for each batch, in seconds from the start of the epoch."""

    loads: tuple[tuple[float, float], ...]
    waits: tuple[tuple[float, float], ...]  # of the host, for the loader or a copy
    copies: tuple[tuple[float, float], ...]
    computations: tuple[tuple[float, float], ...]
    total: float


@functools.lru_cache(maxsize=256)
def run(way: Way, device: str) -> Lanes:
    """Run an epoch on a device and return when what happened.

    >>> import devlab.sim
    >>> devlab.sim.enable()
    >>> plain = run(Way(batches=2), "sim:0")
    >>> swift = run(Way(batches=2, pinned=True, non_blocking=True), "sim:0")
    >>> len(plain.copies), plain.total > swift.total
    (2, True)
    """
    simulated = device.startswith("sim")
    seconds, (rows, inputs, outputs) = SIMULATED if simulated else REAL
    with clock.virtual() if simulated else contextlib.nullcontext(), torch.no_grad():
        batch = torch.ones(rows, inputs)
        weight = torch.ones(inputs, outputs, device=device)
        products = max(1, round(seconds * way.computing / time_of_one(device, rows, inputs, outputs)))
        belt = Belt(device, way, batch, weight)
        if not simulated:
            belt.epoch(0.0, 1)  # memory is taken, and everything has run once
        return belt.epoch(seconds * way.loading, products)


@functools.lru_cache(maxsize=8)
def time_of_one(device: str, rows: int, inputs: int, outputs: int) -> float:
    """Return the seconds that a device takes for the product of a batch, warmed up."""
    module = torch.get_device_module(torch.device(device))
    batch, weight = torch.ones(rows, inputs, device=device), torch.ones(inputs, outputs, device=device)
    marks = [module.Event(enable_timing=True) for _ in range(2)]
    for mark in marks:  # the first product is the warm-up
        batch @ weight
        mark.record(module.current_stream(device))
    module.synchronize(device)
    return marks[0].elapsed_time(marks[1]) / 1e3


class Belt:
    """The loop of one epoch, and its marks."""

    def __init__(self, device: str, way: Way, batch: torch.Tensor, weight: torch.Tensor):
        self.device, self.way, self.batch, self.weight = device, way, batch, weight
        self.pinned = batch.pin_memory() if way.pinned else batch
        self.module = torch.get_device_module(torch.device(device))
        self.now = host_clock(torch.device(device).type)
        self.main = self.module.current_stream(device)
        self.side = self.module.Stream(device) if way.side_stream else self.main

    def epoch(self, loading: float, products: int) -> Lanes:
        """Load, copy and compute each batch."""
        self.module.synchronize(self.device)  # the weight is there
        origin, begun = self._mark(self.main), self.now()
        loads, waits, marks, there, taken = [], [], [], [], []
        for number in range(self.way.batches):
            loads.append(self._load(loading, loads, taken, begun))
            asked = self.now()
            self._wait_until(loads[-1][1])
            batch = self.pinned
            if self.way.pinned and not self.way.workers:
                batch = self.batch.pin_memory()
                loads[-1] = loads[-1][0], self.now()
            taken.append(self.now())
            if self.way.workers:
                waits.append((asked, taken[-1]))
            before = self._mark(self.side)
            with self.module.stream(self.side):
                there.append(batch.to(self.device, non_blocking=self.way.non_blocking))
            arrived = self._mark(self.side)
            if not (self.way.pinned and self.way.non_blocking):
                waits.append((taken[-1], self.now()))
            self.main.wait_event(arrived)
            started = self._mark(self.main)
            for _ in range(products):
                there[number] @ self.weight
            marks.append((before, arrived, started, self._mark(self.main)))
        self.module.synchronize(self.device)
        total = self.now() - begun
        times = [[origin.elapsed_time(mark) / 1e3 for mark in each] for each in marks]
        return Lanes(
            loads=_rounded((start - begun, end - begun) for start, end in loads),
            waits=_rounded((start - begun, end - begun) for start, end in waits if end > start),
            copies=_rounded((before, arrived) for before, arrived, _, _ in times),
            computations=_rounded((started, done) for _, _, started, done in times),
            total=round(total, 9),
        )

    def _load(self, seconds: float, loads: list, taken: list, begun: float) -> tuple[float, float]:
        """Return when the next batch is loaded: from now on, or by the worker whose turn it is."""
        workers, number = self.way.workers, len(loads)
        if not workers:
            start = self.now()
        else:
            start = loads[number - workers][1] if number >= workers else begun
            if number >= AHEAD * workers:
                start = max(start, taken[number - AHEAD * workers])
        return start, start + seconds

    def _wait_until(self, moment: float) -> None:
        if self.now is clock.now:
            clock.wait_until(moment)
        else:
            time.sleep(max(0.0, moment - self.now()))

    def _mark(self, stream):
        event = self.module.Event(enable_timing=True)
        event.record(stream)
        return event


def _rounded(spans) -> tuple[tuple[float, float], ...]:
    """Return spans in whole nanoseconds: when the clock was started must not show in the last digits."""
    return tuple((round(start, 9), round(end, 9)) for start, end in spans)
