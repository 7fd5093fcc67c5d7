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

from devlab import palette
from devlab.devices import simulated_accelerators
from devlab.explore.controls import Choice, Number, Switch
from devlab.explore.explorer import Explorer
from devlab.explore.paper import WAITING_HATCH, first_accelerator, sheet, source
from devlab.sim import clock
from devlab.watching.memory import duration
from devlab.watching.record import host_clock

AHEAD = 2  # batches that a worker is ahead at most: the prefetch_factor of DataLoader
# How long a step of one batch is to take, about, and its shapes (rows, inputs, outputs). The CPU computes
# a simulated step, a hundred times slower than the model says, so the simulated step is short.
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


ALIKE, LOADING, COMPUTING = "none, all are alike", "loading", "computing"
LONG = 3  # how much longer the longest step is than it is otherwise
LANES = ("load", "host waits", "copy", "compute")


@dataclass(frozen=True)
class State:
    """How the loop is written, how many batches there are, and which of their steps takes longest."""

    device: str
    workers: int = 0
    pinned: bool = False
    non_blocking: bool = False
    side_stream: bool = False
    longest: str = ALIKE
    batches: int = 5

    @property
    def way(self) -> Way:
        """Return the loop that is to be run."""
        return Way(
            batches=self.batches,
            loading=LONG if self.longest == LOADING else 1,
            computing=LONG if self.longest == COMPUTING else 1,
            pinned=self.pinned,
            non_blocking=self.non_blocking,
            side_stream=self.side_stream,
            workers=self.workers,
        )

    @property
    def lanes(self) -> Lanes:
        """Return what happened when."""
        return run(self.way, self.device)

    @property
    def plain(self) -> Lanes:
        """Return the same work in the plainest loop: everything in turn."""
        return run(State(self.device, longest=self.longest, batches=self.batches).way, self.device)


def draw(state: State):
    """Return the figure: a lane for each of loader, host, copies and computation, the batches numbered."""
    lanes, plain = state.lanes, state.plain
    unit, name = (1e3, "ms") if plain.total >= 1e-3 else (1e6, "µs")
    end = max(plain.total, lanes.total) * 1.02
    figure, axes = sheet(3.3, margins={"left": 0.105, "right": 0.985, "top": 0.985, "bottom": 0.15})
    axes.set_xlim(0, end * unit)
    axes.set_ylim(3.6, -0.75)
    looks = (
        _filled(palette.HOST),
        {"facecolor": "none", "edgecolor": palette.WAIT, "hatch": WAITING_HATCH},
        _filled(palette.COPY),
        _filled(palette.of(state.device)),
    )
    workers = max(1, state.workers)
    for row, (spans, look) in enumerate(zip(_spans(lanes), looks, strict=True)):
        shares = workers if row == 0 else 1  # of the lane's height: workers load side by side
        for share in range(shares):
            own = [(start * unit, (stop - start) * unit) for start, stop in spans[share::shares]]
            height = 0.76 / shares
            axes.broken_barh(own, (row - 0.38 + share * height, height * 0.96), **look)
        if row != 1:
            for number, (start, stop) in enumerate(spans):
                if stop - start > 0.02 * end:
                    middle = row - 0.38 + (number % shares + 0.48) * 0.76 / shares
                    size = 9 if shares < 4 else 7.5
                    axes.text(
                        (start + stop) / 2 * unit, middle, number + 1, ha="center", va="center", fontsize=size
                    )
    _mark_end(axes, lanes.total, end, unit)
    shares = _shares(lanes)
    axes.set_yticks(range(4), [f"{lane}\n{share:.0%}" for lane, share in zip(LANES, shares, strict=True)])
    axes.tick_params("y", length=0)
    axes.set_xlabel(f"time ({name}); percentages are of the epoch")
    return figure


def _filled(colour: str) -> dict:
    """Return the look of what is under way; the edges tell one batch from the next."""
    return {"facecolor": (colour, 0.55), "edgecolor": colour}


def _mark_end(axes, total: float, end: float, unit: float) -> None:
    """Draw the end of the epoch and say when it is."""
    axes.axvline(total * unit, color="black", linewidth=1.5)
    left = total > 0.5 * end
    axes.text(
        (total + (-0.01 if left else 0.01) * end) * unit,
        -0.58,
        f"the epoch takes {duration(total)}",
        ha="right" if left else "left",
        va="center",
        fontweight="bold",
    )


def _spans(lanes: Lanes) -> tuple:
    return lanes.loads, lanes.waits, lanes.copies, lanes.computations


def _shares(lanes: Lanes) -> list[float]:
    """Return the share of the epoch during which each lane is busy."""
    return [_covered(spans) / lanes.total for spans in _spans(lanes)]


def _covered(spans: tuple[tuple[float, float], ...]) -> float:
    """Return the seconds in which at least one of some spans is under way.

    >>> _covered(((0.0, 2.0), (1.0, 3.0), (5.0, 6.0)))
    4.0
    """
    covered, reached = 0.0, 0.0
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return covered


def describe(state: State) -> str:
    """Say how long the epoch takes, how busy the device is, and how the loop is written."""
    lanes = state.lanes
    shares = _shares(lanes)
    busiest = max((share, lane) for share, lane in zip(shares, LANES, strict=True) if lane != "host waits")
    memory = "pinned" if state.pinned else "pageable"
    manner = "non_blocking=True" if state.non_blocking else "blocking"
    staged = (
        " (the host is kept while the bytes are staged)" if state.non_blocking and not state.pinned else ""
    )
    alone = "The host loads and pins" if state.pinned else "The host loads"
    loader = {0: alone, 1: "One worker loads"}.get(state.workers, f"{state.workers} workers load")
    streams = "a stream of its own" if state.side_stream else "the stream of the computation"
    return (
        f"{source(state.device)}: {state.batches} batches take {duration(lanes.total)}, "
        f"{lanes.total / state.plain.total:.0%} of the plainest loop's time; the device computes for "
        f"{shares[3]:.0%} of it, the host waits for {shares[1]:.0%}; the busiest lane is “{busiest[1]}” with "
        f"{busiest[0]:.0%}. {loader}; copies are from {memory} memory, {manner}{staged}, in {streams}; "
        f"longest step: {state.longest}."
    )


def explorer() -> Explorer:
    """Return the explorer on the first accelerator of this machine that has streams."""
    device = first_accelerator()
    if not device.startswith(("cuda", "xpu")):
        device = str(simulated_accelerators()[0])  # neither the CPU nor mps has streams
    return Explorer(
        "What does the device wait for?",
        State(device),
        draw,
        describe,
        [
            Switch("pinned", "pinned memory"),
            Switch("non_blocking", "non_blocking=True"),
            Switch("side_stream", "copies in their own stream"),
            Choice("workers", "workers", [0, 1, 2, 4]),
            Choice("longest", "longest step", [ALIKE, LOADING, COMPUTING]),
            Number("batches", "batches", 2, 8),
        ],
    )
