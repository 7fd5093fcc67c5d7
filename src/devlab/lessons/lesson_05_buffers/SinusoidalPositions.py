"""A module whose table is made once, moves with it, and is not saved."""

import torch
from torch import nn

from devlab.checks import cases, expect, verbs
from devlab.checks.probes import Built
from devlab.checks.scenes import scene
from devlab.checks.seen import UNJUDGED, Seen, must
from devlab.lessons.lesson_05_buffers import expect_moves, lesson

positions = lesson.exercise(
    "class SinusoidalPositions(n, d)",
    ("B3", "B5", "E4", "E5"),
    "The table depends on n and d alone, so it is made once, in `__init__`, and need not be saved: "
    "`register_buffer` has a third argument for that.",
    "`angles = torch.arange(n)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)` has the shape (n, d / 2). "
    "`table[:, 0::2]` are the even columns, `table[:, 1::2]` the odd ones.",
    'Register with `self.register_buffer("table", table, persistent=False)`, and return `x + self.table[: '
    "x.shape[1]].to(x.dtype)`: a float32 table added to a float16 x gives float32.",
)

CLOSE = 1e-4  # good answers compute the angles in different ways, in float32


class Ours(nn.Module):
    """Computes the pattern in float64 and keeps it in float32."""

    def __init__(self, n, d):
        super().__init__()
        angles = torch.arange(n).double()[:, None] / 10000 ** (torch.arange(0, d, 2).double() / d)
        table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        """Return x plus the first rows of the table, in x's dtype."""
        return x + self.table[: x.shape[1]].to(x.dtype)


@positions.row("`table` is a buffer, and forward reads it")
def table_is_a_buffer(t):
    made = Built(t, 6, 4)
    made.buffer("table")
    made.require_only_buffers()
    made.to(t.device).require_read("table", t.randn(2, 5, 4), "the result")


@positions.row("it moves with the model, at any time")
def table_moves(t):
    expect_moves(Built(t, 7, 4), "table", t.randn(2, 5, 4, seed=t.seeds[0]), "the result")


@scene(positions, Ours, "it stays out of the state_dict")
def table_is_not_saved(t):
    made = Built(t, 5, 6).to(t.device)
    made(t.randn(2, 3, 6))
    saved = list(made.module.state_dict())
    words = "`table` is saved with the model, and it can be made anew from n and d"
    yield must("table" not in saved, words, 'no "table" in the state_dict', saved)


@scene(
    positions,
    Ours,
    "sines in even columns, cosines in odd",
    asked="sin(t / 10000^(2i / d)) in column 2i, its cosine in column 2i + 1",
)
def encoding_is_right(t):
    # The first size tells all known mistakes apart: with a smaller one two of them can look alike.
    sizes = ((9, 6, 4, 2), (1, 2, 1, 2), (31, 10, 17, 1))
    for seed, (n, d, time, batch) in zip(t.seeds, sizes, strict=True):
        made = Built(t, n, d).to(t.device)
        table = made.buffer("table")
        words = f"the buffer `table` is {table.dtype}, which holds no sines"
        yield must(table.is_floating_point(), words, "a floating dtype", table)
        x = t.randn(batch, time, d, seed=seed)
        yield "the result", made(x), CLOSE
    whole = made.buffer("table").detach().squeeze().float()
    yield "the pattern in the buffer `table`", whole, 1e-2, f"the whole pattern, {n} by {d}, made once"
    yield "the result", made(t.randn(3, d, n, seed=seed).transpose(1, 2)), CLOSE
    yield "the result", made(t.randn(2, 0, d))
    x.requires_grad_()
    with torch.no_grad():
        made(x)  # which must not spoil the graph of the next call
    verbs.flows(made(x), x, None, cut="the result is cut off from x: no layer before this one can learn")


@scene(positions, Ours, "the result has x's dtype")
def encoding_keeps_dtype(t):
    made = Built(t, 8, 4).to(t.device)
    before = made.buffer("table").dtype
    # Sums of at least 2, so that good answers differ by one rounding, not by cancelled digits.
    plain = t.randn(2, 5, 4, seed=t.seeds[0]).abs() + 3
    # What is added, right or wrong, is asked in another row; here it must be the same for every dtype.
    result = made.copy_result(plain)
    known = result.shape == plain.shape and expect.is_alike(made.copy_result(plain + 1), result + 1, CLOSE)
    added = result.double() - plain.cpu() if known else 0.0
    inputs = [plain.to(dtype) for dtype in cases.floats(t.device)]
    # The table may have float32's digits. x has its own, and so many only float64 holds.
    inputs += [plain.double() + 1e6] if cases.holds(t.device, torch.float64) else []
    for x in inputs:
        got, dtype = made(x), x.dtype
        expect.kind(got, torch.Tensor, "a tensor")
        words = f"the result is {got.dtype} for an x of {dtype}"
        yield must(got.dtype == dtype, words, f"x's own dtype, {dtype}", got)
        # A table that one batch left in fewer digits would spoil the next one.
        table = made.buffer("table")
        words = f"forward left `table` in {table.dtype}"
        yield must(table.dtype == before, words, f"`table` in {before}, as before", table)
        leaf = x.clone().requires_grad_()
        verbs.flows(made(leaf), leaf, None, cut=f"the result is cut off from an x of {dtype}")
        rounded = known and dtype is torch.float64 and torch.equal(got.float().double(), got)
        words = "the digits of a float64 x were lost: the sum was rounded to float32"
        yield must(not rounded, words, "a sum in float64", got)
        right, within = (x.cpu().double() + added).to(dtype), max(CLOSE, 8 * torch.finfo(dtype).eps)
        yield Seen("the result", got if known else UNJUDGED, within, right=right)
