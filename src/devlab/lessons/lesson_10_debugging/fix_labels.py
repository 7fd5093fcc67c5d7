"""The clinic: the labels, which the loss meets."""

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

labels_ = lesson.exercise(
    "fix_labels",
    signature="fix_labels(logits, labels)",
    facts=("X1", "X4", "E4"),
    hints=(
        "The model has done its work, and the loss fails. Which two tensors meet in it, and where is each?",
        "Bring the small one to the large one: the labels to the logits. The logits carry the graph.",
        "`return functional.cross_entropy(logits, labels.to(logits.device))`",
    ),
)


@labels_.row("labels from any device")
def labels_from_anywhere(trial):
    for source in sources(trial):
        logits = make_logits(trial, 7, 3, trial.seeds[0])
        labels = (trial.randint(0, 3, (7,), seed=trial.seeds[1])).to(source)
        got = watched_straight(trial, logits, labels, comes=("the labels",))
        expect_loss(trial, got, logits, labels)


@labels_.row("it is the mean cross-entropy")
def labels_right(trial):
    for seed, (rows, classes) in zip(trial.seeds, ((5, 4), (1, 3), (12, 2)), strict=True):
        logits = make_logits(trial, rows, classes, seed)
        labels = trial.randint(0, classes, (rows,), seed=seed).cpu()
        expect_loss(trial, trial.call(logits, labels), logits, labels)


@labels_.row("the gradient reaches the logits")
def labels_graph(trial):
    logits, labels = make_logits(trial, 4, 3, trial.seeds[2]), torch.tensor([2, 0, 1, 1])
    got = trial.call(logits, labels)
    expect_loss(trial, got, logits, labels)
    wanted = gradient(lambda one: functional.cross_entropy(one, labels), logits)
    require_graph(got, logits, "the logits", wanted)
