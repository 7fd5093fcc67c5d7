"""Which host memory counts as pinned: a note of its address, kept while the memory lives."""

import functools
from weakref import ref

import torch

from devlab.sim import clock, placement, private

_FACTORIES = ("empty", "zeros", "ones", "full", "rand", "randn", "randint", "randperm", "arange", "linspace")
_FACTORIES += ("eye", "tensor", "empty_strided")
_FACTORIES += ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like")
_METHODS = ("new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided")


class _Pinned(ref):
    __slots__ = ("address",)


_pinned: dict[int, _Pinned] = {}


def _died(note: _Pinned) -> None:
    if _pinned.get(note.address) is note:
        del _pinned[note.address]


def pin(tensor: torch.Tensor) -> torch.Tensor:
    """Count the CPU tensor's memory as pinned, and return the tensor."""
    storage = tensor.untyped_storage()
    note = _Pinned(storage, _died)
    note.address = storage.data_ptr()
    if note.address:
        _pinned[note.address] = note
    return tensor


def is_pinned(tensor: torch.Tensor, device=None) -> bool:
    """Return whether the CPU tensor lives in memory that counts as pinned."""
    return bool(_pinned) and tensor.is_cpu and tensor.untyped_storage().data_ptr() in _pinned


def pinned_copy(tensor: torch.Tensor, device=None) -> torch.Tensor:
    """Return a copy of a CPU tensor in memory that counts as pinned; the host makes the copy itself."""
    clock.spend_pinning(placement.current(), tensor.nbytes)
    return pin(tensor.clone())


# These take the place of the operators for CPU tensors, which ask the accelerator's allocator.
OPERATORS = {"is_pinned": is_pinned, "_pin_memory": pinned_copy}


def route_factories() -> None:
    """Let `torch.empty(..., pin_memory=True)` and its like make memory that counts as pinned."""

    def routed(function):
        @functools.wraps(function)
        def make(*args, **kwargs):
            if kwargs.pop("pin_memory", False):
                return pin(function(*args, **kwargs))
            return function(*args, **kwargs)

        private.keep_builtin(function, make)
        return make

    for name in _FACTORIES:
        setattr(torch, name, routed(getattr(torch, name)))
    for name in _METHODS:
        setattr(torch.Tensor, name, routed(getattr(torch.Tensor, name)))
