"""How many bytes a tensor's elements take."""

import torch

from devlab.checks.cases import holds
from devlab.checks.scenes import scene
from devlab.lessons.lesson_01_cpu import each_dtype, lesson, see_bytes, see_object_size

tensor_bytes = lesson.exercise(
    "tensor_bytes(x)",
    ("C2",),
    "The answer follows from two numbers: how many elements there are, and how many bytes one of them takes. "
    "The tensor knows both.",
    "`x.numel()` counts the elements, and `x.element_size()` is the size of one in bytes.",
    "The whole body is `return x.numel() * x.element_size()`. PyTorch also has the product: `x.nbytes`.",
)


def ours(x):
    return x.numel() * x.element_size()


@scene(tensor_bytes, ours, "one element's size follows from its dtype")
def elements_of_each_dtype(t):
    yield from see_object_size(t)
    yield from see_bytes(t, "of a tensor", *(x.clone() for x in each_dtype(t)))


@scene(tensor_bytes, ours, "a view counts its own elements only")
def elements_of_a_view(t):
    x = t.randn(6, 5, seed=t.seeds[0])
    views = x[1:3], x[:, 2], x.t()[1:4], x[::2, ::3], x.view(-1)[7:], x.half()[2:], x.view(2, 3, 5)[:, 1:]
    yield from see_bytes(t, "of a view", *views)


@scene(tensor_bytes, ours, "an expanded view counts all that it shows")
def elements_of_an_expanded_view(t):
    row = t.randn(1, 5, seed=t.seeds[1])
    wide = row.double().expand(3, 5) if holds(t.device, torch.float64) else row
    yield from see_bytes(t, "of an expanded view", row.expand(7, 5), wide)


@scene(tensor_bytes, ours, "an empty tensor takes 0 bytes, a number its size")
def elements_of_little(t):
    x = t.randn(4, 3)
    yield from see_bytes(t, "of a tensor", x[:0], x.sum(), x.sum().half(), torch.nn.Parameter(x))
