"""The clinic: the mask, which a model's own code makes at each call."""

from math import inf

import torch

from devlab.checks import cases, expect, verbs
from devlab.lessons.lesson_10_debugging import lesson, watched_straight

fix_mask = lesson.exercise(
    "fix_mask",
    signature="fix_mask(x)",
    facts=("X4", "X5", "E4"),
    hints=(
        "The line that fails is the sum. The culprit was made one line above it: where, and of which dtype?",
        "A helper made inside a function takes device and dtype from the input: `x.new_full(...)`, or "
        "`device=x.device, dtype=x.dtype`.",
        '`mask = x.new_full((time, time), float("-inf")).triu(1)`',
    ),
)


def _future(time: int) -> torch.Tensor:
    steps = torch.arange(time)
    return steps[None, :] > steps[:, None]


def _hidden(x: torch.Tensor) -> torch.Tensor:
    return x.masked_fill(_future(x.shape[1]), -inf)


def _weights(scores: torch.Tensor) -> None:
    """Run backward from the weights that a softmax makes of the scores."""
    scores.softmax(-1).square().sum().backward()


def _look(got: torch.Tensor, wanted: torch.Tensor, x: torch.Tensor) -> None:
    if got[..., _future(x.shape[1]).to(got.device)].isfinite().any():
        headline = "above the diagonal stand finite numbers: only -inf has the weight 0 after every softmax"
        expect.fail(headline, "-inf above the diagonal", got)


masked = verbs.Same(
    _hidden,
    {
        "that is the upper triangle, and the lower one is asked": lambda x: _hidden(x.mT).mT,
        "the diagonal is missing: x stays on it": lambda x: _hidden(x).masked_fill(
            torch.eye(x.shape[1], dtype=torch.bool), -inf
        ),
        "above the diagonal stand zeros: a softmax makes e⁰ of them, and of -inf it makes 0": torch.tril,
        "that is the mask alone, and x with the mask is asked": lambda x: _hidden(torch.zeros_like(x)),
        "that is x itself: nothing was masked": lambda x: x,
    },
    then=_look,
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


@fix_mask.row("-inf above the diagonal, x on and below")
def mask_is_right(trial):
    masked.each(trial, cases.shapes(trial, (1, 3, 3), (4, 1, 1), (3, 6, 6)))
    masked(trial, trial.randn(5, 2, 5, seed=trial.seeds[0]).transpose(0, 1))


@fix_mask.row("the gradient reaches x")
def mask_graph(trial):
    x = trial.randn(2, 3, 3, seed=trial.seeds[2]).requires_grad_()
    verbs.flows(trial.call(x), x, _hidden, pull=_weights)


@fix_mask.row("on a device that is not the current one", only="accelerator")
def mask_is_not_on_the_current(trial):
    with verbs.current(trial.second()):
        mask_is_there(trial)
