"""How many bytes the storage behind a tensor takes."""

import torch

from devlab.checks.scenes import scene
from devlab.lessons.lesson_01_cpu import each_dtype, lesson, see_bytes, see_object_size

storage_bytes = lesson.exercise(
    "storage_bytes(x)",
    ("C2",),
    "A view has no memory of its own. Its numbers are in a storage, which it may share with other tensors. "
    "Ask the storage how many bytes it has.",
    "`x.untyped_storage()` is the memory behind x, whatever the dtype.",
    "The whole body is `return x.untyped_storage().nbytes()`.",
)


def ours(x):
    return x.untyped_storage().nbytes()


@scene(storage_bytes, ours, "a tensor of its own: the elements' bytes")
def storage_of_a_whole_tensor(t):
    yield from see_object_size(t)
    yield from see_bytes(t, "behind a tensor of its own", *(x.clone() for x in each_dtype(t)))


@scene(storage_bytes, ours, "a view: all that is behind it")
def storage_of_a_view(t):
    x = t.randn(6, 5, seed=t.seeds[0])
    views = x[1:3], x[:, 2], x.t()[1:4], x[::2, ::3][1:], x[4, 4], x[:0], x.half()[2:]
    yield from see_bytes(t, "behind a view", *views)


@scene(storage_bytes, ours, "an expanded view: less than it shows")
def storage_of_an_expanded_view(t):
    yield from see_bytes(t, "behind an expanded view", t.randn(1, 5, seed=t.seeds[1]).expand(7, 5))
    part = t.randn(9, 4, seed=t.seeds[1])[2:3]
    yield from see_bytes(t, "behind an expanded part of a tensor", part.expand(7, 4))


@scene(storage_bytes, ours, "a view that does not know its base")
def storage_without_a_base(t):
    # Only autograd sets `_base`: a detached slice has none, and still keeps the whole storage alive.
    x = t.randn(9, 4, seed=t.seeds[2])
    views = x[2:5].detach(), x[:3].detach(), torch.nn.Parameter(x[2:5])
    yield from see_bytes(t, "behind a detached slice", *views)


@scene(storage_bytes, ours, "a copy of a view: its own storage again")
def storage_of_a_copy(t):
    x = t.randn(9, 4, seed=t.seeds[2])
    yield from see_bytes(t, "behind a copied slice", x[2:5].clone(), x[:, 1].contiguous())
    yield from see_bytes(t, "behind an empty tensor of its own", t.randn(0))
