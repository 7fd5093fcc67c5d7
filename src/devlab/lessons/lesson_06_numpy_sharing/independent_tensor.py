"""A tensor with an array's numbers in memory of its own."""

import numpy
import torch

from devlab.checks import expect
from devlab.lessons.lesson_06_numpy_sharing import (
    DTYPES,
    changed,
    fresh,
    lesson,
    shows,
    tensor_from,
    tensor_of,
)

independent_tensor = lesson.exercise(
    "independent_tensor",
    signature="independent_tensor(a)",
    facts=("N6", "N7"),
    hints=(
        "One copy has to be made. PyTorch cannot read an array with negative strides, not even to "
        "copy it. NumPy can.",
        "`a.copy()` gives an array in memory of its own, with ordinary strides. What is the cheapest way "
        "from there to a tensor?",
        "`return torch.from_numpy(a.copy())`: nothing else uses the copy, so sharing its memory is safe.",
    ),
)


def _expect_independent(trial, a: numpy.ndarray, why: str) -> None:
    got = tensor_from(trial, a, why)
    before = tensor_of(a)
    if a.flags.writeable:
        a[...] = changed(a)
        if not torch.equal(got, before):
            words = f"{why}: the tensor shares its memory, and shows a change in the array"
            expect.fail(words, "memory of its own", "the array's own memory")
    kept = a.copy()
    got.copy_(tensor_of(changed(a)))
    if a.tobytes() != kept.tobytes():
        words = f"{why}: the tensor shares its memory, and a change in it shows in the array"
        expect.fail(words, "memory of its own", "the array's own memory")


@independent_tensor.row("the array's numbers in memory of its own")
def independent_both_ways(trial):
    for seed in trial.seeds:
        _expect_independent(trial, fresh(5, 3, seed=seed), "an array")
        _expect_independent(trial, fresh(7, seed=seed, dtype="float64"), "an array of float64")
    first = tensor_from(trial, a := fresh(3, 2, seed=0), "an array")
    tensor_from(trial, fresh(3, 2, seed=1), "the next array")
    if not shows(first, a):
        words = "the tensor of the first array shows the numbers of the next one"
        expect.fail(words, "memory of its own for each", "one memory for both")


@independent_tensor.row("the array's own dtype")
def independent_dtype(trial):
    for dtype in DTYPES:
        _expect_independent(trial, fresh(4, 3, seed=trial.seeds[0], dtype=dtype), f"an array of {dtype}")


@independent_tensor.row("slices, transposes, read-only arrays")
def independent_views(trial):
    a = fresh(6, 5, seed=trial.seeds[1])
    for given, why in (
        (a[1:4], "a slice"),
        (a[::2, 1::3], "a slice with steps"),
        (a.T, "a transposed array"),
        (a[:, :0], "an empty array"),
        (a[:0], "an empty array"),
        (a[:1, 2:3], "an array of one element"),
    ):
        _expect_independent(trial, given, why)
    locked = a.view()
    locked.flags.writeable = False
    _expect_independent(trial, locked, "a read-only array")


@independent_tensor.row("negative strides, too")
def independent_of_negative(trial):
    a = fresh(4, 6, seed=trial.seeds[2])
    for given in (a[0, ::-1], a[::-1], a[:, ::-1], a.T[1:, ::-2], fresh(5, seed=0, dtype="int64")[::-1]):
        _expect_independent(trial, given, "an array with negative strides")
