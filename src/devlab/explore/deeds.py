"""A story of allocations, told from its start to an allocator, and what has become of the memory at its end.

For the simulated device the story is told to an allocator made for the picture, so that the device's memory
and figures stay as they are. On a real device the story is told to the device's own allocator, with tensors
that are gone at the end, and only what the story adds to the figures counts. There the story empties the
cache, and may raise the peak.
"""

import functools
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch

from devlab.sim.allocator import Allocator
from devlab.watching.memory import size as text_of

NAMES = "ABCDEFGHIJKLMNOP"
CAPACITY = 64 << 20  # the simulated device's: small, so that it is soon full
STRANGER = "?"  # the name of what others have in a segment
MIB = 1 << 20
LINE, GAP = 49 * MIB // 2, MIB // 4  # how long a line of segments is, and what lies between two of them
LINES = 3  # into which the segments of the simulated device always fit


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
    capacity: int
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

    def follow(self, segments: list[list[tuple[int, int, bool]]]) -> list[tuple[int, int, int]]:
        """Return number, line and start of each segment; if the lines are too few, all are laid out anew."""
        present = [(blocks[0][0], sum(size for _, size, _ in blocks)) for blocks in segments]
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

    def untaken(self) -> int:
        """Return the bytes that no segment has."""
        return self.capacity - self.allocator.reserved

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

    def untaken(self) -> int:
        """Return the bytes that the device can still give to anybody."""
        return self.module.mem_get_info(self.device)[0]

    def segments(self) -> list[list[tuple[int, int, bool]]]:
        """Return the blocks of each segment, except those in which only others have something."""
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
    names: dict[int, str] = {}
    given: list[str] = []
    ground, places, peak, refusal = Ground(), [], 0, ""
    before = allocator.figures()
    for deed in deeds:
        before, refusal = allocator.figures(), ""
        name = ""
        if isinstance(deed, Allocate):
            name = next_name(given, held)
            try:
                thing, address = allocator.make(deed.size)
            except torch.OutOfMemoryError as error:
                name, refusal = "", str(error)
            else:
                held[name], sizes[name], names[address] = [thing], deed.size, name
                del thing
        elif isinstance(deed, Free):
            for gone in deed.names:
                allocator.drop(held.pop(gone))
                del sizes[gone]
            names = {address: own for address, own in names.items() if own in held}
        else:
            allocator.empty()
        given.append(name)
        places = ground.follow(allocator.segments())
        peak = max(peak, allocator.figures()[0])
    allocated, reserved, retries = allocator.figures()
    untaken = allocator.untaken()
    pieces = [
        tuple(Piece(size, names.get(address, STRANGER) if used else "") for address, size, used in blocks)
        for blocks in allocator.segments()
    ]
    segments = tuple(Segment(*place, own) for place, own in zip(places, pieces, strict=True))
    while held:
        allocator.drop(held.popitem()[1])
    allocator.empty()
    return Memory(
        segments,
        living=tuple(sizes.items()),
        given=tuple(given),
        allocated=allocated,
        reserved=reserved,
        reserved_before=before[1],
        peak=peak,
        capacity=allocator.capacity,
        untaken=untaken,
        retried=retries > before[2],
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
