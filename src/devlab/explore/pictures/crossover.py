"""The crossover: from which size on the accelerator is faster than the CPU."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from devlab import palette
from devlab.devices import has_float64
from devlab.explore import race, scales
from devlab.explore.controls import Choice, Measurement
from devlab.explore.explorer import Explorer
from devlab.explore.paper import margins, sheet
from devlab.explore.places import first_accelerator, source
from devlab.explore.race import COMES, RETURNS, STAYS
from devlab.sim.specs import HOST
from devlab.watching.memory import duration

COARSE = [16, 64, 256, 1024]  # sides that are measured for the first picture on a real device
TICKS = [8, 16, 32, 64, 128, 256, 512, 1024]


@dataclass(frozen=True)
class Found:
    """One time that was measured on request, in seconds."""

    place: str
    operation: str
    dtype: str
    data: str
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
        return race.sides(self.operation, self.dtype, simulated(self.device))

    def about(self, place: str) -> tuple[str, str, str, str]:
        """Return what is timed on a device; data is always on the CPU already."""
        return place, self.operation, self.dtype, STAYS if place == "cpu" else self.data

    def measured(self, place: str) -> dict[int, float]:
        """Return what was measured on request of what is looked at."""
        about = self.about(place)
        return {
            one.side: one.seconds
            for one in self.found
            if (one.place, one.operation, one.dtype, one.data) == about
        }


def simulated(device: str) -> bool:
    """Tell whether a device is."""
    return device.startswith("sim")


def times(state: State, place: str) -> dict[int, float]:
    """Return the seconds for each side on the CPU or on the accelerator.

    Beside a simulated accelerator the CPU is a modelled one, until it is measured on request.
    """
    found = state.measured(place)
    if place == "cpu" and simulated(state.device):
        return found or race.modelled(state.operation, state.dtype)
    wanted = [
        side for side in state.sides if side not in found and (simulated(state.device) or side in COARSE)
    ]
    return dict(sorted({**race.on(*state.about(place), wanted), **found}.items()))


def names(state: State) -> dict[str, str]:
    """Return what stands beside the curve of each place: its name, and how its times came about."""
    by_model = simulated(state.device) and not state.measured("cpu")
    named = {"cpu": f"CPU, {'modelled' if by_model else 'measured'}"}
    if state.device != "cpu":
        named[state.device] = f"{state.device}, {'simulated' if simulated(state.device) else 'measured'}"
    return named


def draw(state: State):
    """Return the figure: time over the side of the matrix, for the CPU and for the accelerator."""
    figure, axes = sheet(3.6)
    margins(figure, left=0.085, right=0.99, bottom=0.14, top=0.92)
    curves = {place: times(state, place) for place in names(state)}
    everything = [seconds for curve in curves.values() for seconds in curve.values()]
    most = race.SIMULATED_SIDE if simulated(state.device) else race.SIDES[-1]
    room = (0.75 * TICKS[0], 6 * most)  # for the names at the ends
    scales.of_counts(axes.xaxis, room, [tick for tick in TICKS if tick <= most])
    scales.of_time(axes.yaxis, (min(everything) / 3, max(everything) * 6))
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
    """Draw where the curves cross, and who is faster on either side of it."""
    last = max(cpu.keys() & device.keys())
    side = race.crossing(cpu, device)
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
    found = race.exceptions(cpu, device)
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
    side = race.crossing(cpu, device)
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
            kept = tuple(
                one
                for one in state.found
                if (one.place, one.operation, one.dtype, one.data, one.side) != (*about, side)
            )
            state = replace(state, found=(*kept, Found(*about, side, race.take(*about, side))))
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
            Choice("operation", "operation", list(race.OPERATIONS)),
            Choice("dtype", "dtype", ["float32", "float16", *(["float64"] if wide else [])]),
            *([] if device == "cpu" else [Choice("data", "x", [STAYS, COMES, RETURNS])]),
            Measurement("Measure this CPU" if simulated(device) else "Measure more sizes", measure),
        ],
    )
