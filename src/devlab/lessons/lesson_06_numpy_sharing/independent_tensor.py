"""A tensor with an array's numbers in memory of its own."""

import numpy
import torch

from devlab.checks import expect
from devlab.lessons.lesson_06_numpy_sharing import fresh, lesson, plain, tensor_from, turned, typed, views

independent_tensor = lesson.exercise(
    "independent_tensor(a)",
    ("N6", "N7"),
    "One copy has to be made. PyTorch cannot read an array with negative strides, not even to copy it. NumPy "
    "can.",
    "`a.copy()` gives an array in memory of its own, with ordinary strides. What is the cheapest way from "
    "there to a tensor?",
    "`return torch.from_numpy(a.copy())`: nothing else uses the copy, so sharing its memory is safe.",
)


def independent(trial, a: numpy.ndarray, why: str) -> torch.Tensor:
    return tensor_from(trial, a, why, shared=False)


@independent_tensor.row("the array's numbers in memory of its own")
def independent_both_ways(trial):
    for why, a in plain(trial).items():
        independent(trial, a, why)
    first = independent(trial, fresh(3, 2, seed=0), "an array")
    held = first.clone()
    independent(trial, fresh(3, 2, seed=1), "the next array")
    headline = "the tensor of the first array shows the numbers of the next one"
    expect.that(torch.equal(first, held), headline, "memory of its own for each", "one memory for both")


@independent_tensor.row("the array's own dtype")
def independent_dtype(trial):
    for why, a in typed(trial).items():
        independent(trial, a, why)


@independent_tensor.row("slices, transposes, read-only arrays")
def independent_views(trial):
    locked = fresh(6, 5, seed=trial.seeds[1])
    locked.flags.writeable = False
    for why, a in (views(trial) | {"a read-only array": locked}).items():
        independent(trial, a, why)


@independent_tensor.row("negative strides, too")
def independent_of_negative(trial):
    for a in turned(trial):
        independent(trial, a, "an array with negative strides")
    locked = fresh(4, 6, seed=trial.seeds[0])
    locked.flags.writeable = False
    independent(trial, locked[:, ::-1], "a read-only array with negative strides")
