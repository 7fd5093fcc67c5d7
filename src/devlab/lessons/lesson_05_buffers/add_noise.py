"""Noise that takes its input's shape, dtype and device."""

import torch

from devlab.checks import cases, expect
from devlab.lessons.lesson_05_buffers import lesson

add_noise = lesson.exercise(
    "add_noise(x, scale)",
    ("W1", "W3", "W5"),
    "`torch.randn(x.shape)` makes float32 on the CPU, whatever x is. Which function makes random numbers "
    "*like* another tensor?",
    "`torch.randn_like(x)` takes x's shape, dtype and device. `scale` is a Python number and goes along with "
    "any tensor as it is.",
    "`return x + scale * torch.randn_like(x)`",
)


ALONE = "with scale 0 the noise came back alone, and not x"


def _expect_unchanged(trial, x: torch.Tensor, within: float | None = None) -> None:
    got, wanted = trial.call(x, 0.0), x.cpu()
    expect.name_slip(got, wanted, {ALONE: torch.zeros_like(wanted)}, "the values of x", within)
    expect.name_lost_digits(got, wanted, x)
    formed = isinstance(got, torch.Tensor) and not got.is_meta
    if formed and (got.shape, got.dtype) == (x.shape, x.dtype) and not expect.is_alike(got, wanted):
        off = (got.detach().cpu() - wanted).abs().max().item()
        expect.fail(f"with scale 0 noise was added all the same, up to {off:.2g}", "the values of x", got)
    expect.tensor(got, wanted, x.device, "the result with scale 0", within)


def _noisy(trial, x: torch.Tensor, scale: float) -> torch.Tensor:
    """Return what the answer makes of x; it has x's shape, dtype and device, and finite numbers."""
    got = trial.call(x, scale)
    expect.tensor(got, x, trial.device, within=float("inf"))
    return got


def _noise(trial, x: torch.Tensor, scale: float) -> torch.Tensor:
    return _noisy(trial, x, scale).detach().cpu().double() - x.cpu().double()


@add_noise.row("x's shape, dtype and device")
def noise_keeps_everything(trial):
    x = trial.randn(5, 3, seed=trial.seeds[0])
    # A row, a matrix turned and a number: where the dtypes change, so do the shapes.
    parts = x[0], x.t(), x
    kinds = [one.to(dtype) for one, dtype in zip(parts, cases.floats(trial.device), strict=False)]
    for given in (x, x[:0], x[1, 2], trial.randn(1, 3, 4, 1), *kinds, x.half()[0, 0]):
        got = _noisy(trial, given, 0.5)
        if given.numel() > 1 and torch.equal(got, given):
            headline = f"no noise was added to an x of {given.dtype}"
            expect.fail(headline, "values that differ from those of x", "the values of x")


@add_noise.row("with scale 0 the values of x")
def no_noise(trial):
    for seed in trial.seeds:
        _expect_unchanged(trial, x := trial.randn(4, 3, seed=seed))
    if cases.holds(trial.device, torch.float64):
        _expect_unchanged(trial, x.double() / 3, 0.0)  # more digits than float32 holds


@add_noise.row("new noise in every element and call")
def noise_is_always_new(trial):
    scale, whole = 0.7, trial.randn(6, 11, 7, seed=trial.seeds[0])
    for x in (whole, whole[0, 0], whole.half()):
        first, second = _noise(trial, x, scale), _noise(trial, x, scale)
        if (first - second).abs().max() < 0.01 * scale:
            expect.fail("two calls drew the same noise", "new noise at every call", "the same numbers twice")
        for dim, size in enumerate(x.shape):
            if first.std(dim).max() < 0.01 * scale:
                words = f"the noise repeats along dimension {dim}"
                expect.fail(words, "its own noise for every element", f"one number for all {size}")
    number = whole[0, 0, 0]
    if (added := _noise(trial, number, scale)) == _noise(trial, number, scale):
        what = "the same noise was added twice" if added else "no noise was added"
        expect.fail(f"{what} to a single number", "new noise at every call", f"{added.item():.3g} twice")


@add_noise.row("mean 0, standard deviation `scale`")
def noise_is_as_large_as_asked(trial):
    for seed, scale in zip(trial.seeds, (0.25, 3.0, 1), strict=True):
        # Of another size than the noise: noise in proportion to x would show.
        x = 2 + 3 * trial.randn(40, 5, 20, seed=seed)
        _expect_normal(_noise(trial, x, scale), x.cpu().double(), scale)
    many = _noise(trial, torch.ones(40, 50, device=trial.device), scale).abs()
    if many.unique().numel() < 0.99 * many.numel():
        said = f"{many.unique().numel()} different numbers for {many.numel()} elements"
        expect.fail("some of the noise comes twice within one call", "its own noise for every element", said)


def _expect_normal(noise: torch.Tensor, x: torch.Tensor, scale: float) -> None:
    """Expect noise of mean 0 and deviation `scale`; of 4000 numbers both are known to about 2 %."""
    mean, deviation, most = noise.mean().item(), noise.std().item(), noise.abs().max().item()
    asked = f"normal noise of mean 0 and standard deviation {scale}"
    found = f"mean {mean:.3g}, standard deviation {deviation:.3g}"
    # Of 4000 normal numbers the largest is beyond three deviations; of uniform ones none is beyond two.
    even = most < 2 * (noise - mean).std().item() or bool((noise >= 0).all()) or bool((noise <= 0).all())
    if even and deviation:
        bounds = f"all of it lies between {noise.min().item():.3g} and {noise.max().item():.3g}"
        expect.fail(f"the noise is not normal: {bounds}", asked, found)
    expect.that(abs(mean) <= 0.15 * scale, f"the noise has mean {mean:.3g}, not 0", asked, found)
    if abs(deviation - scale) <= 0.2 * scale:
        # 3 for normal numbers: of 4000 it is known to about 0.08.
        tails = ((noise - mean) / deviation).pow(4).mean().item()
        where = "near its mean" if tails < 3 else "far from its mean"
        expect.that(2.5 < tails < 3.5, f"the noise is not normal: too much of it lies {where}", asked, found)
        return
    known = (
        (": that is its square root: scale was taken as the variance", deviation, scale**0.5),
        (": that is its square", deviation, scale**2),
        (
            ": that is the deviation of x times scale: the noise depends on x",
            deviation,
            scale * x.std().item(),
        ),
        ("; x was multiplied by noise, so that it grows with x", (noise / x).std().item(), scale),
        (": that is 1: scale was not used", deviation, 1.0),
    )
    words = next((words for words, one, other in known if abs(one - other) < 0.06 * other), "")
    expect.fail(f"the noise has standard deviation {deviation:.3g}, not {scale}{words}", asked, found)
