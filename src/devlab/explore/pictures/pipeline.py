"""A few batches on their way through loader, copy and computation, timed where they really run.

The loop is an ordinary one, for any device with streams and events. On the simulated device its clock is the
modelled one. Loading is played by waiting, and workers by when their batches would be ready: what they do
meanwhile does not matter here, and what it costs them to hand a batch over is left out. Without workers the
host pins each batch itself, as `DataLoader` does, which is part of the loading.
"""

import contextlib
import functools
import time
from dataclasses import dataclass, replace

import torch

from devlab import palette
from devlab.devices import simulated_accelerators
from devlab.explore.controls import Choice, Number, Switch
from devlab.explore.explorer import Explorer
from devlab.explore.lanes import GHOST, Chart, compare
from devlab.explore.origin import first_accelerator, source
from devlab.explore.scene import Scene
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
def run_epoch(way: Way, device: str) -> Lanes:
    """Run an epoch on a device and return when what happened.

    >>> import devlab.sim
    >>> devlab.sim.enable()
    >>> plain = run_epoch(Way(batches=2), "sim:0")
    >>> swift = run_epoch(Way(batches=2, pinned=True, non_blocking=True), "sim:0")
    >>> len(plain.copies), plain.total > swift.total
    (2, True)
    """
    simulated = device.startswith("sim")
    seconds, (rows, inputs, outputs) = _work_on(device)
    with clock.virtual() if simulated else contextlib.nullcontext(), torch.no_grad():
        batch = torch.ones(rows, inputs)
        weight = torch.ones(inputs, outputs, device=device)
        products = max(1, round(seconds * way.computing / time_of_one(device, rows, inputs, outputs)))
        belt = Belt(device, way, batch, weight)
        if not simulated:
            belt.epoch(0.0, 1)  # memory is taken, and everything has run once
        return belt.epoch(seconds * way.loading, products)


def _work_on(device: str) -> tuple[float, tuple[int, int, int]]:
    """Return the seconds of one load or product, and the sides of a product."""
    return SIMULATED if device.startswith("sim") else REAL


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
            loads=_round_spans((start - begun, end - begun) for start, end in loads),
            waits=_round_spans((start - begun, end - begun) for start, end in waits if end > start),
            copies=_round_spans((before, arrived) for before, arrived, _, _ in times),
            computations=_round_spans((started, done) for _, _, started, done in times),
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


def _round_spans(spans) -> tuple[tuple[float, float], ...]:
    """Return spans in whole nanoseconds: when the clock was started must not show in the last digits."""
    return tuple((round(start, 9), round(end, 9)) for start, end in spans)


ALIKE, LOADING, COMPUTING = "none, all are alike", "loading", "computing"
LONG = 3  # how much longer the longest step is than it is otherwise
LANES = {
    "load": "the host, or its workers, load one batch after the other",
    "host waits": "the host stands still, for a batch or for a copy",
    "copy": "batches go from the host's memory to the device's",
    "compute": "the device computes with the batches that have come",
}
# Where each lane is, and how high: loads lie side by side. The last is for the time of one batch.
PLACES = ((20, 44), (80, 22), (120, 26), (164, 26))
PER_BATCH, TALL = 210, 18
HIGH, TOP, BOTTOM = 267, 0, 244
GUESS = "Guess first: for how much of the time does the device compute? Then press Play."


@dataclass(frozen=True)
class State:
    """How the loop is written, how many batches there are, and which of their steps takes longest.

    `before` is the loop of the run before; `take` counts the runs, and the first is to be guessed.
    """

    device: str
    workers: int = 0
    pinned: bool = False
    non_blocking: bool = False
    side_stream: bool = False
    longest: str = ALIKE
    batches: int = 5
    before: Way | None = None
    take: int = 0

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
        return run_epoch(self.way, self.device)

    @property
    def floor(self) -> tuple[float, str]:
        """Return the seconds below which no order of the steps brings one batch, and the lane that says so.

        Each step of a batch is as long as it is; workers load side by side.
        """
        lanes, shares = self.lanes, max(1, self.workers)
        steps = {"load": lanes.loads, "copy": lanes.copies, "compute": lanes.computations}
        each = {name: sum(end - start for start, end in spans) for name, spans in steps.items()}
        each["load"] /= shares
        name = max(each, key=each.get)
        return each[name] / self.batches, name

    @property
    def plain(self) -> Lanes:
        """Return the same work in the plainest loop: everything in turn."""
        return run_epoch(State(self.device, longest=self.longest, batches=self.batches).way, self.device)


def follow(before: State, now: State) -> State:
    """Return the state after a setting, to be played: with the run before, if it had the same work to do."""
    if now == before:
        return now
    alike = (before.longest, before.batches) == (now.longest, now.batches)
    return replace(now, before=before.way if alike else None, take=before.take + 1)


def draw(state: State) -> Scene:
    """Return the scene: a lane for each of loader, host, copies and computation, the batches numbered."""
    now, before = state.lanes, run_epoch(state.before, state.device) if state.before else None
    beside = [state.plain.total, *([before.total] if before else [])]
    chart = Chart(state.device, now.total, beside, TOP, BOTTOM)
    fills = (palette.HOST, "", palette.COPY, palette.of(state.device))
    _draw_batch(chart, state, dict(zip(LANES, fills, strict=True)))
    for name, share, (y, high) in zip(LANES, _shares(now), PLACES, strict=True):
        chart.lane(name, y, high, name, f"{share:.0%}", before is not None, LANES[name], now.total)
    for name, spans, (y, high) in zip(LANES, _spans(before), PLACES, strict=True) if before else ():
        shares = max(1, state.before.workers) if name == "load" else 1
        for number, times in enumerate(spans):
            place = y + high + 3 + number % shares * GHOST / shares
            says = _says(name, number)
            chart.ghost(f"{name} {number}", times, place, GHOST / shares, says, hatched=name == "host waits")
    y, high = PLACES[-1]
    for number, times in enumerate(_gaps(now.computations)):
        if times[1] > times[0]:
            says = f"the device waits for batch {number + 1}"
            chart.bar(f"idle {number}", times, y + high / 2, high / 2, "", "", says)
    for batch in range(state.batches):
        _draw_way(chart, batch, now, max(1, state.workers))
    for name, spans, fill, (y, high) in zip(LANES, _spans(now), fills, PLACES, strict=True):
        shares = max(1, state.workers) if name == "load" else 1  # of the lane: workers load side by side
        for number, times in enumerate(spans):
            label = f"{number + 1}" if fill else ""
            place = y + number % shares * high / shares
            chart.bar(f"{name} {number}", times, place, high / shares, fill, label, _says(name, number))
    chart.finish("the epoch", before.total if before else None)
    return Scene(HIGH, chart.shapes, caption(state), chart.played, state.take, "" if state.take else GUESS)


def _draw_batch(chart: Chart, state: State, fills: dict[str, str]) -> None:
    """Draw the time of one batch: what its longest step needs, and what a better loop would save."""
    each, (floor, lane) = state.lanes.total / state.batches, state.floor
    says = (
        f"no order of the steps brings a batch in less than {duration(floor)}: so long is its step “{lane}”"
    )
    chart.lane("batch", PER_BATCH, TALL, "per batch", duration(each), False, says, state.lanes.total)
    for name, start, end, fill in (("needed", 0, floor, fills[lane]), ("to save", floor, each, "")):
        x, to, at_end = chart.x(start), chart.x(end), (state.lanes.total, state.lanes.total)
        told = says if fill else f"{duration(end - start)} of each batch could be saved at most"
        chart.box(f"batch {name}", at_end, (x, PER_BATCH, to - x, TALL), fill, told)
    words = f"{duration(floor)} is its floor: “{lane}” takes so long alone"
    middle = PER_BATCH + TALL / 2
    chart.words("floor", chart.x(each) + 8, middle, words, state.lanes.total)


def _says(lane: str, number: int) -> str:
    return "the host waits" if lane == "host waits" else f"{lane} batch {number + 1}"


def _draw_way(chart: Chart, batch: int, now: Lanes, workers: int) -> None:
    """Draw the way of a batch from lane to lane: slanted where the batch has to wait."""
    (load, high), _, (copy, low), (compute, _) = PLACES
    loaded, copied, begun = now.loads[batch][1], now.copies[batch], now.computations[batch][0]
    below = load + (batch % workers + 1) * high / workers
    ways = ((loaded, below), (copied[0], copy)), ((copied[1], copy + low), (begun, compute))
    for number, ((start, y), (end, to_y)) in enumerate(ways):
        points = (chart.x(start), y), (chart.x(end), to_y)
        chart.line(f"way {batch} {number}", *points, arrow=True, during=chart.share(end, end))


def caption(state: State) -> str:
    """Say in a sentence how long the epoch takes and what it is busy with."""
    now = state.lanes
    shares = dict(zip(LANES, _shares(now), strict=True))
    taken = f"the epoch takes {duration(now.total)}"
    if state.before:
        taken += f", {compare(now.total, run_epoch(state.before, state.device).total)}"
    waits = f"the host waits for {shares['host waits']:.0%}" if now.waits else "the host waits for nothing"
    computes = f"the device computes for {shares['compute']:.0%} of it"
    each = f"{duration(now.total / state.batches)} a batch"
    return f"{source(state.device)}: {taken}, {each}; {computes}, and {waits}."


def _spans(lanes: Lanes) -> tuple:
    return lanes.loads, lanes.waits, lanes.copies, lanes.computations


def _gaps(spans: tuple[tuple[float, float], ...]) -> list[tuple[float, float]]:
    """Return the time before each of some spans that are in turn.

    >>> _gaps(((1.0, 2.0), (4.0, 5.0)))
    [(0.0, 1.0), (2.0, 4.0)]
    """
    return list(zip([0.0, *(end for _, end in spans[:-1])], (start for start, _ in spans), strict=True))


def _shares(lanes: Lanes) -> list[float]:
    """Return the share of the epoch during which each lane is busy."""
    return [_cover(spans) / lanes.total for spans in _spans(lanes)]


def _cover(spans: tuple[tuple[float, float], ...]) -> float:
    """Return the seconds in which at least one of some spans is under way.

    >>> _cover(((0.0, 2.0), (1.0, 3.0), (5.0, 6.0)))
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
    rows, inputs, _ = _work_on(state.device)[1]
    large = 4 * rows * inputs > clock.STAGED_AT_ONCE
    kept = "waits for the stream all the same" if large else "is kept while the bytes are staged"
    staged = f" (the host {kept})" if state.non_blocking and not state.pinned else ""
    alone = "The host loads and pins" if state.pinned else "The host loads"
    loader = {0: alone, 1: "One worker loads"}.get(state.workers, f"{state.workers} workers load")
    before = f", {compare(lanes.total, run_epoch(state.before, state.device).total)}" if state.before else ""
    streams = "a stream of its own" if state.side_stream else "the stream of the computation"
    return (
        f"{source(state.device)}: {state.batches} batches take {duration(lanes.total)}, "
        f"{lanes.total / state.plain.total:.0%} of the plainest loop's time{before}; the device computes for "
        f"{shares[3]:.0%} of it, the host waits for {shares[1]:.0%}; the busiest lane is “{busiest[1]}” with "
        f"{busiest[0]:.0%}. {loader}; copies are from {memory} memory, {manner}{staged}, in {streams}; "
        f"{'all steps are alike' if state.longest == ALIKE else f'{state.longest} takes longest'}."
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
        follow,
    )
