"""Linux's walls around a submission, without root: namespaces, Landlock, and a filter of system calls.

Numbers and structures are those of the kernel's headers: linux/landlock.h, linux/sched.h, linux/prctl.h.
"""

import ctypes
import functools
import importlib.util
import os
import signal
import socket
import struct
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

try:
    import fcntl  # here, as all that submissions use: what each imports by itself takes its time
except ImportError:  # Windows
    fcntl = None

from devlab.classroom.engine import seccomp
from devlab.classroom.engine.kernel import libc, prctl, system_call

NOBODY = 61000  # the first of the user ids that root may give itself up for
PACKAGE = Path(__file__).resolve().parents[2]
# The same on every architecture since they were added in Linux 5.13.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
NEWIPC, NEWUSER, NEWPID, NEWNET = 0x08000000, 0x10000000, 0x20000000, 0x40000000
SET_DUMPABLE, SET_CHILD_SUBREAPER, SET_NO_NEW_PRIVS = 4, 36, 38
SHARED_MEMORY = 0x100  # clone's CLONE_VM
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
# Rights by the version of Landlock that brought them: 13 file rights, refer, truncate, ioctl.
FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
SCOPED = 6  # the version that keeps signals and abstract sockets among a submission's own processes
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | 1 << 14 | 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
SYSTEM = (
    "/usr",
    "/lib",
    "/lib64",
    "/bin",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/proc/cpuinfo",
    "/proc/meminfo",
)
SYSTEM += (
    "/sys/devices/system/cpu",
    "/sys/bus/pci/devices",
    "/sys/class/net",
    "/dev/urandom",
    "/dev/random",
    "/dev/zero",
)
FOLDERS_OF_PACKAGES = frozenset({"site-packages", "dist-packages"})  # the latter is Debian's


_STACK = ctypes.create_string_buffer(1 << 14)  # process 1's, far more than `pause` needs


def landlock_version() -> int:
    """Return Landlock's version in the running kernel, 0 where there is none."""
    if sys.platform != "linux":
        return 0
    try:
        return system_call(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    except OSError:
        return 0


@functools.cache
def readable(hidden: tuple[Path, ...] = ()) -> list[Path]:
    """Return what a submission may read: Python, its packages and devlab, less the solutions and `hidden`.

    It takes a hundredth of a second, so a process asks once for all that it forks.
    """
    kept_back = {path / "devlab" / "course" for path in _installed()} | {PACKAGE / "course"}
    kept_back = {path for path in kept_back if path.exists()} | {path.resolve() for path in hidden}
    roots = {Path(path).resolve() for path in (*SYSTEM, sys.prefix, sys.base_prefix, *_libraries())}
    roots |= {*Path("/sys/devices").glob("pci*")}  # gloo looks for the speed of network cards
    found = [path for root in roots | _installed() | {PACKAGE} for path in _less(root, kept_back)]
    return [path for path in found if path.exists()]


def _listed() -> set[Path]:
    """Return the folders of Python's modules, which another Python lists, though parts are kept back."""
    standard = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")}
    return {path for path in standard | _installed() | {PACKAGE.parent} if path.is_dir()}


def in_the_way(hidden: Iterable[Path]) -> str:
    """Return why paths cannot be kept from submissions, "" where they can.

    The folders of Python's modules can be listed as a whole, and Python itself has to be read.
    """
    for path in hidden:
        path, needed = path.resolve(), {Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve(), PACKAGE}
        if inside := [folder for folder in _listed() if path.is_relative_to(folder)]:
            return f"{path} lies in {inside[0]}, which every submission can look into: move it elsewhere"
        if path in needed:
            return f"{path} is the folder of Python's own, which every submission reads: move it elsewhere"
    return ""


def _installed() -> set[Path]:
    """Return the folders of packages: the environment's, a user's own, and what another environment lends."""
    found = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    found |= {Path(path) for path in sys.path if Path(path).name in FOLDERS_OF_PACKAGES}
    return {path.resolve() for path in found if path.is_dir()}


def _libraries() -> list[str]:
    """Return where a cluster's modules keep libraries; of what else stands in that list nothing is shown."""
    paths = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    return [path for path in paths if os.path.isabs(path) and os.path.basename(path) in ("lib", "lib64")]


def _less(root: Path, kept_back: Iterable[Path]) -> list[Path]:
    """Return paths that make up a folder without some that are in it: Landlock can only add."""
    inside = [path for path in kept_back if path.is_relative_to(root)]
    if root in inside:
        return []
    if not inside:
        return [root]
    return [path for child in root.iterdir() for path in _less(child, inside)]


def ruleset(scratch: Path, hidden: Iterable[Path] = ()) -> int:
    """Return a file descriptor of rules: read Python and devlab, write in scratch alone."""
    version = landlock_version()
    rights = FILE_RIGHTS[max(key for key in FILE_RIGHTS if key <= version)]
    # Ports are left to the filter: Landlock's own rules cannot tell this machine's from the Internet's.
    scoped, size = (3, 24) if version >= SCOPED else (0, 8)
    facts = ctypes.create_string_buffer(struct.pack("QQQ", rights, 0, scoped)[:size], size)
    rules = system_call(CREATE_RULESET, facts, ctypes.c_size_t(size), ctypes.c_uint32(0))
    allowed = [(path, READ) for path in readable(tuple(hidden))] + [(path, READ_DIR) for path in _listed()]
    allowed += [(scratch, rights & ~EXECUTE), (Path("/dev/null"), READ_FILE | WRITE_FILE)]
    for path, wanted in allowed:
        opened = os.open(path, getattr(os, "O_PATH", 0) | os.O_CLOEXEC)
        wanted &= rights if path.is_dir() else rights & ON_FILES
        rule = ctypes.create_string_buffer(struct.pack("=Qi", wanted, opened), 12)
        system_call(ADD_RULE, ctypes.c_int(rules), ctypes.c_int(1), rule, ctypes.c_uint32(0))
        os.close(opened)
    return rules


@dataclass(frozen=True)
class Walls:
    """What the submissions of a job run behind: made once, and entered by each of their processes.

    `level` is the isolation, `scratch` the only folder that they may write in, `uid` the user that root gives
    itself up for, 0 for none, `rules` an open file of Landlock's, -1 for none.
    """

    level: int
    scratch: Path
    uid: int
    rules: int


def walls(level: int, scratch: Path, job: int, hidden: Iterable[Path] = ()) -> Walls:
    """Make the scratch folder of a job, and what else its walls need; `hidden` paths stay behind them."""
    scratch.mkdir()
    # Root gives itself up where nobody else's user can read this Python: one for each job of each grader.
    uid = NOBODY + (os.getpid() + job) % 4000 if readable_by(NOBODY) else 0
    return Walls(level, scratch, uid, ruleset(scratch, hidden) if level >= 2 else -1)


def enter_walls(rules: int, level: int) -> None:
    """Restrict this process and all its children, for good: by a ruleset, and by a filter for the level."""
    prctl(SET_NO_NEW_PRIVS, 1)
    system_call(RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint32(0))
    os.close(rules)
    own = level >= 3  # namespaces for the network and processes
    seccomp.enter(seccomp.submissions(network=own, signals=own or landlock_version() >= SCOPED))


def adopt_orphans() -> None:
    """Let processes that descend from this one come back to it where their parent ends."""
    if sys.platform == "linux":
        prctl(SET_CHILD_SUBREAPER, 1)


def become_nobody(uid: int) -> None:
    """Give up root for a user id of nobody's; without root, nothing changes."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        prctl(SET_DUMPABLE, 1)  # else the kernel keeps /proc/self from its new owner


@functools.cache
def readable_by(uid: int) -> bool:
    """Tell whether root can give itself up for a user who still reaches Python and devlab."""
    if not hasattr(os, "fork") or os.geteuid() != 0:
        return False
    child = os.fork()
    if child == 0:
        code = 1
        try:
            become_nobody(uid)
            needed = (os.path.realpath(sys.executable), os.__file__, PACKAGE, _torch())
            code = not all(os.access(path, os.R_OK) for path in needed)
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def _torch() -> str:
    """Return a file of PyTorch's, which is not imported for that."""
    return getattr(importlib.util.find_spec("torch"), "origin", None) or os.__file__


def enter_namespaces() -> None:
    """Leave the machine's users, processes, network and shared memory; this process's children are inside."""
    uid, gid = os.geteuid(), os.getegid()
    if libc().unshare(NEWUSER | NEWPID | NEWNET | NEWIPC):
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1", encoding="ascii")
    _loopback_up()


def first_process() -> int:
    """Start process 1 of the new process namespace, and return it: it sleeps until it is killed.

    It shares this process's memory, which spares copying that for a process that does nothing; all that it
    ever runs is `pause`, on a stack of its own. What is orphaned in the namespace it does not wait for.
    """
    top = (ctypes.addressof(_STACK) + len(_STACK)) & ~63
    ignored = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    pause = ctypes.cast(libc().pause, ctypes.c_void_p)
    first = libc().clone(pause, ctypes.c_void_p(top), SHARED_MEMORY | signal.SIGCHLD, None)
    signal.signal(signal.SIGCHLD, ignored)
    if first < 0:
        raise OSError(ctypes.get_errno(), "clone")
    return first


def _loopback_up() -> None:
    # Programs of several processes meet on 127.0.0.1, which a new network namespace has switched off.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        fcntl.ioctl(channel, 0x8914, struct.pack("16sH14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP


def _allows(level: int) -> bool:
    """Tell whether a process can build the walls of a level, by having one do it."""
    nobody = readable_by(NOBODY)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            rules = ruleset(Path("/"))
            if nobody:
                become_nobody(NOBODY)
            if level >= 3:
                enter_namespaces()
            inner = os.fork()
            if inner == 0:
                enter_walls(rules, level)
                os._exit(0)
            code = os.waitpid(inner, 0)[1]
        finally:
            os._exit(bool(code))
    return os.waitpid(child, 0)[1] == 0


def isolation_available() -> int:
    """Return the strongest level that this machine allows, found by trying.

    3: namespaces, Landlock, a filter of system calls, limits. 2: those without namespaces. 1: limits, and
    processes killed. 0: the clock alone.
    """
    if not hasattr(os, "fork"):
        return 0
    if not landlock_version() or not seccomp.known():
        return 1
    return next((level for level in (3, 2) if _allows(level)), 1)
