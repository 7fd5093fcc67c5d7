"""The clinic: the weights of a loss, which no model holds."""

import torch
from torch.nn import functional

from devlab.checks import cases
from devlab.checks.scenes import scene
from devlab.lessons.lesson_10_debugging import lesson, make_logits, see_gradients, sources, watched_straight

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


def ours(logits, labels, weight):
    return functional.cross_entropy(logits, labels, weight=weight.to(logits.device))


def make_weight(t, classes, seed):  # positive, no two alike, the largest first
    return t.randn(classes, seed=seed).abs() + torch.arange(2.0 * classes, 0, -2).to(t.device)


@scene(fix_loss_weight, ours, "a weight from any device", "the weighted mean of the rows")
def weight_from_anywhere(t):
    for source in sources(t):
        logits, labels = make_logits(t, 7, 3, t.seeds[0]), t.randint(0, 3, (7,), seed=t.seeds[1])
        weight = make_weight(t, 3, t.seeds[2]).to(source)
        yield "the loss", watched_straight(t, logits, labels, weight, what="the weight")


@scene(fix_loss_weight, ours, "each label counts by its class's weight", "the weighted mean of the rows")
def weight_counts(t):
    for seed, (rows, classes) in zip(t.seeds, ((6, 4), (1, 3), (11, 2)), strict=True):
        labels, weight = t.randint(0, classes, (rows,), seed=seed), make_weight(t, classes, seed).cpu()
        yield "the loss", t.call(make_logits(t, rows, classes, seed), labels, weight)
    if cases.holds(t.device, torch.float64):
        double = t.randn(11, 2, seed=seed, dtype=torch.float64).requires_grad_()
        yield "the loss", t.call(double, labels, weight.double() / 3)


@scene(fix_loss_weight, ours, "the gradient reaches the logits", "the weighted mean of the rows")
def weight_graph(t):
    logits, labels = make_logits(t, 4, 3, t.seeds[2]), torch.tensor([2, 0, 1, 1], device=t.device)
    got = t.call(logits, labels, torch.tensor([1.0, 2.0, 5.0]))
    yield from see_gradients("the loss", got, {"the logits": logits})
