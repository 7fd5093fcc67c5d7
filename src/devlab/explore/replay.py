"""What becomes of a device's memory as tensors come and go: a story of allocations, told from the start.

On the simulated device it is told to an allocator of its own, so that nobody's memory and nobody's figures
change. On a real device it is told to the device's own allocator, with tensors that are gone at the end, and
only what the story adds to the figures counts. There it empties the cache, and may raise the peak.
"""

import functools
from dataclasses import dataclass

import torch

from devlab.sim.allocator import Allocator

NAMES = "ABCDEFGHIJKLMNOP"
CAPACITY = 64 << 20  # the simulated device's: small, so that it is soon full
STRANGER = "?"  # the name of what others have in a segment


@dataclass(frozen=True)
class Allocate:
    """A tensor of `size` bytes is made; it gets the first name that no living one has."""

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
