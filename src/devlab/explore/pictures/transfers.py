"""The transfers: how long a copy takes over its size, and what host and copy do meanwhile."""

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple

import torch

from devlab import palette, sim
from devlab.explore.axes import Axes, Axis, apart, around, dot
from devlab.explore.controls import Choice, Control, Switch
from devlab.explore.explorer import Explorer
from devlab.explore.lanes import LEFT, LETTER, Chart
from devlab.explore.origin import first_accelerator, source
from devlab.explore.scene import INK, SMALL, WIDE, Path, Scene, Shape, Stop, Words
from devlab.explore.stopwatch import Lap, can_pin, lap_of_copy, launch_of
from devlab.sim import clock
from devlab.sim.crossing import plan_copy
from devlab.watching.memory import duration, size
from devlab.watching.timeline import COPYING, STAGING, STARTING, WAITING

INTO, OUT_OF = "to the device", "to the CPU"
PAGEABLE, PINNED = "pageable", "pinned"
TIME, BANDWIDTH = "time", "bandwidth"
NAMED = {
    4: "one number",
    64 * 8 * 8 * 4: "64 digits of 8 × 8",
    1000 * 128 * 4: "1,000 rows of 128 numbers",
    32 * 3 * 224 * 224 * 4: "32 images of 224 × 224",
}
# 4 bytes to 64 MiB; 16 MiB would lie under the images.
SIZES = sorted({*(4**power for power in range(1, 14) if power != 12), *NAMED})
TICKS = SIZES[:1] + [4**power for power in range(3, 14, 2)]


@dataclass(frozen=True)
class State:
    """Which way, by which memory of the host, whether the host may go on at once, and what is looked at."""

    device: str
    direction: str = INTO
    memory: str = PAGEABLE
    non_blocking: bool = False
    looked_at: int = 64 * 8 * 8 * 4  # bytes
    curve: str = TIME


def copy(device: str, direction: str, memory: str, non_blocking: bool, count: int) -> Lap:
    """Copy `count` bytes between the host's memory and the device's, and return how long that took.

    A copy is timed once, and once more under other rules for the simulated device.
    """
    return _copy_once(device, direction, memory, non_blocking, count, sim.following())


@functools.lru_cache(maxsize=1024)
def _copy_once(device: str, direction: str, memory: str, non_blocking: bool, count: int, rules: str) -> Lap:
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


def speed(bandwidth: float) -> str:
    """Return a bandwidth in bytes per second as text; makers count in powers of ten.

    >>> speed(12e9), speed(4 / 7e-6), speed(120e9)
    ('12 GB/s', '0.57 MB/s', '120 GB/s')
    """
    value, unit = (bandwidth / 1e9, "GB/s") if bandwidth >= 1e8 else (bandwidth / 1e6, "MB/s")
    return f"{float(f'{value:.2g}'):g} {unit}"


def goes_on_early(one: Lap) -> bool:
    """Tell whether the host was free clearly before the copy had ended."""
    return one.returned < 0.9 * one.done


FREE, CALLING = "free to go on", "in the call"


class Phase(NamedTuple):
    """What the host does for a while, in seconds from the call on."""

    does: str
    start: float
    end: float


def phases(state: State, one: Lap) -> list[Phase]:
    """Return what the host does until the copy has ended, as far as the clock can tell.

    A real clock tells when the call returned, and no more.
    """
    if state.device == "cpu":
        found = [Phase(COPYING, 0, one.done)]
    elif one.working is None:
        found = [Phase(CALLING if goes_on_early(one) else WAITING, 0, one.returned)]
    else:
        began, ended = one.working
        launched = launch_of(state.device)
        found = [
            Phase(STARTING, 0, launched),
            Phase(STAGING, launched, began),
            Phase(WAITING, began, min(ended, one.returned)),
            Phase(STAGING, ended, one.returned),
        ]
    found.append(Phase(FREE, one.returned, one.done))
    return [phase for phase in found if phase.end - phase.start > 1e-9]


HIGH = 304
RIGHT, TOP, LOW = 622, 28, 168  # of the curves
LANES_TOP, HOST_LANE, COPY_LANE, LANES_LOW, LANE = 196, 216, 248, 280, 26


def draw(state: State) -> Scene:
    """Return the scene: the curves above, and below them the copy of the size looked at, as it goes."""
    memories = [PAGEABLE, PINNED] if can_pin(state.device) else [PAGEABLE]
    curves = {memory: copies(state, memory) for memory in memories}
    one = curves[state.memory].get(state.looked_at)
    axes = _axes(state, curves)
    label = duration if state.curve == TIME else speed
    shapes = axes.grid({tick: size(tick) for tick in TICKS}, label)
    shapes += _title(state, one)
    shapes += _curves(state, curves, axes)
    shapes += _handle(state, curves[state.memory], axes)
    if one is None:
        words = f"{size(state.looked_at)} do not fit on {state.device} at the moment"
        shapes.append(Words(id="full", x=LEFT, y=HOST_LANE + LANE / 2, words=words, bold=True))
        return Scene(HIGH, shapes, caption(state, one), 0.0)
    beside = [curve[state.looked_at].done for curve in curves.values() if state.looked_at in curve]
    chart = _lanes(state, one, beside)
    return Scene(HIGH, shapes + chart.shapes, caption(state, one), chart.played)


def _value(state: State, count: int, one: Lap) -> float:
    """Return what the curves show of a copy."""
    return one.done if state.curve == TIME else count / one.done


def _axes(state: State, curves: dict[str, dict[int, Lap]]) -> Axes:
    """Return axes that are the same for either direction and memory, and whether or not the host waits."""
    shown = [_value(state, *item) for curve in curves.values() for item in curve.items()]
    if state.curve == TIME:
        shown += [one.returned for curve in curves.values() for one in curve.values()]
    return Axes(Axis(TICKS[0], TICKS[-1], LEFT, RIGHT), around(shown, LOW, TOP))


def _title(state: State, one: Lap | None) -> list[Shape]:
    # "Simulated" or "Measured" is the first word of every source.
    title = f"{state.curve} of the copy, {source(state.device).split()[0].lower()}"
    shapes: list[Shape] = [
        Words(id="title", x=4, y=9, words=title),
        Words(id="size", x=RIGHT + 42, y=LOW + 17, words="size", size=SMALL, quiet=True),
    ]
    if one:
        words = f"{_write_count(state.looked_at)}: {duration(one.done)}, {speed(state.looked_at / one.done)}"
        shapes.append(Words(id="looked at", x=WIDE - 4, y=9, words=words, anchor="end", bold=True))
    return shapes


def _write_count(count: int) -> str:
    return f"{size(count)} ({NAMED[count]})" if count in NAMED else size(count)


def _describe_lap(state: State, count: int, one: Lap) -> str:
    """Return the words for a point of a curve."""
    how = source(state.device).split()[0].lower()
    host = f", the host goes on after {duration(one.returned)}" if goes_on_early(one) else ""
    return f"{_write_count(count)}: {duration(one.done)}, {speed(count / one.done)}{host}; {how}"


def _curves(state: State, curves: dict[str, dict[int, Lap]], axes: Axes) -> list[Shape]:
    """Return a curve for each memory, the chosen one last and bold, and one for when the host goes on."""
    shapes: list[Shape] = []
    ends: dict[str, float] = {}
    own = {count: axes.up.at(_value(state, count, one)) for count, one in curves[state.memory].items()}
    for memory in sorted(curves, key=lambda memory: memory == state.memory):
        chosen = memory == state.memory
        line = axes.line({count: _value(state, count, one) for count, one in curves[memory].items()})
        look = {"thick": 2.5 if chosen else 1.5, "dashed": not chosen}
        shapes.append(Path(id=f"curve {memory}", points=line, edge=palette.COPY, **look))
        ends[memory] = line[-1][1]
        for place, (count, one) in zip(line, curves[memory].items(), strict=True):
            if not chosen and abs(place[1] - own.get(count, -math.inf)) < 8:
                continue  # it would lie under the dot of the chosen curve
            says = f"{memory} memory, {_describe_lap(state, count, one)}"
            asks = None if chosen else {"set": {"looked_at": count, **_memory(state, memory)}}
            wide = 8 if chosen else 6
            shapes.append(dot(f"{memory} {count}", place, wide, palette.COPY, says=says, asks=asks))
    early = {count: one.returned for count, one in curves[state.memory].items() if goes_on_early(one)}
    if early and state.curve == TIME:
        line = axes.line(early)
        shapes.append(Path(id="host goes on", points=line, edge=palette.HOST, thick=2))
        ends["host goes on"] = line[-1][1]
    for name, y in apart(ends).items():
        chosen = name == state.memory
        asks = {"set": _memory(state, name)} if name in curves and not chosen and len(curves) > 1 else None
        words = f"{name} memory" if name in curves else name
        says = f"look at {words}" if asks else ""
        look = {"size": SMALL, "bold": chosen, "asks": asks, "says": says}
        shapes.append(Words(id=f"name {name}", x=RIGHT + 14, y=y, words=words, **look))
    return shapes


def _memory(state: State, memory: str) -> dict[str, str]:
    """Return the setting of the memory; there is none where nothing can be pinned."""
    return {"memory": memory} if can_pin(state.device) else {}


def _handle(state: State, curve: dict[int, Lap], axes: Axes) -> list[Shape]:
    """Return the ring that is dragged along the curve: at the size looked at, or the largest that fits."""
    stops = tuple(
        Stop(*axes.at(count, _value(state, count, one)), {"set": {"looked_at": count}}, size(count))
        for count, one in curve.items()
        if count in SIZES
    )
    count = state.looked_at if state.looked_at in curve else list(curve)[-1]
    place = axes.at(count, _value(state, count, curve[count]))
    says = f"drag along the sizes: {size(count)}, {duration(curve[count].done)}"
    x, y = place
    return [
        Words(id="hint", x=x + 10, y=y - 18, words="drag", size=SMALL, anchor="end", quiet=True),
        dot(
            "handle", place, 20, "", edge=INK, thick=2.5, stops=stops, along=True, says=says,
            ground=(LEFT, TOP, RIGHT - LEFT, LOW - TOP + 24),
        ),
    ]  # fmt: skip


_FILLS = {STARTING: palette.HOST, CALLING: palette.HOST, COPYING: palette.COPY, STAGING: palette.COPY}


def _lanes(state: State, one: Lap, beside: list[float]) -> Chart:
    """Return what the host does, and when the bytes travel, on the scale of the slowest memory."""
    chart = Chart(state.device, one.done, beside, LANES_TOP, LANES_LOW)
    chart.lane("host", HOST_LANE, LANE, "host", f"on at {duration(one.returned)}", False, when=one.returned)
    chart.lane("copy", COPY_LANE, LANE, "copy", f"there at {duration(one.done)}", False, when=one.done)
    seen: dict[str, int] = {}
    for does, start, end in phases(state, one):
        seen[does] = number = seen.get(does, 0) + 1
        early = does == FREE and state.direction == OUT_OF
        label = "too early to read" if early else f"{does} {duration(end - start)}"
        name, says = f"host {does} {number}", f"the host: {does} for {duration(end - start)}"
        if does == FREE:
            chart.ghost(name, (start, end), HOST_LANE, LANE, says)
            if chart.x(end) - chart.x(start) > LETTER * len(label):
                middle = chart.x((start + end) / 2), HOST_LANE + LANE / 2
                chart.words(f"{name} label", *middle, label, start, anchor="middle")
        else:
            chart.bar(name, (start, end), HOST_LANE, LANE, _FILLS.get(does, ""), label, says)
    travels = one.working or (0.0, one.done)
    lasts = duration(travels[1] - travels[0])
    says = f"the copy: {COPYING} for {lasts}"
    chart.bar("bytes travel", travels, COPY_LANE, LANE, palette.COPY, f"{COPYING} {lasts}", says)
    chart.finish("the copy", None)
    return chart


def caption(state: State, one: Lap | None) -> str:
    """Say in a sentence what the copy takes, and what the host does meanwhile."""
    if one is None:
        return f"{size(state.looked_at)} do not fit on {state.device} at the moment; drag to a smaller size."
    said = f"{source(state.device)}: {size(state.looked_at)} {_way(state)} take {duration(one.done)}"
    if state.device == "cpu":
        return f"{said}, in which the CPU can do nothing else."
    if not goes_on_early(one):
        return f"{said}, and the host cannot go on before the copy has ended."
    return f"{said}; the host goes on after {duration(one.returned)}."


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
        f"which is {speed(state.looked_at / one.done)}.{fee} {_host(state, one)}{_dtype(state)}"
        f"{_other(state)}"
    )


def _other(state: State) -> str:
    """Say which curve is drawn."""
    return f" The curves show the {state.curve} over the size." if state.curve != TIME else ""


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
        staged = ", when the bytes are in the driver's staging memory" if _stages(state, one) else ""
        return f"{said}{staged}, while the copy is under way{stale}."
    out = state.direction == OUT_OF
    large = out or state.looked_at > clock.STAGED_AT_ONCE
    if not (state.non_blocking and state.memory == PAGEABLE and large):
        return f"{said}."
    which = "into" if out else f"of more than {size(clock.STAGED_AT_ONCE)} from"
    return f"{said}: a copy {which} pageable memory returns when it has ended, whatever non_blocking says."


def _stages(state: State, one: Lap) -> bool:
    """Tell whether the driver stages the bytes: where no clock tells, as CUDA does with pageable memory."""
    if one.working:
        return any(phase.does == STAGING for phase in phases(state, one))
    return state.memory == PAGEABLE and not state.device.startswith("mps")


def _dtype(state: State) -> str:
    """Say which device would change the dtype, were it to change in the same call."""
    if state.device == "cpu":
        return ""
    ends = torch.empty(1, device="cpu"), torch.empty(1, dtype=torch.float16, device="meta")
    start, goal = ends if state.direction == INTO else ends[::-1]
    mps = state.device.startswith("mps") or (state.device.startswith("sim") and sim.following() == "mps")
    there = plan_copy(start, goal, state.non_blocking, False, mps).converts_there
    return f" A change of dtype in the same call is made on {state.device if there else 'the CPU'}."


def explorer() -> Explorer:
    """Return the explorer for copies between the CPU and the first accelerator of this machine."""
    device = first_accelerator()
    sizes = [(size(count), count) for count in SIZES]
    controls: list[Control] = [
        Choice("looked_at", "size", sizes, drawn=True),
        Choice("curve", "curve", [TIME, BANDWIDTH]),
    ]
    if device != "cpu":
        controls.append(Choice("direction", "copy", [INTO, OUT_OF]))
    if can_pin(device):
        controls.append(Choice("memory", "host memory", [PAGEABLE, PINNED]))
    if device != "cpu":
        controls.append(Switch("non_blocking", "non_blocking=True"))
    title = "What does a copy cost, and when does the host go on?"
    return Explorer(title, State(device), draw, describe, controls)
