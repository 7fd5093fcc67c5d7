"""From lists to a table, and from a table to columns that a network can use."""

import random

import numpy
import torch

from devlab.checks import expect, settings
from devlab.devices import has_float64
from devlab.lessons.lesson_01_cpu.base import lesson

CPU = torch.device("cpu")

load_table = lesson.exercise(
    "load_table",
    signature="load_table(rows)",
    facts=("C1", "C4"),
    hints=(
        "`torch.tensor` reads nested lists. Two things the lists cannot tell it: which dtype, and where.",
        "What you leave out follows a default, and another part of the program may have changed the "
        "default. `torch.tensor` takes `dtype=` and `device=`.",
        'The whole body is `return torch.tensor(rows, dtype=torch.float32, device="cpu")`.',
    ),
)


def _rows(count: int, width: int, seed: int, whole: bool = False) -> list[list[float]]:
    source = random.Random(1000 + seed)
    return [
        [source.randint(-99, 99) if whole else round(source.uniform(-9, 9), 3) for _ in range(width)]
        for _ in range(count)
    ]


def _expect_table(got: object, rows: list) -> None:
    wanted = torch.from_numpy(numpy.array(rows, dtype=numpy.float32))
    expect.tensor(got, wanted, CPU, "the table")


@load_table.row("every number is in its place")
def every_number_in_place(trial):
    for seed, (count, width) in zip(trial.seeds, [(5, 3), (1, 4), (6, 1)], strict=True):
        rows = _rows(count, width, seed)
        _expect_table(trial.call(rows), rows)
    wide = _rows(2, 41, trial.seeds[0])
    _expect_table(trial.call(wide), wide)


@load_table.row("whole numbers become float32 too")
def whole_numbers_too(trial):
    for seed in trial.seeds:
        whole = _rows(4, 3, seed, whole=True)
        _expect_table(trial.call(whole), whole)
        mixed = [a + b for a, b in zip(whole, _rows(4, 2, seed), strict=True)]
        _expect_table(trial.call(mixed), mixed)
        one_whole_row = whole[:1] + _rows(2, 3, seed)
        _expect_table(trial.call(one_whole_row), one_whole_row)


@load_table.row("the CPU, whatever the default device is", only="accelerator")
def whatever_the_default_device(trial):
    rows = _rows(3, 5, trial.seeds[1])
    got = settings.kept(trial, rows, device=trial.device)
    if isinstance(got, torch.Tensor) and got.device == trial.device:
        asked = f"torch.set_default_device({str(trial.device)!r})"
        expect.fail(f"after {asked} the table is on {got.device}", "the table on cpu", got)
    _expect_table(got, rows)


@load_table.row("float32, whatever the default dtype is")
def whatever_the_default_dtype(trial):
    rows = _rows(3, 5, trial.seeds[2])
    for default in (torch.float64, torch.float16):
        got = settings.kept(trial, rows, dtype=default)
        asked = f"after torch.set_default_dtype({default})"
        if isinstance(got, torch.Tensor) and got.dtype == default:
            expect.fail(f"{asked} the table is {got.dtype}", "torch.float32", got)
        _expect_not_rounded(got, rows, default, asked)
        _expect_table(got, rows)


def _expect_not_rounded(got: object, rows: list, default: torch.dtype, asked: str) -> None:
    """Expect float32 numbers that were never in a narrower default dtype."""
    wanted = torch.tensor(rows, dtype=torch.float32)
    rounded = wanted.to(default).float()
    if isinstance(got, torch.Tensor) and torch.equal(got.cpu(), rounded) and not torch.equal(wanted, rounded):
        headline = f"{asked} the numbers went through {default}, and lost digits there"
        expect.fail(headline, "numbers that are float32 from the start", got)


standardize = lesson.exercise(
    "standardize",
    signature="standardize(x)",
    facts=("C3",),
    hints=(
        "`x.mean(0)` and `x.std(0)` give one number a column, on x's device and in x's dtype. Broadcasting "
        "does the rest.",
        "In a constant column the deviation is 0, and 0 / 0 is nan. Divide such a column by 1 instead. "
        "Whatever you make for that must be on x's device and of x's dtype: a Python number always fits, "
        "`torch.ones(...)` does not.",
        "`centred = x - x.mean(0)`, `spread = x.std(0)`, then "
        "`return centred / torch.where(spread == 0, 1, spread)`.",
    ),
)


def _standardized(x: torch.Tensor, dim: int | tuple = 0, correction: int = 1) -> torch.Tensor:
    wide = x.detach().cpu().double()
    spread = wide.std(dim, correction=correction, keepdim=True)
    return (wide - wide.mean(dim, keepdim=True)) / torch.where(spread == 0, 1, spread)


def _slips(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """What the usual slips would give, each with the words for it."""
    wide = x.detach().cpu().double()
    centred = wide - wide.mean(0)
    return {
        "each row was standardized, not each column": _standardized(x, dim=1),
        "one mean and one deviation served the whole table": _standardized(x, dim=(0, 1)),
        "this is the population deviation (n), not the sample's (n - 1)": _standardized(x, correction=0),
        "the columns have mean 0, but not variance 1": centred,
        "the columns were divided by the variance, not the deviation": centred / wide.var(0),
        "the columns were scaled to a range, not to mean 0 and variance 1": (wide - wide.amin(0))
        / (wide.amax(0) - wide.amin(0)),
    }


def _tolerance(dtype: torch.dtype) -> float:
    """Return what is let pass: the rounding of the dtype, and an epsilon up to 1e-5 in the denominator."""
    return max(1e-3, 16 * torch.finfo(dtype).eps)


def _expect_standardized(trial, x: torch.Tensor) -> torch.Tensor:
    wanted = _standardized(x)
    tolerance = _tolerance(x.dtype)

    def near(got: torch.Tensor, one: torch.Tensor) -> bool:
        return torch.allclose(got.detach().cpu().double(), one, rtol=0, atol=tolerance)

    got = trial.call(x)
    comparable = isinstance(got, torch.Tensor) and got.shape == x.shape and got.device == x.device
    if comparable and not near(got, wanted):
        for words, slip in _slips(x).items():
            if near(got, slip):
                expect.fail(words, "mean 0 and sample deviation 1 in every column", got)
    expect.tensor(got, wanted.to(x.dtype), trial.device, within=tolerance)
    return got


@standardize.row("mean 0 and variance 1 in each column")
def mean_and_variance(trial):
    for seed, (count, width) in zip(trial.seeds, [(7, 3), (5, 4), (2, 3)], strict=True):
        columns = torch.arange(1.0, width + 1).to(trial.device)
        _expect_standardized(trial, trial.randn(count, width, seed=seed) * columns + 3 * columns)
    _expect_standardized(trial, trial.randn(3, 6, seed=trial.seeds[0]).t())
    # Small, and not constant; not so small that an epsilon of 1e-5 would tell.
    small = 0.05 * _standardized(trial.randn(6, 4, seed=trial.seeds[1]))
    _expect_standardized(trial, small.float().to(trial.device))
    outlying = trial.randn(30, 2, seed=trial.seeds[0])
    outlying[7] *= 100 / outlying[7].abs()
    _expect_standardized(trial, outlying)
    for seed in trial.seeds[:2]:  # twice in one form: nothing is kept of the first
        x = trial.randn(9, 4, seed=seed + 5)
        x[1, :2], x[-1, 1:] = x[0, :2], x[0, 1:]  # some numbers agree in columns that are not constant
        _expect_standardized(trial, x)


def _expect_spread(trial) -> None:
    """Expect no zeros where a column is nearly constant; an epsilon in the denominator may be felt there."""
    x = 3e-4 * trial.randn(6, 2, seed=trial.seeds[2])
    got = trial.call(x)
    if isinstance(got, torch.Tensor) and got.shape == x.shape and not got.any():
        said = "a column that is nearly constant became zeros: its deviation is small, and not 0"
        expect.fail(said, "numbers near 1 and -1", "zeros")


@standardize.row("a constant column becomes zeros, not nan")
def constant_column(trial):
    _expect_spread(trial)
    for dtype in (torch.float32, torch.float16):
        x = trial.randn(8, 4, seed=trial.seeds[0])
        for column, value in [(1, 3.0), (3, 0.0)]:
            x[:, column] = value
        x = x.to(dtype)
        got = trial.call(x)
        if isinstance(got, torch.Tensor) and got.shape == x.shape:
            for column in (1, 3):
                values = got.detach().cpu()[:, column]
                if values.isnan().any():
                    expect.fail(f"a constant column of {dtype} became nan", "zeros", "nan")
                if values.any():
                    expect.fail("a constant column did not become zeros", "zeros", _listed(values))
        _expect_standardized(trial, x)


def _listed(values: torch.Tensor) -> str:
    return "[" + ", ".join(f"{value:.4g}" for value in values.tolist()) + "]"


@standardize.row("the dtype stays what it was")
def dtype_stays(trial):
    for dtype in (torch.float16, torch.bfloat16):
        _expect_standardized(trial, (trial.randn(9, 3, seed=trial.seeds[1]) + 1).to(dtype))
    if not has_float64(trial.device):
        return
    far = trial.randn(9, 3, seed=trial.seeds[2], dtype=torch.float64) / 5 + 1e5
    if _went_through_float32(got := trial.call(far), far):
        expect.fail(
            "digits of a float64 table were lost: was it float32 on the way?",
            "the precision of float64 throughout",
            got,
        )
    got = _expect_standardized(trial, far)
    if torch.equal(got, got.float().double()):
        expect.fail(
            "the result of a float64 table was rounded to a smaller dtype",
            "the precision of float64 to the end",
            got,
        )


def _went_through_float32(got: object, x: torch.Tensor) -> bool:
    if not isinstance(got, torch.Tensor) or got.shape != x.shape or got.dtype != torch.float64:
        return False
    off = (got.detach().cpu() - _standardized(x)).abs().max()
    return bool(1e-3 < off < 0.2)
