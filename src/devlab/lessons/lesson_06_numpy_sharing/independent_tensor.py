"""A tensor with an array's numbers in memory of its own."""

import torch

from devlab.checks.scenes import scene
from devlab.checks.seen import must
from devlab.lessons.lesson_06_numpy_sharing import fresh, lesson, plain, see_tensor, turned, typed, views

independent_tensor = lesson.exercise(
    "independent_tensor(a)",
    ("N6", "N7"),
    "One copy has to be made. PyTorch cannot read an array with negative strides, not even to copy it. NumPy "
    "can.",
    "`a.copy()` gives an array in memory of its own, with ordinary strides. What is the cheapest way from "
    "there to a tensor?",
    "`return torch.from_numpy(a.copy())`: nothing else uses the copy, so sharing its memory is safe.",
)


def ours(a):
    return torch.from_numpy(a.copy())


@scene(independent_tensor, ours, "the array's numbers in memory of its own")
def independent_both_ways(t):
    for why, a in plain(t).items():
        yield from see_tensor(t, a, why, shared=False)
    first = yield from see_tensor(t, fresh(3, 2, seed=0), "an array", shared=False)
    held = first.clone()
    yield from see_tensor(t, fresh(3, 2, seed=1), "the next array", shared=False)
    headline = "the tensor of the first array shows the numbers of the next one"
    yield must(torch.equal(first, held), headline, "memory of its own for each", "one memory for both")


@scene(independent_tensor, ours, "the array's own dtype")
def independent_dtype(t):
    for why, a in typed(t).items():
        yield from see_tensor(t, a, why, shared=False)


@scene(independent_tensor, ours, "slices, transposes, read-only arrays")
def independent_views(t):
    locked = fresh(6, 5, seed=t.seeds[1])
    locked.flags.writeable = False
    for why, a in (views(t) | {"a read-only array": locked}).items():
        yield from see_tensor(t, a, why, shared=False)


@scene(independent_tensor, ours, "negative strides, too")
def independent_of_negative(t):
    for a in turned(t):
        yield from see_tensor(t, a, "an array with negative strides", shared=False)
    locked = fresh(4, 6, seed=t.seeds[0])
    locked.flags.writeable = False
    yield from see_tensor(t, locked[:, ::-1], "a read-only array with negative strides", shared=False)
