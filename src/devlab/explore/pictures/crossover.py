"""The crossover: how long an operation takes the CPU and the accelerator, over the size of its input.

Beside a simulated accelerator the CPU is modelled too: the real CPU would not be the same on two machines.
"""

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from devlab import palette, sim
from devlab.devices import has_float64
from devlab.explore.controls import Choice, Measurement
from devlab.explore.explorer import Explorer
from devlab.explore.paper import SECONDS, by_factors, first_accelerator, sheet, source
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


def take(place: str, operation: str, dtype: str, data: str, side: int) -> float:
    """Time an operation on a device in seconds: by the stopwatch, on `sim` by its model."""
    run = OPERATIONS[operation].run
    here = torch.ones(side, side, dtype=DTYPES[dtype], device="cpu")  # whatever the default device is
    there = here.to(place)
    ways = {
        STAYS: lambda: run(there),
        COMES: lambda: run(here.to(place)),
        RETURNS: lambda: run(here.to(place)).cpu(),
    }
    # Five digits: many launches add up the rounding of a simulated clock that has run for long.
    return float(f"{lap(ways[data], place).done:.5g}")


@functools.lru_cache(maxsize=1024)
def _taken(place: str, operation: str, dtype: str, data: str, side: int, rules: str) -> float:
    """Keep what was timed, for each set of rules that the simulated device may follow."""
    return take(place, operation, dtype, data, side)


def on(place: str, operation: str, dtype: str, data: str, wanted: list[int]) -> dict[int, float]:
    """Return the seconds for each side, up to the largest that the device has room for."""
    found = {}
    for side in wanted:
        try:
            found[side] = _taken(place, operation, dtype, data, side, sim.following())
        except torch.OutOfMemoryError:
            break
    return found


def modelled(operation: str, dtype: str) -> dict[int, float]:
    """Return the seconds that a modelled CPU takes for each side.

    >>> round(1e6 * modelled("x + 1", "float32")[512])
    42
    """
    work, kind = OPERATIONS[operation].work, DTYPES[dtype]
    return {n: seconds(work(n, kind.itemsize), kind) for n in sides(operation, dtype, simulated=True)}


def crossing(cpu: dict[int, float], device: dict[int, float]) -> float | None:
    """Return the size from which on the device stays ahead; None where it never does, 0 where it always is.

    It is the size that the fewest of the times contradict, so a single time that something disturbed decides
    nothing. Of two that as many contradict, it is the one whose contradictions stand out more.

    >>> round(crossing({10: 1.0, 100: 10.0}, {10: 2.0, 100: 5.0}), 1)
    31.6
    """
    common, lead = _leads(cpu, device)
    first = _first_ahead(lead)
    if first == 0:
        return 0.0
    if first == len(common):
        return None
    share = -lead[first - 1] / (lead[first] - lead[first - 1])
    return common[first - 1] * (common[first] / common[first - 1]) ** share


def exceptions(cpu: dict[int, float], device: dict[int, float]) -> list[int]:
    """Return the sizes whose times contradict the crossing.

    >>> exceptions({1: 1, 2: 3, 4: 1, 8: 3, 16: 3, 32: 1}, dict.fromkeys((1, 2, 4, 8, 16, 32), 2))
    [2, 32]
    """
    common, lead = _leads(cpu, device)
    first = _first_ahead(lead)
    return [side for place, side in enumerate(common) if (lead[place] > 0) != (place >= first)]


def _leads(cpu: dict[int, float], device: dict[int, float]) -> tuple[list[int], list[float]]:
    """Return the sizes that both have, and for each the logarithm of how many times as fast the device is."""
    common = sorted(cpu.keys() & device.keys())
    return common, [math.log(cpu[side] / device[side]) for side in common]


def _first_ahead(lead: list[float]) -> int:
    """Return the place from which on the device counts as ahead, by the fewest contradictions."""

    def stands_out(place: int) -> float:
        beside = lead[max(place - 1, 0) : place] + lead[place + 1 : place + 2] or lead
        return abs(lead[place] - sum(beside) / len(beside))

    def doubts(first: int) -> tuple[int, float, int]:
        wrong = [place for place, by in enumerate(lead) if (by > 0) != (place >= first)]
        return len(wrong), -sum(map(stands_out, wrong)), -first

    return min(range(len(lead) + 1), key=doubts)


COARSE = [16, 64, 256, 1024]  # sides that are measured for the first picture on a real device
TICKS = [8, 16, 32, 64, 128, 256, 512, 1024]


@dataclass(frozen=True)
class Found:
    """A time that was measured on request, in seconds, of what `State.about` returned."""

    about: tuple[str, str, str, str]
    side: int
    seconds: float


@dataclass(frozen=True)
class State:
    """What is computed, in which dtype, where its input is, and what was measured on request."""

    device: str
    operation: str = "x @ x"
    dtype: str = "float32"
    data: str = STAYS
    found: tuple[Found, ...] = ()

    @property
    def sides(self) -> list[int]:
        """Return the sides of x that can be timed."""
        return sides(self.operation, self.dtype, simulated(self.device))

    def about(self, place: str) -> tuple[str, str, str, str]:
        """Return what is timed on a device; data is always on the CPU already."""
        return place, self.operation, self.dtype, STAYS if place == "cpu" else self.data

    def measured(self, place: str) -> dict[int, float]:
        """Return what was measured on request of what is looked at."""
        about = self.about(place)
        return {one.side: one.seconds for one in self.found if one.about == about}


def simulated(device: str) -> bool:
    """Tell whether a device is simulated."""
    return device.startswith("sim")


def times(state: State, place: str) -> dict[int, float]:
    """Return the seconds for each side on the CPU or on the accelerator.

    Beside a simulated accelerator the CPU is a modelled one, until it is measured on request.
    """
    found = state.measured(place)
    if place == "cpu" and simulated(state.device):
        return found or modelled(state.operation, state.dtype)
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


def draw(state: State):
    """Return the figure: time over the side of the matrix, for the CPU and for the accelerator."""
    figure, axes = sheet(3.6, margins={"left": 0.085, "right": 0.99, "bottom": 0.14, "top": 0.92})
    curves = {place: times(state, place) for place in names(state)}
    everything = [seconds for curve in curves.values() for seconds in curve.values()]
    most = SIMULATED_SIDE if simulated(state.device) else SIDES[-1]
    room = (0.75 * TICKS[0], 6 * most)  # for the names at the ends
    by_factors(axes.xaxis, room, [tick for tick in TICKS if tick <= most], "{:,}".format)
    by_factors(axes.yaxis, (min(everything) / 3, max(everything) * 6), SECONDS, duration)
    where = "" if state.device == "cpu" else f"; x {state.data}"
    axes.set_xlabel(f"n, where x is n × n in {state.dtype}{where}")
    axes.set_title(f"time of {state.operation}", loc="left", fontsize=10)
    for place, curve in curves.items():
        look = {"marker": "o" if place == "cpu" else "s", "ms": 5, "lw": 2, "color": palette.of(place)}
        axes.plot(list(curve), list(curve.values()), **look)
    _name(axes, names(state), curves)
    if len(curves) > 1:
        _mark(axes, state, *curves.values())
    return figure


def _name(axes, named: dict[str, str], curves: dict[str, dict[int, float]]) -> None:
    """Write each name at the end of its curve, the slower's higher and the faster's lower."""
    ends = {place: list(curve.items())[-1] for place, curve in curves.items()}
    slower = max(ends, key=lambda place: ends[place][1])
    for place, end in ends.items():
        up = "bottom" if place == slower else "top"
        axes.annotate(named[place], end, (9, 0), textcoords="offset points", va=up)


def _mark(axes, state: State, cpu: dict[int, float], device: dict[int, float]) -> None:
    """Draw where the curves cross, and which device is faster on either side."""
    last = max(cpu.keys() & device.keys())
    side = crossing(cpu, device)
    top = axes.get_xaxis_transform()
    if side is None or side == 0:
        always = f"{state.device} faster at every size{_except(cpu, device)}"
        words = f"CPU still faster at n = {last:,}" if side is None else always
        axes.text(0.35, 0.93, words, transform=axes.transAxes, ha="center", weight="bold")
        return
    axes.axvline(side, color="black", ls=":", lw=1.2)
    axes.annotate(
        f"{state.device} faster →", (side, 0.93), (6, 0), xycoords=top, textcoords="offset points",
        weight="bold",
    )  # fmt: skip
    if side >= 17:  # else there is no room for the words
        axes.annotate(
            "← CPU faster", (side, 0.93), (-6, 0), xycoords=top, textcoords="offset points",
            ha="right", weight="bold",
        )  # fmt: skip
    axes.annotate(
        f"n = {rounded(side)}", (side, 0.03), (6, 0), xycoords=top, textcoords="offset points", weight="bold"
    )


def _except(cpu: dict[int, float], device: dict[int, float]) -> str:
    """Say at which sizes the times contradict what is said of the others; nothing where none does."""
    found = exceptions(cpu, device)
    return f", except n = {', '.join(f'{side:,}' for side in found)}" if found else ""


def rounded(side: float) -> int:
    """Return a size to two digits, which is as much as it is worth.

    >>> rounded(106.9), rounded(22.4)
    (110, 22)
    """
    return int(float(f"{side:.2g}"))


def describe(state: State) -> str:
    """Say from which size on the accelerator is faster, and how far the two are apart at both ends."""
    cpu = times(state, "cpu")
    what = f"{state.operation} in {state.dtype}"
    if state.device == "cpu":
        ends = ", ".join(f"{duration(cpu[n])} at n = {n:,}" for n in (min(cpu), max(cpu)))
        return f"{source('cpu')}: {what} takes {ends}. There is no accelerator here to compare with."
    device = times(state, state.device)
    common = sorted(cpu.keys() & device.keys())
    side = crossing(cpu, device)
    if side is None:
        verdict = f"the CPU is faster up to n = {common[-1]:,}"
    elif side == 0:
        verdict = f"{state.device} is faster at every size"
    else:
        verdict = f"{state.device} is faster from about n = {rounded(side)} on"
    verdict += _except(cpu, device)
    ends = "; ".join(
        f"at n = {n:,} the CPU takes {duration(cpu[n])}, {state.device} {duration(device[n])}"
        for n in dict.fromkeys((common[0], common[-1]))
    )
    about = f"for {what}, where x {state.data}"
    return f"{source(state.device)}: {about}, {verdict}; {ends}. {_about_the_cpu(state)}"


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
            Choice("operation", "operation", list(OPERATIONS)),
            Choice("dtype", "dtype", ["float32", "float16", *(["float64"] if wide else [])]),
            *([] if device == "cpu" else [Choice("data", "x", [STAYS, COMES, RETURNS])]),
            Measurement("Measure this CPU" if simulated(device) else "Measure more sizes", measure),
        ],
    )
