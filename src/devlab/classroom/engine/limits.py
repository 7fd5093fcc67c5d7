"""What a submission may use, and how the operating system is told."""

import contextlib
import sys
from dataclasses import dataclass

try:
    import resource
except ImportError:  # Windows
    resource = None

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What one submission may use.

    `seconds` an exercise by the clock, `memory` in MiB beyond the template's, `processes` (threads count),
    `files` open at once, `file_size` and `disk` in MiB, `output` of verdicts in MiB.
    """

    seconds: float = 20.0
    memory: int = 2048
    processes: int = 64
    files: int = 256
    file_size: int = 32
    disk: int = 64
    output: int = 4


def apply(limits: Limits, exercises: int) -> None:
    """Set this process's own limits, for good; what a system does not know is left out.

    CPU time is for the whole submission: the clock watches each exercise.
    """
    if resource is None:
        return
    cpu = int(limits.seconds * max(exercises, 1)) + 5
    wanted = {
        "RLIMIT_CORE": 0,
        "RLIMIT_CPU": cpu,
        "RLIMIT_AS": _address_space() + limits.memory * MIB,
        "RLIMIT_NPROC": _threads() + limits.processes,
        "RLIMIT_FSIZE": limits.file_size * MIB,
        "RLIMIT_NOFILE": limits.files,
    }
    for name, value in wanted.items():
        kind = getattr(resource, name, None)
        # macOS refuses an address space smaller than what is reserved already.
        if kind is not None and not (name == "RLIMIT_AS" and sys.platform != "linux"):
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(kind, (value, value))


def _threads() -> int:
    """Return how many threads the machine has: the kernel counts those that a user has already, too."""
    try:
        with open("/proc/loadavg", encoding="ascii") as stream:
            return int(stream.read().split()[3].partition("/")[2])
    except OSError:
        return 1000


def _address_space() -> int:
    """Return what this process has mapped already, most of it PyTorch's libraries."""
    try:
        with open("/proc/self/statm", encoding="ascii") as stream:
            return int(stream.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 8192 * MIB
