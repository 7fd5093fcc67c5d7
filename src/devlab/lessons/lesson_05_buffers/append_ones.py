"""A column of ones that takes its input's dtype and device."""

import torch

from devlab.checks import cases
from devlab.checks.scenes import scene
from devlab.lessons.lesson_05_buffers import lesson

append_ones = lesson.exercise(
    "append_ones(x)",
    ("W1", "W2", "W4"),
    "The column has x's shape with a last dimension of 1, and x's device and dtype. `torch.ones(...)` knows "
    "neither of the two.",
    "`x.new_ones(shape)` makes ones like x in every respect but the shape. `x.shape[:-1]` is all of the "
    "shape but its last number.",
    "`return torch.cat([x, x.new_ones(*x.shape[:-1], 1)], dim=-1)`",
)


def ours(x):
    return torch.cat([x, x.new_ones(*x.shape[:-1], 1)], dim=-1)


def each(t, *inputs, within=None):
    for x in inputs:
        yield f"the result for an x of {x.dtype}", t.call(x), within


@scene(append_ones, ours, "a column of ones at the end")
def ones_at_the_end(t):
    yield from each(t, *cases.shapes(t, (4, 3), (1, 7), (5, 1)))


@scene(append_ones, ours, "any number of dimensions, and views")
def ones_in_any_shape(t):
    x = t.randn(2, 3, 5, seed=t.seeds[0])
    yield from each(t, x, x[0, 0], x[0].t(), x[:, ::2, 1:4], t.randn(2, 1, 3, 4), x[None, :, None])
    yield from each(t, x[:0], x[:, :0], x[0, :0])


@scene(append_ones, ours, "x's own dtype, integers too")
def ones_in_any_dtype(t):
    x = 5 * t.randn(4, 3, seed=t.seeds[1])
    small = [x.to(dtype) for dtype in (torch.int8, torch.int16)]
    if cases.holds(t.device, torch.complex64):
        small.append(torch.complex(x, x.flip(0)))
    yield from each(t, *cases.dtypes(x), *small, within=0.0)


@scene(append_ones, ours, "ones beside inf and nan, too")
def ones_beside_anything(t):
    yield from each(t, *cases.unruly(t.randn(3, 4, seed=t.seeds[2])))
