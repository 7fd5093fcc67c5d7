"""Linux's system calls, made by number: Python has no name for these."""

import ctypes
import functools
import os

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
