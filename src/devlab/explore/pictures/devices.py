"""The devices: what is here, how wide the roads between the memories are, and what each device can do."""

import contextlib
import functools
from dataclasses import dataclass

import torch

from devlab import palette, sim
from devlab.devices import bench, has_float64, name_of
from devlab.explore.controls import Choice, Control
from devlab.explore.explorer import Explorer
from devlab.explore.paper import sheet, source
from devlab.explore.stopwatch import can_pin, rate
from devlab.sim.specs import CUDA_LIKE, HOST, MPS_LIKE
from devlab.watching.memory import size
from devlab.watching.timeline import round_up

SHARED = "shared with the CPU"


def following(rules: str | None) -> contextlib.AbstractContextManager:
    """Return a block in which the simulated accelerator follows a rule set, or none in particular."""
    return sim.rules(rules) if rules else contextlib.nullcontext()


@dataclass(frozen=True)
class Roads:
    """Bytes per second: in a device's memory, to it from the host, and to a second device; 0 is no road."""

    own: float
    ordinary: float = 0.0
    pinned: float = 0.0
    peer: float = 0.0

    @property
    def pinning_helps(self) -> bool:
        """Tell whether copies from pinned memory are clearly faster."""
        return self.pinned > 1.2 * self.ordinary


@functools.lru_cache(maxsize=32)
def roads_of(device: str, other: str | None, rules: str | None) -> Roads:
    """Measure the roads of a device, by its model where it is simulated.

    Raises torch.OutOfMemoryError where the device is too full to try.
    """
    with following(rules):
        inside = 2 * rate(device, device)  # a copy reads each byte and writes it
        if device == "cpu":
            return Roads(inside)
        return Roads(
            inside,
            ordinary=rate("cpu", device),
            pinned=rate("cpu", device, pinned=True) if can_pin(device) else 0.0,
            peer=rate(device, other) if other else 0.0,
        )


@functools.lru_cache(maxsize=32)
def facts(device: str, rules: str | None) -> dict[str, str]:
    """Return what is known of a device, in the order in which it is shown.

    >>> facts("cpu", None)["float64"]
    'yes'
    """
    with following(rules):
        where = torch.device(device)
        module = torch.get_device_module(where)
        known = {
            "name": name_of(where),
            "memory": _memory(where, module),
            "index": "none" if where.index is None else f"{where.index}, of {module.device_count()} here",
            "float64": "yes" if has_float64(where) else "none: use float32",
            "torch.linalg.eig": "yes" if has_eig(where) else "missing: run it on the CPU",
        }
        if where.type == "sim":
            known["modelled on"] = module.get_device_properties(where).resembles.partition(",")[0]
        if where.type == "cuda":
            known["capability"] = "{}.{}".format(*module.get_device_capability(where))
        return known


def _memory(where: torch.device, module) -> str:
    if where.type == "cpu":
        return "system memory"
    if where.type == "mps" or (where.type == "sim" and sim.following() == "mps"):
        return SHARED
    return size(module.get_device_properties(where).total_memory)


def has_eig(where: torch.device) -> bool:
    """Tell whether a device has an operator that Apple's GPUs lack: the operator is tried."""
    try:
        torch.linalg.eig(torch.eye(2, device=where))
    except RuntimeError:  # NotImplementedError too, and a build without the operator's library
        return False
    return True


HEIGHT = 4.4  # inches, as all lengths here; widths of roads are in points
TOP, LOW, TALL = 4.3, 1.7, 1.15  # where the boxes end, and how high a device's is
MEMORY_OF_HOST, MEMORY_OF_DEVICE = (1.85, 2.6), (4.95, 5.8)  # from left to right
PROCESSOR_OF_HOST, PROCESSOR_OF_DEVICE = (0.3, 0.95), (6.9, 7.7)
ONE_MEMORY = (3.1, 4.9)  # where host and device have the same
WIDEST, NARROWEST = 26.0, 0.8
ALONE = "because Apple's chips have one GPU"


@dataclass(frozen=True)
class State:
    """The devices that are here, the one looked at, and the rules that simulated ones follow."""

    devices: tuple[str, ...]
    looked_at: str
    rules: str | None = None

    @property
    def here(self) -> tuple[str, ...]:
        """Return the devices under the rules: Apple's chips have one GPU."""
        return self.devices[:2] if self.rules == "mps" else self.devices

    @property
    def gone(self) -> bool:
        """Tell whether the device looked at is not there under the rules."""
        return self.looked_at not in self.here

    @property
    def accelerators(self) -> tuple[str, ...]:
        """Return the accelerators that are drawn: two, the one looked at among them."""
        others = self.here[1:]
        return others[:2] if self.gone or self.looked_at in self.here[:3] else (others[0], self.looked_at)

    @property
    def simulated(self) -> bool:
        """Tell whether the accelerators are simulated."""
        return self.devices[-1].startswith("sim")

    def how(self, place: str) -> str:
        """Return in a word how the rates of a device came about."""
        return ("rates modelled" if place == "cpu" else "simulated") if self.simulated else "measured"

    @property
    def shared(self) -> bool:
        """Tell whether host and accelerator have one memory, as in Apple's chips."""
        return any(facts(place, self.rules)["memory"] == SHARED for place in self.accelerators)


def survey(state: State) -> dict[str, Roads | None]:
    """Return the roads of what is drawn, the CPU first; None where a device is too full to try."""
    host = Roads(HOST.bandwidth) if state.simulated else roads_of("cpu", None, None)
    found: dict[str, Roads | None] = {"cpu": host}
    first, second = (*state.accelerators, None, None)[:2]
    for place in state.accelerators:
        try:
            found[place] = roads_of(place, second if place == first else None, state.rules)
        except torch.OutOfMemoryError:
            found[place] = None
    return found


def gigabytes(rate: float) -> str:
    """Return a bandwidth to two digits.

    >>> gigabytes(51.2e9), gigabytes(300e9)
    ('51 GB/s', '300 GB/s')
    """
    return f"{float(f'{rate / 1e9:.2g}'):g} GB/s"


def draw(state: State):
    """Return the figure: a box for each device, roads as wide as their bandwidth, and the facts of one."""
    figure, axes = sheet(HEIGHT, margins={"left": 0, "right": 1, "bottom": 0, "top": 1})
    axes.set(xlim=(0, 8), ylim=(0, HEIGHT))
    axes.axis("off")
    found = survey(state)
    pen = Pen(axes, widest(state, found))
    (_draw_one_memory if state.shared else _draw_memories)(pen, state, found)
    if state.accelerators:
        x = sum(ONE_MEMORY) / 2 if state.shared else 3.75
        pen.write(x, TOP - 0.13, "a road is as wide\nas its bandwidth", ha="center", alpha=0.75)
    _write_facts(pen, state, found.get(state.looked_at))
    return figure


def widest(state: State, found: dict[str, Roads | None]) -> float:
    """Return the bandwidth that the widest road stands for: the same whatever is chosen on this machine.

    Simulated devices are drawn to the scale of the fastest chip. Measured bandwidths of equal devices differ
    a little, and a round bandwidth is the same for all.
    """
    if state.simulated:
        return max(CUDA_LIKE.bandwidth, MPS_LIKE.bandwidth)
    rates = [rate for one in found.values() if one for rate in (one.own, one.ordinary, one.pinned, one.peer)]
    return round_up(max(rates, default=1.0))


def _draw_one_memory(pen: "Pen", state: State, found: dict[str, Roads | None]) -> None:
    """Draw the memory that the processors of host and device share, and what a copy within it carries."""
    (place,) = state.accelerators
    middle = (TOP + LOW) / 2
    left, right = ONE_MEMORY
    pen.box("cpu", (0.12, LOW, 1.56, TOP - LOW), state, state.how("cpu"))
    pen.box(place, (6.3, LOW, 1.56, TOP - LOW), state, state.how(place))
    pen.rectangle(left, LOW, right - left, TOP - LOW - 0.45, edgecolor="black", lw=1.5)
    pen.write((left + right) / 2, middle + 0.2, "one memory\nfor both", ha="center")
    if roads := found[place]:
        copied = f"a copy in it,\nfrom cpu to {place}:\n{gigabytes(roads.ordinary)}"
        pen.write((left + right) / 2, LOW + 0.5, copied, ha="center")
    pen.processor("cpu", found["cpu"], PROCESSOR_OF_HOST, left, middle)
    pen.processor(place, found[place], PROCESSOR_OF_DEVICE, right, middle)


def _draw_memories(pen: "Pen", state: State, found: dict[str, Roads | None]) -> None:
    """Draw a memory for each device, and the roads between them."""
    middle = (TOP + LOW) / 2
    pen.box("cpu", (0.12, LOW, 2.6, TOP - LOW), state, state.how("cpu"))
    pen.inside("cpu", found["cpu"], MEMORY_OF_HOST, PROCESSOR_OF_HOST, middle, TOP - LOW - 0.65)
    pen.write(sum(MEMORY_OF_HOST) / 2, middle, "system\nmemory", ha="center")
    tops = [TOP, LOW + TALL] if len(state.accelerators) == 2 else [middle + TALL / 2]
    for place, top in zip(state.accelerators, tops, strict=False):
        where = top - TALL + 0.42
        pen.box(place, (4.8, top - TALL, 3.05, TALL), state, state.how(place))
        pen.inside(place, found[place], MEMORY_OF_DEVICE, PROCESSOR_OF_DEVICE, where, 0.62)
        memory = facts(place, state.rules)["memory"]
        pen.write(sum(MEMORY_OF_DEVICE) / 2, where, memory, ha="center")
        pen.from_host(found[place], where)
    if len(state.accelerators) == 2 and (first := found[state.accelerators[0]]):
        pen.road((5.15, 5.15), (LOW + TALL - 0.42, TOP - TALL + 0.11), first.peer, palette.COPY)
        pen.write(5.27, (TOP + LOW) / 2, gigabytes(first.peer))
    if not state.accelerators:
        pen.write(6.3, middle, "no accelerator here", ha="center")


class Pen:
    """Draws in inches, and roads to one scale."""

    def __init__(self, axes, widest: float):
        self.axes = axes
        self.widest = widest

    def write(self, x: float, y: float, words: str, **look) -> None:
        """Write words, centred in height."""
        self.axes.text(x, y, words, va="center", **{"fontsize": 9, **look})

    def rectangle(self, x: float, y: float, wide: float, high: float, **look) -> None:
        """Draw a box without a filling."""
        from matplotlib.patches import Rectangle

        self.axes.add_patch(Rectangle((x, y), wide, high, fill=False, **look))

    def box(self, place: str, extent: tuple[float, float, float, float], state: State, how: str) -> None:
        """Draw the box of a device with its name; thick where it is the one looked at."""
        x, y, wide, high = extent
        own = place == state.looked_at
        self.rectangle(*extent, edgecolor=palette.of(place), lw=3.5 if own else 1)
        self.write(x + wide - 0.1, y + high - 0.17, f"{place}, {how}", ha="right", weight="bold")

    def inside(self, place: str, roads: Roads | None, memory, processor, y: float, high: float) -> None:
        """Draw a device's memory, its processor, and the road between the two."""
        colour = palette.of(place)
        self.rectangle(memory[0], y - high / 2, memory[1] - memory[0], high, edgecolor=colour, lw=1.5)
        self.processor(place, roads, processor, min(memory, key=lambda end: abs(end - processor[0])), y)

    def processor(self, place: str, roads: Roads | None, processor, memory: float, y: float) -> None:
        """Draw a device's processor, and its road to the edge of a memory."""
        colour = palette.of(place)
        self.rectangle(processor[0], y - 0.31, processor[1] - processor[0], 0.62, edgecolor=colour, lw=1.5)
        self.write(sum(processor) / 2, y, "CPU" if place == "cpu" else "processor", ha="center")
        near, far = sorted((memory, *processor))[:2] if memory < processor[0] else (processor[1], memory)
        if roads:
            self.road((near, far), (y, y), roads.own, colour)
            above = y + self.width(roads.own) / 144 + 0.09  # 72 points are an inch
            self.write((near + far) / 2, above, gigabytes(roads.own), ha="center")

    def from_host(self, roads: Roads | None, y: float) -> None:
        """Draw the roads from the host's memory: two where pinned memory has one of its own."""
        middle = 3.75
        if roads is None:
            self.write(middle, y, "too full to try", ha="center")
            return
        ways = [("", roads.ordinary, 0.0, 0.09)]
        if roads.pinning_helps:
            ways = [("pinned ", roads.pinned, 0.09, 0.1), ("ordinary ", roads.ordinary, -0.09, -0.12)]
        for name, speed, by, beside in ways:
            self.road((MEMORY_OF_HOST[1], MEMORY_OF_DEVICE[0]), (y + by, y + by), speed, palette.COPY)
            away = beside + (1 if beside > 0 else -1) * self.width(speed) / 144
            self.write(middle, y + by + away, name + gigabytes(speed), ha="center")

    def width(self, rate: float) -> float:
        """Return how wide a road is drawn, in points."""
        return max(NARROWEST, WIDEST * rate / self.widest)

    def road(self, x: tuple[float, float], y: tuple[float, float], rate: float, colour: str) -> None:
        """Draw a road."""
        self.axes.plot(x, y, color=colour, lw=self.width(rate), solid_capstyle="butt")


def _write_facts(pen: Pen, state: State, roads: Roads | None) -> None:
    """Write what the device looked at is and can do, in two columns."""
    if state.gone:
        pen.write(0.15, 1.37, f"{state.looked_at}: not there, {ALONE}", weight="bold", fontsize=10)
        return
    shown = described(state, roads)
    pen.write(0.15, 1.37, f"{state.looked_at}: {shown.pop('name')}", weight="bold", fontsize=10)
    for number, (label, value) in enumerate(shown.items()):
        x, y = (0.15, 4.15)[number % 2], 1.02 - 0.32 * (number // 2)
        pen.write(x, y, label, alpha=0.75)
        pen.write(x + 1.35, y, value)


def described(state: State, roads: Roads | None) -> dict[str, str]:
    """Return the facts of the device looked at, with what pinned memory is worth to it."""
    known = dict(facts(state.looked_at, state.rules))
    if state.looked_at != "cpu":
        worth = "no use: no faster"
        if roads is None:
            worth = "not tried: the device is full"
        elif roads.pinning_helps:
            worth = f"{float(f'{roads.pinned / roads.ordinary:.2g}'):g} times as fast"
        known["pinned memory"] = worth
    return known


def describe(state: State) -> str:
    """Say what is here, how wide the roads of the device looked at are, and what it can do."""
    found = survey(state)
    here = ", ".join(state.here) if len(state.here) > 1 else "the CPU alone"
    said = f"{source(state.devices[-1])}: there is {here}."
    if state.gone:
        return f"{said} {state.looked_at} is not there, {ALONE}."
    roads = found.get(state.looked_at)
    about = "; ".join(
        f"{label}: {value}" for label, value in described(state, roads).items() if label != "name"
    )
    said += f" {_roads(state, roads)}"
    return f"{said} {state.looked_at} is called {facts(state.looked_at, state.rules)['name']!r}; {about}."


def _roads(state: State, roads: Roads | None) -> str:
    if roads is None:
        return f"{state.looked_at} is too full to try its roads."
    memory = "the one memory that there is" if state.shared else "its own memory"
    inside = f"{state.looked_at} reads and writes {memory} at {gigabytes(roads.own)}"
    if state.looked_at == "cpu":
        return f"{inside}{', by a model' if state.simulated else ''}."
    if state.shared:
        return f"{inside}; a tensor is copied within it at {gigabytes(roads.ordinary)}."
    way = f"{gigabytes(roads.ordinary)} from ordinary memory"
    if roads.pinning_helps:
        way = f"{gigabytes(roads.pinned)} from pinned and at {way}"
    return f"{inside}; from the CPU, tensors come at {way}."


def explorer() -> Explorer:
    """Return the explorer for the devices of this machine."""
    devices = tuple(str(device) for device in bench())
    simulated = devices[-1].startswith("sim")
    controls: list[Control] = []
    if len(devices) > 1:
        controls.append(Choice("looked_at", "device", list(devices)))
    if simulated:
        controls.append(Choice("rules", "rules", [("like CUDA", "cuda"), ("like Apple's MPS", "mps")]))
    first = devices[min(1, len(devices) - 1)]
    return Explorer(
        "What is here, and how wide are the roads?",
        State(devices, first, "cuda" if simulated else None),
        draw,
        describe,
        controls,
    )
