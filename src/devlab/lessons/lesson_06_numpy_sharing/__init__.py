"""Lesson 06: one memory under two names, and what has to be copied."""

import numpy
import torch

from devlab.checks import expect
from devlab.checks.exercise import Lesson

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
