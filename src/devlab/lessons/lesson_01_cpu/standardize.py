"""Columns of mean 0 and deviation 1, in any floating dtype."""

import torch

from devlab.checks import cases, expect, verbs
from devlab.lessons.lesson_01_cpu import lesson

standardize = lesson.exercise(
    "standardize",
    signature="standardize(x)",
    facts=("C3",),
    hints=(
        "`x.mean(0)` and `x.std(0)` give one number for each column, on x's device and in x's dtype. "
        "Broadcasting does the rest.",
        "In a constant column the deviation is 0, and 0 / 0 is nan. Divide such a column by 1 instead. "
        "Whatever you make for that must be on x's device and of x's dtype. A Python number always fits, and "
        "`torch.ones(...)` does not.",
        "`centred = x - x.mean(0)`, `spread = x.std(0)`, then "
        "`return centred / torch.where(spread == 0, 1, spread)`.",
    ),
)


def _columns(x: torch.Tensor, dim: int | tuple = 0, correction: int = 1) -> torch.Tensor:
    wide = x.double()
    spread = wide.std(dim, correction=correction, keepdim=True)
    return (wide - wide.mean(dim, keepdim=True)) / torch.where(spread == 0, 1, spread)


def _slips(x: torch.Tensor) -> dict[str, torch.Tensor]:
    wide = x.double()
    mean, spread, low = wide.mean(0), wide.std(0), wide.amin(0)
    centred = wide - mean
    share, length = centred / centred.abs().mean(0), centred / centred.norm(dim=0)
    range_, of_rows = (wide - low) / (wide.amax(0) - low), _columns(x, dim=1, correction=0)
    return {
        "each row was standardized, not each column": _columns(x, dim=1),
        "one mean and one deviation served the whole table": _columns(x, dim=(0, 1)),
        "this is the population deviation (n), not the sample's (n - 1)": _columns(x, correction=0),
        "the columns have mean 0, but not deviation 1": centred,
        "the columns were divided by the variance, not the deviation": centred / wide.var(0),
        "the columns were divided by their length, the root of the sum of squares": length,
        "the columns were scaled to a range, not to mean 0 and deviation 1": range_,
        "one deviation served the whole table": centred / wide.std(),
        "one mean served the whole table, and nothing was divided": wide - wide.mean(),
        "the columns were multiplied by their deviation, and not divided": centred * spread,
        "each row was standardized, not each column, and by the population deviation": of_rows,
        "the columns were divided by their deviation, and their mean was not taken away": wide / spread,
        "the mean was subtracted after the division": wide / spread - mean,
        "the median was subtracted, and not the mean": (wide - wide.median(0).values) / spread,
        "the columns were divided by the mean of the distances from the mean": share,
        "the numbers came back as they were": wide,
    } | {
        f"the numbers beyond {most} deviations were cut off": _columns(x).clamp(-most, most)
        for most in (2, 3, 4, 5, 6, 8, 10)
    }


def _look_at_constant(trial, got: torch.Tensor, wanted: torch.Tensor, x: torch.Tensor) -> None:
    """Say what a constant column has become, where it has not become zeros."""
    if got.shape != x.shape or got.device != x.device:
        return
    for values in got.detach()[:, (x == x[:1]).all(0)].cpu().T:
        if values.isnan().any():
            expect.fail(f"a constant column of {x.dtype} became nan", "zeros", "nan")
        if values.any():
            said = "[" + ", ".join(f"{value:.4g}" for value in values.tolist()) + "]"
            expect.fail("a constant column did not become zeros", "zeros", said)


def _look_further(got: torch.Tensor, wanted: torch.Tensor, x: torch.Tensor) -> None:
    """Name an epsilon that was added to each deviation, and a column that was taken for a constant one."""
    wide, mine = x.detach().cpu().double(), got.detach().cpu().double()
    if expect.is_alike(mine, wanted, _within(x)):
        return
    centred, spread = wide - wide.mean(0), wide.std(0)
    place = centred.abs().argmax(0, keepdim=True)
    added = (centred.gather(0, place) / mine.gather(0, place)).squeeze(0) - spread
    epsilon = added.median().item()
    if epsilon > 1e-5 and expect.is_alike(mine, centred / (spread + epsilon), 1e-3):
        said = f"an epsilon of {epsilon:.2g} was added to the deviations: it is too large"
        expect.fail(said, "mean 0 and sample deviation 1; an epsilon up to 1e-5 does no harm", got)
    for column in range(x.shape[1]):
        if not mine[:, column].any() and wanted[:, column].any():
            said = f"column {column} became zeros, as a constant column does, and it is not constant"
            expect.fail(said, "zeros only where all numbers of a column are the same", got)


def _within(x: torch.Tensor) -> float:
    """Return the tolerance: the dtype rounds, and an epsilon up to 1e-5 in the denominator is allowed."""
    return max(1e-3, 16 * torch.finfo(x.dtype).eps)


columns = verbs.Same(
    lambda x: _columns(x).to(x.dtype),
    _slips,
    "mean 0 and sample deviation 1 in every column",
    first=_look_at_constant,
    then=_look_further,
)


def _expect_told(trial, x: torch.Tensor, words: str, slip: torch.Tensor, asked: str) -> None:
    """Expect the right columns, and call a slip that only this table can show by its words."""
    got = trial.call(x)
    expect.named(got, _columns(x.cpu()), {words: slip.cpu()}, asked, 1e-3)
    columns.compare(trial, got, x, within=_within(x))


@standardize.row("mean 0 and deviation 1 in each column")
def mean_and_variance(trial):
    for seed, (count, width) in zip(trial.seeds, [(7, 3), (5, 4), (2, 3)], strict=True):
        scale = torch.arange(1.0, width + 1).to(trial.device)
        columns(trial, trial.randn(count, width, seed=seed) * scale + 3 * scale, within=1e-3)
    columns(trial, trial.randn(3, 6, seed=trial.seeds[0]).t(), within=1e-3)
    narrow = trial.randn(6, 1, seed=trial.seeds[1])
    expect.tensor(trial.call(narrow), _columns(narrow.cpu()).float(), trial.device, within=1e-3)
    # The numbers are small and not constant, but not so small that an epsilon of 1e-5 changes the result.
    small = (0.05 * _columns(trial.randn(6, 4, seed=trial.seeds[1]).cpu())).float().to(trial.device)
    said = "a column whose deviation is 0.05 was not divided by it, as if it were constant"
    asked = "mean 0 and sample deviation 1, however small the deviation was"
    _expect_told(trial, small, said, small - small.mean(0), asked)
    outlying = trial.randn(150, 2, seed=trial.seeds[0])  # the outlier is 12 deviations away
    outlying[7] *= 100 / outlying[7].abs()
    columns(trial, outlying, within=1e-3)
    one, two = (trial.randn(9, 4, seed=seed + 5) for seed in trial.seeds[:2])
    for x in (one, two):  # some numbers agree in columns that are not constant
        x[1, :2], x[-1, 1:] = x[0, :2], x[0, 1:]
    one[4, 3] = two[4, 3] = 0  # one number is exactly 0
    columns(trial, one, within=1e-3)
    said = "the mean and the deviation are those of the table of the call before"
    _expect_told(trial, two, said, (two - one.mean(0)) / one.std(0), "mean and deviation of this table")
    far = 1000 + trial.randn(9, 3, seed=trial.seeds[1])
    got = trial.call(far)
    if isinstance(got, torch.Tensor) and not expect.is_alike(got, _columns(far.cpu()), 1e-3):
        said = "the deviation of numbers near 1000 lost its digits, as a difference of squares does"
        expect.fail(said, "three digits: take the mean away before you square", got)


@standardize.row("a constant column becomes zeros, not nan")
def constant_column(trial):
    # An allowed epsilon changes a nearly constant column a lot, so its numbers are not compared.
    nearly = 3e-4 * trial.randn(6, 2, seed=trial.seeds[2])
    got = trial.call(nearly)
    if isinstance(got, torch.Tensor) and got.shape == nearly.shape and not got.any():
        said = "a column that is nearly constant became zeros, although its deviation is not 0"
        expect.fail(said, "numbers near 1 and -1", "zeros")
    for dtype in (torch.float32, *cases.floats(trial.device)):
        x = trial.randn(8, 4, seed=trial.seeds[0])
        x[:, 1], x[:, 3] = 3, 0
        columns(trial, x.to(dtype), within=_within(x.to(dtype)))


@standardize.row("the dtype stays what it was")
def dtype_stays(trial):
    plain, far = (trial.randn(9, 3, seed=seed) for seed in trial.seeds[1:])
    tables = [(plain + 1).to(dtype) for dtype in (torch.float16, torch.bfloat16)]
    if cases.holds(trial.device, torch.float64):
        tables.append(far.double() / 5 + 1e5)
    for x in tables:
        got = trial.call(x)
        expect.kind(got, torch.Tensor, "a tensor")
        if got.dtype != x.dtype:
            expect.fail(f"the result is {got.dtype} for an x of {x.dtype}", f"x's own dtype, {x.dtype}", got)
    if x.dtype is not torch.float64:
        return
    if _went_through_float32(got, x.cpu()):
        said = "digits of a float64 table were lost: it was float32 on the way"
        expect.fail(said, "the precision of float64 throughout", got)
    if torch.equal(got, got.float().double()) and got.any():
        said = "the result of a float64 table was rounded to a smaller dtype"
        expect.fail(said, "the precision of float64 to the end", got)
    # Wrong numbers are the first row's finding; only an answer that is right in float32 is compared here.
    if expect.is_alike(trial.call(plain + 1), _columns(plain.cpu() + 1), 1e-3):
        for x in tables:
            columns(trial, x, within=_within(x))


def _went_through_float32(got: torch.Tensor, x: torch.Tensor) -> bool:
    """Tell whether the result comes from x rounded to float32; the first row judges whether it is right."""
    known = [_columns(x), *_slips(x).values()]
    near, right = ([expect.is_alike(got, one, within) for one in known] for within in (0.2, 1e-3))
    return any(near) and not any(right)
