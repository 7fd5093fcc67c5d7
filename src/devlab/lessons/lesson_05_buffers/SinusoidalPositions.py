"""A module whose table is made once, moves with it, and is not saved."""

from collections.abc import Callable

import numpy
import torch

from devlab.checks import cases, expect, verbs
from devlab.checks.probes import Built
from devlab.lessons.lesson_05_buffers import expect_moves, lesson

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

# Good answers compute the angles in different ways, in float32.
CLOSE = 1e-4


def _encoding(
    time: int,
    d: int,
    exponent: Callable = lambda c, d: (c - c % 2) / d,
    cosine: Callable = lambda c, d: c % 2,
    base: float = 1e4,
    unit: float = 1.0,
) -> torch.Tensor:
    """Return the pattern of so many steps; `exponent` and `cosine` say what the columns c have."""
    column = numpy.arange(d)
    angles = numpy.arange(time)[:, None] / base ** exponent(column, d) * unit
    return torch.from_numpy(numpy.where(cosine(column, d), numpy.cos(angles), numpy.sin(angles)))


SWAPPED = {"cosine": lambda c, d: 1 - c % 2}
HALVES = {"exponent": lambda c, d: (c % (d // 2)) * 2 / d}
EXPONENTS = {
    "the exponent is c / d in column c: columns 2i and 2i + 1 are to share 2i / d": lambda c, d: c / d,
    "the exponent is i / d, and not 2i / d": lambda c, d: (c // 2) / d,
    "the exponent is 4i / d, and not 2i / d": lambda c, d: (c - c % 2) * 2 / d,
    "the exponent lacks the division by d": lambda c, d: c - c % 2,
    "the step was divided by 10000 in every column: the exponent 2i / d is missing": lambda c, d: c**0,
    "the angle is the step itself in every column: it was not divided by 10000^(2i / d)": lambda c, d: 0 * c,
}
# What the usual slips give `_encoding`, by the words for each.
PATTERNS: dict[str, dict] = {
    "sine and cosine have changed places": SWAPPED,
    "the sines fill the first half of the columns and the cosines the second: they must alternate": (
        HALVES | {"cosine": lambda c, d: c >= d // 2}
    ),
    "the cosines fill the first half of the columns and the sines the second: they must alternate": (
        HALVES | {"cosine": lambda c, d: c < d // 2}
    ),
    "every column holds a sine": {"cosine": lambda c, d: 0 * c},
    "every column holds a cosine": {"cosine": lambda c, d: c**0},
    "the angle is in degrees, and torch.sin takes radians": {"unit": 57.29577951308232},
    **{words: {"exponent": exponent} for words, exponent in EXPONENTS.items()},
    **{
        f"sine and cosine have changed places, and {words}": SWAPPED | {"exponent": exponent}
        for words, exponent in EXPONENTS.items()
    },
    "log10 was taken where the natural logarithm belongs: the base is e^4, and not 10000": {
        "base": numpy.exp(4.0)
    },
    **{f"the base is {base}, and not 10000": {"base": base} for base in (10, 100, 1000, 10**5, 10**6)},
}


def _pattern(x: torch.Tensor, **changes: object) -> torch.Tensor:
    return _encoding(*x.shape[1:], **changes)


def _multiplied(x: torch.Tensor, n: int) -> torch.Tensor:
    time, d = x.shape[1:]
    rates = 10000 ** (torch.arange(0, d, 2) / d)  # in float32, whose rounding shows in angles so large
    angles = (torch.arange(time)[:, None] * rates).repeat_interleave(2, 1).double()
    return x + torch.where(torch.arange(d) % 2 == 1, angles.cos(), angles.sin())


# The arguments are x, and the number of steps that the module was made for.
encoded = verbs.Same(
    lambda x, n: (x.double() + _pattern(x)).float(),
    {
        **{
            words: (lambda x, n, changes=changes: x + _pattern(x, **changes))
            for words, changes in PATTERNS.items()
        },
        "only the even columns were filled: the odd ones hold 0": (
            lambda x, n: x + _pattern(x) * (1 - torch.arange(x.shape[2]) % 2)
        ),
        "the steps are counted from 1, and the first one is step 0": (
            lambda x, n: x + _encoding(x.shape[1] + 1, x.shape[2])[1:]
        ),
        "the steps were counted along the batch, and not along the time": (
            lambda x, n: x + _encoding(len(x), x.shape[2])[:, None]
        ),
        "every step has the encoding of step 0": lambda x, n: x + _encoding(1, x.shape[2]),
        "nothing was added to x": lambda x, n: x,
        "the encoding was added twice": lambda x, n: x + 2 * _pattern(x),
        "the encoding was subtracted from x": lambda x, n: x - _pattern(x),
        "the step was multiplied by 10000^(2i / d), and not divided by it": _multiplied,
        "the encoding came back alone: x was not added": lambda x, n: _pattern(x),
        "the encoding came back alone, for each row of the batch: x was not added": (
            lambda x, n: _pattern(x).expand(x.shape)
        ),
        "x was multiplied by the encoding": lambda x, n: x * _pattern(x),
        "x was multiplied by the square root of d first": lambda x, n: x * x.shape[2] ** 0.5 + _pattern(x),
        "the last rows of the table were added, and not the first": (
            lambda x, n: x + _encoding(n, x.shape[2])[-x.shape[1] :]
        ),
    },
    asked="sin(t / 10000^(2i / d)) in column 2i, its cosine in column 2i + 1",
    within=CLOSE,
)


@positions.row("`table` is a buffer, and forward reads it")
def table_is_a_buffer(trial):
    made = Built(trial, 6, 4)
    made.buffer("table")
    made.require_only_buffers()
    made.to(trial.device).require_read("table", trial.randn(2, 5, 4), "the result")


@positions.row("it moves with the model, at any time")
def table_moves(trial):
    expect_moves(Built(trial, 7, 4), "table", trial.randn(2, 5, 4, seed=trial.seeds[0]), "the result")


@positions.row("it stays out of the state_dict")
def table_is_not_saved(trial):
    made = Built(trial, 5, 6).to(trial.device)
    made(trial.randn(2, 3, 6))
    saved = list(made.module.state_dict())
    if "table" in saved:
        headline = "`table` is saved with the model, and it can be made anew from n and d"
        expect.fail(headline, 'no "table" in the state_dict', saved)


@positions.row("sines in even columns, cosines in odd")
def encoding_is_right(trial):
    # The first size tells all slips apart: a smaller one can make two of them look alike.
    sizes = ((9, 6, 4, 2), (1, 2, 1, 2), (31, 10, 17, 1))
    for seed, (n, d, time, batch) in zip(trial.seeds, sizes, strict=True):
        made = Built(trial, n, d).to(trial.device)
        table = made.buffer("table")
        if not table.is_floating_point():
            headline = f"the buffer `table` is {table.dtype}, which holds no sines"
            expect.fail(headline, "a floating dtype", table)
        x = trial.randn(batch, time, d, seed=seed)
        encoded.compare(trial, made(x), x, n)
    table = made.buffer("table").detach().cpu().squeeze()
    if table.shape != (n, d) or not torch.allclose(table.double(), _encoding(n, d), atol=1e-2):
        headline = "the buffer `table` does not hold the pattern, although forward adds the right one"
        expect.fail(headline, f"the whole pattern, {n} by {d}, made once", table)
    view = trial.randn(3, d, n, seed=seed).transpose(1, 2)
    encoded.compare(trial, made(view), view, n)
    nothing = trial.randn(2, 0, d)
    expect.tensor(made(nothing), nothing, trial.device)
    x.requires_grad_()
    with torch.no_grad():
        made(x)  # which must not spoil the graph of the next call
    verbs.flows(made(x), x, None, cut="the result is cut off from x: no layer before this one can learn")


@positions.row("the result has x's dtype")
def encoding_keeps_dtype(trial):
    made = Built(trial, 8, 4).to(trial.device)
    before = made.buffer("table").dtype
    # Sums of at least 2, so that good answers differ by one rounding, not by cancelled digits.
    plain = trial.randn(2, 5, 4, seed=trial.seeds[0]).abs() + 3
    # What is added, right or wrong, is asked in another row; here it must be the same for every dtype.
    result = made.copied(plain)
    known = result.shape == plain.shape and expect.is_alike(made.copied(plain + 1), result + 1, CLOSE)
    for dtype in cases.floats(trial.device):
        x = plain.to(dtype)
        got = made(x)
        expect.kind(got, torch.Tensor, "a tensor")
        if got.dtype != dtype:
            expect.fail(f"the result is {got.dtype} for an x of {dtype}", f"x's own dtype, {dtype}", got)
        # A table that one batch left in fewer digits would spoil the next one.
        table = made.buffer("table")
        if table.dtype != before:
            expect.fail(f"forward left `table` in {table.dtype}", f"`table` in {before}, as before", table)
        x.requires_grad_()
        verbs.flows(made(x), x, None, cut=f"the result is cut off from an x of {dtype}")
        x = x.detach()
        if known:
            wanted = (x.cpu().double() + (result.double() - plain.cpu())).to(dtype)
            expect.tensor(got, wanted, x.device, within=max(CLOSE, 8 * torch.finfo(dtype).eps))
    if cases.holds(trial.device, torch.float64) and known:
        # The table may have float32's digits. x has its own, and so many only float64 holds.
        x = plain.double() + 1e6
        wanted, got = x.cpu() + (result.double() - plain.cpu()), made(x)
        if torch.equal(got.float().double(), got) and not expect.is_alike(got, wanted, CLOSE):
            headline = "the digits of a float64 x were lost: the sum was rounded to float32"
            expect.fail(headline, "a sum in float64", got)
        expect.tensor(got, wanted, x.device, within=CLOSE)
