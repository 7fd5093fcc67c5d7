"""What a submission may use, what its processes do use, and how these are ended."""

import contextlib
import errno
import os
import secrets
import signal
import stat
import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

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


def longest(seconds: float, exercises: int) -> float:
    """Return how many seconds a submission may take as a whole, where each exercise may take `seconds`.

    Some need a second process, after one that another exercise ended.
    """
    return 2 * seconds * (exercises + 1)


def set_limits(limits: Limits, exercises: int) -> None:
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


MOST_SOCKETS = 64  # that a submission may have open, since what lies in them is in no process's memory
MOST_FILES = 2000  # files and folders that a submission may have in its scratch folder
DYING = 5.0  # seconds that a killed process may take to be gone
DEEPEST = 100  # folders inside each other


def excess(
    root: int, scratch: Path, limits: Limits, before: int, others: Collection[str] = ()
) -> tuple[str, str] | None:
    """Return (outcome, headline) where the processes below `root` are over a limit, None where they are not.

    `before` is what `memory([root])` gave before the submission began, and `others` are processes that are
    not the submission's. The kernel's own limits hold for one process each, some not for root, and none adds
    up memory or disk.
    """
    family = descendants(root, others)
    if len(family) > limits.processes:
        return "killed", f"it started more than {limits.processes} processes"
    most = limits.memory * MIB
    try:
        nameless = _nameless(family, scratch)
        hidden = sum(size for path, size in nameless.values() if not path.startswith(bytes(scratch)))
        if resident(family) + hidden > most and memory([root, *family], hidden) - before > most:
            return "memory", f"its processes took more than {limits.memory} MiB together"
        if _too_full(scratch, family, nameless, limits):
            sockets = f" or had {MOST_SOCKETS} sockets open"
            return "killed", f"it wrote more than {limits.disk} MiB or {MOST_FILES} files{sockets}"
    except PermissionError:
        return "killed", "it hid what it uses from the watcher"
    return None


def everyone() -> set[str]:
    """Return all processes, by their names in /proc.

    >>> str(os.getpid()) in everyone()
    True
    """
    return set(filter(str.isdecimal, os.listdir("/proc")))


def descendants(root: int, others: Collection[str] = ()) -> list[int]:
    """Return the processes that descend from one, zombies left out; `others` are not looked at.

    >>> os.getpid() in descendants(os.getppid()), os.getpid() in descendants(os.getpid())
    (True, False)
    """
    parents = _parents(others)
    found, waiting = [], [root]
    while waiting:
        parent = waiting.pop()
        children = [one for one, its in parents.items() if its == parent]
        found += children
        waiting += children
    return found


def _parents(others: Collection[str] = ()) -> dict[int, int]:
    """Return the parent of every process that is no zombie, but for others."""
    parents = {}
    for name in everyone().difference(others):  # plain calls: this runs ten times a second
        try:
            opened = os.open(f"/proc/{name}/stat", os.O_RDONLY)
        except OSError:
            continue
        try:
            state = os.read(opened, 4096).rpartition(b")")[2].split(maxsplit=2)
        except OSError:
            continue
        finally:
            os.close(opened)
        if state[0] not in b"ZX":
            parents[int(name)] = int(state[1])
    return parents


def end(root: int, grace: float = 0.0) -> None:
    """Kill all processes that descend from this process `root`, detached or not, and reap them.

    For `grace` seconds they may end by themselves, as most do: to look for processes takes longer.
    """
    deadline, stopped = time.monotonic() + grace, set()
    # A process that a look missed may sleep for long, so the loop looks again and awaits no single process.
    while not _all_reaped():
        if time.monotonic() >= deadline:
            _halt(root, stopped)
        time.sleep(0.002)


def _all_reaped() -> bool:
    """Reap the children of this process that have ended; tell whether none is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def _halt(root: int, stopped: set[int]) -> bool:
    """Look once: kill what an earlier look stopped, stop what is new, and tell whether any process was there.

    Processes are stopped first, since of those that go on forking some would always escape the killing.
    """
    family = set(descendants(root))
    _signal(family & stopped, signal.SIGKILL)
    _signal(family - stopped, signal.SIGSTOP)
    stopped |= family
    return bool(family)


def kill(root: int) -> None:
    """Kill another process and all that descends from it, and wait until none of them runs any more.

    Orphans must come back to `root`, which is stopped first and killed last. A look misses a process whose
    parent forked it and ended during that look; the next look finds it.
    """
    _signal([root], signal.SIGSTOP)
    stopped: set[int] = set()
    nobody, deadline = 0, time.monotonic() + DYING
    while nobody < 2 and time.monotonic() < deadline:
        nobody = 0 if _halt(root, stopped) else nobody + 1
    _signal([root], signal.SIGKILL)
    while root in _parents() and time.monotonic() < deadline:
        time.sleep(0.01)


def _signal(processes, number: int) -> None:
    for one in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, number)


def resident(processes: list[int]) -> int:
    """Return the bytes in memory of some processes: quick, but shared memory counts for each of them."""
    told = [line.split() for one in processes for line in _read_proc(one, "status").splitlines()]
    return 1024 * sum(int(line[1]) for line in told if line[0] in (b"VmRSS:", b"VmSwap:"))


def memory(processes: list[int], shared: int = 0) -> int:
    """Return the bytes that some processes hold together beside files; shared memory counts once.

    `shared` is how much memory they are known to share, whether a process has it mapped now or not.

    >>> memory([os.getpid()]) > MIB
    True
    """
    found = dict.fromkeys(("Pss_Anon", "Pss_Shmem", "SwapPss"), 0)
    for one in processes:
        for line in _read_proc(one, "smaps_rollup").splitlines():
            name, _, size = line.decode().partition(":")
            if name in found:
                found[name] += int(size.split()[0]) * 1024
    return found["Pss_Anon"] + found["SwapPss"] + max(found["Pss_Shmem"], shared)


@contextlib.contextmanager
def _unless_ended(process: int) -> Iterator[None]:
    """Pass over a process that ends while it is looked at; raise PermissionError for one that hides."""
    try:
        yield
    except PermissionError:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{process}/statm").read_bytes().split()[0] != b"0":  # the process still has memory
                raise
    except OSError:
        pass


def _read_proc(process: int, name: str) -> bytes:
    """Return what /proc tells of a process, nothing of one that ended."""
    with _unless_ended(process), open(f"/proc/{process}/{name}", "rb", buffering=0) as stream:
        return stream.readall()
    return b""


def _nameless(processes: list[int], scratch: Path) -> dict[tuple[bytes, bytes], tuple[bytes, int]]:
    """Return the shared memory and the deleted files that processes have mapped, as {file: (path, size)}.

    No name in a folder and no open file shows them, and their pages may be in use though no process holds
    them in memory at the moment: so all that is mapped counts.
    """
    kinds = (b"/dev/zero", b"/memfd:", b"/SYSV", bytes(scratch) + b"/")
    found: dict[tuple[bytes, bytes], tuple[bytes, int]] = {}
    for one in processes:
        maps = _read_proc(one, "maps")
        for line in maps.splitlines() if b"(deleted)" in maps else ():
            place, _, offset, device, inode, *path = line.split(maxsplit=5)
            if path and path[0].startswith(kinds) and path[0].endswith(b"(deleted)"):
                low, high = (int(end, 16) for end in place.split(b"-"))
                size = max(int(offset, 16) + high - low, found.get((device, inode), (b"", 0))[1])
                found[device, inode] = path[0], size
    return found


def _too_full(scratch: Path, family: list[int], nameless: dict, limits: Limits) -> bool:
    found: dict[tuple[int, int], int] = {}
    sockets: set[int] = set()
    folders = [str(scratch)]
    while folders:
        folder = folders.pop()
        if folder.count("/") > DEEPEST + str(scratch).count("/"):  # slow to look through
            return True
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    facts = entry.stat(follow_symlinks=False)
                    found[facts.st_dev, facts.st_ino] = facts.st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except PermissionError:
            raise
        except OSError as problem:
            if problem.errno == errno.ENAMETOOLONG:  # files could hide in a folder that cannot be opened
                return True
        if len(found) > MOST_FILES:
            return True
    # A file that was deleted while a process has it open still fills the disk.
    for one in family:
        with _unless_ended(one):
            for number in os.listdir(f"/proc/{one}/fd"):
                with contextlib.suppress(OSError):
                    facts = os.stat(f"/proc/{one}/fd/{number}")
                    sockets |= {facts.st_ino} if stat.S_ISSOCK(facts.st_mode) else set()
                    if stat.S_ISREG(facts.st_mode) and not facts.st_nlink:
                        found[facts.st_dev, facts.st_ino] = facts.st_blocks * 512
    for (device, inode), (path, size) in nameless.items():
        if path.startswith(bytes(scratch)):
            major, minor = (int(part, 16) for part in device.split(b":"))
            found.setdefault((os.makedev(major, minor), int(inode)), size)
    return sum(found.values()) > limits.disk * MIB or len(sockets) > MOST_SOCKETS


def is_empty(folder: Path) -> bool:
    """Tell whether nothing is in a folder; one that cannot be read may hold anything.

    >>> is_empty(Path("/proc"))
    False
    """
    try:
        return not os.listdir(folder)
    except OSError:
        return False


def empty(folder: Path) -> None:
    """Delete all that is in a folder, however deep it goes and whatever its permissions are.

    Folders move up before they are deleted, so that no path here is ever long: `shutil.rmtree` gives up on
    a thousand folders inside each other.
    """
    while inside := list(os.scandir(folder)):
        for entry in inside:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            os.chmod(entry.path, 0o700)
            for inner in list(os.scandir(entry.path)):
                if inner.is_dir(follow_symlinks=False):
                    os.chmod(inner.path, 0o700)
                    os.rename(inner.path, Path(folder) / secrets.token_hex(16))
                else:
                    os.unlink(inner.path)
            os.rmdir(entry.path)
