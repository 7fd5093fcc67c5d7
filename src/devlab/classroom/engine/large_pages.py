"""Large pages for the memory of what is forked often: a fork takes a third as long, from start to end.

The kernel copies a table of all pages for each fork, and a process with PyTorch has 40,000 small ones. glibc
takes large ones for its heap where its environment asks for them; what Python maps itself is put together
afterwards. On a system that knows neither, nothing happens.
"""

import ctypes
from pathlib import Path

from devlab.classroom.engine.kernel import libc

# For a process to start with. What is freed is kept, or each large page would be cleared again and again.
HEAP = {"GLIBC_TUNABLES": f"glibc.malloc.hugetlb=1:glibc.malloc.trim_threshold={256 << 20}"}
COLLAPSE = 25  # MADV_COLLAPSE of linux/mman.h, since Linux 6.1
SIZE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")


def collapse() -> int:
    """Put this process's own memory beside the heap into large pages; return how many bytes were asked for.

    >>> collapse() >= 0
    True
    """
    try:
        size = int(SIZE.read_text(encoding="ascii"))
        mappings = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except (OSError, ValueError):
        return 0
    total = 0
    for mapping in mappings:
        where, rights, _, _, file, *name = mapping.split(maxsplit=5)
        low, high = (int(one, 16) for one in where.split("-"))
        low, high = -(-low // size) * size, high // size * size
        if rights == "rw-p" and file == "0" and not name and high > low:
            # What cannot be put together stays as it is.
            libc().madvise(ctypes.c_void_p(low), ctypes.c_size_t(high - low), COLLAPSE)
            total += high - low
    return total
