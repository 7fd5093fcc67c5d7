"""A mask made from the input: it takes its device, wherever the lengths are."""

import torch

from devlab.checks import cases, expect, verbs
from devlab.lessons.lesson_05_buffers import lesson

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


def _asked(x: torch.Tensor, lengths: torch.Tensor) -> str:
    return f"lengths {lengths.tolist()} and time {x.shape[1]}"


def _look(trial, got: torch.Tensor, wanted: torch.Tensor, x: torch.Tensor, lengths: torch.Tensor) -> None:
    """Say what the mask alone does not tell: where it is, and what it depends on."""
    if got.device != x.device:
        expect.fail(f"the mask is on {got.device}, x on {x.device}", f"the mask on {x.device}", got)
    if lengths.device != x.device and x.is_cpu and bool(lengths.any()) and not bool(got.any()):
        headline = "the mask is False everywhere: was it made before the lengths had arrived?"
        expect.fail(headline, "a copy that is complete before it is read", got)
    if got.shape != wanted.shape or expect.is_alike(got, wanted):
        return
    before = lengths.tolist()[::-1]  # a row's call with int32 lengths follows one with these
    if lengths.dtype == torch.int32 and expect.is_alike(got, _inside(x.shape[1], before)):
        headline = f"the mask is that of the call before, whose lengths were {before}"
        expect.fail(headline, f"a mask for {_asked(x, lengths)}", got)
    kept = got.detach().cpu().clone()
    again = trial.call(torch.zeros_like(x), lengths)
    if isinstance(again, torch.Tensor) and not expect.is_alike(again, kept):
        headline = "the mask depends on the contents of x, and the lengths alone decide"
        asked = f"one mask for {_asked(x, lengths)}, whatever x holds"
        expect.fail(headline, asked, "another where x holds only zeros")


def _slips(x: torch.Tensor, lengths: torch.Tensor) -> dict[str, expect.Slip]:
    time, features, asked = *x.shape[1:], lengths.tolist()
    wanted, steps, ends = _inside(time, asked), torch.arange(time), lengths.long()[:, None]
    return {
        "each row has one True too many: the steps count from 0, so step lengths[i] lies beyond": steps
        <= ends,
        "each row has one True too few": steps < ends - 1,
        "True marks the padding: it is the other way round": ~wanted,
        "the True elements stand at the end of each row, and not at its beginning": wanted.flip(1),
        "every element is True": torch.ones_like(wanted),
        "every element is False": torch.zeros_like(wanted),
        "every row has the mask of the longest one": steps < ends.max().expand_as(ends),
        "the last lengths[i] steps are False and all before them True": steps < time - ends,
        "only the element at each length is marked": steps == ends,
        f"the mask is only as long as the longest row, and not {time} as x is": _inside(
            max(*asked, 1), asked
        ),
        "rows and columns have changed places": wanted.T,
        "the mask has a third dimension: its shape is to be (batch, time)": wanted[..., None],
        "the mask has x's own shape: it is to be (batch, time), without the features": (
            wanted[..., None].expand(x.shape)
        ),
        "the mask counts along x's features, x.shape[2], and not along its time, x.shape[1]": (
            lambda: _inside(features, asked)
        ),
        f"the step numbers were counted in x's dtype, {x.dtype}, which does not hold them all": (
            lambda: steps.to(x.dtype) < ends.to(x.dtype)
        ),
        f"the step numbers were counted in the dtype of lengths, {lengths.dtype}, and overflow": (
            lambda: steps.to(lengths.dtype) < lengths[:, None]
        ),
        "a dimension of size 1 was squeezed away": lambda: wanted.squeeze(),
    }


mask = verbs.Same(
    lambda x, lengths: _inside(x.shape[1], lengths.tolist()),
    _slips,
    asked=lambda x, lengths: f"for {_asked(x, lengths)}: True in the first steps",
    what="the mask",
    first=_look,
    then=lambda got, wanted, *asked: expect.values(got, wanted, f"the mask for {_asked(*asked)}"),
)


@mask_like.row("True inside each row's length")
def mask_is_right(trial):
    for seed, (shape, lengths) in enumerate(CASES, start=trial.seeds[0]):
        x, ends = trial.randn(*shape, seed=seed), torch.tensor(lengths, device=trial.device)
        mask(trial, x, ends)
        if lengths[1:]:  # the next batch of the same shape has others, which may be smaller integers
            mask(trial, x, ends.int().flip(0))


@mask_like.row("lengths may come from any device")
def lengths_from_elsewhere(trial):
    shape, lengths = CASES[1]
    for where in cases.places(trial)[1:]:
        mask(trial, trial.randn(*shape, seed=trial.seeds[1]), torch.tensor(lengths, device=where))


@mask_like.row("a boolean mask, whatever x holds")
def mask_for_any_dtype(trial):
    shape, lengths = CASES[0]
    x, ends = trial.randn(*shape, seed=trial.seeds[2]), torch.tensor(lengths, device=trial.device)
    # Zeros inside and numbers outside: the lengths say what is padding, the contents do not.
    contents = torch.zeros_like(x), torch.full_like(x, float("nan")), x
    kinds = [one.to(dtype) for one, dtype in zip(contents, cases.floats(trial.device), strict=False)]
    mask.each(trial, [(one, ends) for one in (*kinds, x.long(), trial.randn(3, 2, 5).transpose(1, 2))])
    # bfloat16 holds 256 and 258 and not 257, so steps counted in x's dtype go wrong; uint8 ends at 255.
    long = trial.randn(2, 301, 1).to(torch.bfloat16)
    mask(trial, long, torch.tensor([257, 299], device=trial.device))
    mask(trial, long, torch.tensor([200, 3], dtype=torch.uint8, device=trial.device))
    mask.each(trial, [(one, ends) for one in (x > 0, x.abs().to(torch.uint8))])
    if cases.holds(trial.device, torch.complex64):
        mask(trial, torch.complex(x, x), ends)
    mask.each(trial, [(x, ends.to(dtype)) for dtype in (torch.int8, torch.int16)])
