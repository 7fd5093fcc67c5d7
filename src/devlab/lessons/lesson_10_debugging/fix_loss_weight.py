"""The clinic: the weights of a loss, which no model holds."""

import torch
from torch.nn import functional

from devlab.checks import cases, verbs
from devlab.lessons.lesson_10_debugging import each_loss, lesson, make_logits, sources, watched_straight

fix_loss_weight = lesson.exercise(
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


def _weighted(logits: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    share = weight.double()[labels]
    return ((each_loss(logits, labels) * share).sum() / share.sum()).to(logits.dtype)


def _slips(logits: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor) -> dict[str, torch.Tensor]:
    each, weight = each_loss(logits, labels), weight.double()
    share = weight[labels]
    total = (each * share).sum()
    return {
        "the weight was not used": each.mean(),
        "the weighted rows were divided by their number, and the sum of the weights used is asked": (
            total / len(each)
        ),
        "that is the sum of the weighted rows, not divided by the weights used": total,
        "it was divided by the sum of all classes' weights, and those of the labels at hand are asked": (
            total / weight.sum()
        ),
        "the weights are upside down: 1 / weight": (each / share).sum() / (1 / share).sum(),
        "the weight was multiplied with the logits, and it belongs to the rows of the loss": (
            each_loss(logits * weight, labels).mean()
        ),
    }


loss = verbs.Same(_weighted, _slips, what="the loss")


def _weight(trial, classes: int, seed: int) -> torch.Tensor:
    """Return positive weights, no two alike, the largest first."""
    return trial.randn(classes, seed=seed).abs() + torch.arange(2.0 * classes, 0, -2).to(trial.device)


@fix_loss_weight.row("a weight from any device")
def weight_from_anywhere(trial):
    for source in sources(trial):
        logits = make_logits(trial, 7, 3, trial.seeds[0])
        labels = trial.randint(0, 3, (7,), seed=trial.seeds[1])
        args = logits, labels, _weight(trial, 3, trial.seeds[2]).to(source)
        loss.compare(trial, watched_straight(trial, *args, what="the weight"), *args)


@fix_loss_weight.row("each label counts by its class's weight")
def weight_counts(trial):
    for seed, (rows, classes) in zip(trial.seeds, ((6, 4), (1, 3), (11, 2)), strict=True):
        labels = trial.randint(0, classes, (rows,), seed=seed)
        loss(trial, make_logits(trial, rows, classes, seed), labels, _weight(trial, classes, seed).cpu())
    if cases.holds(trial.device, torch.float64):
        double = trial.randn(11, 2, seed=seed, dtype=torch.float64).requires_grad_()
        loss(trial, double, labels, _weight(trial, 2, seed).cpu().double() / 3)


@fix_loss_weight.row("the gradient reaches the logits")
def weight_graph(trial):
    logits = make_logits(trial, 4, 3, trial.seeds[2])
    labels, weight = torch.tensor([2, 0, 1, 1], device=trial.device), torch.tensor([1.0, 2.0, 5.0])
    got = loss(trial, logits, labels, weight)
    verbs.flows(got, logits, lambda one: functional.cross_entropy(one, labels.cpu(), weight), "the logits")
