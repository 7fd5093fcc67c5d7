"""Small tensors made from the input: they take its device and its dtype."""

import torch

from devlab.checks import expect
from devlab.lessons.lesson_05_buffers.base import floats_of, lesson

mask_like = lesson.exercise(
    "mask_like",
    signature="mask_like(x, lengths)",
    facts=("E4", "E5", "W1", "W2"),
    hints=(
        "Compare step numbers 0, 1, 2, … with each row's length. Where must the step numbers be made, and"
        " where may `lengths` be?",
        "`torch.arange(time, device=x.device)` makes the step numbers in the right place. "
        "`lengths.to(x.device)` brings the lengths there, and costs nothing when they are there already.",
        "`return torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None]`",
    ),
)

# (batch, time, features): the longest row need not reach the end, a row may be empty, and there may be one.
CASES = (((3, 5, 2), [2, 5, 1]), ((4, 7, 3), [0, 3, 6, 1]), ((1, 6, 1), [3]), ((2, 1, 3), [1, 0]))


def _inside(time: int, lengths: list[int]) -> torch.Tensor:
    return torch.tensor([[step < length for step in range(time)] for length in lengths])


def _expect_mask(
    trial, x: torch.Tensor, lengths: list[int], where: torch.device, dtype: torch.dtype = torch.int64
) -> None:
    got = trial.call(x, torch.tensor(lengths, dtype=dtype).to(where))
    wanted = _inside(x.shape[1], lengths)
    if isinstance(got, torch.Tensor) and got.device != x.device:
        expect.fail(f"the mask is on {got.device}, x on {x.device}", f"the mask on {x.device}", got)
    travelled = where != x.device and x.device.type == "cpu"
    if travelled and isinstance(got, torch.Tensor) and any(lengths) and not bool(got.any()):
        headline = "the mask is False everywhere: was it made before the lengths had arrived?"
        expect.fail(headline, "a copy that is complete before it is read", got)
    expect.tensor(got, wanted, x.device, "the mask")


@mask_like.row("True inside each row's length")
def mask_is_right(trial):
    for seed, (shape, lengths) in enumerate(CASES, start=trial.seeds[0]):
        x = trial.randn(*shape, seed=seed)
        _expect_mask(trial, x, lengths, trial.device)
        if lengths[1:]:  # the next batch of the same shape has others, which may be smaller integers
            _expect_mask(trial, x, lengths[::-1], trial.device, torch.int32)


@mask_like.row("lengths may come from any device")
def lengths_from_elsewhere(trial):
    shape, lengths = CASES[1]
    trial.other()  # without one there is no elsewhere
    for where in trial.others:
        _expect_mask(trial, trial.randn(*shape, seed=trial.seeds[1]), lengths, where)


@mask_like.row("a boolean mask, whatever x holds")
def mask_for_any_dtype(trial):
    shape, lengths = CASES[0]
    x = trial.randn(*shape, seed=trial.seeds[2])
    # Zeros inside and numbers outside: the lengths say what is padding, the contents do not.
    contents = torch.zeros_like(x), torch.full_like(x, float("nan")), x
    kinds = [one.to(dtype) for one, dtype in zip(contents, floats_of(trial.device), strict=False)]
    for kind in (*kinds, x.long(), trial.randn(3, 2, 5).transpose(1, 2)):
        _expect_mask(trial, kind, lengths, trial.device)
    # Steps counted in x's own dtype go wrong here: bfloat16 knows 256 and 258, but no 257.
    long = trial.randn(2, 301, 1).to(torch.bfloat16)
    _expect_mask(trial, long, [257, 299], trial.device)
    # And in the dtype of lengths, where those are small: uint8 goes no further than 255.
    _expect_mask(trial, long, [200, 3], trial.device, torch.uint8)


add_noise = lesson.exercise(
    "add_noise",
    signature="add_noise(x, scale)",
    facts=("W1", "W3", "W5"),
    hints=(
        "`torch.randn(x.shape)` makes float32 on the CPU, whatever x is. Which function makes random "
        "numbers *like* another tensor?",
        "`torch.randn_like(x)` takes x's shape, dtype and device. `scale` is a Python number and goes "
        "along with any tensor as it is.",
        "`return x + scale * torch.randn_like(x)`",
    ),
)


@add_noise.row("x's shape, dtype and device")
def noise_keeps_everything(trial):
    x = trial.randn(5, 3, seed=trial.seeds[0])
    shapes = [x, x[:0], x[1, 2], trial.randn(1, 3, 4, 1)]
    # Their shapes are others, too: a row, a matrix turned, a single number.
    parts = x[0], x.t(), x
    kinds = [one.to(dtype) for one, dtype in zip(parts, floats_of(trial.device), strict=False)]
    for given in [*shapes, *kinds, x.half()[0, 0]]:
        got = trial.call(given, 0.5)
        expect.kind(got, torch.Tensor, "a tensor")
        # Of the right kind: shape, dtype and device are compared, and that the numbers are finite.
        expect.tensor(got, given, trial.device, within=float("inf"))
        if given.numel() > 1 and torch.equal(got, given):
            expect.fail("no noise was added", "values that differ from those of x", "the values of x")


@add_noise.row("with scale 0 the values of x")
def no_noise(trial):
    for seed in trial.seeds:
        x = trial.randn(4, 3, seed=seed)
        expect.tensor(trial.call(x, 0.0), x.clone(), trial.device, "the result with scale 0")
    if torch.float64 in floats_of(trial.device):
        fine = x.double() / 3  # more digits than float32 holds
        expect.tensor(trial.call(fine, 0.0), fine.clone(), trial.device, "the result with scale 0", 0.0)


@add_noise.row("new noise in every element and call")
def noise_is_always_new(trial):
    scale = 0.7
    x = trial.randn(6, 11, 7, seed=trial.seeds[0])
    first, second = _noise(trial, x, scale), _noise(trial, x, scale)
    if (first - second).abs().max() < 0.01 * scale:
        expect.fail("two calls drew the same noise", "new noise at every call", "the same numbers twice")
    for dim, size in enumerate(x.shape):
        if first.std(dim).max() < 0.01 * scale:
            words = f"the noise repeats along dimension {dim}"
            expect.fail(words, "its own noise for every element", f"one number for all {size}")


@add_noise.row("mean 0, standard deviation `scale`")
def noise_is_as_large_as_asked(trial):
    for seed, scale in zip(trial.seeds, (0.25, 3.0, 1), strict=True):
        # Of another size than the noise: noise in proportion to x would show.
        noise = _noise(trial, 2 + 3 * trial.randn(40, 5, 20, seed=seed), scale)
        mean, deviation = noise.mean().item(), noise.std().item()
        if abs(mean) > 0.15 * scale:
            expect.fail(f"the noise has mean {mean:.3g}, not 0", "a mean near 0", f"{mean:.3g}")
        if abs(deviation - scale) > 0.2 * scale:
            words = f"the noise has standard deviation {deviation:.3g}, not {scale}"
            expect.fail(words, f"near {scale}", f"{deviation:.3g}")
        # Of 4000 normal numbers about 50 lie this far out; of uniform ones, none.
        if noise.abs().max().item() < 2.5 * scale:
            expect.fail("the noise is not normal", "a few values beyond 2.5 times scale", "not one value")
    many = _noise(trial, torch.ones(40, 50, device=trial.device), scale).abs()
    if many.unique().numel() < 0.99 * many.numel():
        said = f"{many.unique().numel()} different numbers for {many.numel()} elements"
        expect.fail("the noise comes again within one call", "its own noise for every element", said)


def _noise(trial, x: torch.Tensor, scale: float) -> torch.Tensor:
    got = trial.call(x, scale)
    expect.tensor(got, x, trial.device, within=float("inf"))
    return got.detach().cpu().double() - x.cpu().double()


append_ones = lesson.exercise(
    "append_ones",
    signature="append_ones(x)",
    facts=("W1", "W2", "W4"),
    hints=(
        "The column has x's shape with a last dimension of 1, and x's device and dtype. `torch.ones(...)`"
        " knows neither of the two.",
        "`x.new_ones(shape)` makes ones like x in every respect but the shape. `x.shape[:-1]` is all of "
        "the shape but its last number.",
        "`return torch.cat([x, x.new_ones(*x.shape[:-1], 1)], dim=-1)`",
    ),
)


def _expect_ones(trial, x: torch.Tensor, within: float | None = None) -> None:
    # Put together from lists' worth of one column each, on the CPU.
    columns = [*x.cpu().unbind(-1), torch.tensor(1, dtype=x.dtype).expand(x.shape[:-1])]
    wanted = torch.stack(columns, -1)
    expect.tensor(trial.call(x), wanted, trial.device, within=within)


@append_ones.row("a column of ones at the end")
def ones_at_the_end(trial):
    for seed, shape in zip(trial.seeds, ((4, 3), (1, 7), (5, 1)), strict=True):
        _expect_ones(trial, trial.randn(*shape, seed=seed))


@append_ones.row("any number of dimensions, and views")
def ones_in_any_shape(trial):
    x = trial.randn(2, 3, 5, seed=trial.seeds[0])
    for given in (x, x[0, 0], x[0].t(), x[:, ::2, 1:4], x[:0], trial.randn(2, 1, 3, 4)):
        _expect_ones(trial, given)


@append_ones.row("x's own dtype, integers too")
def ones_in_any_dtype(trial):
    x = 5 * trial.randn(4, 3, seed=trial.seeds[1])
    floats = floats_of(trial.device)
    for dtype in floats:
        # Of float64 all digits: on the way through float32 they are rounded.
        _expect_ones(trial, x.to(dtype) / 3, within=0.0)
    # So are integers that float32, or even float64, does not hold.
    _expect_ones(trial, x.int() + 2**24 + 1)
    _expect_ones(trial, x.long() + 2**53 + 1)
    _expect_ones(trial, x.abs().to(torch.uint8))
    if torch.float64 in floats:
        _expect_ones(trial, torch.complex(x.double(), x.double().flip(0)))


@append_ones.row("ones beside inf and nan, too")
def ones_beside_anything(trial):
    x = trial.randn(3, 4, seed=trial.seeds[2])
    x[0], x[1, 2], x[2, 3] = float("inf"), float("nan"), float("nan")
    _expect_ones(trial, x)
    _expect_ones(trial, x.flip(-1))
