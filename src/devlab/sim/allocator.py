"""A device's memory, handed out as PyTorch's caching allocator on CUDA hands it out.

Requests are rounded to 512 bytes. Small ones, up to 1 MiB, come from segments of 2 MiB; requests below 10 MiB
from segments of 20 MiB; larger ones from segments of their own, rounded to 2 MiB. The best-fitting free block
is split where enough remains; a freed block merges with free neighbours, and stays reserved until
`empty_cache`.
Addresses are only labels: the data lives in the host's memory.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator

import torch

from devlab.sim import placement

MIN_BLOCK = 512
SMALL_REQUEST = 1 << 20
SMALL_SEGMENT = 2 << 20
LARGE_SEGMENT = 20 << 20
MIN_LARGE_REQUEST = 10 << 20
ROUND_LARGE = 2 << 20


def rounded(requested: int) -> int:
    """Return the bytes that a request takes: a multiple of 512, at least 512.

    >>> rounded(1), rounded(512), rounded(513)
    (512, 512, 1024)
    """
    return max(MIN_BLOCK, -(-requested // MIN_BLOCK) * MIN_BLOCK)


def segment_size(size: int) -> int:
    """Return the bytes that the device is asked for when no cached block of `size` bytes is free.

    >>> segment_size(512) >> 20, segment_size((1 << 20) + 512) >> 20, segment_size((10 << 20) + 512) >> 20
    (2, 20, 12)
    """
    if size <= SMALL_REQUEST:
        return SMALL_SEGMENT
    if size < MIN_LARGE_REQUEST:
        return LARGE_SEGMENT
    return -(-size // ROUND_LARGE) * ROUND_LARGE


class Block:
    """A stretch of a segment, in use (or freed and not yet merged) or free, between its neighbours."""

    __slots__ = ("address", "after", "before", "home", "large", "requested", "size", "stream", "used")

    def __init__(self, home, address: int, size: int, large: bool, stream: int):
        """Make a free block without neighbours, of the allocator `home`."""
        self.home = home
        self.address = address
        self.size = size
        self.large = large
        self.stream = stream
        self.requested = 0
        self.used = False
        self.before = self.after = None


class Pool:
    """One kind of segment, small or large: what live tensors hold, and what was taken from the device."""

    __slots__ = (
        "allocated",
        "allocated_peak",
        "allocated_total",
        "allocations_total",
        "reserved",
        "reserved_peak",
        "reserved_total",
        "segments_total",
    )

    def __init__(self):
        """Start at nothing."""
        for name in self.__slots__:
            setattr(self, name, 0)


class Allocator:
    """The memory of one device, in bytes.

    >>> memory = Allocator(0, capacity=1 << 30)
    >>> block = memory.allocate(1000)
    >>> memory.allocated, memory.reserved
    (1024, 2097152)
    >>> memory.free(block)
    >>> memory.allocated, memory.reserved
    (0, 2097152)
    >>> memory.empty_cache()
    >>> memory.reserved
    0
    """

    def __init__(self, index: int, capacity: int):
        """Reserve nothing yet."""
        self.index = index
        self.capacity = capacity
        self.segments: dict[int, Block] = {}  # the first block of each, by address
        self.pools = (Pool(), Pool())  # small, large
        self.allocated = self.allocated_peak = self.reserved = self.reserved_peak = 0
        self.retries = self.failures = 0
        self._free: dict[tuple[bool, int], list[tuple[int, int]]] = {}  # (size, address), best fit first
        self._blocks: dict[int, Block] = {}  # the blocks in those lists, by address
        self._freed: list[Block] = []  # freed and not yet merged
        self._next_address = (index + 1) << 40

    def allocate(self, requested: int, stream: int = 0) -> Block:
        """Hand out a block of at least `requested` bytes.

        Raises:
            torch.OutOfMemoryError: when the device has no room, after the cache was freed.
        """
        size = -(-requested // MIN_BLOCK) * MIN_BLOCK or MIN_BLOCK
        large = size > SMALL_REQUEST
        block = self._take_back(size, stream) if self._freed else None
        if block is None:
            block = self._best_fit(size, requested, large, stream)
        block.used = True
        block.requested = requested
        size = block.size
        self.allocated += size
        if self.allocated > self.allocated_peak:
            self.allocated_peak = self.allocated
        pool = self.pools[large]
        pool.allocations_total += 1
        pool.allocated_total += size
        pool.allocated += size
        if pool.allocated > pool.allocated_peak:
            pool.allocated_peak = pool.allocated
        return block

    def free(self, block: Block) -> None:
        """Take a block back into the cache."""
        self.allocated -= block.size
        self.pools[block.large].allocated -= block.size
        self._freed.append(block)

    def _take_back(self, size: int, stream: int) -> Block | None:
        """Return the block freed last, if merging it and taking the best fit would hand out that very one.

        It is the common case of a loop, and spares the merging and the splitting.
        """
        block = self._freed.pop()
        if self._freed:
            self._settle()
        if block.size == size and block.stream == stream:
            before, after = block.before, block.after
            free = self._free[block.large, stream]
            place = bisect_left(free, (size, 0))
            merged = size
            if after is not None and not after.used:
                merged += after.size
                if place < len(free) and free[place][1] == after.address:
                    place += 1
            best = place == len(free) or (merged, block.address) < free[place]
            splits = merged == size or not block.large or merged - size > SMALL_REQUEST
            if best and splits and (before is None or before.used):
                return block
        self._merge(block)
        return None

    def _settle(self) -> None:
        """Merge every freed block with its free neighbours."""
        while self._freed:
            self._merge(self._freed.pop())

    def _best_fit(self, size: int, requested: int, large: bool, stream: int) -> Block:
        free = self._free.setdefault((large, stream), [])
        place = bisect_left(free, (size, 0))
        if place < len(free):
            block = self._blocks.pop(free.pop(place)[1])
        else:
            block = self._new_segment(size, requested, large, stream)
        spare = block.size - size
        if spare > (SMALL_REQUEST if large else 0):
            rest = Block(self, block.address + size, spare, large, stream)
            rest.before, rest.after = block, block.after
            if rest.after is not None:
                rest.after.before = rest
            block.after = rest
            block.size = size
            self._blocks[rest.address] = rest
            insort(free, (spare, rest.address))
        return block

    def _merge(self, block: Block) -> None:
        block.used = False
        block.requested = 0
        before = block.before
        if before is not None and not before.used:
            self._withdraw(before)
            before.size += block.size
            before.after = block.after
            if block.after is not None:
                block.after.before = before
            block = before
        after = block.after
        if after is not None and not after.used:
            self._withdraw(after)
            block.size += after.size
            block.after = after.after
            if after.after is not None:
                after.after.before = block
        self._blocks[block.address] = block
        insort(self._free[block.large, block.stream], (block.size, block.address))

    def empty_cache(self) -> None:
        """Give every segment in which nothing lives back to the device."""
        self._settle()
        for address, first in list(self.segments.items()):
            if not first.used and first.after is None:
                self._withdraw(first)
                del self.segments[address]
                self.reserved -= first.size
                self.pools[first.large].reserved -= first.size

    def check(self, requested: int) -> None:
        """Raise as `allocate` would, without allocating, for a request beyond the whole device."""
        if requested > self.capacity:
            self.empty_cache()
            self.retries += 1
            self._out_of_memory(requested)

    def blocks(self) -> Iterator[tuple[Block, list[Block]]]:
        """Yield each segment's first block and all its blocks, in the order of addresses."""
        self._settle()
        for _, first in sorted(self.segments.items()):
            found, block = [], first
            while block is not None:
                found.append(block)
                block = block.after
            yield first, found

    def _withdraw(self, block: Block) -> None:
        """Take a free block out of its pool."""
        del self._blocks[block.address]
        free = self._free[block.large, block.stream]
        del free[bisect_left(free, (block.size, block.address))]

    def _new_segment(self, size: int, requested: int, large: bool, stream: int) -> Block:
        taken = segment_size(size)
        if self.reserved + taken > self.capacity:
            self.retries += 1
            self.empty_cache()
            if self.reserved + taken > self.capacity:
                self._out_of_memory(requested)
        block = Block(self, self._next_address, taken, large, stream)
        self._next_address += taken
        self.segments[block.address] = block
        self.reserved += taken
        self.reserved_peak = max(self.reserved_peak, self.reserved)
        pool = self.pools[large]
        pool.reserved += taken
        pool.reserved_total += taken
        pool.reserved_peak = max(pool.reserved_peak, pool.reserved)
        pool.segments_total += 1
        return block

    def _out_of_memory(self, requested: int) -> None:
        self.failures += 1
        allocated, reserved = self.allocated, self.reserved
        raise torch.OutOfMemoryError(
            f"{placement.NAME} out of memory. Tried to allocate {readable(requested)}. "
            f"{placement.NAME}:{self.index} (simulated) has a total capacity of {readable(self.capacity)} "
            f"of which {readable(self.capacity - reserved)} is free. Of the allocated memory "
            f"{readable(allocated)} is allocated by PyTorch, and {readable(reserved - allocated)} is "
            "reserved by PyTorch but unallocated."
        )


def readable(size: int) -> str:
    """Return a size as PyTorch's out-of-memory message writes it.

    >>> readable(512), readable(3 << 20), readable(5 << 29)
    ('512 bytes', '3.00 MiB', '2.50 GiB')
    """
    if size <= 1024:
        return f"{size} bytes"
    unit, name = (1 << 30, "GiB") if size >= 1 << 30 else (1 << 20, "MiB")
    return f"{size / unit:.2f} {name}" if size >= 1 << 20 else f"{size / 1024:.2f} KiB"
