"""What becomes of a device's memory as tensors come and go: a story of allocations, told from the start.

For the simulated device the story is told to an allocator made for the picture, so that the device's memory
and figures stay as they are. On a real device the story is told to the device's own allocator, with tensors
that are gone at the end, and only what the story adds to the figures counts. There the story empties the
cache, and may raise the peak.
"""

import functools
from dataclasses import dataclass, replace

import torch

from devlab import palette
from devlab.explore.controls import Action, Choice
from devlab.explore.explorer import Explorer
from devlab.explore.paper import first_accelerator, sheet, source
from devlab.sim.allocator import Allocator, segment_size
from devlab.watching.memory import size as text_of

NAMES = "ABCDEFGHIJKLMNOP"
CAPACITY = 64 << 20  # the simulated device's: small, so that it is soon full
STRANGER = "?"  # the name of what others have in a segment


@dataclass(frozen=True)
class Allocate:
    """A tensor of `size` bytes is made, and gets the first name that no living tensor has."""

    size: int


@dataclass(frozen=True)
class Free:
    """The last references to the tensors of these names are dropped, one after the other."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Empty:
    """`empty_cache` is called."""


Deed = Allocate | Free | Empty


@dataclass(frozen=True)
class Piece:
    """A block of a segment: its bytes, and the name of the tensor in it, "" where nothing lives."""

    size: int
    name: str


@dataclass(frozen=True)
class Memory:
    """What a device's memory is at the end of a story; all sizes are in bytes.

    `reserved_before` is what was reserved before the last deed. `retried` says whether that deed had the
    cache emptied to make room, `refused` whether it found none.
    """

    segments: tuple[tuple[Piece, ...], ...]
    living: tuple[tuple[str, int], ...]  # names and sizes, the oldest first
    allocated: int
    reserved: int
    reserved_before: int
    peak: int  # the most that was allocated at once
    capacity: int
    retried: bool
    refused: bool

    @property
    def free(self) -> tuple[int, ...]:
        """Return the bytes of each free piece of a segment."""
        return tuple(piece.size for segment in self.segments for piece in segment if not piece.name)


class Modelled:
    """An allocator of the simulator's, alone in the world."""

    capacity = CAPACITY

    def __init__(self):
        self.allocator = Allocator(0, CAPACITY)

    def make(self, size: int) -> tuple[object, int]:
        """Return what holds `size` bytes, and their address."""
        block = self.allocator.allocate(size)
        return block, block.address

    def drop(self, held: list) -> None:
        """Free the one thing in a list that `make` returned."""
        self.allocator.free(held.pop())

    def empty(self) -> None:
        """Empty the cache."""
        self.allocator.empty_cache()

    def figures(self) -> tuple[int, int, int]:
        """Return the bytes that are allocated and reserved, and how often the cache made room."""
        return self.allocator.allocated, self.allocator.reserved, self.allocator.retries

    def segments(self) -> list[list[tuple[int, int, bool]]]:
        """Return each segment's blocks: address, bytes, and whether something lives there."""
        return [
            [(one.address, one.size, one.used) for one in blocks] for _, blocks in self.allocator.blocks()
        ]


class Real:
    """A device's own allocator, by the functions that PyTorch's caching allocators have in common."""

    def __init__(self, device: str):
        self.device = device
        self.module = torch.get_device_module(torch.device(device))
        self.empty()  # else the story would begin in holes that others left
        self.capacity = self.module.mem_get_info(device)[1]
        self.before = self._now()
        self.others = self._used()

    def make(self, size: int) -> tuple[object, int]:
        """Return a tensor of `size` bytes, and their address."""
        used = self._used()
        tensor = torch.empty(size, dtype=torch.uint8, device=self.device)
        return tensor, (self._used() - used).pop()

    def drop(self, held: list) -> None:
        """Drop the tensor in a list: nothing else refers to it."""
        held.clear()

    def empty(self) -> None:
        """Empty the cache."""
        self.module.empty_cache()

    def figures(self) -> tuple[int, ...]:
        """Return the bytes allocated and reserved, and how often the cache made room, since the beginning."""
        return tuple(now - before for now, before in zip(self._now(), self.before, strict=True))

    def segments(self) -> list[list[tuple[int, int, bool]]]:
        """Return the blocks of each segment, but of those in which only others have something."""
        return [
            blocks
            for blocks in self._all()
            if any(used and address not in self.others for address, _, used in blocks)
            or not any(used for _, _, used in blocks)
        ]

    def _all(self) -> list[list[tuple[int, int, bool]]]:
        index = torch.device(self.device).index or 0
        return [
            [(one["address"], one["size"], one["state"] != "inactive") for one in segment["blocks"]]
            for segment in self.module.memory_snapshot()
            if segment["device"] == index
        ]

    def _now(self) -> tuple[int, int, int]:
        figures = self.module.memory_stats(self.device)
        keys = ("allocated_bytes.all.current", "reserved_bytes.all.current", "num_alloc_retries")
        return tuple(figures[key] for key in keys)

    def _used(self) -> set[int]:
        return {address for blocks in self._all() for address, _, used in blocks if used}


@functools.lru_cache(maxsize=256)
def replay(deeds: tuple[Deed, ...], device: str) -> Memory:
    """Tell a story from the start and return what the memory is at its end.

    `device` names a real device, or a simulated one, for which it is modelled.

    >>> memory = replay((Allocate(6 << 20), Allocate(6 << 20), Free(("A",))), "sim:0")
    >>> memory.allocated >> 20, memory.reserved >> 20, memory.peak >> 20, memory.living
    (6, 20, 12, (('B', 6291456),))
    """
    return tell(deeds, Modelled() if device.startswith("sim") else Real(device))


def tell(deeds: tuple[Deed, ...], allocator: Modelled | Real) -> Memory:
    """Tell a story to an allocator, return what came of it, and leave nothing there."""
    held: dict[str, list] = {}
    sizes: dict[str, int] = {}
    places: dict[int, str] = {}
    peak, refused = 0, False
    before = allocator.figures()
    for deed in deeds:
        before, refused = allocator.figures(), False
        if isinstance(deed, Allocate):
            name = next(name for name in NAMES if name not in held)
            try:
                thing, address = allocator.make(deed.size)
            except torch.OutOfMemoryError:
                refused = True
                continue
            held[name], sizes[name], places[address] = [thing], deed.size, name
            del thing
        elif isinstance(deed, Free):
            for name in deed.names:
                allocator.drop(held.pop(name))
                del sizes[name]
            places = {address: name for address, name in places.items() if name in held}
        else:
            allocator.empty()
        peak = max(peak, allocator.figures()[0])
    allocated, reserved, retries = allocator.figures()
    segments = tuple(
        tuple(Piece(size, places.get(address, STRANGER) if used else "") for address, size, used in blocks)
        for blocks in allocator.segments()
    )
    while held:
        allocator.drop(held.popitem()[1])
    allocator.empty()
    return Memory(
        segments,
        living=tuple(sizes.items()),
        allocated=allocated,
        reserved=reserved,
        reserved_before=before[1],
        peak=peak,
        capacity=allocator.capacity,
        retried=retries > before[2],
        refused=refused,
    )


MIB = 1 << 20
SIZES = {text_of(one): one for one in (MIB // 2, MIB, 3 * MIB, 6 * MIB, 12 * MIB, 20 * MIB)}
OLDEST, NEWEST, EVERY_SECOND = "the oldest", "the newest", "every second one"
LINE = 22.4  # MiB side by side: a segment of 20, or ten of 2 with a gap after each
GAP = 0.25
ROOMY = 1.9  # MiB that a block needs for its size to be written in it
LINES = 4  # that most stories on the simulated device need
# Nine tensors of 6 MiB, of which every second has gone: much is free, and nothing in one piece.
HOLES = (*(Allocate(6 * MIB) for _ in range(9)), Free(tuple("ACEGI")))


@dataclass(frozen=True)
class State:
    """What was done so far, and what the buttons would do next."""

    device: str
    deeds: tuple[Deed, ...] = HOLES
    size: int = 12 * MIB
    which: str = OLDEST

    @property
    def memory(self) -> Memory:
        """Return the memory after all that was done."""
        return replay(self.deeds, self.device)

    @property
    def chosen(self) -> tuple[str, ...]:
        """Return the names of the tensors that the choice means, if they live."""
        names = [name for name, _ in self.memory.living]
        if self.which == EVERY_SECOND:
            return tuple(names[::2])
        wanted = {OLDEST: names[:1], NEWEST: names[-1:]}.get(self.which, [self.which])
        return tuple(name for name in wanted if name in names)


def draw(state: State):
    """Return the figure: three bars for the sums, and below them each segment with its blocks, to scale."""
    memory = state.memory
    lines = _lines(memory)
    # In inches: the sums, the segments with the next request, and the room above, between and below.
    above, below, top, gap, bottom = 0.95, 0.43 * (len(lines) + 1), 0.28, 0.66, 0.48
    height = top + above + gap + below + bottom
    margins = {"left": 0.18, "right": 0.985, "top": 1 - top / height, "bottom": bottom / height}
    margins["hspace"] = gap / ((above + below) / 2)
    figure, (sums, blocks) = sheet(height, rows=2, margins=margins, height_ratios=(above, below))
    colour = palette.of(state.device)
    _draw_sums(sums, memory, colour, state.device)
    _draw_segments(blocks, state, lines, colour)
    return figure


def _draw_sums(axes, memory: Memory, colour: str, device: str) -> None:
    """Draw what lives, what is taken, and the most that lived."""
    full, hollow = {"facecolor": colour, "alpha": 0.5}, {"facecolor": "none", "edgecolor": colour}
    rows = (
        ("allocated", memory.allocated, full),
        ("reserved", memory.reserved, {**hollow, "linewidth": 1.5}),
        ("peak", memory.peak, {**hollow, "linestyle": ":", "linewidth": 1.5}),
    )
    for row, (_, amount, look) in enumerate(rows):
        axes.broken_barh([(0, amount / MIB)], (row - 0.33, 0.66), **look)
    axes.set_yticks(range(len(rows)), [f"{name}  {text_of(amount)}" for name, amount, _ in rows])
    axes.set_ylim(2.6, -0.6)
    axes.tick_params("y", length=0)
    most = max(memory.reserved, memory.peak, MIB) / MIB
    if device.startswith("sim"):
        most = memory.capacity / MIB
        axes.axvline(most, color="black", linewidth=1.5)
        axes.set_title(f"the device has {text_of(memory.capacity)}", loc="right", fontsize=9)
    axes.set_xlim(0, most * 1.005)
    axes.set_xlabel("MiB")


def _lines(memory: Memory) -> list[list[tuple[float, tuple]]]:
    """Return the segments in lines, each with where it begins, in MiB: each in the first line with room."""
    lines: list[list] = [[] for _ in range(LINES)]
    ends = [0.0] * LINES
    for segment in memory.segments:
        width = sum(piece.size for piece in segment) / MIB
        at = next((line for line, end in enumerate(ends) if end + width <= LINE or not end), len(lines))
        if at == len(lines):
            lines.append([])
            ends.append(0.0)
        lines[at].append((ends[at], segment))
        ends[at] += width + GAP
    return lines


def _draw_segments(axes, state: State, lines: list, colour: str) -> None:
    """Draw each segment as a box, the tensors in it filled, and above them the next request."""
    chosen = state.chosen
    for row, line in enumerate(lines, start=1):
        for start, segment in line:
            at = start
            for piece in segment:
                width = piece.size / MIB
                _draw_piece(axes, at, row, width, piece, colour, piece.name in chosen)
                at += width
            axes.broken_barh(
                [(start, at - start)], (row - 0.4, 0.8), facecolor="none", edgecolor="black", linewidth=1.3
            )
    _draw_next(axes, state)
    axes.tick_params("y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(len(lines) + 0.6, -0.6)
    axes.set_xlim(0, LINE)
    axes.set_xticks(range(0, 21, 5))
    axes.set_xlabel("segments to scale (MiB)")


def _draw_piece(axes, start: float, row: int, width: float, piece: Piece, colour: str, chosen: bool) -> None:
    """Draw a block: filled where something lives, with a thick edge where that is to be freed next."""
    name = {STRANGER: "others", "": "free"}.get(piece.name, piece.name)
    if piece.name:
        colour = palette.WAIT if piece.name == STRANGER else colour
        place = [(start, width)], (row - 0.36, 0.72)
        axes.broken_barh(*place, facecolor=colour, alpha=0.45)
        axes.broken_barh(*place, facecolor="none", edgecolor=colour, linewidth=3 if chosen else 0.8)
    words = f"{name}\n{text_of(piece.size)}" if width >= ROOMY else piece.name
    axes.text(start + width / 2, row, words, ha="center", va="center", fontsize=8, linespacing=1.05)


def _draw_next(axes, state: State) -> None:
    """Draw what is to be allocated next, or what found no room, to the scale of the segments."""
    width = state.size / MIB
    axes.broken_barh(
        [(0, width)],
        (-0.3, 0.6),
        facecolor="none",
        edgecolor=palette.WAIT,
        linestyle="--",
        linewidth=1.5,
    )
    refused = state.memory.refused and state.deeds[-1] == Allocate(state.size)
    words = f"{text_of(state.size)}: out of memory" if refused else text_of(state.size)
    inside = width >= 6 or (width >= ROOMY and not refused)
    axes.text(0.3 if inside else width + 0.3, 0, words, va="center", fontsize=9)
    axes.set_yticks([0, 1], ["no room for" if refused else "next", "segments"])


def describe(state: State) -> str:
    """Say what lives, what is reserved, how the free memory is cut up, and what the last deed did."""
    memory = state.memory
    simulated = state.device.startswith("sim")
    device = f", a device of {text_of(memory.capacity)}" if simulated else ""
    free = f"of which free: {text_of(sum(memory.free))}"
    if len(memory.free) > 1:
        free += f" in {len(memory.free)} pieces, the longest {text_of(max(memory.free))}"
    untaken = f"; never taken: {text_of(memory.capacity - memory.reserved)}" if simulated else ""
    chosen = ", ".join(state.chosen) or "nothing"
    return (
        f"{source(state.device)}{device}: living tensors: {len(memory.living)}, with "
        f"{text_of(memory.allocated)} allocated (peak {text_of(memory.peak)}); segments: "
        f"{len(memory.segments)}, with {text_of(memory.reserved)} reserved, {free}{untaken}. "
        f"{_outcome(state)}To allocate next: {text_of(state.size)}; to free next, {state.which}: {chosen}."
    )


def _outcome(state: State) -> str:
    """Return in words what the last deed did."""
    memory, last = state.memory, state.deeds[-1] if state.deeds else None
    grown = memory.reserved - memory.reserved_before
    if isinstance(last, Free):
        return f"Last: {', '.join(last.names)} freed; the memory stays reserved. "
    if isinstance(last, Empty):
        given = (
            f"{text_of(-grown)} given back" if grown else "no segment is free as a whole, nothing given back"
        )
        return f"Last: the cache emptied, {given}. "
    if not isinstance(last, Allocate):
        return ""
    wanted = text_of(last.size)
    if memory.refused:
        return (
            f"Last: out of memory: {wanted} need one free piece, or a new segment of "
            f"{text_of(segment_size(last.size))}, and there is neither. "
        )
    if memory.retried:
        return f"Last: {wanted} found no room, so PyTorch emptied its cache and took a new segment. "
    if grown:
        return (
            f"Last: no free piece was long enough for {wanted}; a new segment of {text_of(grown)} was taken. "
        )
    return f"Last: {wanted} went into a free piece; nothing was taken from the device. "


def explorer() -> Explorer:
    """Return the explorer on the first accelerator of this machine that tells of its segments."""
    device = first_accelerator()
    if not device.startswith(("cuda", "xpu")):
        device = "sim:0"  # modelled: neither the CPU nor mps keeps such books
    return Explorer(
        "Device memory: what lives, what stays taken, what still fits",
        State(device),
        draw,
        describe,
        [
            Choice("size", "size", list(SIZES.items())),
            Action("Allocate", _allocate, lambda state: len(state.memory.living) < len(NAMES)),
            Choice("which", "tensor", [OLDEST, NEWEST, EVERY_SECOND, *NAMES]),
            Action("Free", lambda state: _did(state, Free(state.chosen)), lambda state: bool(state.chosen)),
            Action("Empty the cache", lambda state: _did(state, Empty())),
            Action(
                "Undo", lambda state: replace(state, deeds=state.deeds[:-1]), lambda state: bool(state.deeds)
            ),
            Action("Start empty", lambda state: replace(state, deeds=()), lambda state: bool(state.deeds)),
        ],
    )


def _allocate(state: State) -> State:
    return _did(state, Allocate(state.size))


def _did(state: State, deed: Deed) -> State:
    return replace(state, deeds=(*state.deeds, deed))
