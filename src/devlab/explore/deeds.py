"""A story of allocations, told from its start to an allocator, and what has become of the memory at its end.

The allocator is the simulator's, made for the picture, with a small memory: on a GPU everything would fit,
and the memory and figures of the learner's own device stay as they are.
"""

import functools
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch

from devlab.sim.allocator import Allocator, Block
from devlab.watching.memory import size as text_of

NAMES = "ABCDEFGHIJKLMNOP"
CAPACITY = 64 << 20  # small, so that it is soon full
MIB = 1 << 20
LINE, GAP = 49 * MIB // 2, MIB // 4  # how long a line of segments is, and what lies between two of them
LINES = 3  # into which the segments always fit


@dataclass(frozen=True)
class Allocate:
    """A tensor of `size` bytes is made, and gets the next letter that no living tensor has."""

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
class Segment:
    """Which segment of the story it is, the line and the start where it is drawn, and its pieces."""

    number: int
    line: int
    start: int  # in bytes
    pieces: tuple[Piece, ...]

    @property
    def size(self) -> int:
        """Return the bytes of all pieces."""
        return sum(piece.size for piece in self.pieces)

    def parts(self) -> Iterator[tuple[int, Piece]]:
        """Yield each piece and where in the segment it begins, in bytes."""
        at = 0
        for piece in self.pieces:
            yield at, piece
            at += piece.size


@dataclass(frozen=True)
class Memory:
    """What a device's memory is at the end of a story; all sizes are in bytes.

    `reserved_before` is what was reserved before the last deed. `retried` says whether that deed had the
    cache emptied to make room; `refusal` is PyTorch's message where it found none.
    """

    segments: tuple[Segment, ...]
    living: tuple[tuple[str, int], ...]  # names and sizes, the oldest first
    given: tuple[str, ...]  # the name that each deed gave to a tensor, "" where it gave none
    allocated: int
    reserved: int
    reserved_before: int
    peak: int  # the most that was allocated at once
    untaken: int  # what the device has left for new segments
    retried: bool
    refusal: str

    @property
    def free(self) -> tuple[int, ...]:
        """Return the bytes of each free piece of a segment."""
        return tuple(piece.size for segment in self.segments for piece in segment.pieces if not piece.name)

    def gap(self, number: int, at: int) -> int:
        """Return how long the free piece of a segment is in which a place lies; 0 where there is none."""
        pieces = [part for one in self.segments if one.number == number for part in one.parts()]
        return next((one.size for start, one in pieces if not one.name and start <= at < start + one.size), 0)

    def place_of(self, name: str) -> tuple[int, int] | None:
        """Return the number of the segment in which a tensor lives, and where in it, in bytes."""
        places = ((one.number, at, piece.name) for one in self.segments for at, piece in one.parts())
        return next(((number, at) for number, at, own in places if own == name), None)


class Ground:
    """Where each segment is drawn: a segment keeps its place until it is given back, as memory does."""

    def __init__(self):
        # (address, bytes): (number, line, start)
        self.places: dict[tuple[int, int], tuple[int, int, int]] = {}
        self.taken = 0

    def follow(self, segments: list[list[tuple[int, int]]]) -> list[tuple[int, int, int]]:
        """Return number, line and start of each segment; if the lines are too few, all are laid out anew."""
        present = [(blocks[0][0], sum(size for _, size in blocks)) for blocks in segments]
        self.places = {key: place for key, place in self.places.items() if key in present}
        for key in present:
            if key not in self.places:
                self.taken += 1
                self.places[key] = self.taken, *self._room(key[1])
        if any(line >= LINES for _, line, _ in self.places.values()):
            numbers = {key: number for key, (number, _, _) in self.places.items()}
            self.places = {}
            for key in sorted(numbers, key=lambda key: -key[1]):
                self.places[key] = numbers[key], *self._room(key[1])
        return [self.places[key] for key in present]

    def _room(self, size: int) -> tuple[int, int]:
        """Return the first line and start where there is room for a segment."""
        line = 0
        while True:
            there = sorted((place[2], key[1]) for key, place in self.places.items() if place[1] == line)
            start = 0
            for begin, long in there:
                if start + size + GAP <= begin:
                    break
                start = begin + long + GAP
            if start + size <= LINE or not there:
                return line, start
            line += 1


@functools.lru_cache(maxsize=256)
def replay(deeds: tuple[Deed, ...]) -> Memory:
    """Tell a story from the start and return what the memory is at its end.

    >>> memory = replay((Allocate(6 << 20), Allocate(6 << 20), Free(("A",))))
    >>> memory.allocated >> 20, memory.reserved >> 20, memory.peak >> 20, memory.living
    (6, 20, 12, (('B', 6291456),))
    """
    allocator = Allocator(0, CAPACITY)
    held: dict[str, Block] = {}
    sizes: dict[str, int] = {}
    given: list[str] = []
    ground, places, peak, refusal = Ground(), [], 0, ""
    reserved_before = retries_before = 0
    for deed in deeds:
        reserved_before, retries_before, refusal = allocator.reserved, allocator.retries, ""
        name = ""
        if isinstance(deed, Allocate):
            name = next_name(given, held)
            try:
                held[name] = allocator.allocate(deed.size)
                sizes[name] = deed.size
            except torch.OutOfMemoryError as error:
                name, refusal = "", str(error)
        elif isinstance(deed, Free):
            for gone in deed.names:
                allocator.free(held.pop(gone))
                del sizes[gone]
        else:
            allocator.empty_cache()
        given.append(name)
        segments = [blocks for _, blocks in allocator.blocks()]
        places = ground.follow([[(one.address, one.size) for one in blocks] for blocks in segments])
        peak = max(peak, allocator.allocated)
    names = {block.address: name for name, block in held.items()}
    pieces = [
        tuple(Piece(one.size, names[one.address] if one.used else "") for one in blocks)
        for _, blocks in allocator.blocks()
    ]
    return Memory(
        tuple(Segment(*place, own) for place, own in zip(places, pieces, strict=True)),
        living=tuple(sizes.items()),
        given=tuple(given),
        allocated=allocator.allocated,
        reserved=allocator.reserved,
        reserved_before=reserved_before,
        peak=peak,
        untaken=CAPACITY - allocator.reserved,
        retried=allocator.retries > retries_before,
        refusal=refusal,
    )


def next_name(given: Sequence[str], living: Container[str]) -> str:
    """Return the letter after the last that was given, leaving out those that live; "" where all live.

    >>> next_name(["A", "B", "C", ""], {"B", "D"})
    'E'
    """
    last = next((name for name in reversed(given) if name), NAMES[-1])
    after = NAMES.index(last) + 1
    return next((name for name in NAMES[after:] + NAMES[:after] if name not in living), "")


def statements(deeds: tuple[Deed, ...], given: tuple[str, ...]) -> list[str]:
    """Return a story as statements, equal requests after each other as one.

    >>> statements((Allocate(6 << 20), Allocate(6 << 20), Free(("A",)), Empty()), ("A", "B", "", ""))
    ['A, B = empty(6 MiB)', 'del A', 'empty_cache()']
    """

    def kind(one: tuple[int, tuple[Deed, str]]) -> tuple:
        number, (deed, name) = one
        return deed, NAMES.index(name) - number if name else None  # names that follow each other

    said = []
    for (deed, _), run in groupby(enumerate(zip(deeds, given, strict=True)), key=kind):
        names = [name for _, (_, name) in run]
        if isinstance(deed, Free):
            said.append(f"del {', '.join(deed.names)}")
        elif isinstance(deed, Empty):
            said.append("empty_cache()")
        elif names[0]:
            makes = ", ".join(names) if len(names) < 3 else f"{names[0]}…{names[-1]}"
            said.append(f"{makes} = empty({text_of(deed.size)})")
        else:
            said.append(f"empty({text_of(deed.size)}) fails")
    return said
