"""A module whose table is made once, moves with it, and is not saved."""

import numpy
import torch

from devlab.checks import expect
from devlab.lessons.lesson_05_buffers.base import Made, another, floats_of, lesson

positions = lesson.exercise(
    "SinusoidalPositions",
    signature="class SinusoidalPositions(n, d)",
    facts=("B3", "B5", "E4", "E5"),
    hints=(
        "The table depends on n and d alone, so it is made once, in `__init__`, and need not be saved: "
        "`register_buffer` has a third argument for that.",
        "`angles = torch.arange(n)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)` has the shape (n, d /"
        " 2). `table[:, 0::2]` are the even columns, `table[:, 1::2]` the odd ones.",
        'Register with `self.register_buffer("table", table, persistent=False)`, and return '
        "`x + self.table[: x.shape[1]].to(x.dtype)`: a float32 table added to a float16 x gives float32.",
    ),
)

# Good answers compute the angles by different roads, in float32.
CLOSE = 1e-4


def _encoding(time: int, d: int) -> torch.Tensor:
    column = numpy.arange(d)
    angles = numpy.arange(time)[:, None] / 10000 ** ((column - column % 2) / d)
    return torch.from_numpy(numpy.where(column % 2, numpy.cos(angles), numpy.sin(angles)))


def _expect_encoded(made: Made, x: torch.Tensor, within: float = CLOSE) -> None:
    wanted = (x.cpu().double() + _encoding(*x.shape[1:])).to(x.dtype)
    expect.tensor(made(x), wanted, x.device, "the result", within)


@positions.row("`table` is a buffer, and forward reads it")
def table_is_a_buffer(trial):
    made = Made(trial, 6, 4)
    made.buffer("table")
    made.require_only_buffers()
    made.to(trial.device).require_read("table", trial.randn(2, 5, 4), "the result")


@positions.row("it moves with the model, at any time")
def table_moves(trial):
    made = Made(trial, 7, 4)
    made.to(trial.device).require_on(trial.device, "table")
    x = trial.randn(2, 5, 4, seed=trial.seeds[0])
    _expect_encoded(made, x)
    elsewhere = another(trial)
    made.to(elsewhere)
    _expect_encoded(made, x.to(elsewhere))
    made.to(trial.device).require_on(trial.device, "table")
    _expect_encoded(made, x)
    made.require_stays("table", x.to(elsewhere))


@positions.row("it stays out of the state_dict")
def table_is_not_saved(trial):
    made = Made(trial, 5, 6).to(trial.device)
    made(trial.randn(2, 3, 6))
    saved = list(made.module.state_dict())
    if "table" in saved:
        expect.fail("`table` is saved, although n and d say it all", 'no "table" in the state_dict', saved)


@positions.row("sines in even columns, cosines in odd")
def encoding_is_right(trial):
    sizes = [(1, 2, 1, 2), (9, 6, 4, 2), (31, 10, 17, 1)]
    for seed, (n, d, time, batch) in zip(trial.seeds, sizes, strict=True):
        made = Made(trial, n, d).to(trial.device)
        _expect_encoded(made, trial.randn(batch, time, d, seed=seed))
    table = made.buffer("table").detach().cpu().squeeze()
    if table.shape != (n, d) or not torch.allclose(table.double(), _encoding(n, d), atol=1e-2):
        headline = "the buffer `table` does not hold the pattern: is it worked out at every call?"
        expect.fail(headline, f"the whole pattern, {n} by {d}, made once", table)
    _expect_encoded(made, trial.randn(3, d, n, seed=seed).transpose(1, 2))


@positions.row("the result has x's dtype")
def encoding_keeps_dtype(trial):
    made = Made(trial, 8, 4).to(trial.device)
    before = made.buffer("table").dtype
    floats = floats_of(trial.device)
    for dtype in floats:
        # Sums of at least 2, so that good roads differ by one rounding, not by cancelled digits.
        x = trial.randn(2, 5, 4, seed=trial.seeds[0]).abs() + 3
        eps = torch.finfo(dtype).eps
        _expect_encoded(made, x.to(dtype), within=max(CLOSE, 8 * eps))
        # A table that one batch left in fewer digits would spoil the next one.
        table = made.buffer("table")
        if table.dtype != before:
            expect.fail(f"forward left `table` in {table.dtype}", f"`table` in {before}, as before", table)
    x = trial.randn(2, 5, 4, seed=trial.seeds[1])
    _expect_encoded(made, x)
    if torch.float64 in floats:
        # The table may have float32's digits. x has its own, and so many only float64 holds.
        _expect_encoded(made, 1e6 + x.double())
