"""The clinic: the mask, which a model's own code makes at each call."""

import torch

from devlab.checks import cases, verbs
from devlab.checks.scenes import scene
from devlab.lessons.lesson_10_debugging import lesson, watched_straight

fix_mask = lesson.exercise(
    "fix_mask(x)",
    ("X4", "X5", "E4"),
    "The line that fails is the sum. The culprit was made one line above it: where, and of which dtype?",
    "A helper made inside a function takes device and dtype from the input: `x.new_full(...)`, or "
    "`device=x.device, dtype=x.dtype`.",
    '`mask = x.new_full((time, time), float("-inf")).triu(1)`',
)


ASKED = "-inf above the diagonal, x on and below"


def ours(x):
    return x + x.new_full(x.shape[1:], float("-inf")).triu(1)


@scene(fix_mask, ours, "the mask is made on x's device", ASKED)
def mask_is_there(t):
    for seed in t.seeds:
        yield "the result", watched_straight(t, t.randn(2, 5, 5, seed=seed), makes="the mask was")
    t.other()  # where there is one device alone the mask cannot be made elsewhere


@scene(fix_mask, ours, "the result has x's dtype", ASKED)
def mask_dtype(t):
    for dtype in cases.floats(t.device):
        x = t.randn(3, 4, 4, seed=t.seeds[1], dtype=dtype)
        yield "the result", t.call(x)
        if dtype is torch.float64:  # with more digits than float32 holds
            yield "the result", t.call(x / 3), 1e-15


@scene(fix_mask, ours, "-inf above the diagonal, x on and below", ASKED)
def mask_is_right(t):
    turned = t.randn(5, 2, 5, seed=t.seeds[0]).transpose(0, 1)
    for x in (*cases.shapes(t, (1, 3, 3), (4, 1, 1), (3, 6, 6)), turned):
        yield "the result", t.call(x)


@scene(fix_mask, ours, "the gradient reaches x")
def mask_graph(t):
    x = t.randn(2, 3, 3, seed=t.seeds[2]).requires_grad_()
    verbs.flows(t.call(x), x, None, pull=lambda scores: scores.softmax(-1).square().sum().backward())
    yield "the gradient that reaches x", x.grad, 1e-3


@scene(fix_mask, ours, "on a device that is not the current one", ASKED, only="accelerator")
def mask_is_not_on_the_current(t):
    with verbs.current(t.second()):
        yield from mask_is_there(t)
