"""The wall around a trial, on Linux: nothing that the trial does lasts.

What a trial writes goes to a scratch folder and is read from there. Landlock holds in the kernel what Python
cannot, as `torch.save` writes in C++. A filter of system calls refuses the network and other programs.
Numbers are those of linux/landlock.h, linux/seccomp.h, linux/bpf_common.h and asm/unistd_64.h.
"""

import builtins
import ctypes
import functools
import io
import os
import platform
import shutil
import struct
import sys
import tempfile

import torch

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # Landlock's system calls, the same on every machine
_WRITE, _TRUNCATE = 1 << 1 | sum(1 << bit for bit in range(4, 13)), 1 << 14
_NO_NEW_RIGHTS, _SET_FILTER = 38, 22
_LOAD, _EQUAL, _RETURN, _ALLOW, _REFUSE = 0x20, 0x15, 0x06, 0x7FFF0000, 0x0005000D  # the last with EACCES
_IDLE, _LOCAL = 0x00050000, 1  # do nothing; AF_UNIX, by which a loader's workers send their tensors
# By machine: the kernel's number for it, `socket`, the system calls that are refused (programs, sessions and
# groups of processes, `truncate`), and those that do nothing (a file's mode, owner, times, attributes).
_MACHINES = {
    "x86_64": (0xC000003E, 41, (59, 322, 112, 109, 76), (90, 91, 92, 93, 94, 132, 188, 235, 260, 268, 280)),
    "aarch64": (0xC00000B7, 198, (221, 281, 157, 154, 45), (5, 52, 53, 54, 55, 88)),
}
_libc = functools.cache(
    lambda: ctypes.CDLL(None, use_errno=True)
)  # elsewhere than on Linux there may be none


@functools.cache
def landlock_here() -> int:
    """Return Landlock's version where this machine can wall a trial in, else 0."""
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return 0
    return max(0, _libc().syscall(ctypes.c_long(_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint32(1)))


def enter(folder: str) -> None:
    """Wall this process and its children in, for good: they write below the folder; raises OSError."""
    _turn_to(folder)
    version = landlock_here()
    rights = _WRITE | (_TRUNCATE if version >= 3 else 0)
    network, scoped, size = 3 * (version >= 4), 3 * (version >= 6), 8 * (1 + (version >= 4) + (version >= 6))
    facts = ctypes.create_string_buffer(struct.pack("QQQ", rights, network, scoped)[:size], size)
    rules = _call(_CREATE, facts, ctypes.c_size_t(size), ctypes.c_uint32(0))
    for path, wanted in ((folder, rights), ("/dev/shm", rights), ("/dev/null", rights & (2 | _TRUNCATE))):
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = ctypes.create_string_buffer(struct.pack("=Qi", wanted, opened), 12)
        _call(_ADD, ctypes.c_int(rules), ctypes.c_int(1), rule, ctypes.c_uint32(0))
        os.close(opened)
    _control(_NO_NEW_RIGHTS, 1, None)
    _call(_RESTRICT, ctypes.c_int(rules), ctypes.c_uint32(0))
    machine, socket, refused, idle = _MACHINES[platform.machine()]
    steps = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, machine), (_RETURN, 0, 0, _REFUSE), (_LOAD, 0, 0, 0)]
    for number in (*refused, *idle):
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE if number in refused else _IDLE)]
    steps += [(_EQUAL, 0, 3, socket), (_LOAD, 0, 0, 16), (_EQUAL, 1, 0, _LOCAL), (_RETURN, 0, 0, _REFUSE)]
    steps += [(_RETURN, 0, 0, _ALLOW)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    _control(
        _SET_FILTER, 2, ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(text)))
    )


def _call(number: int, *arguments: object) -> int:
    done = _libc().syscall(ctypes.c_long(number), *arguments)
    if done < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done


def _control(option: int, value: int, pointer: object) -> None:
    rest = (ctypes.c_ulong(0), ctypes.c_ulong(0))
    if _libc().prctl(ctypes.c_int(option), ctypes.c_ulong(value), pointer, *rest):
        raise OSError(ctypes.get_errno(), "prctl")


def _turn_to(folder: str) -> None:
    """Turn what Python's functions write to the folder, where each path stands below its own name."""
    tempfile.tempdir = os.environ["TMPDIR"] = folder
    opened, save, mkdir, there = builtins.open, torch.save, os.mkdir, os.path.lexists

    def turned(path: object, writes: bool, keeps: bool = True) -> object:
        full = os.path.abspath(os.fspath(path)) if isinstance(path, str | os.PathLike) else folder
        if full.startswith((folder, "/dev/", "/proc/", "/sys/")):
            return path
        other = folder + full
        if not writes or there(other):
            return other if there(other) else path
        parents, above = [], os.path.dirname(other)
        while not there(above):
            parents, above = [above, *parents], os.path.dirname(above)
        for parent in parents:
            mkdir(parent)
        if keeps and os.path.isfile(full):
            shutil.copyfile(full, other)
        return other

    def turning(original, writes: bool, places: int = 1):
        def call(*args, **kwargs):
            return original(*(turned(a, writes) if n < places else a for n, a in enumerate(args)), **kwargs)

        return call

    def opening(file, mode="r", *args, **kwargs):
        return opened(
            turned(file, any(sign in mode for sign in "wax+"), "w" not in mode), mode, *args, **kwargs
        )

    builtins.open = io.open = opening
    torch.save = lambda obj, f, *args, **kwargs: save(obj, turned(f, True, False), *args, **kwargs)
    torch.load = turning(torch.load, False)
    for name in ("mkdir", "remove", "unlink", "rmdir", "rename", "replace"):
        setattr(os, name, turning(getattr(os, name), True, 1 + (name in ("rename", "replace"))))
    for name in ("stat", "listdir", "scandir"):
        setattr(os, name, turning(getattr(os, name), False))
