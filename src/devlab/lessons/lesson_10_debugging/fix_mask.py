"""The clinic: the mask, which a model's own code makes at each call."""

import torch

from devlab.checks import cases, expect, verbs
from devlab.lessons.lesson_10_debugging import lesson, watched_straight

fix_mask = lesson.exercise(
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


def _look(trial, got: torch.Tensor, wanted: torch.Tensor, x: torch.Tensor) -> None:
    if got.shape == x.shape and got.is_floating_point() and got.isinf().any():
        expect.fail("above the diagonal stands -inf, and zeros are asked", "zeros", got)
    if got.dtype == torch.bool:  # its numbers are those of the mask, and its dtype says more
        expect.tensor(got, wanted, x.device)


masked = verbs.Same(
    lambda x: x.masked_fill(_future(x.shape[1]), 0),
    {
        "that is the upper triangle, and the lower one is asked": torch.triu,
        "the diagonal is missing: x stays on it": lambda x: x.tril(-1),
        "the diagonal above is kept: x stays on and below the main one": lambda x: x.tril(1),
        "that is the mask alone, and x times the mask is asked": lambda x: torch.ones_like(x).tril(),
        "that is x itself: nothing was masked": lambda x: x,
    },
    first=_look,
)


@fix_mask.row("the mask is made on x's device")
def mask_is_there(trial):
    for seed in trial.seeds:
        x = trial.randn(2, 5, 5, seed=seed)
        masked.compare(trial, watched_straight(trial, x, makes="the mask was"), x)


@fix_mask.row("the result has x's dtype")
def mask_dtype(trial):
    for dtype in cases.floats(trial.device):
        x = trial.randn(3, 4, 4, seed=trial.seeds[1], dtype=dtype)
        masked(trial, x)
        if dtype is torch.float64:  # with more digits than float32 holds
            masked(trial, x / 3, within=1e-15)


@fix_mask.row("zeros above the diagonal, x on and below")
def mask_is_right(trial):
    masked.each(trial, cases.shapes(trial, (1, 3, 3), (4, 1, 1), (3, 6, 6)))
    masked(trial, trial.randn(5, 2, 5, seed=trial.seeds[0]).transpose(0, 1))


@fix_mask.row("the gradient reaches x")
def mask_graph(trial):
    x = trial.randn(2, 3, 3, seed=trial.seeds[2]).requires_grad_()
    verbs.flows(trial.call(x), x, lambda one: one.masked_fill(_future(3), 0))


@fix_mask.row("on a device that is not the current one", only="accelerator")
def mask_is_not_on_the_current(trial):
    with verbs.current(trial.second()):
        mask_is_there(trial)
