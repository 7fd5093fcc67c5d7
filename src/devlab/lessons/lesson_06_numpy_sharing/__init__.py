"""Lesson 06: one memory under two names, and what has to be copied."""

from collections.abc import Iterable, Iterator

import numpy
import torch

from devlab.checks.calls import leaves
from devlab.checks.exercise import Lesson
from devlab.checks.seen import Seen, must
from devlab.sim.private import OperatorMode, negative_strides_refused

lesson = Lesson(
    "06_numpy_sharing",
    "Sharing memory with NumPy",
    ("to_numpy", "shares_memory", "sharing_tensor", "independent_tensor", "scale_in_place", "history"),
)

CPU = torch.device("cpu")
DTYPES = ("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "uint16", "bool")
DTYPES += ("complex64", "complex128")


def fresh(*shape: int, seed: int, dtype: str = "float32") -> numpy.ndarray:
    """Return an array of numbers that are all different, in memory of its own.

    >>> fresh(2, 3, seed=0, dtype="int16").dtype
    dtype('int16')
    """
    numbers = numpy.random.default_rng(1000 + seed).normal(size=shape)
    if dtype == "bool":
        return numbers > 0
    if numpy.dtype(dtype).kind in "iu":
        return (50 + 20 * numbers).clip(0, 120).astype(dtype)
    if numpy.dtype(dtype).kind == "c":
        numbers = numbers + 1j * numbers[..., ::-1]
    return numbers.astype(dtype)


def plain(trial) -> dict[str, numpy.ndarray]:
    """Return ordinary arrays, from the trial's seeds."""
    one, two, three = trial.seeds
    return {
        "an array": fresh(5, 3, seed=one),
        "an array of float64": fresh(7, seed=two, dtype="float64"),
        "an array of four dimensions": fresh(2, 3, 1, 4, seed=three),
    }


def typed(trial) -> dict[str, numpy.ndarray]:
    """Return an array of each of some dtypes that torch and NumPy have in common."""
    large = fresh(4, 3, seed=trial.seeds[0], dtype="int64") + 2**53  # float64 holds only some of these
    arrays = {f"an array of {dtype}": fresh(4, 3, seed=trial.seeds[0], dtype=dtype) for dtype in DTYPES}
    return arrays | {"an array of large integers": large}


def views(trial) -> dict[str, numpy.ndarray]:
    """Return views of an array, and empty ones."""
    a = fresh(6, 5, seed=trial.seeds[1])
    return {
        "a slice": a[1:4],
        "a slice with steps": a[::2, 1::3],
        "a transposed array": a.T,
        "a column": a[:, 2],
        "an array reversed twice": a[::-1][::-1],
        "an array of one element": a[:1, 2:3],
        "an array without a column": a[:, :0],
        "an array without a row": a[:0],
        "an empty array of int64": numpy.zeros((0, 3), dtype="int64"),
    }


def turned(trial) -> list[numpy.ndarray]:
    """Return arrays with negative strides."""
    a = fresh(4, 6, seed=trial.seeds[2])
    return [a[0, ::-1], a[::-1], a[:, ::-1], a.T[1:, ::-2], fresh(5, seed=0, dtype="int64")[::-1]]


def change_each(array: numpy.ndarray) -> numpy.ndarray:
    """Return a copy in which every element is another one.

    >>> change_each(numpy.array([True, False])).tolist()
    [False, True]
    """
    return ~array if array.dtype == bool else array + array.dtype.type(1)


def tensor_of(array: numpy.ndarray) -> torch.Tensor:
    """Return a tensor with the array's numbers in memory of its own, whatever its strides."""
    return torch.tensor(array.copy())


def see_tensor(t, a: numpy.ndarray, why: str, shared: bool) -> Iterator[Seen | tuple]:
    """See the tensor that the answer makes of an array, its numbers and whose memory they are in; return it.

    Both are changed to find that out, a read-only array excepted.
    """
    before = tensor_of(a)
    with negative_strides_refused():
        got = t.call(a)
    yield f"the tensor of {why}", got, None, "the array's numbers in the array's form"
    yield must(not got.requires_grad, "the tensor requires a gradient", "requires_grad=False", got)
    own = "the array's own memory"
    memories = (own, "other memory") if shared else ("memory of its own", own)
    if a.flags.writeable:
        a[...] = change_each(a)
        said = "is a copy, and does not show" if shared else "shares its memory, and shows"
        same = torch.equal(got, tensor_of(a) if shared else before)
        yield must(same, f"{why}: the tensor {said} a change in the array", *memories)
    held = tensor_of(a)
    got.copy_(tensor_of(change_each(a)))
    said = "a change in the tensor does not show in the array"
    said = said if shared else "the tensor shares its memory, and a change in it shows in the array"
    yield must(torch.equal(tensor_of(a), got if shared else held), f"{why}: {said}", *memories)
    return got


class Work(OperatorMode):
    """Counts the operators that write to an array's memory, and the tensors and bytes of other memory."""

    def __init__(self, a: numpy.ndarray):
        super().__init__()
        self.memory = range(a.ctypes.data, a.ctypes.data + a.nbytes)
        self.known: set[int] = set()
        self.writes = self.bytes = self.tensors = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = _tensors([*args, *(kwargs or {}).values()])
        self.writes += func._schema.is_mutable and any(map(self.is_the_arrays, given))
        self._count(given, self.known)
        self._count(_tensors([result]), set(map(_address, given)))
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


def _tensors(values: list) -> list[torch.Tensor]:
    return [leaf for _, leaf in leaves(values) if isinstance(leaf, torch.Tensor)]
