"""A device's memory, handed out as PyTorch's caching allocator on CUDA hands it out.

Requests are rounded to 512 bytes. Small ones, up to 1 MiB, come from segments of 2 MiB; requests below 10 MiB
from segments of 20 MiB; larger ones from segments of their own, rounded to 2 MiB. The best-fitting free block
is split where enough remains; a freed block merges with free neighbours, and stays reserved until
`empty_cache`. Each block belongs to the stream that allocated it and is handed out again to that stream
alone: at once or, where `record_stream` named other streams, when their work by then has ended. Addresses
are only labels: the data lives in the host's memory.
"""

import threading
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import NamedTuple
from weakref import ref

import torch

from devlab.sim import clock, specs

MIN_BLOCK = 512
SMALL_REQUEST = 1 << 20
SMALL_SEGMENT = 2 << 20
LARGE_SEGMENT = 20 << 20
MIN_LARGE_REQUEST = 10 << 20
ROUND_LARGE = 2 << 20


class Counter:
    """A quantity as PyTorch's `memory_stats` gives it: now, at most, and all that came and went."""

    __slots__ = ("_offset", "allocated", "current", "peak")

    def __init__(self):
        self.current = self.peak = self.allocated = self._offset = 0

    @property
    def freed(self) -> int:
        """All that went: what came and is no longer there."""
        return self.allocated - self.current + self._offset

    def change(self, amount: int) -> None:
        """Count what comes, or, where the amount is negative, what goes."""
        self.current = now = self.current + amount
        if amount > 0:
            self.allocated += amount
            if now > self.peak:
                self.peak = now

    def reset_total(self) -> None:
        """Let what came and went start again from nothing."""
        self.allocated, self._offset = 0, self.current


class Books(NamedTuple):
    """What PyTorch counts, under PyTorch's names: for all memory of a device, or for one pool.

    `held` blocks were freed, and other streams still use them. The peak is that of all active blocks then.
    """

    allocation: Counter
    allocated_bytes: Counter
    requested_bytes: Counter
    inactive_split: Counter
    inactive_split_bytes: Counter
    segment: Counter
    reserved_bytes: Counter
    held: Counter
    held_bytes: Counter

    def counters(self) -> dict[str, Counter]:
        """Return the counters under PyTorch's names; those of active blocks count the held ones, too."""
        found = self._asdict()
        active = {"active": (self.allocation, found.pop("held"))}
        active["active_bytes"] = self.allocated_bytes, found.pop("held_bytes")
        for name, (plain, held) in active.items():
            found[name] = both = Counter()
            both.current, both.allocated = plain.current + held.current, plain.allocated
            both.peak, both._offset = max(plain.peak, held.peak), plain._offset + held._offset
        return found

    def hold(self, blocks: int, size: int) -> None:
        """Count blocks that are freed and held, or, where the numbers are negative, held no longer."""
        self.held.change(blocks)
        self.held_bytes.change(size)

    def note_active(self) -> None:
        """Note how many blocks are active while some are held."""
        for plain, held in ((self.allocation, self.held), (self.allocated_bytes, self.held_bytes)):
            held.peak = max(held.peak, plain.current + held.current)

    def change(self, blocks: int, size: int, requested: int, parts: int, in_parts: int) -> None:
        """Count a block that comes or goes, and how that changes the free parts of segments."""
        self.allocation.change(blocks)
        self.allocated_bytes.change(size)
        self.requested_bytes.change(requested)
        self.inactive_split.change(parts)
        self.inactive_split_bytes.change(in_parts)

    def reserve(self, segments: int, size: int) -> None:
        """Count segments taken from the device, or given back to it."""
        self.segment.change(segments)
        self.reserved_bytes.change(size)


def _new_books() -> Books:
    return Books(*(Counter() for _ in Books._fields))


@dataclass(slots=True, eq=False)
class Block:
    """A stretch of a segment, in use (or freed and not yet merged) or free, between its neighbours."""

    address: int
    size: int
    large: bool
    stream: int
    requested: int = 0
    used: bool = False
    before: "Block | None" = None
    after: "Block | None" = None
    again: int = 0  # how often the block was freed and at once handed out again, not yet counted
    checked: int = -1  # the state of the free blocks in which that was found to be right
    swing: tuple[int, int] = (0, 0)  # how freeing changes the number and the bytes of segments' free parts
    users: tuple[clock.Queue, ...] = ()  # the other streams that use the block
    until: float = 0.0  # when their work has ended that was queued when the block was freed
    death: ref | None = None  # notes that moment

    @property
    def block(self) -> "Block":
        """The block itself."""
        return self

    def change_when_freed(self) -> tuple[int, int]:
        """Return how freeing the block changes the number and the bytes of segments' free parts."""
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


def round_up(requested: int) -> int:
    """Return the bytes that a request takes: a multiple of 512, at least 512.

    >>> round_up(1), round_up(512), round_up(513)
    (512, 512, 1024)
    """
    return -(-requested // MIN_BLOCK) * MIN_BLOCK or MIN_BLOCK


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
        self.index = index
        self.capacity = capacity
        self.segments: dict[int, Block] = {}  # the first block of each, by address
        self.all = _new_books()
        self.pools = (_new_books(), _new_books())  # small, large
        self.books = (self.all, *self.pools)
        self.retries = self.failures = 0
        self.held: list[Block] = []  # freed, and still used by other streams
        self.shared = 0  # blocks that other streams use, the held ones among them
        self._free: dict[tuple[bool, int], list[tuple[int, int]]] = {}  # (size, address), best fit first
        self._blocks: dict[int, Block] = {}  # the blocks in those lists, by address
        self._state = 0  # how often those lists have changed
        # Blocks that were freed and are not yet merged, nor counted as freed, or objects with such a `block`.
        self._freed: deque = deque()
        self._last: Block | None = None  # handed out last
        self.free = self._freed.append  # `free(block)` takes a block back into the cache
        self._next_address = self._first_address = (index + 1) << 40

    @property
    def used(self) -> bool:
        """Whether memory was ever asked for."""
        return self._next_address != self._first_address

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
        freed = self._freed
        if freed:
            # A loop frees a block and asks for the same size. To hand out the same block again, unmerged,
            # takes a quarter of the time, and the figures can be counted later.
            block = freed[0].block
            if (
                block is self._last
                and block.requested == requested
                and block.stream == stream
                and len(freed) == 1
                and (block.checked == self._state or self._comes_back(block))
            ):
                freed.popleft()
                block.again += 1
                return block
            self._merge_all()
        self._last = block = self._best_fit(round_up(requested), requested, stream)
        block.used = True
        block.requested = requested
        return block

    def settle(self) -> None:
        """Merge what was freed with its free neighbours, so that every figure is right."""
        self._merge_all()

    def _merge_all(self) -> None:
        while self._freed:
            self._merge(self._freed.popleft().block)

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
            went_and_came = (1, block.size, block.requested, *map(abs, block.swing))
            for books in (self.all, self.pools[block.large]):
                for counter, amount in zip(books, went_and_came, strict=False):
                    counter.allocated += amount * times

    def _comes_back(self, block: Block) -> bool:
        """Return whether merging a block just freed and taking the best fit would hand out the same block."""
        size, before, after = block.size, block.before, block.after
        if size != round_up(block.requested) or (before is not None and not before.used):
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
            for counter, amount in zip(books[3:5], block.swing, strict=True):  # the free parts of segments
                counter.peak = max(counter.peak, counter.current + amount)
        return True

    def _best_fit(self, size: int, requested: int, stream: int) -> Block:
        large = size > SMALL_REQUEST
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
            rest = Block(block.address + size, spare, large, stream, before=block, after=after)
            if after is not None:
                after.before = rest
            block.after, block.size = rest, size
            self._blocks[rest.address] = rest
            insort(free, (spare, rest.address))
        else:
            size = block.size
            if after is not None or block.before is not None:
                parts, in_parts = -1, -size
        self.all.change(1, size, requested, parts, in_parts)
        self.pools[large].change(1, size, requested, parts, in_parts)
        return block

    def _merge(self, block: Block, gone: int = 1) -> None:
        """Take a freed block back; one that was held is `gone` from the books of allocations already."""
        if block.again:
            self._count_again(block)
        size, before, after = block.size, block.before, block.after
        if block.users:
            self.held.append(block)
            for books in (self.all, self.pools[block.large]):
                books.note_active()
                books.change(-1, -size, 0, 0, 0)
                books.hold(1, size)
            return
        parts, in_parts = block.change_when_freed()
        for books in (self.all, self.pools[block.large]):
            books.change(-gone, -size * gone, -block.requested, parts, in_parts)
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

    def _let_go(self, moment: float) -> None:
        """Take back the held blocks that no stream uses at a moment, all of them at `inf`, after a wait."""
        for block in [block for block in self.held if block.until <= moment]:
            if moment == inf:
                clock.wait_until(block.until)
            self.held.remove(block)
            self.shared -= 1
            block.users, block.death = (), None
            for books in (self.all, self.pools[block.large]):
                books.hold(-1, -block.size)
            self._merge(block, gone=0)

    def empty_cache(self) -> None:
        """Give every segment in which nothing lives back to the device; the host waits for held blocks."""
        self.settle()
        self._let_go(inf)
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


# Requests of up to 32 KiB may wait. A small segment without room for such a request has gaps below 32 KiB
# between its blocks. Where the blocks are no larger than that, the segment holds 31 of them or more: so 31
# waiting requests take at most one new segment, whatever was freed meanwhile.
WAITS = 32 << 10
PER_SEGMENT = SMALL_SEGMENT // (2 * WAITS) - 1
MANY = 4000  # entries of a diary, which take some 10 ms to serve


class PatientAllocator(Allocator):
    """The memory of one device, in bytes, where small requests wait until a figure is wanted.

    A program asks for memory with every operator, and seldom how much it has. So requests that cannot fail
    are written down, as is what is freed, and served in that order. The figures are those of an `Allocator`;
    an operator with several small results takes a third less time.

    >>> from types import SimpleNamespace
    >>> memory = PatientAllocator(0, capacity=1 << 30)
    >>> note = SimpleNamespace(requested=1000, stream=0, block=memory.allocate_at_once(1000, 0))
    >>> memory.request(note)
    >>> memory.allocated, note.block.requested
    (1024, 1000)
    """

    def __init__(self, index: int, capacity: int):
        super().__init__(index, capacity)
        # What was freed, and requests, which have no `block` yet, in the order in which they came.
        self._diary: deque = deque()
        self.free = self._diary.append  # `free(block)` takes a block back into the cache
        self.request = self._diary.append  # for a request that `allocate_at_once` puts off
        self.lock = threading.RLock()  # threads may write in the diary at any time; one of them serves it

    @property
    def used(self) -> bool:
        """Whether memory was ever asked for."""
        return bool(self._diary) or super().used

    @property
    def reserved(self) -> int:
        """The bytes taken from the device."""
        with self.lock:
            self._go_through()
            return super().reserved

    def allocate_at_once(self, requested: int, stream: int) -> Block | None:
        """Hand out a block if the request may fail, as `allocate` does, or else return None: it may wait.

        Then `request` is given a note with the bytes `requested`, the `stream`, and None for its `block`.
        """
        if requested <= WAITS and not stream:
            segments = (self.capacity - self.all.reserved_bytes.current) // SMALL_SEGMENT
            if (waiting := len(self._diary)) < MANY and waiting < (segments - 1) * PER_SEGMENT:
                return None
        return self.allocate(requested, stream)

    def allocate(self, requested: int, stream: int = 0) -> Block:
        """Hand out a block of at least `requested` bytes.

        Raises:
            torch.OutOfMemoryError: when the device has no room, after the cache was freed.
        """
        with self.lock:
            self._go_through()
            return super().allocate(requested, stream)

    def keep_for(self, block: Block, queue: clock.Queue, memory: object) -> None:
        """Hold a block, when its `memory` has died, until the work of a stream by then has ended.

        This is `record_stream`. PyTorch asks whether the work has ended at each request of memory.
        """
        with self.lock:
            if queue.stream_id == block.stream or queue in block.users:
                return
            if not block.users:

                def note_death(_) -> None:
                    block.until = max(queue.free_at for queue in block.users)

                block.death = ref(memory, note_death)
                self.shared += 1
                self.allocate_at_once = self._allocate_beside
            block.users += (queue,)

    def _allocate_beside(self, requested: int, stream: int) -> Block:
        """Hand out a block at once, while other streams use blocks: the time of a request counts then."""
        with self.lock:
            self.settle()
            self._let_go(clock.now())
            if not self.shared:
                del self.allocate_at_once
            block = self.allocate(requested, stream)
            for books in self.books:
                books.note_active()
            return block

    def settle(self) -> None:
        """Serve what waits and merge what was freed, so that every figure is right."""
        with self.lock:
            self._go_through()
            super().settle()

    def count(self) -> None:
        """Settle, and count the blocks that were handed out again."""
        with self.lock:
            super().count()

    def empty_cache(self) -> None:
        """Give every segment in which nothing lives back to the device."""
        with self.lock:
            super().empty_cache()

    def after_fork(self) -> None:
        """Forget a thread that held the lock when this process was forked, and that is not in it."""
        self.lock = threading.RLock()

    def _go_through(self) -> None:
        """Serve what the diary holds."""
        diary, allocate, put_back = self._diary, super().allocate, self._freed.append
        while diary:
            note = diary.popleft()
            if note.block is None:
                note.block = allocate(note.requested, note.stream)
            else:
                put_back(note)


allocators = [PatientAllocator(index, engines.spec.capacity) for index, engines in enumerate(clock.devices)]
