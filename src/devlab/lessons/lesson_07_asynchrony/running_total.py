"""A sum that stays on the device: the host never waits for it."""

import torch

from devlab.checks import expect, verbs
from devlab.lessons.lesson_07_asynchrony import lesson

running_total = lesson.exercise(
    "running_total",
    signature="running_total(losses)",
    facts=("Y1", "Y2", "R5"),
    hints=(
        "Whatever needs a loss as a Python number has to wait for the device. Where can the sum be kept, so "
        "that no Python number is needed?",
        "A zero-dimensional tensor on the device can be added to without waiting. `loss.detach()` leaves the "
        "graph behind.",
        "`return torch.stack([loss.detach() for loss in losses]).sum()`: a few launches, and no wait.",
    ),
)


def _losses(trial, count: int, seed: int) -> list[torch.Tensor]:
    return [value.clone() for value in 3 * trial.randn(count, seed=seed)]


def _with_graphs(trial) -> list[list[torch.Tensor]]:
    """Return lists of losses of which all, or some, hold a graph."""
    weight = trial.randn(4, seed=trial.seeds[0]).requires_grad_()
    first, *rest = [(weight * scale).square().sum() for scale in (1.0, 0.5, 3.0)]
    leaf = trial.randn(seed=trial.seeds[1]).requires_grad_()
    return [[first, *rest], [first.detach(), *rest], [first, rest[0].detach(), leaf], [first]]


stack = torch.stack
total = verbs.Same(
    lambda losses: stack(losses).sum(),
    {
        "that is the mean of the losses, and their sum is asked": lambda losses: stack(losses).mean(),
        "the first loss was left out of the sum": lambda losses: stack(losses[1:]).sum(),
        "the last loss was left out of the sum": lambda losses: stack(losses[:-1]).sum(),
        "the first loss was counted twice": lambda losses: stack([losses[0], *losses]).sum(),
        "that is the last loss alone, and the sum of all is asked": lambda losses: losses[-1],
        "a loss that stands twice in the list was counted once": lambda losses: stack(losses).unique().sum(),
        "a loss that is nan was left out, and the sum of all is nan": lambda losses: stack(losses).nansum(),
    },
    what="the sum",
    within=1e-4,
)


@running_total.row("the sum, on the losses' device")
def the_sum(trial):
    for count, seed in zip((7, 1, 4), trial.seeds, strict=True):
        losses = _losses(trial, count, seed)
        total(trial, losses)
    total(trial, [losses[0], losses[1], losses[2], losses[1], losses[3]])
    total.each(trial, [(losses,) for losses in _with_graphs(trial)], within=1e-3)
    total(trial, [losses[1], losses[0] * float("nan"), *losses])


@running_total.row("without a graph")
def without_graph(trial):
    for losses in _with_graphs(trial):
        got = trial.call(losses)
        expect.kind(got, torch.Tensor, "a tensor")
        if got.requires_grad:
            every = all(loss.requires_grad for loss in losses)
            which = "" if every else " of losses with a graph and without"
            expect.fail(f"the total{which} still holds a graph", "requires_grad=False", "requires_grad=True")


@running_total.row("the host never waits", only="accelerator")
def never_waits(trial):
    _, log = trial.watched(_losses(trial, 6, trial.seeds[1]))
    headline = "the host waited for the device {times}: {one.cause}"
    asked, said = "a sum that stays on the device", "a wait at {one.line}"
    verbs.counts(log.events.synchronizations, 0, headline, asked, said, of="time")
    waits = [copy for copy in log.events.transfers if copy.blocking]
    memory = "pinned" if waits and waits[0].pinned else "pageable"
    headline = f"the host waited for a copy from {memory} memory: "
    headline += "`torch.zeros((), device=...)` is filled on the device"
    verbs.counts(waits, 0, headline, "nothing that the host waits for", "{one.manner}, {one.line}")
