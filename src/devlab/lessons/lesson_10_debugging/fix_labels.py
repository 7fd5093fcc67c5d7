"""The clinic: the labels, which the loss meets."""

import torch
from torch.nn import functional

from devlab.checks import verbs
from devlab.lessons.lesson_10_debugging import each_loss, lesson, make_logits, sources, watched_straight

fix_labels = lesson.exercise(
    "fix_labels",
    signature="fix_labels(logits, labels)",
    facts=("X1", "X4", "E4"),
    hints=(
        "The model has done its work, and the loss fails. Which two tensors meet in it, and where is each?",
        "The small tensor moves to the large one: the labels to the logits. The logits carry the graph.",
        "`return functional.cross_entropy(logits, labels.to(logits.device))`",
    ),
)


loss = verbs.Same(
    lambda x, labels: each_loss(x, labels).mean().float(),
    {
        "that is the sum over the rows, and their mean is asked": lambda x, labels: each_loss(
            x, labels
        ).sum(),
        "softmax was applied before: cross_entropy takes the logits as they are": (
            lambda x, labels: each_loss(x.double().softmax(1), labels).mean()
        ),
        "log_softmax is missing: `nll_loss` takes log-probabilities": (
            lambda x, labels: -x[torch.arange(len(labels)), labels].mean()
        ),
        "that is the share of right answers, and the loss is asked": (
            lambda x, labels: (x.argmax(1) == labels).double().mean()
        ),
    },
    what="the loss",
)


@fix_labels.row("labels from any device")
def labels_from_anywhere(trial):
    for source in sources(trial):
        logits = make_logits(trial, 7, 3, trial.seeds[0])
        labels = trial.randint(0, 3, (7,), seed=trial.seeds[1]).to(source)
        loss.compare(trial, watched_straight(trial, logits, labels, what="the labels"), logits, labels)


@fix_labels.row("it is the mean cross-entropy")
def labels_right(trial):
    for seed, (rows, classes) in zip(trial.seeds, ((5, 4), (1, 3), (12, 2)), strict=True):
        labels = trial.randint(0, classes, (rows,), seed=seed).cpu()
        loss(trial, make_logits(trial, rows, classes, seed), labels)


@fix_labels.row("the gradient reaches the logits")
def labels_graph(trial):
    logits, labels = make_logits(trial, 4, 3, trial.seeds[2]), torch.tensor([2, 0, 1, 1])
    got = loss(trial, logits, labels)
    verbs.flows(got, logits, lambda one: functional.cross_entropy(one, labels), "the logits")
