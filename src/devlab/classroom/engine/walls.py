"""Linux's walls around a submission, without root: namespaces, Landlock, and a filter of system calls.

Numbers and structures are those of the kernel's headers: linux/landlock.h, linux/sched.h, linux/prctl.h,
asm/unistd_64.h, asm-generic/unistd.h, linux/bpf_common.h and linux/seccomp.h.
"""

import ctypes
import errno
import functools
import importlib.util
import os
import platform
import signal
import socket
import struct
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

libc = functools.cache(lambda: ctypes.CDLL(None, use_errno=True))  # elsewhere than on Linux there may be none


def system_call(number: int, *arguments: object) -> int:
    """Make a system call; raises OSError as the kernel says."""
    done = libc().syscall(ctypes.c_long(number), *arguments)
    if done < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done


def prctl(option: int, value: int, pointer: object = None) -> None:
    """Set something about this process; raises OSError."""
    third = pointer if pointer is not None else ctypes.c_ulong(0)
    if libc().prctl(option, ctypes.c_ulong(value), third, ctypes.c_ulong(0), ctypes.c_ulong(0)):
        raise OSError(ctypes.get_errno(), "prctl")


try:
    import fcntl  # here and not where it is used, as that would import it for each submission anew
except ImportError:  # Windows
    fcntl = None


NOBODY = 61000  # the first of the user ids that root may change to
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
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime", "/proc/cpuinfo")
SYSTEM += ("/proc/meminfo", "/sys/devices/system/cpu", "/sys/bus/pci/devices", "/sys/class/net")
SYSTEM += ("/dev/urandom", "/dev/random")
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
    kept_back = {path / "devlab" / "course" for path in _packages()} | {PACKAGE / "course"}
    kept_back = {path for path in kept_back if path.exists()} | {path.resolve() for path in hidden}
    roots = {Path(path).resolve() for path in (*SYSTEM, sys.prefix, sys.base_prefix, *_libraries())}
    roots |= {*Path("/sys/devices").glob("pci*")}  # gloo looks for the speed of network cards
    found = [path for root in roots | _packages() | {PACKAGE} for path in _less(root, kept_back)]
    return [path for path in found if path.exists()]


def _modules() -> set[Path]:
    """Return the folders of Python's modules, which another Python lists, though parts are kept back."""
    standard = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")}
    return {path for path in standard | _packages() | {PACKAGE.parent} if path.is_dir()}


def in_the_way(hidden: Iterable[Path]) -> str:
    """Return why paths cannot be kept from submissions, "" where they can.

    The folders of Python's modules can be listed as a whole, and Python itself has to be read.
    """
    for path in hidden:
        path, needed = path.resolve(), {Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve(), PACKAGE}
        if inside := [folder for folder in _modules() if path.is_relative_to(folder)]:
            return f"{path} lies in {inside[0]}, which every submission can look into: move it elsewhere"
        if path in needed:
            return f"{path} is the folder of Python's own, which every submission reads: move it elsewhere"
    return ""


def _packages() -> set[Path]:
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
    allowed = [(path, READ) for path in readable(tuple(hidden))] + [(path, READ_DIR) for path in _modules()]
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

    `level` is the isolation, `scratch` the only folder that they may write in, `uid` the user that root
    changes to, 0 for none, `rules` an open file of Landlock's, -1 for none.
    """

    level: int
    scratch: Path
    uid: int
    rules: int


def build(level: int, scratch: Path, job: int, hidden: Iterable[Path] = ()) -> Walls:
    """Make the scratch folder of a job, and what else its walls need; `hidden` paths stay behind them."""
    scratch.mkdir()
    # Where that user can still read this Python, root changes to a user of its own for each job.
    uid = NOBODY + (os.getpid() + job) % 4000 if readable_by(NOBODY) else 0
    return Walls(level, scratch, uid, ruleset(scratch, hidden) if level >= 2 else -1)


def enter_walls(rules: int, level: int) -> None:
    """Restrict this process and all its children, for good: by a ruleset, and by a filter for the level."""
    prctl(SET_NO_NEW_PRIVS, 1)
    system_call(RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint32(0))
    os.close(rules)
    own = level >= 3  # namespaces for the network and processes
    enter_filter(filter_for_submissions(network=own, signals=own or landlock_version() >= SCOPED))


def adopt_orphans() -> None:
    """Make this process the parent of those that descend from it and whose own parent ends."""
    if sys.platform == "linux":
        prctl(SET_CHILD_SUBREAPER, 1)


def become_nobody(uid: int) -> None:
    """Change from root to a user id that no account has; a process that is not root's stays as it is."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        prctl(SET_DUMPABLE, 1)  # else the kernel keeps /proc/self from its new owner


@functools.cache
def readable_by(uid: int) -> bool:
    """Tell whether root can change to a user who may still read Python and devlab."""
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
    """Start process 1 of the new process namespace, and return its number: it sleeps until it is killed.

    Process 1 only calls `pause`, on a stack of its own, and shares this process's memory, so that none of
    that has to be copied. It does not wait for orphans in the namespace.
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
    if not landlock_version() or not filter_known():
        return 1
    return next((level for level in (3, 2) if _allows(level)), 1)


SET_SECCOMP, FILTER = 22, 2
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
LOAD, EQUAL, AT_LEAST, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # where a filter finds them
# By platform.machine(): the kernel's number for it, and its column in the tables below.
MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
NEWEST = 463  # system calls that came after this list was made do not exist here

# Name, number on x86_64, number on aarch64; - where there is none.
OTHERS_MEMORY = """ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, kcmp 312 272,
    process_madvise 440 440, process_mrelease 448 448, pidfd_getfd 438 438, pidfd_send_signal 424 424,
    migrate_pages 256 238, move_pages 279 239"""
OTHERS_TIME = """setpriority 141 140, sched_setscheduler 144 119, sched_setparam 142 118,
    sched_setattr 314 274, ioprio_set 251 30"""
# Without a namespace for them these outlive who made them.
LEFT_BEHIND = """shmget 29 194, semget 64 190, msgget 68 186, mq_open 240 180, add_key 248 217,
    request_key 249 218, keyctl 250 219"""
KERNELS = """bpf 321 280, perf_event_open 298 241, userfaultfd 323 282, syslog 103 116, acct 163 89,
    quotactl 179 60, quotactl_fd 443 443, personality 135 92, iopl 172 -, ioperm 173 -, vhangup 153 58,
    reboot 169 142, kexec_load 246 104, kexec_file_load 320 294, init_module 175 105, finit_module 313 273,
    delete_module 176 106, swapon 167 224, swapoff 168 225, settimeofday 164 170, clock_settime 227 112,
    adjtimex 159 171, clock_adjtime 305 266, sethostname 170 161, setdomainname 171 162"""
WALLS = """mount 165 40, umount2 166 39, move_mount 429 429, open_tree 428 428, fsopen 430 430,
    fsconfig 431 431, fsmount 432 432, fspick 433 433, mount_setattr 442 442, pivot_root 155 41,
    chroot 161 51, unshare 272 97, setns 308 268"""
# Landlock before version 3 lets a path be cut to nothing; the others open files past it.
FILES = """truncate 76 45, name_to_handle_at 303 264, open_by_handle_at 304 265, fanotify_init 300 262"""
# By these a submission has memory or deleted files that none of its processes shows: a file on its way from
# one to another is open in neither.
OUT_OF_SIGHT = """memfd_create 319 279, memfd_secret 447 447, sendmsg 46 211, sendmmsg 307 269"""
# Of inotify's instances a user has 128, and a submission could take all of them.
SCARCE = "inotify_init 253 -, inotify_init1 294 26"
# What they do is in memory that a filter does not see; libraries try older calls when these do not exist.
UNSEEN = """clone3 435 435, openat2 437 437, io_uring_setup 425 425, io_uring_enter 426 426,
    io_uring_register 427 427"""
# Landlock lets these reach any file of the user's. Honest code uses them in passing, in `shutil.copy` or
# `os.utime`, and minds failure more than an effect that it never looks for: they do nothing.
PRETENDED = """chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, chown 92 -, fchown 93 55,
    lchown 94 -, fchownat 260 54, utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88,
    setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, removexattr 197 14, lremovexattr 198 15,
    fremovexattr 199 16"""
# By these options of a socket it holds more memory than it is born with, which no process shows.
BUFFERS, SOCKETS_OWN = (7, 8, 32, 33), 1  # SO_SNDBUF, SO_RCVBUF and their forces, at SOL_SOCKET
SIGNALS = """tkill 200 130, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240"""
SOCKET, OPEN, OPENAT, CLONE, LIMITS, KILL, TGKILL, PRCTL = (
    "socket 41 198",
    "open 2 -",
    "openat 257 56",
    "clone 56 220",
    "prlimit64 302 261",
    "kill 62 129",
    "tgkill 234 131",
    "prctl 157 167",
)
INTERNET, NETLINK = (2, 10), 16  # families of sockets; by netlink a program learns its own addresses
NEW_NAMESPACES = 0x7E020000  # clone's flags for them
CUTS = 0o1000  # O_TRUNC, which Landlock before version 3 allows with O_RDONLY


def filter_known() -> bool:
    """Tell whether a filter can be made for this machine.

    >>> filter_known() == (platform.system() == "Linux" and platform.machine() in MACHINES)
    True
    """
    return platform.system() == "Linux" and platform.machine() in MACHINES


def enter_filter(program: bytes) -> None:
    """Restrict this process and all its children to a filter, for good."""
    code = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))

    made = Program(len(program) // 8, ctypes.addressof(code))
    prctl(SET_NO_NEW_PRIVS, 1)
    prctl(SET_SECCOMP, FILTER, ctypes.byref(made))


def filter_for_submissions(network: bool, signals: bool) -> bytes:
    """Return the filter for a submission.

    `network` leaves it the sockets of the Internet's kinds, for where it has a network of its own; `signals`
    leaves it to send them, for where something else keeps them among its own processes.
    """
    column = MACHINES[platform.machine()][1]
    families = (*INTERNET, NETLINK) if network else ()
    code = [*_only(SOCKET, column, families)]
    for name, place in ((OPEN, 1), (OPENAT, 2)):
        # Cutting a file comes with writing, which Landlock watches; cutting alone it may not.
        code += _when(name, column, [_load(place), (AND, 0, 0, CUTS | 3), (EQUAL, 0, 1, CUTS)])
    code += _when(CLONE, column, [_load(0), (ANY_BIT, 0, 1, NEW_NAMESPACES)])
    code += _only(LIMITS, column, (0,))
    if not signals:
        for name in (KILL, TGKILL):
            code += _only(name, column, (0, os.getpid()))
    several = [(EQUAL, len(BUFFERS) - place - 1, 0, option) for place, option in enumerate(BUFFERS)]
    several[-1] = (EQUAL, 0, 1, BUFFERS[-1])
    code += _when("setsockopt 54 208", column, [_load(1), (EQUAL, 0, 6, SOCKETS_OWN), _load(2), *several])
    # A process that is not "dumpable" tells its watcher nothing.
    code += _when(PRCTL, column, [_load(0), (EQUAL, 0, 1, SET_DUMPABLE)])
    refused = [OTHERS_MEMORY, OTHERS_TIME, LEFT_BEHIND, KERNELS, WALLS, FILES, OUT_OF_SIGHT, SCARCE]
    refused += [SIGNALS] * (not signals)
    code += _each(",".join(refused), column, errno.EPERM)
    code += _each(UNSEEN, column, errno.ENOSYS)
    code += _each(PRETENDED, column, 0)
    return _whole(code)


def _whole(code: Iterable[tuple]) -> bytes:
    """Return a program; system calls of another machine's kind, or later than this list, do not exist."""
    head = [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, MACHINES[platform.machine()][0]),
        (RETURN, 0, 0, ERRNO | errno.ENOSYS),
        (LOAD, 0, 0, NUMBER),
        (AT_LEAST, 0, 1, NEWEST),
        (RETURN, 0, 0, ERRNO | errno.ENOSYS),
    ]
    return b"".join(struct.pack("HBBI", *one) for one in (*head, *code, (RETURN, 0, 0, ALLOW)))


def _numbers(table: str, column: int) -> list[int]:
    """Return the numbers of a table's system calls on a machine, less those that it does not have."""
    numbers = [row.split()[1 + column] for row in table.split(",")]
    return [int(number) for number in numbers if number != "-"]


def _each(table: str, column: int, error: int) -> list[tuple]:
    """Answer each system call of a table with an error number, 0 for success, and do nothing."""
    answer = (RETURN, 0, 0, ERRNO | error)
    return [step for number in _numbers(table, column) for step in ((EQUAL, 0, 1, number), answer)]


def _when(name: str, column: int, test: list[tuple]) -> list[tuple]:
    """Refuse a system call where a test of its arguments jumps nowhere; a test that does goes one further."""
    answers = [*test, (RETURN, 0, 0, ERRNO | errno.EPERM), (RETURN, 0, 0, ALLOW)]
    return [
        step for number in _numbers(name, column) for step in ((EQUAL, 0, len(answers), number), *answers)
    ]


def _only(name: str, column: int, values: Iterable[int]) -> list[tuple]:
    """Refuse a system call unless its first argument is one of some values."""
    values = tuple(values)
    tests = [(EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return _when(name, column, [_load(0), *tests])


def _load(place: int) -> tuple:
    """Load the lower half of an argument: all that the kernel reads of these."""
    return (LOAD, 0, 0, ARGUMENTS + 8 * place)
