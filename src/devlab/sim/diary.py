"""An allocator that hands out small blocks only once someone asks how much memory there is.

A program asks for memory with every operator, and seldom how much it has. So requests that cannot fail are
only written down, as is what is freed, and gone through in this order when a figure is wanted: it is the same
as if each had been served at once.
"""

from collections import deque

from devlab.sim.allocator import SMALL_SEGMENT, Allocator
from devlab.sim.blocks import Block

# What may wait: requests of up to 32 KiB. A small segment in which such a one finds no room has gaps below
# 32 KiB between its blocks. Where those are no larger themselves, it holds 31 of them or more: so many
# requests that wait take at most one new segment, whatever was freed meanwhile.
WAITS = 32 << 10
PER_SEGMENT = SMALL_SEGMENT // (2 * WAITS) - 1
MANY = 4000  # entries of a diary; nobody notices how long it takes to go through them


class PatientAllocator(Allocator):
    """The memory of one device, in bytes.

    >>> from types import SimpleNamespace
    >>> memory = PatientAllocator(0, capacity=1 << 30)
    >>> note = SimpleNamespace(requested=1000, stream=0, block=memory.allocate_at_once(1000, 0))
    >>> memory.request(note)
    >>> memory.allocated, note.block.requested
    (1024, 1000)
    """

    def __init__(self, index: int, capacity: int):
        """Reserve nothing yet."""
        super().__init__(index, capacity)
        # What came and is not yet gone through: what was freed, and requests, which have no `block` yet.
        self._diary: deque = deque()
        self.free = self._diary.append  # `free(block)` takes a block back into the cache
        self.request = self._diary.append  # what `allocate_at_once` leaves

    @property
    def reserved(self) -> int:
        """The bytes taken from the device."""
        self._go_through()
        return super().reserved

    def allocate_at_once(self, requested: int, stream: int) -> Block | None:
        """Hand out a block if the request may fail, as `allocate` does; else it may wait: None.

        It waits as a note that `request` is given, and that has the bytes `requested`, the `stream`, and None
        for its `block`.
        """
        if requested <= WAITS and not stream:
            segments = (self.capacity - self.all.reserved_bytes.current) // SMALL_SEGMENT
            if len(self._diary) < min(MANY, (segments - 1) * PER_SEGMENT):
                return None
        return self.allocate(requested, stream)

    def allocate(self, requested: int, stream: int = 0) -> Block:
        """Hand out a block of at least `requested` bytes.

        Raises:
            torch.OutOfMemoryError: when the device has no room, after the cache was freed.
        """
        self._go_through()
        return super().allocate(requested, stream)

    def settle(self) -> None:
        """Go through what waits and merge what was freed, so that every figure is right."""
        self._go_through()
        super().settle()

    def _go_through(self) -> None:
        """Do what the diary says."""
        diary = self._diary
        while diary:
            note = diary.popleft()
            if note.block is None:
                note.block = super().allocate(note.requested, note.stream)
            else:
                self._freed.append(note)
