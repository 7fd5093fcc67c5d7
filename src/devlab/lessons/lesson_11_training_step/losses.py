"""The losses of whole epochs, and what else people make of the losses of their batches."""

import itertools
from collections.abc import Callable

import torch

from devlab.checks import expect
from devlab.lessons.lesson_11_training_step import WITHIN, times

WRONG = "the loss of"  # how the headline begins where no mistake is recognized


def expect_losses(got: object, wanted: list[float], known: Callable = dict) -> None:
    """Expect one float for each epoch; `known` gives for each mistake, in words, the losses that it makes."""
    expect.kind(got, list, "a list of floats")
    for loss in got:
        if isinstance(loss, torch.Tensor):
            expect.fail("the losses are tensors, not floats", "a list of floats", got)
        expect.kind(loss, float, "a float", "a loss")
    if len(got) != len(wanted):
        headline = f"{times(len(got), 'loss')} for {times(len(wanted), 'epoch')}"
        expect.fail(headline, "one loss for each epoch", got)
    for epoch, (mine, right) in enumerate(zip(got, wanted, strict=True), start=1):
        if not _near(mine, right):
            found = {words for words, losses in known().items() if all(map(_near, got, losses))}
            headline = found.pop() if len(found) == 1 else f"{WRONG} epoch {epoch} is wrong"
            expect.fail(headline, f"{right:.6g}, the mean over its samples", f"{mine:.6g}")


def _near(mine: float, right: float) -> bool:
    return abs(mine - right) <= WITHIN * max(1, abs(right))


def other_losses(epochs: list[list[tuple[float, int]]], size: int) -> dict[str, list[float]]:
    """Return what else people make of each epoch's losses and sizes; `size` is that of a full batch."""

    def each(of: Callable) -> list[float]:
        return [of(epoch) for epoch in epochs]

    total = each(lambda epoch: sum(loss * count for loss, count in epoch))
    count = each(lambda epoch: sum(count for _, count in epoch))
    summed = each(lambda epoch: sum(loss for loss, _ in epoch))
    so_far, counted = list(itertools.accumulate(total)), list(itertools.accumulate(count))
    return {
        "the mean over batches counts the samples of a small batch more": each(
            lambda epoch: sum(loss for loss, _ in epoch) / len(epoch)
        ),
        "that is the loss of each epoch's last batch alone": each(lambda epoch: epoch[-1][0]),
        "that is the loss of each epoch's first batch alone": each(lambda epoch: epoch[0][0]),
        "that is the sum of the batches' losses, not divided by anything": summed,
        "that is the sum over the samples: divide it by how many there are": total,
        "the batches' means were added and divided by the samples: weigh each by its size": [
            one / many for one, many in zip(summed, count, strict=True)
        ],
        "sum and count were never reset: an epoch's loss holds those before it": [
            one / many for one, many in zip(so_far, counted, strict=True)
        ],
        "the count was never reset: each epoch's sum is divided by the samples of all so far": [
            one / many for one, many in zip(total, counted, strict=True)
        ],
        "the sum was never reset: it holds the epochs before": [
            one / many for one, many in zip(so_far, count, strict=True)
        ],
        "each batch was weighed as a full one, and the last one is smaller": [
            one * size / many for one, many in zip(summed, count, strict=True)
        ],
    }
