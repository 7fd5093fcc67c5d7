"""The crossover: how long an operation takes the CPU and the accelerator, over the size of its input.

Beside a simulated accelerator the CPU is modelled too: the real CPU would not be the same on two machines.
"""

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from devlab import palette, sim
from devlab.devices import has_float64
from devlab.explore.axes import Axes, Axis, apart, around, dot
from devlab.explore.controls import Action, Choice, Measurement
from devlab.explore.explorer import Explorer
from devlab.explore.origin import first_accelerator, source
from devlab.explore.scene import INK, SMALL, WIDE, Box, Path, Scene, Shape, Stop, Words
from devlab.explore.stopwatch import lap
from devlab.sim.specs import HALF, HOST
from devlab.watching.memory import duration


@dataclass(frozen=True)
class Work:
    """What an operation asks of a processor: calls of an operator, arithmetic, and bytes read and written."""

    calls: float
    operations: float
    traffic: float


def seconds(work: Work, dtype: torch.dtype) -> float:
    """Return how long some work takes: its arithmetic or its traffic, whichever is more, and its calls.

    >>> seconds(Work(calls=1, operations=384e9, traffic=0), torch.float32)
    1.000001
    """
    rate = HOST.half_rate if dtype in HALF else HOST.rate
    return work.calls * HOST.call + max(work.operations / rate, work.traffic / HOST.bandwidth)


def _row_by_row(x: torch.Tensor) -> torch.Tensor:
    for row in x:
        row += 1
    return x


@dataclass(frozen=True)
class Operation:
    """What is done with a square matrix, and the work that this is at side n with elements of some bytes."""

    run: Callable[[torch.Tensor], torch.Tensor]
    work: Callable[[int, int], Work]


# An addition waits for memory: its arithmetic takes no time of its own.
OPERATIONS = {
    "x @ x": Operation(lambda x: x @ x, lambda n, width: Work(1, 2 * n**3, 3 * n * n * width)),
    "x + 1": Operation(lambda x: x + 1, lambda n, width: Work(1, 0, 2 * n * n * width)),
    "x + 1, row by row": Operation(_row_by_row, lambda n, width: Work(n, 0, 2 * n * n * width)),
}
DTYPES = {"float32": torch.float32, "float16": torch.float16, "float64": torch.float64}
STAYS, COMES, RETURNS = "is there already", "comes from the CPU", "comes, and the result goes back"
SIDES = [round(8 * 2 ** (step / 2)) for step in range(15)]  # 8 to 1024
SIMULATED_SIDE = 512  # the CPU computes what a simulated device is asked for, and the reader waits
SLOW_SIDE = 128  # a CPU without 16-bit arithmetic takes seconds for the larger products in float16


def sides(operation: str, dtype: str, simulated: bool) -> list[int]:
    """Return the sides of matrices that every CPU gets through in a moment.

    >>> [sides(*what)[-1] for what in (("x @ x", "float32", False), ("x @ x", "float16", True))]
    [1024, 128]
    """
    most = SLOW_SIDE if (operation, dtype) == ("x @ x", "float16") else SIDES[-1]
    return [side for side in SIDES if side <= most and (side <= SIMULATED_SIDE or not simulated)]


class Took(NamedTuple):
    """Seconds: the median of the runs, and between which times the middle half of them lies.

    One disturbed run moves none of the three. The times of a model have no spread.
    """

    middle: float
    low: float
    high: float


def exactly(seconds: float) -> Took:
    """Return a time without a spread."""
    return Took(seconds, seconds, seconds)


def take(place: str, operation: str, dtype: str, data: str, side: int) -> Took:
    """Time an operation on a device: by the stopwatch, on `sim` by its model."""
    run = OPERATIONS[operation].run
    here = torch.ones(side, side, dtype=DTYPES[dtype], device="cpu")  # whatever the default device is
    there = here.to(place)
    ways = {
        STAYS: lambda: run(there),
        COMES: lambda: run(here.to(place)),
        RETURNS: lambda: run(here.to(place)).cpu(),
    }
    # Five digits: many launches add up the rounding of a simulated clock that has run for long.
    one = lap(ways[data], place)
    return Took(*(float(f"{seconds:.5g}") for seconds in (one.done, *(one.spread or (one.done, one.done)))))


@functools.lru_cache(maxsize=1024)
def _take_once(place: str, operation: str, dtype: str, data: str, side: int, rules: str) -> Took:
    """Keep what was timed, for each set of rules that the simulated device may follow."""
    return take(place, operation, dtype, data, side)


def on(place: str, operation: str, dtype: str, data: str, wanted: list[int]) -> dict[int, Took]:
    """Return the time for each side, up to the largest that the device has room for."""
    found = {}
    for side in wanted:
        try:
            found[side] = _take_once(place, operation, dtype, data, side, sim.following())
        except torch.OutOfMemoryError:
            break
    return found


def model_cpu(operation: str, dtype: str) -> dict[int, Took]:
    """Return the time that a modelled CPU takes for each side.

    >>> round(1e6 * model_cpu("x + 1", "float32")[512].middle)
    42
    """
    work, kind = OPERATIONS[operation].work, DTYPES[dtype]
    wanted = sides(operation, dtype, simulated=True)
    return {n: exactly(seconds(work(n, kind.itemsize), kind)) for n in wanted}


def find_crossing(cpu: dict[int, float], device: dict[int, float]) -> float:
    """Return the size from which on the device stays ahead: 0 where always, infinite where never.

    It is the size that the fewest of the times contradict, so a single time that something disturbed decides
    nothing. Of two that as many contradict, it is the one whose contradictions stand out more.

    >>> round(find_crossing({10: 1.0, 100: 10.0}, {10: 2.0, 100: 5.0}), 1)
    31.6
    """
    common = sorted(cpu.keys() & device.keys())
    lead = [math.log(cpu[side] / device[side]) for side in common]  # how many times as fast the device is

    def stands_out(place: int) -> float:
        beside = lead[max(place - 1, 0) : place] + lead[place + 1 : place + 2] or lead
        return abs(lead[place] - sum(beside) / len(beside))

    def doubts(first: int) -> tuple[int, float, int]:
        wrong = [place for place, by in enumerate(lead) if (by > 0) != (place >= first)]
        return len(wrong), -sum(map(stands_out, wrong)), -first

    first = min(range(len(lead) + 1), key=doubts)  # the place from which on the device counts as ahead
    if first == 0:
        return 0.0
    if first == len(common):
        return math.inf
    share = -lead[first - 1] / (lead[first] - lead[first - 1])
    return common[first - 1] * (common[first] / common[first - 1]) ** share


def crossings(cpu: dict[int, Took], device: dict[int, Took]) -> tuple[float, float]:
    """Return from which size on the device may be ahead, and from which on it is beyond doubt.

    Between the two, the spreads of the two overlap. Of models, both are the crossing.
    """

    def between(one: str, other: str) -> float:
        return find_crossing(_each(cpu, one), _each(device, other))

    likely = between("middle", "middle")
    return min(between("high", "low"), likely), max(between("low", "high"), likely)


def _each(curve: dict[int, Took], what: str) -> dict[int, float]:
    return {side: getattr(took, what) for side, took in curve.items()}


def faster(cpu: Took, device: Took) -> int:
    """Return 1 where the device is faster beyond doubt, -1 where the CPU is, and 0 where spreads overlap."""
    return (device.high < cpu.low) - (cpu.high < device.low)


NOISE = 1 / 3
TOO_CLOSE = "the times are too close to tell who is faster"
ASK = "Guess first: drag the line to where you expect the accelerator to become faster, and show the times."
SHOW = "Show the times"
CLEAR = 1.1  # a crossing is said as a number where its doubt is a tenth at most
COARSE = [16, 64, 256, 1024]  # sides that are measured for the first picture on a real device
TICKS = [8, 16, 32, 64, 128, 256, 512, 1024]


@dataclass(frozen=True)
class Found:
    """A time that was measured on request, of what `State.about` returned."""

    about: tuple[str, str, str, str]
    side: int
    took: Took


@dataclass(frozen=True)
class State:
    """What is computed, in which dtype, where its input is, what was measured, and the side looked at.

    `guesses` are the sides at which the reader has expected the crossing, each with operation and data.
    """

    device: str
    operation: str = "x @ x"
    dtype: str = "float32"
    data: str = STAYS
    found: tuple[Found, ...] = ()
    looked_at: int = 64
    guesses: tuple[tuple[str, str, int], ...] = ()

    @property
    def guess(self) -> int | None:
        """Return where the reader expected the crossing of what is looked at; None before that."""
        own = self.operation, self.data
        return next((side for *about, side in self.guesses if tuple(about) == own), None)

    @property
    def asks(self) -> bool:
        """Tell whether the times are still to be guessed; without an accelerator there is no crossing."""
        return self.device != "cpu" and self.guess is None

    def guessed(self) -> "State":
        """Return the state in which the side looked at is the guess."""
        return replace(self, guesses=(*self.guesses, (self.operation, self.data, self.looked_at)))

    @property
    def sides(self) -> list[int]:
        """Return the sides of x that can be timed."""
        return sides(self.operation, self.dtype, simulated(self.device))

    def about(self, place: str) -> tuple[str, str, str, str]:
        """Return what is timed on a device; data is always on the CPU already."""
        return place, self.operation, self.dtype, STAYS if place == "cpu" else self.data

    def measured(self, place: str) -> dict[int, Took]:
        """Return what was measured on request of what is looked at."""
        about = self.about(place)
        return {one.side: one.took for one in self.found if one.about == about}


def simulated(device: str) -> bool:
    """Tell whether a device is simulated."""
    return device.startswith("sim")


def times(state: State, place: str) -> dict[int, Took]:
    """Return the time for each side on the CPU or on the accelerator.

    Beside a simulated accelerator the CPU is a modelled one, until it is measured on request.
    """
    found = state.measured(place)
    if place == "cpu" and simulated(state.device):
        return found or model_cpu(state.operation, state.dtype)
    wanted = [
        side for side in state.sides if side not in found and (simulated(state.device) or side in COARSE)
    ]
    return dict(sorted({**on(*state.about(place), wanted), **found}.items()))


def names(state: State) -> dict[str, str]:
    """Return what stands beside the curve of each place: its name, and how its times came about."""
    by_model = simulated(state.device) and not state.measured("cpu")
    named = {"cpu": f"CPU, {'modelled' if by_model else 'measured'}"}
    if state.device != "cpu":
        named[state.device] = f"{state.device}, {'simulated' if simulated(state.device) else 'measured'}"
    return named


@dataclass(frozen=True)
class Race:
    """The times of the places that are compared: the CPU's first, and it alone without an accelerator."""

    state: State
    curves: dict[str, dict[int, Took]]

    @property
    def common(self) -> list[int]:
        """Return the sides that all have a time for."""
        return sorted(set.intersection(*(set(curve) for curve in self.curves.values())))

    @property
    def shown(self) -> int:
        """Return the side whose times are compared: the one looked at, or the nearest that there is."""
        return min(self.common, key=lambda side: abs(math.log(side / self.state.looked_at)))

    @property
    def crossings(self) -> tuple[float, float]:
        """Return from which side on the accelerator may be ahead, and from which on beyond doubt."""
        return crossings(*self.curves.values())

    @property
    def crossing(self) -> int | None:
        """Return the crossing, where the doubt is less than what lies between the measured sides."""
        first, surely = self.crossings
        clear = first > 0 and surely < CLEAR * first
        return round_side(math.sqrt(first * surely)) if clear else None

    @property
    def crossed(self) -> tuple[str, str]:
        """Return in a few words where the curves cross, if they do, and who is faster from there on."""
        device, last, (first, surely) = self.state.device, self.common[-1], self.crossings
        if first == math.inf:
            return "", f"the CPU is faster up to n = {last:,}"
        if surely == 0:
            return "", f"{device} is faster at every size"
        if (known := self.crossing) is not None:
            return f"n = {known:,}", f"{device} is faster from about n = {known:,} on"
        least, most = (f"n = {round_side(side):,}" if side < math.inf else "" for side in (first, surely))
        if first == 0:
            latest = f"{device} is faster from {most} on at the latest"
            return (f"{most} at the latest", latest) if most else ("", TOO_CLOSE)
        if not most:
            return (
                f"not before {least}",
                f"{device} is not faster before {least}, and later it is too close to tell",
            )
        return f"between {least} and {most}", f"{device} becomes faster somewhere between {least} and {most}"

    @property
    def noise(self) -> str:
        """Say which measured times are noise, and what helps; nothing where none is.

        The times of a size are noise where the middle half of the runs is wider than a third of the median,
        or the median a third away from what the sizes beside this one would let expect.
        """
        loud = set()
        for curve in self.curves.values():
            loud |= {side for side, took in curve.items() if took.high - took.low > NOISE * took.middle}
            for before, one, after in zip(curve, [*curve][1:], [*curve][2:], strict=False):
                usual = sorted(curve[side].middle for side in (before, one, after))[1]
                loud |= {one} if not 1 / (1 + NOISE) < curve[one].middle / usual < 1 + NOISE else set()
        if not loud:
            return ""
        sides = ", ".join(f"n = {side:,}" for side in sorted(loud)) if len(loud) < 4 else f"{len(loud)} sizes"
        return f". The times at {sides} are noise, for something disturbed them: measure again"

    def compared(self, side: int) -> str:
        """Say how long each takes at a side, and how many times as long the slower takes."""
        cpu, *others = (curve[side] for curve in self.curves.values())
        if not others:
            return f"the CPU takes {duration(cpu.middle)}"
        (other,) = others
        told = {f"{self.state.device} takes": other, "the CPU takes": cpu}
        (first, less), (second, more) = sorted(told.items(), key=lambda item: item[1].middle)
        ratio = more.middle / less.middle
        times = f"{float(f'{ratio:.2g}'):,g} times as long" if ratio >= 1.05 else "equally long"
        if cpu != other and not faster(cpu, other):
            times = "too close to tell"
        second = second.removesuffix(" takes")
        return f"{first} {duration(less.middle)}, {second} {duration(more.middle)}: {times}"


def race(state: State) -> Race:
    """Time what a state asks for, where it is not known yet."""
    return Race(state, {place: times(state, place) for place in names(state)})


HIGH = 330
LEFT, RIGHT, TOP, LOW = 72, 612, 58, 258  # of the curves


def draw(state: State) -> Scene:
    """Return the scene: time over the side of the matrix, and the two times at one side compared."""
    ran = race(state)
    axes = _axes(ran)
    least, most = axes.across.least, axes.across.most
    ticks = {tick: f"{tick:,}" for tick in TICKS if least <= tick <= most}
    shapes = axes.grid(ticks, duration, below=27)
    shapes += _words(ran)
    if state.asks:
        return Scene(HIGH, [*shapes, *_draw_question(ran, axes)], ASK)
    if len(ran.curves) > 1:
        shapes += _draw_crossing(ran, axes)
        x = axes.across.at(state.guess)
        shapes.append(
            Path(id="guess", points=((x, LOW), (x, TOP)), dashed=True, says=f"your guess: {state.guess}")
        )
        row = {"x": x - 4, "y": TOP + 10, "size": SMALL, "anchor": "end" if x > LEFT + 80 else "start"}
        shapes.append(Words(id="your guess", words="your guess", **row))
    for place, curve in ran.curves.items():
        shapes += _curve(state, place, curve, axes)
    ends = {place: axes.up.at(list(curve.values())[-1].middle) for place, curve in ran.curves.items()}
    for place, y in apart(ends).items():
        shapes.append(Words(id=f"name {place}", x=RIGHT + 12, y=y, words=names(state)[place], size=SMALL))
    shapes += _comparison(ran, axes)
    return Scene(HIGH, shapes, caption(ran))


def _draw_question(ran: Race, axes: Axes) -> list[Shape]:
    """Return the handle with which the reader says where the curves will cross."""
    side, x = ran.shown, axes.across.at(ran.shown)
    row = {"y": (TOP + LOW) / 2, "bold": True}
    shown: list[Shape] = [
        Path(id="side", points=((x, LOW), (x, TOP)), thick=2, dashed=True),
        _handle(ran, axes, f"drag to your guess: n = {side:,}"),
    ]
    if side > ran.common[0]:
        shown.append(Words(id="CPU faster", x=x - 10, words="← CPU faster", anchor="end", **row))
    if side < ran.common[-1]:
        shown.append(Words(id="device faster", x=x + 10, words=f"{ran.state.device} faster →", **row))
    return shown


def _axes(ran: Race) -> Axes:
    """Return axes that hold the modelled times, too, so that they stay while measured ones arrive."""
    state = ran.state
    curves = list(ran.curves.values())
    if simulated(state.device):
        curves.append(model_cpu(state.operation, state.dtype))
    shown = [seconds for curve in curves for took in curve.values() for seconds in took]
    most = SIMULATED_SIDE if simulated(state.device) else SIDES[-1]
    return Axes(Axis(SIDES[0], most, LEFT, RIGHT), around(shown, LOW, TOP))


def _words(ran: Race) -> list[Shape]:
    """Return what stands above and below the curves."""
    state = ran.state
    where = "" if state.device == "cpu" else f"; x {state.data}"
    across = f"n, where x is n × n in {state.dtype}{where}"
    compared = f"n = {ran.shown:,}: {'your guess' if state.asks else ran.compared(ran.shown)}"
    return [
        Words(id="title", x=4, y=9, words=f"time of {state.operation}"),
        Words(id="compared", x=WIDE - 4, y=9, words=compared, anchor="end", bold=True),
        Words(id="across", x=LEFT, y=LOW + 46, words=across, size=SMALL),
        Words(id="spread", x=LEFT, y=LOW + 62, words=_spread(state), size=SMALL, quiet=True),
    ]


def _spread(state: State) -> str:
    """Say what the shaded areas are."""
    if not simulated(state.device):
        return "shaded: the middle half of the runs of each size"
    if state.measured("cpu"):
        return f"shaded: the middle half of the CPU's runs; {state.device} is a model, which has no spread"
    return "both are models: they have no spread, and no machine is like them"


def _draw_crossing(ran: Race, axes: Axes) -> list[Shape]:
    """Return where the curves cross, a line or an area of doubt, and who is faster on either side."""
    (first, surely), (words, verdict) = ran.crossings, ran.crossed
    row = {"y": TOP - 13, "bold": True, "size": SMALL}
    if not words:
        return [Words(id="crossing", x=(LEFT + RIGHT) / 2, words=verdict, anchor="middle", **row)]
    known = ran.crossing
    left, right = (_within(axes, side) for side in ((known, known) if known else (first, surely)))
    area = {"x": left, "y": TOP - 22, "wide": max(right - left, 2), "high": LOW - TOP + 22}
    half = 0.33 * SMALL * len(words)
    shapes: list[Shape] = [
        Box(id="doubt", fill=palette.WAIT, edge="", round=0, faint=not known, says=verdict, **area),
        Words(
            id="crossing", x=min(max((left + right) / 2, half), WIDE - half), y=TOP - 30, words=words,
            size=SMALL, bold=True, anchor="middle",
        ),
        Words(id="device faster", x=right + 8, words=f"{ran.state.device} faster →", **row),
    ]  # fmt: skip
    if left > LEFT + 30:  # else there is no room for the words
        shapes.append(Words(id="CPU faster", x=left - 8, words="← CPU faster", anchor="end", **row))
    return shapes


def _within(axes: Axes, side: float) -> float:
    """Return the pixel of a side, at the end of the axis where the side is beyond it."""
    return axes.across.at(min(max(side, axes.across.least), axes.across.most))


def _curve(state: State, place: str, curve: dict[int, Took], axes: Axes) -> list[Shape]:
    """Return a curve with its spread, and a dot for each side."""
    colour = palette.of(place)
    shapes: list[Shape] = []
    area = axes.line(_each(curve, "low")) + axes.line(_each(curve, "high"))[::-1]
    if any(took.high > took.low for took in curve.values()):
        shapes.append(Path(id=f"spread {place}", points=area, fill=colour, edge="", faint=True))
    line = axes.line(_each(curve, "middle"))
    shapes.append(Path(id=f"curve {place}", points=line, edge=colour, thick=2))
    for at, (side, took) in zip(line, curve.items(), strict=True):
        says = f"n = {side:,}: {names(state)[place]}: {duration(took.middle)}"
        if took.high > took.low:
            says += f", the middle half of the runs {duration(took.low)} to {duration(took.high)}"
        shapes.append(dot(f"{place} {side}", at, 8, colour, square=place != "cpu", says=says))
    return shapes


def _comparison(ran: Race, axes: Axes) -> list[Shape]:
    """Return the handle under the curves, and how far the two are apart above it."""
    side = ran.shown
    x = axes.across.at(side)
    ends = [axes.up.at(curve[side].middle) for curve in ran.curves.values()]
    says = f"n = {side:,}: {ran.compared(side)}"
    return [
        Path(id="side", points=((x, LOW), (x, min(ends))), thick=1, dashed=True),
        Path(id="apart", points=((x, max(ends)), (x, min(ends))), thick=4, says=says),
        Words(id="hint", x=x + 13, y=LOW + 9, words="drag", size=SMALL, quiet=True),
        _handle(ran, axes, f"drag along the sizes: n = {side:,}"),
    ]


def _handle(ran: Race, axes: Axes, says: str) -> Box:
    """Return what is dragged along the sizes, from anywhere over the curves."""
    words = {n: f"n = {n:,}" if ran.state.asks else f"n = {n:,}: {ran.compared(n)}" for n in ran.common}
    stops = [Stop(axes.across.at(n), LOW + 9, {"set": {"looked_at": n}}, says) for n, says in words.items()]
    return dot(
        "handle", (axes.across.at(ran.shown), LOW + 9), 16, palette.WAIT, edge=INK, thick=2.5,
        stops=tuple(stops), along=True, says=says, ground=(LEFT, TOP, RIGHT - LEFT, LOW - TOP + 34),
    )  # fmt: skip


def caption(ran: Race) -> str:
    """Say in a sentence who is faster from where on, and by how much at the side looked at."""
    said = f"at n = {ran.shown:,} {ran.compared(ran.shown)}"
    if len(ran.curves) == 1:
        return f"{source('cpu')}: {said}; there is no accelerator here to compare with."
    how = source(ran.state.device)
    if simulated(ran.state.device) and ran.state.measured("cpu"):
        how = f"{ran.state.device} simulated, the CPU measured"
    return f"{how}: {ran.crossed[1]}; {said}{ran.noise or f'; you said n = {ran.state.guess:,}'}."


def round_side(side: float) -> int:
    """Return a size to two digits, which is as much as it is worth.

    >>> round_side(106.9), round_side(22.4)
    (110, 22)
    """
    return int(float(f"{side:.2g}"))


def describe(state: State) -> str:
    """Say from which size on the accelerator is faster, and how far the two are apart at some sizes."""
    if state.asks:
        said = f"{source(state.device)}: {state.operation} in {state.dtype}, where x {state.data}. {ASK}"
        return f"{said} It is at n = {state.looked_at:,}; times measured so far: {len(state.found)}."
    ran = race(state)
    what = f"{state.operation} in {state.dtype}"
    told = dict.fromkeys(sorted({ran.common[0], ran.shown, ran.common[-1]}))
    at = "; ".join(f"at n = {n:,} {ran.compared(n)}" for n in told)
    if len(ran.curves) == 1:
        return f"{source('cpu')}: for {what}, {at}. There is no accelerator here to compare with."
    about = f"for {what}, where x {state.data}"
    said = (
        f"{source(state.device)}: {about}, {ran.crossed[1]}; {at}; you said n = {state.guess:,}{ran.noise}."
    )
    return f"{said} {_about_the_cpu(state)}"


def _about_the_cpu(state: State) -> str:
    if not simulated(state.device):
        return "Both are measured on this machine."
    if state.measured("cpu"):
        return f"The CPU is measured on this machine, {state.device} is not: it is simulated."
    return (
        f"The CPU is modelled, too: four cores, {HOST.rate / 1e9:.0f} GFLOP/s in float32, "
        f"{HOST.bandwidth / 1e9:.0f} GB/s, {duration(HOST.call)} a call."
    )


def measure(state: State) -> Iterator[tuple[float, State]]:
    """Measure, side by side, what the picture has no measured time for: the CPU, and a real accelerator."""
    places = ["cpu"] if simulated(state.device) or state.device == "cpu" else ["cpu", state.device]
    wanted = state.sides
    for number, side in enumerate(wanted, start=1):
        for place in places:
            about = state.about(place)
            kept = (one for one in state.found if (one.about, one.side) != (about, side))
            state = replace(state, found=(*kept, Found(about, side, take(*about, side))))
        yield number / len(wanted), state


def explorer() -> Explorer:
    """Return the explorer for the CPU and the first accelerator of this machine."""
    device = first_accelerator()
    # The model of the simulated device has no rate of its own for 64-bit floats.
    wide = not simulated(device) and has_float64(torch.device(device))
    return Explorer(
        "From which size on is the accelerator faster?",
        State(device),
        draw,
        describe,
        [
            Choice("looked_at", "n", SIDES, drawn=True),
            Choice("operation", "operation", list(OPERATIONS)),
            Choice("dtype", "dtype", ["float32", "float16", *(["float64"] if wide else [])]),
            *([] if device == "cpu" else [Choice("data", "x", [STAYS, COMES, RETURNS])]),
            *([] if device == "cpu" else [Action(SHOW, State.guessed, lambda state: state.asks)]),
            Measurement("Measure this CPU" if simulated(device) else "Measure more sizes", measure),
        ],
    )
