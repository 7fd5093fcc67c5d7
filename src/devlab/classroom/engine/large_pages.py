"""Large pages for the memory of what is forked often: a fork is quicker, and so is all that it runs.

The kernel copies a table of all pages for each fork, and a process with PyTorch has 40,000 small ones. glibc
takes large ones for its heap where its environment asks for them; what Python maps itself is put together
afterwards. Libraries lie in small pages: each fork has to find anew those that it runs, and the processor
remembers too few of them. So what has run is copied into large ones, which take their place. On a system that
knows no large pages, nothing happens.
"""

import ctypes
import os
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from devlab.classroom.engine.kernel import libc

# For a process to start with. What is freed is kept, or each large page would be cleared again and again.
HEAP = {"GLIBC_TUNABLES": f"glibc.malloc.hugetlb=1:glibc.malloc.trim_threshold={256 << 20}"}
SIZE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
# Of linux/mman.h: protections, flags and advice. MADV_COLLAPSE is there since Linux 6.1.
READ_WRITE, READ_EXEC = 1 | 2, 1 | 4
PRIVATE_ANONYMOUS, MAYMOVE_FIXED = 0x02 | 0x20, 1 | 2
HUGEPAGE, COLLAPSE = 14, 25
FAILED = ctypes.c_void_p(-1).value
PRESENT = 0x80  # in the last of the eight bytes that pagemap has of a page


def collapse() -> int:
    """Put this process's own memory beside the heap into large pages; return how many bytes were asked for.

    >>> collapse() >= 0
    True
    """
    total = 0
    for low, high in _mappings("rw-p", in_files=False):
        _call("madvise", low, high - low, COLLAPSE)  # what cannot be put together stays as it is
        total += high - low
    return total


def code_that_ran() -> list[tuple[int, int]]:
    """Return where code lies that this process has run, as starts and lengths in whole large pages.

    A fork does not take over what it has run: whoever is to copy that asks before.

    >>> all(length > 0 for _, length in code_that_ran())
    True
    """
    size, page, found = _size(), os.sysconf("SC_PAGE_SIZE"), []
    for low, high in _mappings("r-xp", in_files=True):
        try:
            with open("/proc/self/pagemap", "rb", buffering=0) as pages:
                known = os.pread(pages.fileno(), (high - low) // page * 8, low // page * 8)[7::8]
        except OSError:  # this kernel does not say what has run
            return []
        many = size // page
        ran = [max(known[place : place + many]) >= PRESENT for place in range(0, len(known), many)]
        for has_run, pieces in groupby(range(len(ran)), ran.__getitem__):
            if has_run:
                first, *others = pieces
                found.append((low + first * size, size * (1 + len(others))))
    return found


def copy_code(pieces: Iterable[tuple[int, int]]) -> int:
    """Put pieces of code, as `code_that_ran` gives them, into large pages; return how many bytes were copied.

    Each piece is exchanged at once, for a copy. Whoever looks at this process from outside, a debugger above
    all, no longer sees which file such code came from.
    """
    size = _size()
    return sum(_exchange(start, length, size) for start, length in pieces)


def _exchange(start: int, length: int, size: int) -> int:
    """Put a copy in large pages in the place of code; return its length, 0 where all stays as it is."""
    room = _call("mmap", 0, length + size, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0)
    if room == FAILED:
        return 0
    copy = -(-room // size) * size
    unused = [(room, copy - room), (copy + length, room + size - copy)]
    _call("madvise", copy, length, HUGEPAGE)
    ctypes.memmove(copy, start, length)
    # In small pages a copy would be worse than none: each fork copies the table of them.
    if (
        _call("madvise", copy, length, COLLAPSE)
        or _call("mprotect", copy, length, READ_EXEC)
        or _call("mremap", copy, length, length, MAYMOVE_FIXED, start) == FAILED
    ):
        unused, length = [(room, length + size)], 0
    for place, extent in unused:
        if extent:
            _call("munmap", place, extent)
    return length


def _mappings(rights: str, in_files: bool) -> Iterator[tuple[int, int]]:
    """Yield from where to where mappings fill large pages, those with such rights, of files or of none."""
    size = _size()
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace") if size else ""
    for mapping in maps.splitlines():
        where, its, _, _, file, *name = mapping.split(maxsplit=5)
        low, high = (int(one, 16) for one in where.split("-"))
        low, high = -(-low // size) * size, high // size * size
        # What has a name and no file, such as the heap, is not ours to move.
        if its == rights and high > low and (file != "0" if in_files else not name):
            yield low, high


def _size() -> int:
    """Return the bytes of a large page, 0 where there are none."""
    try:
        return int(SIZE.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def _call(name: str, *facts: int) -> int:
    """Call one of the C library's functions about memory; return an address, or 0 if all went well."""
    function = getattr(libc(), name)
    function.restype = ctypes.c_void_p if name in ("mmap", "mremap") else ctypes.c_int
    return function(*map(ctypes.c_size_t, facts))
