"""The clinic: the weights of a loss, which no model holds."""

import torch
from torch.nn import functional

from devlab.lessons.lesson_10_debugging import (
    expect_loss,
    gradient,
    lesson,
    make_logits,
    require_graph,
    sources,
    watched_straight,
)

loss_weight = lesson.exercise(
    "fix_loss_weight",
    signature="fix_loss_weight(logits, labels, weight)",
    facts=("X1", "X4", "E4"),
    hints=(
        "Three tensors meet in this loss. Print the device of each.",
        "The weights were computed from the data set, once, on the CPU, and they have stayed there: no model "
        "holds them and no loader yields them.",
        "`functional.cross_entropy(logits, labels, weight=weight.to(logits.device))`",
    ),
)


def _weight(trial, classes: int, seed: int) -> torch.Tensor:
    """Return positive weights, no two alike, the largest first."""
    return trial.randn(classes, seed=seed).abs() + torch.arange(2.0 * classes, 0, -2).to(trial.device)


@loss_weight.row("a weight from any device")
def weight_from_anywhere(trial):
    for source in sources(trial):
        logits = make_logits(trial, 7, 3, trial.seeds[0])
        labels = trial.randint(0, 3, (7,), seed=trial.seeds[1])
        weight = _weight(trial, 3, trial.seeds[2]).to(source)
        got = watched_straight(trial, logits, labels, weight, comes=("the weight",))
        expect_loss(trial, got, logits, labels, weight)


@loss_weight.row("each label counts by its class's weight")
def weight_counts(trial):
    for seed, (rows, classes) in zip(trial.seeds, ((6, 4), (1, 3), (11, 2)), strict=True):
        logits = make_logits(trial, rows, classes, seed)
        labels = trial.randint(0, classes, (rows,), seed=seed)
        weight = _weight(trial, classes, seed).cpu()
        expect_loss(trial, trial.call(logits, labels, weight), logits, labels, weight)


@loss_weight.row("the gradient reaches the logits")
def weight_graph(trial):
    logits = make_logits(trial, 4, 3, trial.seeds[2])
    labels, weight = torch.tensor([2, 0, 1, 1], device=trial.device), torch.tensor([1.0, 2.0, 5.0])
    got = trial.call(logits, labels, weight)
    expect_loss(trial, got, logits, labels, weight)
    wanted = gradient(lambda one: functional.cross_entropy(one, labels.cpu(), weight), logits)
    require_graph(got, logits, "the logits", wanted)
