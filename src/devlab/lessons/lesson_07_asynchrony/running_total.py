"""A sum that stays on the device: the host never waits for it."""

import torch

from devlab.checks.scenes import scene
from devlab.checks.seen import most
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


def ours(losses):
    return torch.stack([loss.detach() for loss in losses]).sum()


def with_graphs(t):  # lists of losses of which all, or some, hold a graph
    weight = t.randn(4, seed=t.seeds[0]).requires_grad_()
    first, *rest = [(weight * scale).square().sum() for scale in (1.0, 0.5, 3.0)]
    leaf = t.randn(seed=t.seeds[1]).requires_grad_()
    return [[first, *rest], [first.detach(), *rest], [first, rest[0].detach(), leaf], [first]]


@scene(running_total, ours, "the sum, on the losses' device", "the sum of all")
def the_sum(t):
    for count, seed in zip((7, 1, 4), t.seeds, strict=True):
        losses = [*map(torch.clone, 3 * t.randn(count, seed=seed))]
        yield "the sum", t.call(losses), 1e-4
    yield "the sum", t.call([losses[0], losses[1], losses[2], losses[1], losses[3]]), 1e-4
    for some in with_graphs(t):
        yield "the sum", t.call(some), 1e-3
    yield "the sum", t.call([losses[1], losses[0] * float("nan"), *losses]), 1e-4


@scene(running_total, ours, "without a graph")
def without_graph(t):
    for losses in with_graphs(t):
        yield "requires_grad of the total", getattr(t.call(losses), "requires_grad", "that of no tensor")


@scene(running_total, ours, "the host never waits", only="accelerator")
def never_waits(t):
    _, log = t.watched([*map(torch.clone, 3 * t.randn(6, seed=t.seeds[1]))])
    yield most("the host waited for the device {times}: {causes}", log.events.synchronizations, 0, "no wait")
    copies = [copy for copy in log.events.transfers if copy.blocking]
    memory = "pinned" if copies and copies[0].pinned else "pageable"
    words = f"the host waited for a copy from {memory} memory: `torch.zeros((), device=...)` makes none"
    yield most(words, copies, 0, "nothing that the host waits for")
