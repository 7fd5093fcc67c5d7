"""The transfers: how long a copy takes and how fast it goes, over its size."""

import functools
from dataclasses import dataclass

import torch

from devlab import palette, sim
from devlab.explore.controls import Choice, Control, Switch
from devlab.explore.explorer import Explorer
from devlab.explore.paper import SECONDS, by_factors, first_accelerator, sheet, source
from devlab.explore.stopwatch import Lap, can_pin, lap_of_copy
from devlab.sim.crossing import crossing
from devlab.watching.memory import duration, size

INTO, OUT_OF = "from the CPU to the device", "from the device to the CPU"
ORDINARY, PINNED = "ordinary", "pinned"
SIZES = [4**power for power in range(1, 14)]  # 4 bytes to 64 MiB
TICKS = [4, 1 << 10, 256 << 10, 64 << 20]
MARKS = [
    ("one number, 4 B", 4),
    ("64 digits of 8 × 8, 16 KiB", 64 * 8 * 8 * 4),
    ("1,000 rows of 128 numbers, 500 KiB", 1000 * 128 * 4),
    ("32 images of 224 × 224, 18.4 MiB", 32 * 3 * 224 * 224 * 4),
    ("64 MiB", 64 << 20),
]


@dataclass(frozen=True)
class State:
    """Which way, by which memory of the host, whether the host may go on at once, and the size looked at."""

    device: str
    direction: str = INTO
    memory: str = ORDINARY
    non_blocking: bool = False
    looked_at: int = 64 * 8 * 8 * 4  # bytes


def copy(device: str, direction: str, memory: str, non_blocking: bool, count: int) -> Lap:
    """Copy `count` bytes between the host's memory and the device's, and return how long that took.

    A copy is timed once, and once more under other rules for the simulated device.
    """
    return _copied(device, direction, memory, non_blocking, count, sim.following())


@functools.lru_cache(maxsize=1024)
def _copied(device: str, direction: str, memory: str, non_blocking: bool, count: int, rules: str) -> Lap:
    of, to = ("cpu", device) if direction == INTO else (device, "cpu")
    return lap_of_copy(of, to, count, memory == PINNED, non_blocking)


def copies(state: State, memory: str) -> dict[int, Lap]:
    """Return the time of each size, up to the largest that the device has room for."""
    found = {}
    for count in sorted({*SIZES, state.looked_at}):
        try:
            found[count] = copy(state.device, state.direction, memory, state.non_blocking, count)
        except torch.OutOfMemoryError:
            break
    return found


def gigabytes(count: int, one: Lap) -> float:
    """Return a bandwidth in GB/s, which makers count in powers of ten."""
    return count / one.done / 1e9


def speed(count: int, one: Lap) -> str:
    """Return a bandwidth as text.

    >>> speed(12_000_000, Lap(1e-3, 1e-3)), speed(4, Lap(7e-6, 7e-6))
    ('12 GB/s', '0.57 MB/s')
    """
    bandwidth = gigabytes(count, one)
    return f"{bandwidth:.2g} GB/s" if bandwidth >= 0.1 else f"{bandwidth * 1e3:.2g} MB/s"


def draw(state: State):
    """Return the figure: time on the left, bandwidth on the right, both over size; bold what is chosen."""
    margins = {"left": 0.085, "right": 0.98, "bottom": 0.15, "top": 0.91, "wspace": 0.16}
    figure, (times, speeds) = sheet(3.4, 1, 2, margins=margins)
    memories = [ORDINARY, PINNED] if can_pin(state.device) else [ORDINARY]
    curves = {memory: copies(state, memory) for memory in memories}
    for memory, curve in curves.items():
        chosen = memory == state.memory
        look = {"color": palette.COPY, "lw": 2.5 if chosen else 1.5, "ls": "-" if chosen else (0, (4, 2))}
        times.plot(list(curve), [one.done for one in curve.values()], **look)
        speeds.plot(list(curve), [gigabytes(count, one) for count, one in curve.items()], **look)
    for axes in (times, speeds):
        by_factors(axes.xaxis, (2, SIZES[-1] * 2), TICKS, size)
        axes.set_xlabel("size")
    laps = [one for curve in curves.values() for one in curve.values()]
    limits = min(one.returned for one in laps) / 2.5, max(one.done for one in laps) * 3
    by_factors(times.yaxis, limits, SECONDS, duration)
    # "Simulated" or "Measured" is the first word of every source.
    times.set_title(f"time of the copy, {source(state.device).split()[0].lower()}")
    fastest = max(gigabytes(count, one) for curve in curves.values() for count, one in curve.items())
    speeds.set_ylim(0, fastest * 1.25)
    speeds.locator_params(axis="y", nbins=5)
    speeds.set_title("bandwidth, in GB/s")
    _name(speeds, curves)
    fee = curves[state.memory][SIZES[0]].done
    words = f"even {size(SIZES[0])} take {duration(fee)}"
    times.annotate(words, (SIZES[0], fee), (0, 9), textcoords="offset points")
    _show_the_host(times, curves[state.memory])
    _show_the_size(times, speeds, state.looked_at, curves[state.memory].get(state.looked_at))
    return figure


def _name(speeds, curves: dict[str, dict[int, Lap]]) -> None:
    """Write the name of each memory over the end of its curve, the slower's under it where two are close."""
    ends = [(gigabytes(*list(curve.items())[-1]), memory) for memory, curve in curves.items()]
    (slowest, slower), (fastest, _) = min(ends), max(ends)
    close = fastest - slowest < 0.15 * speeds.get_ylim()[1]
    for height, memory in ends:
        under = close and memory == slower and len(ends) > 1
        speeds.annotate(
            f"{memory} memory", (list(curves[memory])[-1], height), (0, -7 if under else 7),
            textcoords="offset points", ha="right", va="top" if under else "bottom",
        )  # fmt: skip


def _show_the_host(times, curve: dict[int, Lap]) -> None:
    """Draw when the host goes on: on the curve of the copy where the host waits for it, else below."""
    times.plot(list(curve), [one.returned for one in curve.values()], color=palette.HOST, lw=1.2)
    early = {count: one.returned for count, one in curve.items() if goes_on_early(one)}
    if early:
        at = list(early.items())[-1]
        times.annotate("the host goes on", at, (0, 5), textcoords="offset points", ha="right")
    else:
        times.text(0.98, 0.05, "the host (thin line) waits", transform=times.transAxes, ha="right")


def goes_on_early(one: Lap) -> bool:
    """Tell whether the host was free clearly before the copy had ended."""
    return one.returned < 0.9 * one.done


def _show_the_size(times, speeds, count: int, one: Lap | None) -> None:
    """Mark the size looked at on both curves, and write what it costs where no curve ever comes."""
    if one is None:
        return
    for axes, height, words in (
        (times, one.done, f"{size(count)} in {duration(one.done)}"),
        (speeds, gigabytes(count, one), f"{size(count)} at {speed(count, one)}"),
    ):
        axes.plot([count], [height], "o", color="black", ms=7)
        axes.text(0.03, 0.93, words, transform=axes.transAxes, weight="bold")


def describe(state: State) -> str:
    """Say how long the copy of the size looked at takes, how fast it goes, and when the host goes on."""
    curve = copies(state, state.memory)
    one = curve.get(state.looked_at)
    if one is None:
        return (
            f"{source(state.device)}: {size(state.looked_at)} do not fit on {state.device} at the moment. "
            "Delete what you no longer need, or look at a smaller size."
        )
    least = SIZES[0]
    fee = "" if state.looked_at == least else f" Even {size(least)} take {duration(curve[least].done)}."
    return (
        f"{source(state.device)}: {size(state.looked_at)} {_way(state)} take {duration(one.done)}, "
        f"which is {speed(state.looked_at, one)}.{fee} {_host(state, one)}{_dtype(state)}"
    )


def _way(state: State) -> str:
    if state.device == "cpu":
        return "copied within the CPU's memory, where there is no accelerator,"
    if state.direction == INTO:
        return f"from {state.memory} memory to {state.device}"
    return f"from {state.device} into {state.memory} memory"


def _host(state: State, one: Lap) -> str:
    said = f"The host goes on after {duration(one.returned)}"
    if goes_on_early(one):
        stale = ", and the CPU may read old contents until it is done" if state.direction == OUT_OF else ""
        staged = ", when the bytes are in the driver's staging memory" if state.memory == ORDINARY else ""
        return f"{said}{staged}, while the copy is under way{stale}."
    if state.non_blocking and state.memory == ORDINARY and state.direction == OUT_OF:
        return f"{said}: a copy into ordinary memory returns when it has ended, whatever non_blocking says."
    return f"{said}."


def _dtype(state: State) -> str:
    """Say which device would change the dtype, were it to change in the same call."""
    if state.device == "cpu":
        return ""
    ends = torch.empty(1, device="cpu"), torch.empty(1, dtype=torch.float16, device="meta")
    start, goal = ends if state.direction == INTO else ends[::-1]
    mps = state.device.startswith("mps") or (state.device.startswith("sim") and sim.following() == "mps")
    there = crossing(start, goal, state.non_blocking, False, mps).converts_there
    return f" A change of dtype in the same call is made on {state.device if there else 'the CPU'}."


def explorer() -> Explorer:
    """Return the explorer for copies between the CPU and the first accelerator of this machine."""
    device = first_accelerator()
    controls: list[Control] = [Choice("looked_at", "size", MARKS)]
    if device != "cpu":
        controls.append(Choice("direction", "direction", [INTO, OUT_OF]))
        controls.append(Switch("non_blocking", "non_blocking=True"))
    if can_pin(device):
        controls.append(Choice("memory", "host memory", [ORDINARY, PINNED]))
    return Explorer("What a copy costs", State(device), draw, describe, controls)
