"""A sum that stays on the device: the host never waits for it."""

import torch

from devlab.checks import expect
from devlab.lessons.lesson_07_asynchrony import lesson

running_total = lesson.exercise(
    "running_total",
    signature="running_total(losses)",
    facts=("Y1", "Y2", "R5"),
    hints=(
        "Whatever needs a loss as a Python number has to wait for the device. Where can the sum stay, so "
        "that no Python number is needed?",
        "A zero-dimensional tensor on the device can be added to without waiting. `loss.detach()` leaves the "
        "graph behind.",
        "`return torch.stack([loss.detach() for loss in losses]).sum()`: all of it is queued on the device.",
    ),
)


def _losses(trial, count: int, seed: int) -> list[torch.Tensor]:
    return [value.clone() for value in 3 * trial.randn(count, seed=seed)]


@running_total.row("the sum, on the losses' device")
def the_sum(trial):
    for count, seed in zip((7, 1, 4), trial.seeds, strict=True):
        losses = _losses(trial, count, seed)
        _expect_sum(trial, losses, within=1e-4)
    _expect_sum(trial, [losses[0], losses[1], losses[2], losses[1], losses[3]], within=1e-4)
    for losses in _with_graphs(trial):
        _expect_sum(trial, losses, within=1e-3)


def _with_graphs(trial) -> list[list[torch.Tensor]]:
    """Return lists of losses of which all, or some, hold a graph."""
    weight = trial.randn(4, seed=trial.seeds[0]).requires_grad_()
    first, *rest = [(weight * scale).square().sum() for scale in (1.0, 0.5, 3.0)]
    leaf = trial.randn(seed=trial.seeds[1]).requires_grad_()
    return [[first, *rest], [first.detach(), *rest], [first, rest[0].detach(), leaf]]


def _expect_sum(trial, losses: list[torch.Tensor], within: float) -> None:
    """Expect the sum of the losses; tell what else was added up where that can be seen."""
    each = torch.stack([loss.detach().cpu() for loss in losses])
    total = each.sum()

    def known() -> dict[str, torch.Tensor]:
        return {
            "that is the mean of the losses, and their sum is asked": each.mean(),
            "the first loss was left out of the sum": total - each[0],
            "the last loss was left out of the sum": total - each[-1],
            "the first loss was counted twice": total + each[0],
            "that is the last loss alone, and the sum of all is asked": each[-1],
            "a loss that stands twice in the list was counted once": each.unique().sum(),
        }

    expect.told(trial.call(losses), total, trial.device, "the sum", within, known)


@running_total.row("without a graph")
def without_graph(trial):
    for losses in _with_graphs(trial):
        got = trial.call(losses)
        expect.kind(got, torch.Tensor, "a tensor")
        if got.requires_grad:
            some = not all(loss.requires_grad for loss in losses)
            which = " of losses with a graph and without" if some else ""
            words = f"the total{which} still holds a graph"
            expect.fail(words, "requires_grad=False", "requires_grad=True")


@running_total.row("the host never waits", only="accelerator")
def never_waits(trial):
    _, log = trial.watched(_losses(trial, 6, trial.seeds[1]))
    if log.synchronizations:
        first = log.events.synchronizations[0]
        times = "once" if log.synchronizations == 1 else f"{log.synchronizations} times"
        headline = f"the host waited for the device {times}: {first.cause}"
        expect.fail(headline, "a sum that stays on the device", f"a wait at {first.line}")
    for copy in log.events.transfers:
        if copy.blocking:
            memory = "pinned" if copy.pinned else "ordinary"
            headline = (
                f"the host waited for a copy from {memory} memory: "
                "`torch.zeros((), device=...)` is filled on the device"
            )
            expect.fail(headline, "nothing that the host waits for", f"{copy.manner}, {copy.line}")
