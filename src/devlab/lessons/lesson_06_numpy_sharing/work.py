"""What PyTorch does with an array's memory while an answer runs."""

from collections.abc import Iterable, Iterator

import numpy
import torch

from devlab.sim.private import OperatorMode


class Work(OperatorMode):
    """Counts the operators that write to the array's memory, and the tensors and bytes of other memory."""

    def __init__(self, a: numpy.ndarray):
        super().__init__()
        self.memory = range(a.ctypes.data, a.ctypes.data + a.nbytes)
        self.known: set[int] = set()
        self.writes = self.bytes = self.tensors = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = list(_tensors([*args, *(kwargs or {}).values()]))
        self.writes += _in_place(func) and any(map(self.is_the_arrays, given))
        self._count(given, self.known)
        self._count(_tensors([result]), {_address(tensor) for tensor in given})
        return result

    def is_the_arrays(self, tensor: torch.Tensor) -> bool:
        """Tell whether the tensor lies in the array's memory."""
        return tensor.is_cpu and tensor.data_ptr() in self.memory

    def _count(self, tensors: Iterable[torch.Tensor], old: set[int]) -> None:
        for tensor in tensors:
            if _address(tensor) not in old and not self.is_the_arrays(tensor):
                self.bytes += tensor.nbytes
                self.tensors += 1
                self.known.add(_address(tensor))


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _in_place(func) -> bool:
    name, _, overload = str(func).partition(".")[2].partition(".")
    return name.endswith("_") or "out" in overload


def _tensors(values: list) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
