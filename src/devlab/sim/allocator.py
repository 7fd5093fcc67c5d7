"""What an allocator counts, for all its memory and for each pool: PyTorch's statistics, under its names."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator

import torch

from devlab.sim import clock, specs


class Counter:
    """A quantity as PyTorch's `memory_stats` gives it: now, at most, and all that came and went."""

    __slots__ = ("_offset", "allocated", "current", "peak")

    def __init__(self):
        """Start at nothing."""
        self.current = self.peak = self.allocated = self._offset = 0

    @property
    def freed(self) -> int:
        """All that went: what came and is not there."""
        return self.allocated - self.current + self._offset

    def add(self, amount: int) -> None:
        """Count what comes."""
        self.allocated += amount
        self.current += amount
        if self.current > self.peak:
            self.peak = self.current

    def change(self, amount: int) -> None:
        """Count what comes, or, where the amount is negative, what goes."""
        if amount > 0:
            self.add(amount)
        else:
            self.current += amount

    def reset_totals(self) -> None:
        """Let what came and went start again from nothing."""
        self.allocated, self._offset = 0, self.current

    def swing(self, amount: int, times: int) -> None:
        """Count that an amount went and came back some times."""
        self.allocated += amount * times


class Books:
    """The counters of some memory: of all that a device has, or of one pool."""

    __slots__ = (
        "allocated_bytes",
        "allocation",
        "inactive_split",
        "inactive_split_bytes",
        "requested_bytes",
        "reserved_bytes",
        "segment",
    )

    def __init__(self):
        """Start every counter at nothing."""
        for name in self.__slots__:
            setattr(self, name, Counter())

    def counters(self) -> dict[str, Counter]:
        """Return the counters under PyTorch's names.

        >>> sorted(Books().counters())[:3]
        ['active', 'active_bytes', 'allocated_bytes']
        """
        named = {name: getattr(self, name) for name in self.__slots__}
        # On CUDA a block is active until every stream that uses it has finished; here it is free at once.
        return named | {"active": self.allocation, "active_bytes": self.allocated_bytes}

    def take(self, size: int, requested: int, parts: int, in_parts: int) -> None:
        """Count a block that is handed out, and how that changes the free parts of segments.

        Written out, as `give` is: a program asks for memory with every operator.
        """
        counter = self.allocation
        counter.allocated += 1
        counter.current = now = counter.current + 1
        if now > counter.peak:
            counter.peak = now
        counter = self.allocated_bytes
        counter.allocated += size
        counter.current = now = counter.current + size
        if now > counter.peak:
            counter.peak = now
        counter = self.requested_bytes
        counter.allocated += requested
        counter.current = now = counter.current + requested
        if now > counter.peak:
            counter.peak = now
        if in_parts > 0:
            self.inactive_split.change(parts)
            self.inactive_split_bytes.change(in_parts)
        else:
            self.inactive_split.current += parts
            self.inactive_split_bytes.current += in_parts

    def give(self, size: int, requested: int, parts: int, in_parts: int) -> None:
        """Count a block that is given back, and how that changes the free parts of segments."""
        self.allocation.current -= 1
        self.allocated_bytes.current -= size
        self.requested_bytes.current -= requested
        if parts > 0:
            self.inactive_split.add(parts)
        elif parts:
            self.inactive_split.current += parts
        counter = self.inactive_split_bytes
        if in_parts > 0:
            counter.allocated += in_parts
            counter.current = now = counter.current + in_parts
            if now > counter.peak:
                counter.peak = now
        else:
            counter.current += in_parts

    def reserve(self, segments: int, size: int) -> None:
        """Count segments taken from the device, or given back to it."""
        self.segment.change(segments)
        self.reserved_bytes.change(size)

    def handed_out_again(self, block, times: int) -> None:
        """Count that a block was given back and handed out again some times, and nothing else between."""
        self.allocation.swing(1, times)
        self.allocated_bytes.swing(block.size, times)
        self.requested_bytes.swing(block.requested, times)
        self.inactive_split.swing(abs(block.swing[0]), times)
        self.inactive_split_bytes.swing(abs(block.swing[1]), times)

    def reset_peaks(self) -> None:
        """Let the peaks start again from the present values."""
        for name in self.__slots__:
            counter = getattr(self, name)
            counter.peak = counter.current

    def reset_totals(self) -> None:
        """Let what came and went start again from nothing."""
        for name in self.__slots__:
            getattr(self, name).reset_totals()


class Block:
    """A stretch of a segment, in use (or freed and not yet merged) or free, between its neighbours."""

    __slots__ = (
        "address",
        "after",
        "again",
        "before",
        "checked",
        "large",
        "requested",
        "size",
        "stream",
        "swing",
        "used",
    )

    def __init__(self, address: int, size: int, large: bool, stream: int):
        """Make a free block without neighbours."""
        self.address = address
        self.size = size
        self.large = large
        self.stream = stream
        self.requested = 0
        self.used = False
        self.before = self.after = None
        self.again = 0  # how often it was freed and at once handed out again, not yet counted
        self.checked = -1  # the state of the free blocks in which that was found to be right,
        self.swing = (0, 0)  # and what it does to the free parts of segments: their number, their bytes

    @property
    def block(self) -> "Block":
        """The block itself."""
        return self

    @property
    def part(self) -> bool:
        """Whether it is less than a whole segment."""
        return self.before is not None or self.after is not None

    def change_when_freed(self) -> tuple[int, int]:
        """Return how freeing it changes the number and the bytes of segments' free parts."""
        blocks, size, merged = 0, 0, self.size
        before, after = self.before, self.after
        if before is not None and not before.used:
            blocks, size, merged, before = -1, -before.size, merged + before.size, before.before
        if after is not None and not after.used:
            blocks, size, merged, after = blocks - 1, size - after.size, merged + after.size, after.after
        return (blocks + 1, size + merged) if before is not None or after is not None else (blocks, size)


def readable(size: int) -> str:
    """Return a size as PyTorch's out-of-memory message writes it.

    >>> readable(512), readable(3 << 20), readable(5 << 29)
    ('512 bytes', '3.00 MiB', '2.50 GiB')
    """
    if size <= 1024:
        return f"{size} bytes"
    unit, name = (1 << 30, "GiB") if size >= 1 << 30 else (1 << 20, "MiB")
    return f"{size / unit:.2f} {name}" if size >= 1 << 20 else f"{size / 1024:.2f} KiB"


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
        self.all = Books()
        self.pools = (Books(), Books())  # small, large
        self.retries = self.failures = 0
        self._free: dict[tuple[bool, int], list[tuple[int, int]]] = {}  # (size, address), best fit first
        self._blocks: dict[int, Block] = {}  # the blocks in those lists, by address
        self._state = 0  # how often those lists have changed
        # What was freed and is not yet merged, nor counted as freed: a block, or what has one as its `block`.
        self._freed: deque = deque()
        self._last: Block | None = None  # handed out last
        self.free = self._freed.append  # `free(block)` takes a block back into the cache
        self._next_address = (index + 1) << 40

    @property
    def allocated(self) -> int:
        """The bytes that live tensors hold."""
        self.settle()
        return self.all.allocated_bytes.current

    @property
    def reserved(self) -> int:
        """The bytes taken from the device."""
        return self.all.reserved_bytes.current

    def allocate(self, requested: int, stream: int = 0) -> Block:
        """Hand out a block of at least `requested` bytes.

        Raises:
            torch.OutOfMemoryError: when the device has no room, after the cache was freed.
        """
        size = -(-requested // MIN_BLOCK) * MIN_BLOCK or MIN_BLOCK
        freed = self._freed
        if freed:
            # A loop frees its last block and asks for its like: the same one again changes no figure.
            block = freed[0].block
            if (
                block is self._last
                and block.size == size
                and block.stream == stream
                and len(freed) == 1
                and (block.checked == self._state or self._comes_back(block))
            ):
                freed.popleft()
                block.again += 1
                if block.requested != requested:
                    self._ask_otherwise(block, requested)
                return block
            self._merge_all()
        large = size > SMALL_REQUEST
        self._last = block = self._best_fit(size, requested, large, stream)
        block.used = True
        block.requested = requested
        return block

    def settle(self) -> None:
        """Merge what was freed, so that every figure is right."""
        if self._freed:
            self._merge_all()

    def resize(self, capacity: int) -> None:
        """Have the device hold so many bytes; what was asked for before was asked of the other size."""
        self.settle()
        self.capacity = capacity

    def count(self) -> None:
        """Settle, and count the blocks that were handed out again."""
        self.settle()
        for first in self.segments.values():
            block = first
            while block is not None:
                self._count_again(block)
                block = block.after

    def _count_again(self, block: Block) -> None:
        times, block.again = block.again, 0
        if times:
            for books in (self.all, self.pools[block.large]):
                books.handed_out_again(block, times)

    def _ask_otherwise(self, block: Block, requested: int) -> None:
        """Count a block handed out again for a request of another size that takes the same room."""
        self._count_again(block)
        more, block.requested = requested - block.requested, requested
        for books in (self.all, self.pools[block.large]):
            books.requested_bytes.add(more)

    def _comes_back(self, block: Block) -> bool:
        """Return whether merging a block just freed and taking the best fit would hand out that very one."""
        size, before, after = block.size, block.before, block.after
        if before is not None and not before.used:
            return False
        free = self._free[block.large, block.stream]
        place = bisect_left(free, (size, 0))
        merged = size
        if after is not None and not after.used:
            merged += after.size
            if place < len(free) and free[place][1] == after.address:
                place += 1
        if place < len(free) and free[place] <= (merged, block.address):
            return False
        if merged > size and block.large and merged - size <= SMALL_REQUEST:
            return False
        self._count_again(block)
        block.checked, block.swing = self._state, block.change_when_freed()
        for books in (self.all, self.pools[block.large]):
            for counter, amount in zip(
                (books.inactive_split, books.inactive_split_bytes), block.swing, strict=True
            ):
                counter.peak = max(counter.peak, counter.current + amount)
        return True

    def _merge_all(self) -> None:
        """Merge every freed block with its free neighbours, in the order in which they were freed."""
        while self._freed:
            self._merge(self._freed.popleft().block)

    def _best_fit(self, size: int, requested: int, large: bool, stream: int) -> Block:
        free = self._free.get((large, stream))
        if free is None:
            free = self._free[large, stream] = []
        place = bisect_left(free, (size, 0))
        if place < len(free):
            block = self._blocks.pop(free.pop(place)[1])
        else:
            block = self._new_segment(size, requested, large, stream)
        self._state += 1
        after = block.after
        spare, parts, in_parts = block.size - size, 0, 0
        if spare > (SMALL_REQUEST if large else 0):
            parts, in_parts = (1, spare) if after is None and block.before is None else (0, -size)
            rest = Block(block.address + size, spare, large, stream)
            rest.before, rest.after = block, after
            if after is not None:
                after.before = rest
            block.after, block.size = rest, size
            self._blocks[rest.address] = rest
            insort(free, (spare, rest.address))
        else:
            size = block.size
            if after is not None or block.before is not None:
                parts, in_parts = -1, -size
        self.all.take(size, requested, parts, in_parts)
        self.pools[large].take(size, requested, parts, in_parts)
        return block

    def _merge(self, block: Block) -> None:
        if block.again:
            self._count_again(block)
        size, before, after = block.size, block.before, block.after
        parts, in_parts = block.change_when_freed()
        self.all.give(size, block.requested, parts, in_parts)
        self.pools[block.large].give(size, block.requested, parts, in_parts)
        block.used = False
        block.requested = 0
        self._state += 1
        free = self._free[block.large, block.stream]
        if before is not None and not before.used:
            self._withdraw(before, free)
            before.size += size
            before.after = after
            if after is not None:
                after.before = before
            block = before
        if after is not None and not after.used:
            self._withdraw(after, free)
            block.size += after.size
            block.after = after.after
            if after.after is not None:
                after.after.before = block
        self._blocks[block.address] = block
        insort(free, (block.size, block.address))

    def empty_cache(self) -> None:
        """Give every segment in which nothing lives back to the device."""
        self.settle()
        for address, first in list(self.segments.items()):
            if not first.used and first.after is None:
                self._state += 1
                self._withdraw(first, self._free[first.large, first.stream])
                del self.segments[address]
                for books in (self.all, self.pools[first.large]):
                    books.reserve(-1, -first.size)

    def check(self, requested: int) -> None:
        """Raise as `allocate` would, without allocating, for a request beyond the whole device."""
        if requested > self.capacity:
            self.empty_cache()
            self.retries += 1
            self._out_of_memory(requested)

    def blocks(self) -> Iterator[tuple[Block, list[Block]]]:
        """Yield each segment's first block and all its blocks, in the order of addresses."""
        self.settle()
        for _, first in sorted(self.segments.items()):
            found, block = [], first
            while block is not None:
                found.append(block)
                block = block.after
            yield first, found

    def _withdraw(self, block: Block, free: list) -> None:
        """Take a free block out of its pool."""
        del self._blocks[block.address]
        del free[bisect_left(free, (block.size, block.address))]

    def _new_segment(self, size: int, requested: int, large: bool, stream: int) -> Block:
        taken = segment_size(size)
        reserved = self.all.reserved_bytes
        if reserved.current + taken > self.capacity:
            self.retries += 1
            self.empty_cache()
            if reserved.current + taken > self.capacity:
                self._out_of_memory(requested)
        block = Block(self._next_address, taken, large, stream)
        self._next_address += taken
        self.segments[block.address] = block
        for books in (self.all, self.pools[large]):
            books.reserve(1, taken)
        return block

    def _out_of_memory(self, requested: int) -> None:
        self.failures += 1
        allocated, reserved = self.allocated, self.reserved
        raise torch.OutOfMemoryError(
            f"{specs.NAME} out of memory. Tried to allocate {readable(requested)}. "
            f"{specs.NAME}:{self.index} (simulated) has a total capacity of {readable(self.capacity)} "
            f"of which {readable(self.capacity - reserved)} is free. Of the allocated memory "
            f"{readable(allocated)} is allocated by PyTorch, and {readable(reserved - allocated)} is "
            "reserved by PyTorch but unallocated."
        )


allocators = [Allocator(index, engines.spec.capacity) for index, engines in enumerate(clock.devices)]
