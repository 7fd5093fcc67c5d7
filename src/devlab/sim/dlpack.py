"""A refusal in words where PyTorch's own reader of DLPack would end the process; it needs private names.

DLPack is how two libraries hand one memory to each other. NumPy hands over arrays with negative strides,
PyTorch has no such tensors, and up to torch 2.13 at least it finds that out where no exception can pass.
"""

import contextlib
import ctypes
from collections.abc import Iterator

import torch

from devlab.sim import private

# The two structs that a capsule may point to, and the 64-bit word at which the tensor in it begins:
# address, device, dimensions and dtype, shape, strides, offset.
_BEGINS = {b"dltensor": 0, b"dltensor_versioned": 4}
_DIMENSIONS, _SHAPE, _STRIDES = 2, 3, 4
_READER = "_from_dlpack"


@contextlib.contextmanager
def negative_strides_refused() -> Iterator[None]:
    """Let `torch.from_dlpack` raise BufferError, in the block, for memory that is read backwards.

    >>> import numpy
    >>> with negative_strides_refused():
    ...     torch.from_dlpack(numpy.arange(3)[::-1])
    Traceback (most recent call last):
    ...
    BufferError: negative strides: PyTorch has no such tensors, and torch.from_dlpack may end the process
    """
    original = getattr(torch._C, _READER, None)
    if original is None:  # a torch that reads capsules in another way
        yield
        return

    def reader(capsule):
        if any(step < 0 for step in _steps(capsule)):
            raise BufferError(
                "negative strides: PyTorch has no such tensors, and torch.from_dlpack may end the process"
            )
        return original(capsule)

    setattr(torch._C, _READER, reader)
    try:
        yield
    finally:
        setattr(torch._C, _READER, original)


def _steps(capsule: object) -> list[int]:
    """Return the strides that lead from element to element; none where there is at most one element."""
    for name, begin in _BEGINS.items():
        try:
            words = private.capsule_words(capsule, name)
        except (ValueError, ctypes.ArgumentError):  # the other struct, or no capsule at all
            continue
        if not words[begin + _STRIDES]:  # none given: the elements lie side by side
            return []
        shape, strides = (
            ctypes.cast(words[begin + part], ctypes.POINTER(ctypes.c_int64)) for part in (_SHAPE, _STRIDES)
        )
        dimensions = range(words[begin + _DIMENSIONS] & 0xFFFFFFFF)
        if any(shape[place] == 0 for place in dimensions):
            return []
        return [strides[place] for place in dimensions if shape[place] > 1]
    return []
