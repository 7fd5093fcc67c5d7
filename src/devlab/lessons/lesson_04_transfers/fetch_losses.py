"""Many losses, fetched at once."""

import torch

from devlab.checks import expect
from devlab.devices import has_float64
from devlab.lessons.lesson_04_transfers import (
    expect_numbers,
    keep_busy,
    lesson,
    times,
)

fetch_losses = lesson.exercise(
    "fetch_losses",
    signature="fetch_losses(losses)",
    facts=("R1", "R4", "R5"),
    hints=(
        "Each `.item()` is a journey of its own, and the host waits for it. What could you do on the device, "
        "so that there is only one thing left to fetch?",
        "`torch.stack(losses)` makes one tensor of them, on their device, without any transfer.",
        "`return torch.stack(losses).tolist()`: `.tolist()` fetches the whole tensor at once, and makes "
        "Python floats of it.",
    ),
)


def _losses(trial, count: int, seed: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [loss.clone() for loss in (5 * trial.randn(count, seed=seed)).to(dtype)]


def _expect_floats(trial, losses: list[torch.Tensor], wanted: list[float]) -> None:
    got = trial.call(losses)
    expect.kind(got, list, "a list")
    for value in got:
        expect.kind(value, float, "a float", "an element of the list")
    expect_numbers(got, wanted)


@fetch_losses.row("a list of floats, in order")
def floats_in_order(trial):
    for count, seed in zip((7, 1, 4), trial.seeds, strict=True):
        losses = _losses(trial, count, seed)
        wanted = [loss.item() for loss in losses]
        keep_busy(trial.device)
        _expect_floats(trial, losses, wanted)


@fetch_losses.row("one synchronization, however many losses", only="accelerator")
def one_synchronization(trial):
    for count in (9, 2, 70):  # of two losses nobody can say whether a second wait comes with each
        _, log = trial.watched(_losses(trial, count, trial.seeds[1]))
        if log.synchronizations != 1:
            waits = log.events.synchronizations
            causes = " and ".join(dict.fromkeys(wait.cause for wait in waits))
            why = f": {causes} each time" if len(waits) >= count else f", by {causes}" if waits else ""
            headline = f"the host waited {times(len(waits), 'time')} for {count} losses{why}"
            expect.fail(headline, "1 synchronization", "".join(str(wait.line) for wait in waits[:1]))


@fetch_losses.row("losses with a graph, or in half precision")
def graphs_and_halves(trial):
    weight = trial.randn(4, seed=trial.seeds[0]).requires_grad_()
    losses = [weight.square().sum() * number for number in (1.0, 0.5, 3.0)]
    wanted = [loss.item() for loss in losses]
    _expect_floats(trial, losses, wanted)
    try:
        losses[0].backward()
    except RuntimeError as error:  # the answer has gone that way, and used up the graph
        expect.fail("backward() of a loss fails after the call", "the losses as they came", str(error))
    if weight.grad is None or not bool(weight.grad.any()):
        expect.fail("a loss has lost its graph", "backward() gives a gradient afterwards", "no gradient")
    halves = _losses(trial, 5, trial.seeds[2], torch.float16)
    _expect_floats(trial, halves, [loss.item() for loss in halves])
    if has_float64(trial.device):
        wide = [loss / 3 for loss in _losses(trial, 4, trial.seeds[1], torch.float64)]
        wanted = [loss.item() for loss in wide]
        if trial.call(wide) != wanted:
            _expect_floats(trial, wide, wanted)  # which says what else is wrong
            expect.fail("digits of float64 losses were lost", "their values", "what float32 holds of them")
