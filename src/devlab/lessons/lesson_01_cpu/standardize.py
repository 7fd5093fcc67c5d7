"""Columns of mean 0 and deviation 1, in any floating dtype."""

import torch

from devlab.checks import cases
from devlab.checks.scenes import scene
from devlab.checks.seen import must
from devlab.lessons.lesson_01_cpu import lesson

standardize = lesson.exercise(
    "standardize(x)",
    ("C3",),
    "`x.mean(0)` and `x.std(0)` give one number for each column, on x's device and in x's dtype. "
    "Broadcasting does the rest.",
    "In a constant column the deviation is 0, and 0 / 0 is nan. Divide such a column by 1 instead. Whatever "
    "you make for that must be on x's device and of x's dtype. A Python number always fits, and "
    "`torch.ones(...)` does not.",
    "`centred = x - x.mean(0)`, `spread = x.std(0)`, then `return centred / torch.where(spread == 0, 1, "
    "spread)`.",
)


def ours(x):
    wide = x.double()
    spread = wide.std(0)
    return ((wide - wide.mean(0)) / torch.where(spread == 0, 1, spread)).to(x.dtype)


def within(x):
    """Return the tolerance: an epsilon up to 1e-5 in the denominator is allowed."""
    return max(1e-3, 16 * torch.finfo(x.dtype).eps)


@scene(standardize, ours, "mean 0 and deviation 1 in each column")
def each_column(t):
    for seed, (count, width) in zip(t.seeds, [(7, 3), (5, 4), (2, 3)], strict=True):
        scale = torch.arange(1.0, width + 1).to(t.device)
        yield "the result", t.call(t.randn(count, width, seed=seed) * scale + 3 * scale), 1e-3
    yield "the result", t.call(t.randn(3, 6, seed=t.seeds[0]).t()), 1e-3
    yield "the result", t.call(t.randn(6, 1, seed=t.seeds[1])), 1e-3
    yield (
        "the result for columns of deviation 0.05",
        t.call(0.05 * ours(t.randn(6, 4, seed=t.seeds[1]))),
        1e-3,
    )
    outlying = t.randn(150, 2, seed=t.seeds[0])
    outlying[7] *= 100 / outlying[7].abs()
    yield "the result with an outlier", t.call(outlying), 1e-3
    for seed in t.seeds[:2]:
        x = t.randn(9, 4, seed=seed + 5)
        x[1, :2], x[-1, 1:], x[4, 3] = x[0, :2], x[0, 1:], 0  # and one number is exactly 0
        yield "the result for a table in which some numbers agree", t.call(x), 1e-3
    yield "the result for numbers near 1000", t.call(1000 + t.randn(9, 3, seed=t.seeds[1])), 1e-3


@scene(standardize, ours, "a constant column becomes zeros, not nan")
def constant_column(t):
    nearly = t.call(3e-4 * t.randn(6, 2, seed=t.seeds[2]))  # an allowed epsilon changes it: not compared
    yield "nearly constant columns became zeros:", not nearly.any()
    for dtype in (torch.float32, *cases.floats(t.device)):
        x = t.randn(8, 4, seed=t.seeds[0])
        x[:, 1], x[:, 3] = 3, 0
        got = t.call(x.to(dtype))
        yield "the result with a constant column", got, within(x.to(dtype))


@scene(standardize, ours, "the dtype stays what it was")
def dtype_stays(t):
    tables = [(t.randn(9, 3, seed=t.seeds[1]) + 1).to(dtype) for dtype in (torch.float16, torch.bfloat16)]
    if cases.holds(t.device, torch.float64):
        tables.append(t.randn(9, 3, seed=t.seeds[2]).double() / 5 + 1e5)
    for x in tables:
        yield f"the result for an x of {x.dtype}", t.call(x), within(x)
    got = t.call(tables[-1])
    if got.dtype is torch.float64:
        short = got.any() and torch.equal(got, got.float().double())
        yield must(
            not short, "the result of a float64 table was rounded to a smaller dtype", "float64 to the end"
        )
