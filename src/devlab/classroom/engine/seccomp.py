"""A filter of system calls, for what no other wall around a submission stops.

Landlock knows files alone, and of them neither permissions nor owners; a network namespace leaves sockets
that are files, and virtual machines' own. Numbers are those of the kernel's headers asm/unistd_64.h and
asm-generic/unistd.h, instructions those of linux/bpf_common.h, actions those of linux/seccomp.h.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable

from devlab.classroom.engine.kernel import prctl

SET_SECCOMP, SET_NO_NEW_PRIVS, FILTER = 22, 38, 2
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
# What they do is in memory that a filter does not see; libraries try older calls when these do not exist.
UNSEEN = """clone3 435 435, openat2 437 437, io_uring_setup 425 425, io_uring_enter 426 426,
    io_uring_register 427 427"""
# Landlock lets these reach any file of the user's. Honest code uses them in passing, in `shutil.copy` or
# `os.utime`, and minds failure more than an effect that it never looks for: they do nothing.
PRETENDED = """chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, chown 92 -, fchown 93 55,
    lchown 94 -, fchownat 260 54, utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88,
    setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, removexattr 197 14, lremovexattr 198 15,
    fremovexattr 199 16"""
SIGNALS = """tkill 200 130, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240"""
SOCKET, OPEN, OPENAT, CLONE, LIMITS, KILL, TGKILL = (
    "socket 41 198",
    "open 2 -",
    "openat 257 56",
    "clone 56 220",
    "prlimit64 302 261",
    "kill 62 129",
    "tgkill 234 131",
)
INTERNET, NETLINK = (2, 10), 16  # families of sockets; by netlink a program learns its own addresses
NEW_NAMESPACES = 0x7E020000  # clone's flags for them
CUTS = 0o1000  # O_TRUNC, which Landlock before version 3 allows with O_RDONLY


def known() -> bool:
    """Tell whether a filter can be made for this machine.

    >>> known() == (platform.system() == "Linux" and platform.machine() in MACHINES)
    True
    """
    return platform.system() == "Linux" and platform.machine() in MACHINES


def enter(program: bytes) -> None:
    """Restrict this process and all its children to a program of `submissions` or `refusing`, for good."""
    code = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))

    made = Program(len(program) // 8, ctypes.addressof(code))
    prctl(SET_NO_NEW_PRIVS, 1)
    prctl(SET_SECCOMP, FILTER, ctypes.byref(made))


def submissions(network: bool, signals: bool) -> bytes:
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
    refused = [OTHERS_MEMORY, OTHERS_TIME, LEFT_BEHIND, KERNELS, WALLS, FILES] + [SIGNALS] * (not signals)
    code += _each(",".join(refused), column, errno.EPERM)
    code += _each(UNSEEN, column, errno.ENOSYS)
    code += _each(PRETENDED, column, 0)
    return _whole(code)


def refusing(names: str) -> bytes:
    """Return a filter that refuses some system calls alone, in a table such as `unshare 272 97`."""
    return _whole(_each(names, MACHINES[platform.machine()][1], errno.EPERM))


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


def _number(name: str, column: int) -> int | None:
    found = name.split()[1 + column]
    return None if found == "-" else int(found)


def _each(table: str, column: int, error: int) -> list[tuple]:
    """Answer each system call of a table with an error number, 0 for success, and do nothing."""
    numbers = [_number(one, column) for one in table.split(",")]
    return [
        step
        for number in numbers
        if number is not None
        for step in ((EQUAL, 0, 1, number), (RETURN, 0, 0, ERRNO | error))
    ]


def _when(name: str, column: int, test: list[tuple]) -> list[tuple]:
    """Refuse a system call where a test of its arguments jumps nowhere; a test that does goes one further."""
    number = _number(name, column)
    if number is None:
        return []
    answers = [*test, (RETURN, 0, 0, ERRNO | errno.EPERM), (RETURN, 0, 0, ALLOW)]
    return [(EQUAL, 0, len(answers), number), *answers]


def _only(name: str, column: int, values: Iterable[int]) -> list[tuple]:
    """Refuse a system call unless its first argument is one of some values."""
    values = tuple(values)
    tests = [(EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return _when(name, column, [_load(0), *tests])


def _load(place: int) -> tuple:
    """Load the lower half of an argument: all that the kernel reads of these."""
    return (LOAD, 0, 0, ARGUMENTS + 8 * place)
