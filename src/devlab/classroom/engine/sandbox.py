"""Linux's walls around a submission, by plain system calls and without root: namespaces and Landlock.

Numbers and structures are those of the kernel's headers: linux/landlock.h, linux/sched.h, linux/prctl.h.
"""

import ctypes
import os
import socket
import struct
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2]
# The same on every architecture since they were added in Linux 5.13.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
NEWIPC, NEWUSER, NEWPID, NEWNET = 0x08000000, 0x10000000, 0x20000000, 0x40000000
SET_DUMPABLE, SET_CHILD_SUBREAPER, SET_NO_NEW_PRIVS = 4, 36, 38
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
# Rights by the version of Landlock that brought them: 13 file rights, refer, truncate, TCP, ioctl, scopes.
FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
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
SYSTEM += ("/sys/devices/system/cpu", "/dev/urandom", "/dev/random", "/dev/zero")


def system_call(number: int, *arguments: object) -> int:
    """Make a system call; raises OSError as the kernel says."""
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.syscall(ctypes.c_long(number), *arguments)
    if done < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done


def prctl(option: int, value: int) -> None:
    """Set something about this process; raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)):
        raise OSError(ctypes.get_errno(), "prctl")


def landlock_version() -> int:
    """Return Landlock's version in the running kernel, 0 where there is none."""
    if sys.platform != "linux":
        return 0
    try:
        return system_call(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    except OSError:
        return 0


def readable() -> list[Path]:
    """Return what a submission may read: Python, its packages and devlab, less the course's solutions."""
    found = [Path(path) for path in SYSTEM]
    prefixes = {Path(path).resolve() for path in (sys.prefix, sys.base_prefix)}
    kept_back = {PACKAGE / "course"}
    for name in ("purelib", "platlib"):
        kept_back |= {Path(sysconfig.get_path(name)).resolve() / "devlab" / "course"}
    for root in (*prefixes, *{PACKAGE}):
        found += _less(root, kept_back)
    return [path for path in found if path.exists()]


def _less(root: Path, kept_back: Iterable[Path]) -> list[Path]:
    """Return paths that make up a folder without some that are in it: Landlock can only add."""
    inside = [path for path in kept_back if path.exists() and path.is_relative_to(root)]
    if root in inside:
        return []
    if not inside:
        return [root]
    return [path for child in root.iterdir() for path in _less(child, inside)]


def ruleset(scratch: Path) -> int:
    """Return a file descriptor of rules: read Python and devlab, write in scratch alone."""
    version = landlock_version()
    rights = FILE_RIGHTS[max(key for key in FILE_RIGHTS if key <= version)]
    net, scoped = (3 if version >= 4 else 0), (3 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    facts = ctypes.create_string_buffer(struct.pack("QQQ", rights, net, scoped)[:size], size)
    rules = system_call(CREATE_RULESET, facts, ctypes.c_size_t(size), ctypes.c_uint32(0))
    allowed = [(path, READ) for path in readable()]
    allowed += [(scratch, rights & ~EXECUTE), (Path("/dev/null"), READ_FILE | WRITE_FILE)]
    for path, wanted in allowed:
        opened = os.open(path, getattr(os, "O_PATH", 0) | os.O_CLOEXEC)
        wanted &= rights if path.is_dir() else rights & ON_FILES
        rule = ctypes.create_string_buffer(struct.pack("=Qi", wanted, opened), 12)
        system_call(ADD_RULE, ctypes.c_int(rules), ctypes.c_int(1), rule, ctypes.c_uint32(0))
        os.close(opened)
    return rules


def enter_ruleset(rules: int) -> None:
    """Restrict this process and all its children to the rules, for good."""
    prctl(SET_NO_NEW_PRIVS, 1)
    system_call(RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint32(0))
    os.close(rules)


def become_nobody(uid: int) -> None:
    """Give up root for a user id of nobody's; without root, nothing changes."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        prctl(SET_DUMPABLE, 1)  # else the kernel keeps /proc/self from its new owner


def readable_by(uid: int) -> bool:
    """Tell whether root can give itself up for a user who still reaches Python and devlab."""
    if not hasattr(os, "fork") or os.geteuid() != 0:
        return False
    child = os.fork()
    if child == 0:
        code = 1
        try:
            become_nobody(uid)
            code = not all(
                os.access(path, os.R_OK) for path in (os.path.realpath(sys.executable), os.__file__, PACKAGE)
            )
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def enter_namespaces() -> None:
    """Leave the machine's users, processes, network and shared memory; this process's children are inside."""
    uid, gid = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEWUSER | NEWPID | NEWNET | NEWIPC):
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1", encoding="ascii")
    _loopback_up()


def _loopback_up() -> None:
    # Programs of several processes meet on 127.0.0.1, which a new network namespace has switched off.
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        fcntl.ioctl(channel, 0x8914, struct.pack("16sH14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP


def _allows_namespaces() -> bool:
    nobody = readable_by(61000)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if nobody:
                become_nobody(61000)
            enter_namespaces()
            inner = os.fork()
            if inner == 0:
                os._exit(0)
            code = os.waitpid(inner, 0)[1]
        finally:
            os._exit(bool(code))
    return os.waitpid(child, 0)[1] == 0


def isolation_available() -> int:
    """Return the strongest level that this machine allows, found by trying.

    3: namespaces, Landlock, limits. 2: Landlock, limits. 1: limits and processes killed. 0: the clock alone.
    """
    if not hasattr(os, "fork"):
        return 0
    if not landlock_version():
        return 1
    return 3 if _allows_namespaces() else 2
