"""The devices: what is here, how wide the connections between memories are, what each device can do."""

import contextlib
import functools
from dataclasses import dataclass, replace

import torch

from devlab import palette, sim
from devlab.devices import bench, has_float64, name_of
from devlab.explore.axes import guide
from devlab.explore.controls import Action, Choice, Control
from devlab.explore.explorer import Explorer
from devlab.explore.origin import source
from devlab.explore.scene import INK, SMALL, USUAL, Box, Path, Scene, Shape, Words
from devlab.explore.stopwatch import can_pin, rate
from devlab.sim.specs import CUDA_LIKE, HOST, MPS_LIKE
from devlab.watching.memory import size
from devlab.watching.timeline import round_up

SHARED = "shared with the CPU"


def follow_rules(rules: str | None) -> contextlib.AbstractContextManager:
    """Return a block in which the simulated accelerator follows a rule set, or none in particular."""
    return sim.rules(rules) if rules else contextlib.nullcontext()


@dataclass(frozen=True)
class Connections:
    """Bytes per second: in a device's memory, to it from the host, and to a second device; 0 is none."""

    own: float
    pageable: float = 0.0
    pinned: float = 0.0
    peer: float = 0.0

    @property
    def pinning_helps(self) -> bool:
        """Tell whether copies from pinned memory are clearly faster."""
        return self.pinned > 1.2 * self.pageable


@functools.lru_cache(maxsize=32)
def connections_of(device: str, other: str | None, rules: str | None) -> Connections:
    """Measure the connections of a device, by its model where it is simulated.

    Raises torch.OutOfMemoryError where the device is too full to try.
    """
    with follow_rules(rules):
        inside = 2 * rate(device, device)  # a copy reads each byte and writes it
        if device == "cpu":
            return Connections(inside)
        return Connections(
            inside,
            pageable=rate("cpu", device),
            pinned=rate("cpu", device, pinned=True) if can_pin(device) else 0.0,
            peer=rate(device, other) if other else 0.0,
        )


@functools.lru_cache(maxsize=32)
def facts(device: str, rules: str | None) -> dict[str, str]:
    """Return what is known of a device, in the order in which it is shown.

    >>> facts("cpu", None)["float64"]
    'yes'
    """
    with follow_rules(rules):
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


HIGH, LOW = 258, 174  # where the picture and the boxes of the devices end
HOST_BOX, DEVICE_LEFT, DEVICE_WIDE = (0, 0, 250, LOW), 460, 300
WIDEST = 48.0  # how wide the widest connection is drawn; the others are as much narrower as they are slower
GIGABYTE = 1e9
SECONDS = 5.0  # for which the slowest of the gigabytes is on its way
FLOW = 120.0  # how far along a connection a gigabyte's bytes go, in dots
ALONE = "because Apple's chips have one GPU"
SEND = "Send a gigabyte"


@dataclass(frozen=True)
class State:
    """The devices that are here, the one looked at, and the rules that simulated ones follow."""

    devices: tuple[str, ...]
    looked_at: str
    rules: str | None = None
    sent: int = 0  # how many times a gigabyte was sent

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


def survey(state: State) -> dict[str, Connections | None]:
    """Return the connections of what is drawn, the CPU first; None where a device is too full to try."""
    host = Connections(HOST.bandwidth) if state.simulated else connections_of("cpu", None, None)
    found: dict[str, Connections | None] = {"cpu": host}
    first, second = (*state.accelerators, None, None)[:2]
    for place in state.accelerators:
        try:
            found[place] = connections_of(place, second if place == first else None, state.rules)
        except torch.OutOfMemoryError:
            found[place] = None
    return found


def gigabytes(rate: float) -> str:
    """Return a bandwidth to two digits.

    >>> gigabytes(51.2e9), gigabytes(300e9)
    ('51 GB/s', '300 GB/s')
    """
    return f"{float(f'{rate / 1e9:.2g}'):g} GB/s"


def draw(state: State) -> Scene:
    """Return the scene: a box for each device, connections as wide as their bandwidth, the facts of one."""
    found = survey(state)
    pen = Pen(state, widest(state, found))
    (_draw_one_memory if state.shared else _draw_memories)(pen, state, found)
    _write_facts(pen, state, found.get(state.looked_at))
    pen.send()
    seconds = SECONDS if state.sent and pen.connections else 0.0
    return Scene(HIGH, pen.shapes, caption(state, found), seconds, state.sent)


def widest(state: State, found: dict[str, Connections | None]) -> float:
    """Return the bandwidth that the widest connection stands for: the same whatever is chosen here.

    Simulated devices are drawn to the scale of the fastest chip. Measured bandwidths of equal devices differ
    a little, and a round bandwidth is the same for all.
    """
    if state.simulated:
        return max(CUDA_LIKE.bandwidth, MPS_LIKE.bandwidth)
    rates = [rate for one in found.values() if one for rate in (one.own, one.pageable, one.pinned, one.peer)]
    return round_up(max(rates, default=1.0))


def _draw_memories(pen: "Pen", state: State, found: dict[str, Connections | None]) -> None:
    """Draw a memory for each device, and the connections between them."""
    pen.device("cpu", *HOST_BOX)
    pen.part("cpu", "memory", (150, 36, 84, 130), "system", "memory")
    pen.part("cpu", "processor", (14, 70, 66, 62), "CPU")
    pen.connection("cpu", "own", (150, 101), (80, 101), found["cpu"])
    tops = [0, 90] if len(state.accelerators) == 2 else [45]
    for place, top in zip(state.accelerators, tops, strict=False):
        middle = top + 54
        pen.device(place, DEVICE_LEFT, top, DEVICE_WIDE, 84)
        memory = facts(place, state.rules)["memory"]
        pen.part(place, "memory", (DEVICE_LEFT + 14, middle - 25, 92, 50), memory)
        pen.part(place, "processor", (DEVICE_LEFT + 204, middle - 25, 82, 50), "processor")
        pen.connection(place, "own", (DEVICE_LEFT + 106, middle), (DEVICE_LEFT + 204, middle), found[place])
        ends = (234, middle), (DEVICE_LEFT + 14, middle)
        if found[place] is None:
            pen.words(f"full {place}", 347, middle, "too full to try")
        elif found[place].pinning_helps:
            pen.connection(place, "pinned", *_beside(ends, -8), found[place])
            pen.connection(place, "pageable", *_beside(ends, 8), found[place], below=True)
        else:
            pen.connection(place, "pageable", *ends, found[place])
    if len(state.accelerators) == 2:
        x = DEVICE_LEFT + 28
        pen.connection(state.accelerators[0], "peer", (x, 79), (x, 119), found[state.accelerators[0]])
    if not state.accelerators:
        pen.words("none", 610, 100, "no accelerator here")


def _beside(ends, by: float):
    return tuple((x, y + by) for x, y in ends)


def _draw_one_memory(pen: "Pen", state: State, found: dict[str, Connections | None]) -> None:
    """Draw the memory that the processors of host and device share."""
    (place,) = state.accelerators
    pen.device("cpu", 0, 0, 225, LOW)
    pen.part("cpu", "processor", (14, 70, 66, 62), "CPU")
    pen.device(place, 535, 0, 225, LOW)
    pen.part(place, "processor", (660, 70, 82, 62), "processor")
    pen.box("one memory", 280, 36, 200, 130, edge=INK, thick=1.5)
    pen.words("one memory 1", 380, 92, "one memory")
    pen.words("one memory 2", 380, 110, "for both")
    pen.connection("cpu", "own", (280, 101), (80, 101), found["cpu"])
    pen.connection(place, "own", (480, 101), (660, 101), found[place])
    if found[place]:
        copied = f"a copy in it: {gigabytes(found[place].pageable)}"
        pen.words("copy in it", 380, 150, copied, quiet=True)


NAMES = {
    "own": "{place} and its memory",
    "pinned": "pinned memory of the CPU to {place}",
    "pageable": "the CPU's pageable memory to {place}",
    "peer": "{place} to the other accelerator",
}


class Pen:
    """Draws devices, and connections to one scale; a shape has the same id in every state."""

    def __init__(self, state: State, widest: float):
        self.state = state
        self.widest = widest
        self.shapes: list[Shape] = []
        # (id, from, to, seconds for a gigabyte, where to write those)
        self.connections: list[tuple] = []

    def words(self, name: str, x: float, y: float, words: str, **look) -> None:
        """Write words, centred."""
        look = {"anchor": "middle", "size": SMALL} | look
        self.shapes.append(Words(id=name, x=x, y=y, words=words, **look))

    def box(self, name: str, x: float, y: float, wide: float, high: float, **look) -> None:
        """Draw a box."""
        self.shapes.append(Box(id=name, x=x, y=y, wide=wide, high=high, **look))

    def device(self, place: str, x: float, y: float, wide: float, high: float) -> None:
        """Draw the box of a device with its name; thick where it is the one looked at."""
        own = place == self.state.looked_at
        choose = None if own else {"set": {"looked_at": place}}
        self.box(
            place, x, y, wide, high,
            edge=palette.of(place), thick=3.5 if own else 1, round=6, asks=choose,
            says=place if own else f"look at {place}",
        )  # fmt: skip
        how = f"{place}, {self.state.how(place)}"
        self.words(f"{place} name", x + wide - 10, y + 16, how, anchor="end", bold=True, size=USUAL)

    def part(self, place: str, name: str, extent: tuple[float, float, float, float], *lines: str) -> None:
        """Draw a device's memory or processor with its words."""
        x, y, wide, high = extent
        self.box(f"{place} {name}", *extent, edge=palette.of(place), thick=1.5)
        for number, line in enumerate(lines):
            above = (number - (len(lines) - 1) / 2) * 16
            self.words(f"{place} {name} {number}", x + wide / 2, y + high / 2 + above, line)

    def connection(
        self, place: str, kind: str, start, end, connections: Connections | None, below: bool = False
    ) -> None:
        """Draw a connection between two points as wide as its bandwidth, which stands above or below it."""
        rate = getattr(connections, kind) if connections else 0.0
        if not rate:
            return
        width = WIDEST * rate / self.widest
        colour = palette.of(place) if kind == "own" else palette.COPY
        (x, y), (to_x, to_y) = start, end
        level = y == to_y
        left, top = (min(x, to_x), y - width / 2) if level else (x - width / 2, min(y, to_y))
        long = abs(to_x - x) + abs(to_y - y)
        takes = GIGABYTE / rate
        name = f"{place} {kind}"
        says = f"{NAMES[kind].format(place=place)}: {gigabytes(rate)}; a gigabyte takes {duration(takes)}"
        size = (long, width) if level else (width, long)
        if width < 0.5:  # thinner than a screen can show: a faint line tells where the connection is
            self.shapes.append(guide(f"way of {name}", start, end))
        self.box(name, left, top, *size, fill=colour, edge="", round=0, says=says)
        written = f"{kind} {gigabytes(rate)}" if kind in ("pinned", "pageable") else gigabytes(rate)
        if level:
            away = width / 2 + 9 if width < 30 else 0  # on the connection, where there is room
            middle = (x + to_x) / 2 - (25 if kind in ("pinned", "pageable") else 0)
            look = {} if away else {"colour": palette.LETTERS}
            self.words(f"{name} rate", middle, y + (away if below else -away or -9), written, **look)
            arrived = (
                (to_x - 50, y + (away if below else -away)) if kind != "own" else (middle, y + (away or 9))
            )
        else:
            below_edges = to_y - 19  # those of the two devices, which the connection passes
            self.words(f"{name} rate", x + 10, below_edges, written, anchor="start")
            arrived = (x + 95, below_edges)
        self.connections.append((name, start, end, takes, arrived))

    def send(self) -> None:
        """Let a gigabyte set out on each connection of the device looked at, all at the same moment."""
        place = self.state.looked_at
        if not self.state.sent:
            return
        self.connections = [
            connection for connection in self.connections if connection[0].startswith(f"{place} ")
        ]
        slowest = max((takes for _, _, _, takes, _ in self.connections), default=0.0)
        for name, start, end, takes, arrived in self.connections:
            share = takes / slowest
            self.shapes.append(
                Path(
                    id=f"bytes of {name}", points=(start, end), edge=INK, thick=4, flows=FLOW,
                    during=(0.0, share), goes=share,
                )
            )  # fmt: skip
            on = palette.LETTERS if arrived[1] - start[1] == 9 else INK
            self.words(f"took {name}", *arrived, duration(takes), bold=True, during=(share, share), colour=on)


def duration(seconds: float) -> str:
    """Return a time to two digits.

    >>> duration(0.25), duration(1 / 300)
    ('250 ms', '3.3 ms')
    """
    return f"{float(f'{seconds * 1e3:.2g}'):g} ms"


def _write_facts(pen: Pen, state: State, connections: Connections | None) -> None:
    """Write what the device looked at is and can do, in two columns."""
    look = {"anchor": "start", "size": USUAL}
    if state.gone:
        pen.words("facts of", 4, LOW + 18, f"{state.looked_at}: not there, {ALONE}", bold=True, **look)
        return
    shown = list_facts(state, connections)
    pen.words("facts of", 4, LOW + 18, f"{state.looked_at}: {shown.pop('name')}", bold=True, **look)
    for number, (label, value) in enumerate(shown.items()):
        x, y = (4, 390)[number % 2], LOW + 38 + 18 * (number // 2)
        pen.words(f"fact {label}", x, y, label, quiet=True, **look)
        pen.words(f"value {label}", x + 128, y, value, **look)


def caption(state: State, found: dict[str, Connections | None]) -> str:
    """Say in a sentence what the picture is about."""
    connections = found.get(state.looked_at)
    if state.gone:
        return f"{state.looked_at} is not there, {ALONE}."
    how = "Simulated" if state.simulated else "Measured"
    if connections is None:
        return f"{state.looked_at} is too full to try its connections."
    inside = f"{state.looked_at} reads a gigabyte from memory in {duration(GIGABYTE / connections.own)}"
    if state.looked_at == "cpu":
        return f"{how}: {inside}."
    if state.shared:
        return (
            f"{how}: {inside}, from the one memory that it has with the CPU; "
            f"even so, a tensor that goes from cpu to {state.looked_at} is copied."
        )
    takes = GIGABYTE / (connections.pinned if connections.pinning_helps else connections.pageable)
    transfer = f"the transfer of a gigabyte to {state.looked_at} takes {duration(takes)} at best"
    return f"{how}: {transfer}, and {inside}."


def list_facts(state: State, connections: Connections | None) -> dict[str, str]:
    """Return the facts of the device looked at, with what pinned memory is worth to it."""
    known = dict(facts(state.looked_at, state.rules))
    if state.looked_at != "cpu":
        worth = "no use: no faster"
        if connections is None:
            worth = "not tried: the device is full"
        elif connections.pinning_helps:
            worth = f"{float(f'{connections.pinned / connections.pageable:.2g}'):g} times as fast"
        known["pinned memory"] = worth
    return known


def describe(state: State) -> str:
    """Say what is here, how wide the connections of the device looked at are, and what it can do."""
    found = survey(state)
    here = ", ".join(state.here) if len(state.here) > 1 else "the CPU alone"
    said = f"{source(state.devices[-1])}: there is {here}."
    if state.gone:
        return f"{said} {state.looked_at} is not there, {ALONE}."
    connections = found.get(state.looked_at)
    about = "; ".join(
        f"{label}: {value}" for label, value in list_facts(state, connections).items() if label != "name"
    )
    said += f" {_connections(state, connections)}"
    if state.sent and connections:
        ways = {
            "in its own memory": connections.own,
            "from pinned memory": connections.pinned,
            "from pageable memory": connections.pageable,
        }
        times = ", ".join(f"{duration(GIGABYTE / rate)} {way}" for way, rate in ways.items() if rate)
        said += f" Gigabytes sent: {state.sent}; each took {times}."
    return f"{said} {state.looked_at} is called {facts(state.looked_at, state.rules)['name']!r}; {about}."


def _connections(state: State, connections: Connections | None) -> str:
    if connections is None:
        return f"{state.looked_at} is too full to try its connections."
    memory = "the one memory that there is" if state.shared else "its own memory"
    inside = f"{state.looked_at} reads and writes {memory} at {gigabytes(connections.own)}"
    if state.looked_at == "cpu":
        return f"{inside}{', by a model' if state.simulated else ''}."
    if state.shared:
        return f"{inside}; a tensor is copied within it at {gigabytes(connections.pageable)}."
    way = f"{gigabytes(connections.pageable)} from pageable memory"
    if connections.pinning_helps:
        way = f"{gigabytes(connections.pinned)} from pinned and at {way}"
    return f"{inside}; from the CPU, tensors come at {way}."


def _send(state: State) -> State:
    return replace(state, sent=state.sent + 1)


def explorer() -> Explorer:
    """Return the explorer for the devices of this machine."""
    devices = tuple(str(device) for device in bench())
    simulated = devices[-1].startswith("sim")
    controls: list[Control] = []
    if len(devices) > 1:
        controls.append(Choice("looked_at", "device", list(devices)))
    if simulated:
        controls.append(Choice("rules", "rules", [("like CUDA", "cuda"), ("like Apple's MPS", "mps")]))
    controls.append(Action(SEND, _send, lambda state: not state.gone))
    first = devices[min(1, len(devices) - 1)]
    return Explorer(
        "What is here, and how wide are the connections?",
        State(devices, first, "cuda" if simulated else None),
        draw,
        describe,
        controls,
    )
