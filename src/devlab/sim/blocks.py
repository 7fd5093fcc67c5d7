"""The pieces that an allocator cuts a device's memory into."""


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
