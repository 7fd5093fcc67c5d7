"""Columns of mean 0 and deviation 1, in any floating dtype."""

import torch

from devlab.checks import expect
from devlab.devices import has_float64
from devlab.lessons.lesson_01_cpu import lesson

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
        "the columns were divided by their length, the root of the sum of squares": centred
        / centred.norm(dim=0),
        "the columns were scaled to a range, not to mean 0 and variance 1": (wide - wide.amin(0))
        / (wide.amax(0) - wide.amin(0)),
        "one deviation served the whole table": centred / wide.std(),
        "one mean served the whole table, and nothing was divided": wide - wide.mean(),
        "the columns were multiplied by their deviation, and not divided": centred * wide.std(0),
        "each row was standardized, not each column, and by the population deviation": (
            _standardized(x, dim=1, correction=0)
        ),
        "the columns were divided by their deviation, and their mean was not taken away": wide / wide.std(0),
        "the mean was subtracted after the division": wide / wide.std(0) - wide.mean(0),
        "the median was subtracted, and not the mean": (wide - wide.median(0).values) / wide.std(0),
        "the columns were divided by the mean of the distances from the mean": centred
        / centred.abs().mean(0),
        "the numbers came back as they were": wide,
    } | {
        f"the numbers beyond {most} deviations were cut off": _standardized(x).clamp(-most, most)
        for most in (2, 3, 4, 5)
    }


def _epsilon(got: torch.Tensor, x: torch.Tensor) -> float | None:
    """Return the number that was added to each deviation, if one explains the whole result."""
    wide = x.detach().cpu().double()
    centred, spread = wide - wide.mean(0), wide.std(0)
    place = centred.abs().argmax(0, keepdim=True)
    added = (centred.gather(0, place) / got.detach().cpu().double().gather(0, place)).squeeze(0) - spread
    guess = added.median().item()
    explained = centred / (spread + guess)
    return guess if guess > 1e-5 and expect.is_alike(got.detach().cpu(), explained, 1e-3) else None


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
        if added := _epsilon(got, x):
            said = f"an epsilon of {added:.2g} was added to the deviations: it is too large"
            expect.fail(said, "mean 0 and sample deviation 1; an epsilon up to 1e-5 does no harm", got)
        mine = got.detach().cpu().double()
        flat = [i for i in range(x.shape[1]) if not mine[:, i].any() and wanted[:, i].any()]
        if flat:
            said = f"column {flat[0]} became zeros, as a constant column does, and it is not constant"
            expect.fail(said, "zeros only where all numbers of a column are the same", got)
    expect.tensor(got, wanted.to(x.dtype), trial.device, within=tolerance)
    return got


@standardize.row("mean 0 and variance 1 in each column")
def mean_and_variance(trial):
    for seed, (count, width) in zip(trial.seeds, [(7, 3), (5, 4), (2, 3)], strict=True):
        columns = torch.arange(1.0, width + 1).to(trial.device)
        _expect_standardized(trial, trial.randn(count, width, seed=seed) * columns + 3 * columns)
    _expect_standardized(trial, trial.randn(3, 6, seed=trial.seeds[0]).t())
    # Small, and not constant; not so small that an epsilon of 1e-5 would tell.
    small = (0.05 * _standardized(trial.randn(6, 4, seed=trial.seeds[1]))).float().to(trial.device)
    got = trial.call(small)
    if isinstance(got, torch.Tensor) and expect.is_alike(got, small.cpu() - small.cpu().mean(0), 1e-4):
        said = "a column whose deviation is 0.05 was not divided by it, as if it were constant"
        expect.fail(said, "mean 0 and sample deviation 1, however small the deviation was", got)
    _expect_standardized(trial, small)
    outlying = trial.randn(30, 2, seed=trial.seeds[0])
    outlying[7] *= 100 / outlying[7].abs()
    _expect_standardized(trial, outlying)
    before = None
    for seed in trial.seeds[:2]:  # twice in one form: nothing is kept of the first
        x = trial.randn(9, 4, seed=seed + 5)
        x[1, :2], x[-1, 1:] = x[0, :2], x[0, 1:]  # some numbers agree in columns that are not constant
        got = trial.call(x)
        if before is not None:
            words = "the mean and the deviation are those of the table of the call before"
            kept = (x.cpu() - before.mean(0)) / before.std(0)
            expect.named(got, _standardized(x), {words: kept}, "mean and deviation of this table", 1e-3)
        before = x.cpu().double()
        _expect_standardized(trial, x)


def _expect_spread(trial) -> None:
    """Expect no zeros where a column is nearly constant; an epsilon in the denominator may be felt there."""
    x = 3e-4 * trial.randn(6, 2, seed=trial.seeds[2])
    got = trial.call(x)
    if isinstance(got, torch.Tensor) and got.shape == x.shape and not got.any():
        said = "a column that is nearly constant became zeros, although its deviation is not 0"
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
        x = (trial.randn(9, 3, seed=trial.seeds[1]) + 1).to(dtype)
        got = trial.call(x)
        expect.kind(got, torch.Tensor, "a tensor")
        if got.dtype != dtype:
            headline = f"the result is {got.dtype} for an x of {dtype}"
            expect.fail(headline, f"x's own dtype, {dtype}", got)
    if not has_float64(trial.device):
        return
    far = trial.randn(9, 3, seed=trial.seeds[2], dtype=torch.float64) / 5 + 1e5
    got = trial.call(far)
    expect.kind(got, torch.Tensor, "a tensor")
    if got.dtype != torch.float64:
        expect.fail(f"the result is {got.dtype} for an x of torch.float64", "x's own dtype", got)
    if _went_through_float32(got, far):
        expect.fail(
            "digits of a float64 table were lost: it was float32 on the way",
            "the precision of float64 throughout",
            got,
        )
    if torch.equal(got, got.float().double()) and got.any():
        expect.fail(
            "the result of a float64 table was rounded to a smaller dtype",
            "the precision of float64 to the end",
            got,
        )
    # Which numbers they are is asked in the first row; here, that they are right in each dtype if there.
    plain = trial.randn(9, 3, seed=trial.seeds[1]) + 1
    if expect.is_alike(trial.call(plain), _standardized(plain), 1e-3):
        for dtype in (torch.float16, torch.bfloat16):
            _expect_standardized(trial, plain.to(dtype))
        _expect_standardized(trial, far)


def _went_through_float32(got: torch.Tensor, x: torch.Tensor) -> bool:
    """Tell whether the result is what comes of x rounded to float32, be it the right one or a slip's."""
    pairs = [_standardized(x), *_slips(x).values()]
    near, right = ([expect.is_alike(got, one, within) for one in pairs] for within in (0.2, 1e-3))
    return any(near) and not any(right)
