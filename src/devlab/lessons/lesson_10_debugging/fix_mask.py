"""The clinic: the mask, which a model's own code makes at each call."""

import torch

from devlab.checks import expect
from devlab.lessons.lesson_10_debugging import gradient, lesson, require_graph, watched_straight

mask = lesson.exercise(
    "fix_mask",
    signature="fix_mask(x)",
    facts=("X4", "X5", "E4"),
    hints=(
        "The line that fails is the product. The culprit was made one line above it: where, and of which "
        "dtype?",
        "A helper made inside a function takes device and dtype from the input: `x.new_ones(...)`, or "
        "`device=x.device, dtype=x.dtype`.",
        "`mask = x.new_ones(time, time).tril()`",
    ),
)


def _future(time: int) -> torch.Tensor:
    steps = torch.arange(time)
    return steps[None, :] > steps[:, None]


def _expect_masked(trial, x: torch.Tensor, got: object) -> None:
    own, future = x.detach().cpu(), _future(x.shape[1])
    wanted = own.masked_fill(future, 0)

    def known() -> dict[str, torch.Tensor]:
        ones = torch.ones_like(own)
        return {
            "that is the upper triangle, and the lower one is asked": own.triu(),
            "the diagonal is missing: x stays on it": own.tril(-1),
            "the diagonal above is kept: x stays on and below the main one": own.tril(1),
            "that is the mask alone, and x times the mask is asked": ones.tril(),
            "that is x itself: nothing was masked": own,
        }

    if x.shape[1] == 1:
        known = dict
    if (
        isinstance(got, torch.Tensor)
        and got.shape == x.shape
        and got.is_floating_point()
        and got.isinf().any()
    ):
        expect.fail("above the diagonal stands -inf, and zeros are asked", "zeros", got)
    expect.told(got, wanted, x.device, known=known)


@mask.row("the mask is made on x's device")
def mask_is_there(trial):
    for seed in trial.seeds:
        x = trial.randn(2, 5, 5, seed=seed)
        _expect_masked(trial, x, watched_straight(trial, x, makes="the mask was"))


@mask.row("the result has x's dtype")
def mask_dtype(trial):
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        try:
            x = trial.randn(3, 4, 4, seed=trial.seeds[1]).cpu().to(dtype).to(trial.device)
        except (TypeError, RuntimeError):  # Apple's GPUs have no float64
            continue
        _expect_masked(trial, x, trial.call(x))
        if dtype is torch.float64:  # with more digits than float32 holds
            fine = x / 3
            got = trial.call(fine)
            expect.values(got, fine.cpu().masked_fill(_future(4), 0), within=1e-15)


@mask.row("zeros above the diagonal, x on and below")
def mask_is_right(trial):
    for seed, shape in zip(trial.seeds, ((1, 3, 3), (4, 1, 1), (3, 6, 6)), strict=True):
        x = trial.randn(*shape, seed=seed)
        _expect_masked(trial, x, trial.call(x))
    x = trial.randn(5, 2, 5, seed=trial.seeds[0]).transpose(0, 1)
    _expect_masked(trial, x, trial.call(x))


@mask.row("the gradient reaches x")
def mask_graph(trial):
    x = trial.randn(2, 3, 3, seed=trial.seeds[2]).requires_grad_()
    wanted = gradient(lambda one: one.masked_fill(_future(3), 0), x)
    require_graph(trial.call(x), x, "x", wanted)
