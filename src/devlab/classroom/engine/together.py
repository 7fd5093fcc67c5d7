"""Lets a submission's processes work together, as in `DataLoader(num_workers=2)` or a `multiprocessing.Pool`.

Behind the walls no semaphore can be a file, and no open file goes from one process to another. So semaphores
are in memory that processes share from birth, and tensors are copied.
"""

import _multiprocessing
import ctypes
import io
import mmap
from functools import partial
from multiprocessing import synchronize
from multiprocessing.reduction import ForkingPickler
from types import SimpleNamespace

import torch
import torch.multiprocessing

from devlab.classroom.engine.walls import libc
from devlab.sim.private import keep_storages_private

_SIZE = 64  # bytes, more than a semaphore of glibc's or musl's takes
_held: list[mmap.mmap] = []  # to let go of a semaphore's memory while another process waits would crash that


def share() -> None:
    """Have this process and those that it forks make semaphores and send tensors in ways that walls allow."""
    _make_semaphore.SEM_VALUE_MAX = _multiprocessing.SemLock.SEM_VALUE_MAX
    _make_semaphore._rebuild = _multiprocessing.SemLock._rebuild
    synchronize._multiprocessing = SimpleNamespace(SemLock=_make_semaphore)
    keep_storages_private()
    for kind in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(kind, _copy)


def _make_semaphore(kind: int, value: int, most: int, *_: object) -> _multiprocessing.SemLock:
    memory = mmap.mmap(-1, _SIZE)
    _held.append(memory)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc().sem_init(ctypes.c_void_p(address), 1, ctypes.c_uint(value))
    return _multiprocessing.SemLock._rebuild(address, kind, most, None)


def _copy(tensor: torch.Tensor) -> tuple:
    stream = io.BytesIO()
    torch.save(tensor, stream)
    stream.seek(0)
    return partial(torch.load, weights_only=True), (stream,)
