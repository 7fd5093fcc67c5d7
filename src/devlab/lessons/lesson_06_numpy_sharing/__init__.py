"""Lesson 06: one memory under two names, and what has to be copied."""

import numpy
import torch

from devlab.checks import expect
from devlab.checks.exercise import Lesson
from devlab.sim.private import negative_strides_refused

lesson = Lesson(
    "06_numpy_sharing",
    "Sharing memory with NumPy",
    ("to_numpy", "shares_memory", "sharing_tensor", "independent_tensor", "scale_in_place", "history"),
)

CPU = torch.device("cpu")


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


def changed(array: numpy.ndarray) -> numpy.ndarray:
    """Return a copy in which every element is another one.

    >>> changed(numpy.array([True, False])).tolist()
    [False, True]
    """
    return ~array if array.dtype == bool else array + array.dtype.type(1)


def read_at_once(trial, *args: object) -> object:
    """Call the answer and return its result; an array must be complete when it comes."""
    before = trial.snapshot(*args)
    got = trial.call(*args, changes=True)
    # Looked at before anything else is done: whatever touches the device waits for copies under way.
    seen = got.copy() if isinstance(got, numpy.ndarray) else got
    before.require_untouched(args)
    if isinstance(got, numpy.ndarray) and got.tobytes() != seen.tobytes():
        headline = "the array was returned before its numbers had arrived"
        expect.fail(headline, "the numbers at once", "what that memory held before: the numbers came later")
    return got


def tensor_of(array: numpy.ndarray) -> torch.Tensor:
    """Return a tensor with the array's numbers in memory of its own, whatever its strides."""
    return torch.tensor(array.copy())


DTYPES = ("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64")


def tensor_from(trial, a: numpy.ndarray, why: str) -> torch.Tensor:
    """Call the answer, and expect a CPU tensor with the array's shape, dtype and numbers."""
    wanted = tensor_of(a)
    with negative_strides_refused():
        got = trial.call(a)
    turned = a[tuple(slice(None, None, -1) if step < 0 else slice(None) for step in a.strides)]
    mistaken = {
        "the numbers came in the order of the memory: the negative stride was left out": tensor_of(turned),
        "the rows and columns have changed places": wanted.T if wanted.dim() == 2 else wanted,
        "the numbers came in reverse order": wanted.flip(tuple(range(wanted.dim()))),
        "all dimensions were joined to one": wanted.flatten(),
    }
    expect.named(got, wanted, mistaken, f"{why} in its own form")
    expect.tensor(got, wanted, CPU, f"the tensor of {why}")
    if got.requires_grad:
        expect.fail("the tensor asks for a gradient", "requires_grad=False", got)
    return got


def shows(t: torch.Tensor, a: numpy.ndarray) -> bool:
    """Tell whether the tensor shows the array's numbers."""
    return torch.equal(t, tensor_of(a))
