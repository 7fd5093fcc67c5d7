"""The clinic: the labels, which the loss meets."""

import torch
from torch.nn import functional

from devlab.checks.scenes import scene
from devlab.lessons.lesson_10_debugging import lesson, make_logits, see_gradients, sources, watched_straight

fix_labels = lesson.exercise(
    "fix_labels(logits, labels)",
    ("X1", "X4", "E4"),
    "The model has done its work, and the loss fails. Which two tensors meet in it, and where is each?",
    "The small tensor moves to the large one: the labels to the logits. The logits carry the graph.",
    "`return functional.cross_entropy(logits, labels.to(logits.device))`",
)


def ours(logits, labels):
    return functional.cross_entropy(logits, labels.to(logits.device))


@scene(fix_labels, ours, "labels from any device", "the mean cross-entropy")
def labels_from_anywhere(t):
    for source in sources(t):
        logits, labels = make_logits(t, 7, 3, t.seeds[0]), t.randint(0, 3, (7,), seed=t.seeds[1])
        yield "the loss", watched_straight(t, logits, labels.to(source), what="the labels")


@scene(fix_labels, ours, "it is the mean cross-entropy", "the mean cross-entropy")
def labels_right(t):
    for seed, (rows, classes) in zip(t.seeds, ((5, 4), (1, 3), (12, 2)), strict=True):
        labels = t.randint(0, classes, (rows,), seed=seed).cpu()
        yield "the loss", t.call(make_logits(t, rows, classes, seed), labels)


@scene(fix_labels, ours, "the gradient reaches the logits", "the mean cross-entropy")
def labels_graph(t):
    logits = make_logits(t, 4, 3, t.seeds[2])
    yield from see_gradients("the loss", t.call(logits, torch.tensor([2, 0, 1, 1])), {"the logits": logits})
