"""A mask made from the input: it takes its device, wherever the lengths are."""

import torch

from devlab.checks import expect, slips
from devlab.lessons.lesson_05_buffers import floats_of, lesson

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
    trial,
    x: torch.Tensor,
    lengths: list[int],
    where: torch.device,
    dtype: torch.dtype = torch.int64,
    before: tuple[int, ...] = (),
) -> None:
    """Expect the mask; `before` are the lengths of the call before, if x was the same."""
    asked_for = torch.tensor(lengths, dtype=dtype).to(where)
    got = trial.call(x, asked_for)
    wanted = _inside(x.shape[1], lengths)
    asked, time = f"lengths {lengths} and time {x.shape[1]}", x.shape[1]
    if isinstance(got, torch.Tensor) and got.device != x.device:
        expect.fail(f"the mask is on {got.device}, x on {x.device}", f"the mask on {x.device}", got)
    travelled = where != x.device and x.device.type == "cpu"
    if travelled and isinstance(got, torch.Tensor) and any(lengths) and not bool(got.any()):
        headline = "the mask is False everywhere: was it made before the lengths had arrived?"
        expect.fail(headline, "a copy that is complete before it is read", got)
    if isinstance(got, torch.Tensor) and got.shape == wanted.shape and not slips.is_alike(got, wanted):
        if before and slips.is_alike(got, _inside(time, list(before))):
            headline = f"the mask is that of the call before, whose lengths were {list(before)}"
            expect.fail(headline, f"a mask for {asked}", got)
        kept = got.detach().cpu().clone()
        again = trial.call(torch.zeros_like(x), asked_for)
        if isinstance(again, torch.Tensor) and not slips.is_alike(again, kept):
            headline = "the mask depends on the contents of x, and the lengths alone decide"
            expect.fail(
                headline, f"one mask for {asked}, whatever x holds", "another where x holds only zeros"
            )
    slips.named(got, wanted, _wrong_masks(x, lengths, dtype), f"for {asked}: True in the first steps")
    plain = not isinstance(got, torch.Tensor) or got.shape != wanted.shape or got.dtype != torch.bool
    expect.tensor(got, wanted, x.device, "the mask" if plain else f"the mask for {asked}")


def _wrong_masks(x: torch.Tensor, lengths: list[int], dtype: torch.dtype) -> dict[str, slips.Slip]:
    """Return what the usual slips make of the mask, by the words for each."""
    time, features = x.shape[1:]
    wanted = _inside(time, lengths)
    ends = torch.tensor(lengths)[:, None]

    def counted(dtype: torch.dtype) -> torch.Tensor:
        return torch.arange(time).to(dtype) < ends.to(dtype)

    return {
        "each row has one True too many: the steps count from 0, so step lengths[i] lies beyond": (
            torch.arange(time) <= ends
        ),
        "each row has one True too few": torch.arange(time) < ends - 1,
        "True marks the padding: it is the other way round": ~wanted,
        "the True elements stand at the end of each row, and not at its beginning": wanted.flip(1),
        "every element is True": torch.ones_like(wanted),
        "every element is False": torch.zeros_like(wanted),
        "every row has the mask of the longest one": torch.arange(time) < ends.max().expand_as(ends),
        "the last lengths[i] steps are False and all before them True": torch.arange(time) < time - ends,
        "only the element at each length is marked": torch.arange(time) == ends,
        f"the mask is only as long as the longest row, and not {time} as x is": (
            _inside(max(*lengths, 1), lengths)
        ),
        "rows and columns have changed places": wanted.T,
        "the mask has a third dimension: its shape is to be (batch, time)": wanted[..., None],
        "the mask has x's own shape: it is to be (batch, time), without the features": (
            wanted[..., None].expand(x.shape)
        ),
        "the mask counts along x's features, x.shape[2], and not along its time, x.shape[1]": (
            lambda: _inside(features, lengths)
        ),
        f"the step numbers were counted in x's dtype, {x.dtype}, which does not hold them all": (
            lambda: counted(x.dtype)
        ),
        f"the step numbers were counted in the dtype of lengths, {dtype}, and overflow": (
            lambda: counted(dtype)
        ),
        "a dimension of size 1 was squeezed away": lambda: wanted.squeeze(),
    }


@mask_like.row("True inside each row's length")
def mask_is_right(trial):
    for seed, (shape, lengths) in enumerate(CASES, start=trial.seeds[0]):
        x = trial.randn(*shape, seed=seed)
        _expect_mask(trial, x, lengths, trial.device)
        if lengths[1:]:  # the next batch of the same shape has others, which may be smaller integers
            _expect_mask(trial, x, lengths[::-1], trial.device, torch.int32, tuple(lengths))


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
