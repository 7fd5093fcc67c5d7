"""The devices' allocators, which put small requests off until a program asks how much memory there is.

A program asks for memory with every operator, and seldom how much it has. So requests that cannot fail are
written down, as is what is freed, and served in that order when a figure is wanted. The figures are those of
an allocator that serves each request at once; an operator with several small results takes a third less time.
"""

from collections import deque

from devlab.sim import clock
from devlab.sim.allocator import SMALL_SEGMENT, Allocator, Block

# Requests of up to 32 KiB may wait. A small segment without room for such a request has gaps below 32 KiB
# between its blocks. Where the blocks are no larger than that, the segment holds 31 of them or more: so 31
# waiting requests take at most one new segment, whatever was freed meanwhile.
WAITS = 32 << 10
PER_SEGMENT = SMALL_SEGMENT // (2 * WAITS) - 1
MANY = 4000  # entries of a diary, which take some 10 ms to serve


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
        super().__init__(index, capacity)
        # What was freed, and requests, which have no `block` yet, in the order in which they came.
        self._diary: deque = deque()
        self.free = self._diary.append  # `free(block)` takes a block back into the cache
        self.request = self._diary.append  # for a request that `allocate_at_once` puts off

    @property
    def reserved(self) -> int:
        """The bytes taken from the device."""
        self._go_through()
        return super().reserved

    def allocate_at_once(self, requested: int, stream: int) -> Block | None:
        """Hand out a block if the request may fail, as `allocate` does, or else return None: it may wait.

        Then `request` is given a note with the bytes `requested`, the `stream`, and None for its `block`.
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
        """Serve what waits and merge what was freed, so that every figure is right."""
        self._go_through()
        super().settle()

    def _go_through(self) -> None:
        """Serve what the diary holds."""
        diary = self._diary
        while diary:
            note = diary.popleft()
            if note.block is None:
                note.block = super().allocate(note.requested, note.stream)
            else:
                self._freed.append(note)


allocators = [PatientAllocator(index, engines.spec.capacity) for index, engines in enumerate(clock.devices)]
