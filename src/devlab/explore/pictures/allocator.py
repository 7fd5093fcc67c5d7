"""What becomes of a device's memory as tensors come and go: a story of allocations, told from the start."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from devlab import palette
from devlab.explore.axes import dot, guide
from devlab.explore.controls import Action, Choice, Number
from devlab.explore.deeds import (
    CAPACITY,
    LINE,
    LINES,
    MIB,
    NAMES,
    Allocate,
    Deed,
    Empty,
    Free,
    Memory,
    Piece,
    Segment,
    next_name,
    replay,
    statements,
)
from devlab.explore.explorer import Explorer
from devlab.explore.origin import source
from devlab.explore.scene import INK, SMALL, WIDE, Box, Path, Scene, Shape, Stop, Words
from devlab.sim.allocator import SMALL_REQUEST, SMALL_SEGMENT, readable, segment_size
from devlab.watching.memory import size as text_of

SIZES = {text_of(one): one for one in (MIB // 2, MIB, 3 * MIB, 6 * MIB, 12 * MIB, 20 * MIB)}
# Nine tensors of 6 MiB, of which every second has gone: much is free, and nothing in one piece.
HOLES = (*(Allocate(6 * MIB) for _ in range(9)), Free(tuple("ACEGI")))

HIGH = 328
LEFT, RIGHT, PEAK, LOW, STEPS = 92, WIDE - 76, 286, 318, 24  # of the story in time, its latest steps
ALL = 10_000  # steps: as many as there are
SCALE = 24 / MIB  # pixels for a byte, the one scale of every box
WAITING, UNTAKEN = 18, 242  # the tops of the next tensor and of what is not taken
TOP, BOTTOM = 66, 228  # of the segments
BOX = 32  # how high a box is
DEVICE = "sim:0"  # whose name and colour the picture has
BESIDE = 604  # where the figures begin
POOLS = f"tensors of up to {text_of(SMALL_REQUEST)} have segments of their own, of {text_of(SMALL_SEGMENT)}"


@dataclass(frozen=True)
class State:
    """What was done, how many of the deeds the picture tells, and how large the next tensor is."""

    deeds: tuple[Deed, ...] = HOLES
    size: int = 12 * MIB
    told: int = ALL

    @property
    def past(self) -> tuple[Deed, ...]:
        """Return the deeds up to the moment that is looked at."""
        return self.deeds[: self.told]

    @property
    def memory(self) -> Memory:
        """Return the memory after all that was done."""
        return replay(self.past)

    @property
    def before(self) -> Memory:
        """Return the memory before the last deed."""
        return replay(self.past[:-1])

    @property
    def after(self) -> Memory:
        """Return the memory with the next tensor: what fits where is for the allocator to say."""
        return replay((*self.past, Allocate(self.size)))

    @property
    def name(self) -> str:
        """Return the name that the next tensor gets; "" where all names are taken."""
        return next_name(self.memory.given, dict(self.memory.living))

    @property
    def wanted(self) -> str:
        """Return the name and the size of the next tensor."""
        return f"{self.name}, {text_of(self.size)}"


def draw(state: State) -> Scene:
    """Return the scene: the next tensor, the segments with what is in them, and the figures beside."""
    # The next tensor comes last, so that it is dragged over all others. The others come in the order of their
    # birth: a shape that changes its place among the others jumps instead of moving.
    shapes = [*_segments(state), *_untaken(state), *_figures(state), *_story(state), *_label(state)]
    return Scene(HIGH, [*shapes, *_time(state), *_tensors(state), *_next(state)], _outcome(state))


class Part(NamedTuple):
    """A piece of a segment, where in the segment it begins in bytes, and where it is drawn."""

    segment: Segment
    at: int
    piece: Piece
    x: float
    y: float
    wide: float

    def box(self, name: str, **look) -> Box:
        """Return the piece as a box."""
        return Box(id=name, x=self.x, y=self.y, wide=self.wide, high=BOX, round=0, **look)

    def words(self, name: str, *texts: str, **look) -> Iterator[Words]:
        """Yield the first text for which the box has room, the longest being given first."""
        for text in texts:
            if len(text) * 7.3 + 4 <= self.wide:
                x, y = self.x + self.wide / 2, self.y + BOX / 2
                yield Words(id=f"{name} words", x=x, y=y, words=text, size=SMALL, anchor="middle", **look)
                return


def _parts(memory: Memory) -> Iterator[Part]:
    """Yield the pieces of all segments."""
    pitch = (BOTTOM - TOP) / LINES
    for segment in memory.segments:
        y = TOP + (segment.line + 1) * pitch - BOX - 8
        for at, piece in segment.parts():
            yield Part(segment, at, piece, (segment.start + at) * SCALE, y, piece.size * SCALE)


def _segments(state: State) -> Iterator[Shape]:
    """Draw each segment with its size, and the free pieces in it."""
    for segment, parts in groupby(_parts(state.memory), key=lambda part: part.segment):
        name, size = f"segment {segment.number}", text_of(segment.size)
        parts = list(parts)
        first, wide = parts[0], sum(part.wide for part in parts)
        free = sum(piece.size for piece in segment.pieces if not piece.name)
        says = f"{name}: {size}, taken and given back as a whole; {text_of(free)} of it are free"
        text = f"{name}: {size}" if wide > 130 else size
        place = {"x": first.x, "y": first.y - 9, "size": SMALL, "quiet": True}
        yield Words(id=f"{name} size", words=text, says=says, **place)
        for part in parts:
            own, size = f"{name} at {part.at >> 9}", text_of(part.piece.size)
            if not part.piece.name:
                yield part.box(own, edge=palette.WAIT, says=_fits(state, part))
                yield from part.words(own, f"free {size}", size, quiet=True)
        yield first._replace(wide=wide).box(name, thick=1.8)
    if not state.memory.segments:
        words = "no segment is taken"
        yield Words(id="none", x=0, y=(TOP + BOTTOM) / 2, words=words, size=SMALL, quiet=True)


def _fits(state: State, part: Part) -> str:
    """Say whether the next tensor goes into a free piece, and why not."""
    free = part.piece.size
    said = f"{text_of(free)} free here, {text_of(state.size)} needed"
    if free < state.size or not state.name:
        return said
    place = state.after.place_of(state.name)
    taken = state.memory.gap(*place) if place else 0
    if not taken:
        return f"{said}, but {POOLS}"
    if taken < free:
        shortest = f"the shortest piece that is long enough, of {text_of(taken)}"
        return f"{said}: it fits, but goes into {shortest}"
    if place == (part.segment.number, part.at):
        return f"{said}: it fits, and goes here"
    return f"{said}: it fits, but goes into a piece as long whose address is lower"


def _untaken(state: State) -> Iterator[Shape]:
    """Draw what the device has left, as far as the line is long."""
    left = state.memory.untaken
    long = min(left, LINE)
    words = f"not taken from the device: {text_of(left)}" + ", too long for this line" * (left > long)
    yield Words(id="untaken size", x=0, y=UNTAKEN - 9, words=words, size=SMALL, quiet=True)
    place = {"x": 0, "y": UNTAKEN, "wide": long * SCALE, "high": BOX, "round": 0}
    yield Box(id="untaken", edge=palette.WAIT, says=_takes(state), **place)


def _takes(state: State) -> str:
    """Say whether the next tensor gets a new segment."""
    said = f"{text_of(state.memory.untaken)} not taken"
    if not state.name:
        return said
    after = state.after
    if not after.refusal and not after.retried and after.reserved == state.memory.reserved:
        return f"{said}; a free piece is long enough, so nothing is taken"
    said += f", {text_of(segment_size(state.size))} needed for a new segment"
    if after.retried and not after.refusal:
        return f"{said}: PyTorch empties its cache first, and then takes it"
    return said if after.refusal else f"{said}, which is taken"


def _tensors(state: State) -> Iterator[Shape]:
    """Draw what lives, the oldest first; a click frees a tensor."""
    parts = {part.piece.name: part for part in _parts(state.memory)}
    for name, size in state.memory.living:
        if name in parts:
            says = f"{name}: {text_of(size)} in segment {parts[name].segment.number}; click to free it"
            look = {"fill": palette.of(DEVICE), "asks": {"press": f"Free {name}"}}
            yield parts[name].box(name, says=says, **look)
            yield from parts[name].words(name, f"{name}  {text_of(size)}", name, colour=palette.LETTERS)


def _label(state: State) -> Iterator[Words]:
    """Write above the next tensor what it is, and that it found no room."""
    if not state.name:
        words = f"There is no letter for more than {len(NAMES)} tensors: click a tensor to free it."
        yield Words(id="next", x=0, y=8, words=words, bold=True)
        return
    refusal = state.memory.refusal if state.past and state.past[-1] == Allocate(state.size) else ""
    words = f"{state.wanted}: out of memory" if refusal else f"next: {state.wanted} in one piece"
    yield Words(id="next", x=0, y=8, words=words, bold=True, says=refusal)
    hint = "drag it over what is free; click a tensor to free it"
    yield Words(id="hint", x=LINE * SCALE, y=8, words=hint, anchor="end", size=SMALL, quiet=True)


def _next(state: State) -> Iterator[Shape]:
    """Draw the next tensor at its true length: to be held over what is free, and to be asked for."""
    if state.name:
        yield Box(
            id=state.name, x=0, y=WAITING, wide=state.size * SCALE, high=BOX, round=0, edge=palette.WAIT,
            thick=2, hatched=True, asks={"press": "Allocate"}, stops=tuple(_stops(state)), carried=True,
            says=f"{state.wanted}: drag it over what is free; let go, or click it, to allocate it",
        )  # fmt: skip


def _stops(state: State) -> Iterator[Stop]:
    """Yield where the next tensor can be held: at its own place, and over all that is free."""
    half, ask = state.size * SCALE / 2, {"press": "Allocate"}

    def over(x: float, y: float, says: str) -> Stop:
        return Stop(min(max(x, half), WIDE - half), y + BOX / 2, ask, says)

    yield Stop(half, WAITING + BOX / 2, None, f"{state.wanted}, waits here")
    for segment, parts in groupby(_parts(state.memory), key=lambda part: part.segment):
        parts = list(parts)
        gaps = [part for part in parts if not part.piece.name]
        for part in gaps:
            yield over(part.x + part.wide / 2, part.y, _fits(state, part))
        if not gaps:
            middle = parts[0].x + segment.size * SCALE / 2
            yield over(middle, parts[0].y, f"nothing is free in segment {segment.number}")
    yield over(min(state.memory.untaken, LINE) * SCALE / 2, UNTAKEN, _takes(state))


def _figures(state: State) -> Iterator[Shape]:
    """Write the sums."""
    memory = state.memory
    rows = {
        "allocated": (text_of(memory.allocated), "what living tensors hold"),
        "peak": (text_of(memory.peak), "the most that was allocated at once"),
        "reserved": (text_of(memory.reserved), "what PyTorch has taken from the device"),
        "free in it": (text_of(sum(memory.free)), "what is reserved and holds no tensor"),
        "pieces": (str(len(memory.free)), "into which the free memory is cut"),
        "longest": (text_of(max(memory.free, default=0)), "the longest free piece"),
    }
    yield Words(id="device", x=BESIDE, y=8, words=f"{DEVICE}, simulated", bold=True)
    for number, (label, (value, means)) in enumerate(rows.items()):
        y, longest = 30 + 19 * number, label == "longest"
        says = f"{label}: {value}, {means}; simulated"
        yield Words(id=label, x=BESIDE, y=y, words=label, quiet=True, says=says)
        yield Words(id=f"{label} value", x=WIDE, y=y, words=value, anchor="end", bold=longest)


def _story(state: State) -> Iterator[Shape]:
    """Write the last statements of the story, the newest at the bottom."""
    lines, most = statements(state.past, state.memory.given), 6
    past = max(0, len(lines) - most)
    words = f"the last {most} of {len(lines)} lines" if past else "the story so far"
    yield Words(id="story", x=BESIDE, y=158, words=words, size=SMALL, quiet=True)
    for number, line in enumerate(lines[past:]):
        place = {"x": BESIDE, "y": 177 + 18 * number}
        yield Words(id=f"line {past + number}", words=line, size=11, mono=True, **place)


def _time(state: State) -> Iterator[Shape]:
    """Draw what was allocated and reserved after each deed, and the handle of the moment looked at."""
    first = max(0, len(state.deeds) - STEPS)
    after = [replay(state.deeds[:number]) for number in range(first, len(state.deeds) + 1)]
    wide = (RIGHT - LEFT) / len(after)

    def stairs(amounts: Iterable[int]) -> Iterator[tuple[float, float]]:
        for number, amount in enumerate(amounts):
            y = round(LOW - (LOW - PEAK) * amount / CAPACITY, 1)
            yield from ((round(LEFT + (number + more) * wide, 1), y) for more in (0, 1))

    ends = (RIGHT, LOW), (LEFT, LOW)
    reserved, allocated = (
        tuple(stairs(getattr(memory, what) for memory in after)) for what in ("reserved", "allocated")
    )
    colour = palette.of(DEVICE)
    yield guide("capacity", (LEFT, PEAK), (RIGHT, PEAK))
    yield Path(id="reserved in time", points=(*reserved, *ends), edge=INK, thick=1.8)
    yield Path(id="allocated in time", points=(*allocated, *ends), edge=colour, fill=colour)
    look = {"size": SMALL, "quiet": True}
    yield Words(id="in time", x=0, y=PEAK + 8, words="step by step", **look)
    yield Words(id="steps", x=0, y=LOW - 4, words=f"{len(state.past)} of {len(state.deeds)}", **look)
    yield Words(id="full", x=RIGHT + 8, y=PEAK + 2, words=text_of(CAPACITY), **look)
    yield Words(id="nothing", x=RIGHT + 8, y=LOW - 2, words="0", **look)

    def says(memory: Memory) -> str:
        sums = f"{text_of(memory.allocated)} allocated, {text_of(memory.reserved)} reserved"
        return f"after {len(memory.given)} steps: {sums}"

    stops = [
        Stop(LEFT + (number + 0.5) * wide, LOW, {"set": {"told": len(memory.given)}}, says(memory))
        for number, memory in enumerate(after)
    ]
    now = stops[min(max(0, len(state.past) - first), len(stops) - 1)]
    yield dot(
        "moment", (now.x, LOW), 14, palette.WAIT, edge=INK, thick=2.5, stops=tuple(stops), along=True,
        says=f"drag to another moment; {now.says}", ground=(LEFT, PEAK, RIGHT - LEFT, LOW - PEAK + 9),
    )  # fmt: skip


def describe(state: State) -> str:
    """Say what lives, what is reserved, how the free memory is cut up, and what the last deed did."""
    memory = state.memory
    return (
        f"{source(DEVICE)}, a device of {text_of(CAPACITY)}: living tensors: {len(memory.living)}, with "
        f"{text_of(memory.allocated)} allocated (peak {text_of(memory.peak)}); segments: "
        f"{len(memory.segments)}, with {text_of(memory.reserved)} reserved, of which {_free(memory)}; "
        f"not taken: {text_of(memory.untaken)}. {_outcome(state)} To allocate next: {text_of(state.size)}."
    )


def _free(memory: Memory) -> str:
    return f"{text_of(sum(memory.free))} free{_pieces(memory)}"


def _pieces(memory: Memory) -> str:
    if len(memory.free) < 2:
        return ""
    return f" in {len(memory.free)} pieces, the longest {text_of(max(memory.free))}"


def _outcome(state: State) -> str:
    """Say in a sentence what the last deed did, and why."""
    memory, last = state.memory, state.past[-1] if state.past else None
    grown = memory.reserved - memory.reserved_before
    if last is None:
        return "Nothing is taken from the device yet: the first tensor brings the first segment."
    if isinstance(last, Free):
        gone = f"{', '.join(last.names)} {'are' if len(last.names) > 1 else 'is'} freed"
        return f"{gone}, and the memory stays reserved, with {_free(memory)}."
    if isinstance(last, Empty):
        if grown:
            return f"The cache is emptied: {text_of(-grown)} given back to the device."
        return "The cache is emptied, but no segment is free as a whole: nothing given back."
    wanted, name = text_of(last.size), memory.given[-1]
    if memory.refusal:
        need = f"{wanted} need one free piece or a new segment of {text_of(segment_size(last.size))}"
        return (
            f"Out of memory: {POOLS if max(memory.free, default=0) >= last.size else need}, but "
            f"{readable(memory.untaken)} of the device is free, and "
            f"{readable(memory.reserved - memory.allocated)} is reserved by PyTorch but "
            f"unallocated{_pieces(memory)}."
        )
    if memory.retried:
        return f"{name}, {wanted}, found no room, so PyTorch emptied its cache and took a new segment."
    taken = state.before.gap(*memory.place_of(name))
    if taken:
        where = f"the shortest free piece that is long enough, of {text_of(taken)}"
        return f"{name}, {wanted}, went into {where}; nothing was taken from the device."
    long = max(state.before.free, default=0) >= last.size
    why = POOLS if long else "no free piece was long enough"
    return f"{name}, {wanted}: {why}, so a new segment of {text_of(grown)} was taken."


def explorer() -> Explorer:
    """Return the explorer, on a simulated device everywhere: on a large one everything would fit."""
    return Explorer(
        "Device memory: what lives, what stays taken, what still fits",
        State(),
        draw,
        describe,
        [
            Choice("size", "next tensor", list(SIZES.items())),
            Number("told", "step", 0, ALL, drawn=True),
            Action("Allocate", _allocate, lambda state: bool(state.name)),
            Action("Empty the cache", lambda state: _did(state, Empty())),
            Action(
                "Undo", lambda state: replace(state, told=len(state.past) - 1), lambda state: bool(state.past)
            ),
            Action("Start empty", lambda state: replace(state, deeds=()), lambda state: bool(state.deeds)),
            *(_free_one(name) for name in NAMES),
        ],
    )


def _allocate(state: State) -> State:
    return _did(state, Allocate(state.size))


def _free_one(name: str) -> Action:
    """Return what a click on a tensor does."""
    return Action(
        f"Free {name}",
        lambda state: _did(state, Free((name,))),
        lambda state: name in dict(state.memory.living),
        drawn=True,
    )


def _did(state: State, deed: Deed) -> State:
    """Return the state after one more deed; what came after the moment looked at is forgotten."""
    return replace(state, deeds=(*state.past, deed), told=ALL)
