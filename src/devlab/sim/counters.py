"""What an allocator counts, for all its memory and for each pool: PyTorch's statistics, under its names."""


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
