"""Many losses, fetched at once."""

import torch

from devlab.checks import cases, expect
from devlab.checks.late_copies import keep_busy
from devlab.checks.scenes import scene
from devlab.checks.seen import Seen, most, must
from devlab.checks.verbs import flows
from devlab.lessons.lesson_04_transfers import lesson

fetch_losses = lesson.exercise(
    "fetch_losses(losses)",
    ("R1", "R4", "R5"),
    "Each `.item()` is a transfer of its own, and the host waits for each. What could you do on the device, "
    "so that only one thing is left to fetch?",
    "`torch.stack(losses)` makes one tensor of them, on their device, without any transfer.",
    "`return torch.stack(losses).tolist()`: `.tolist()` fetches the whole tensor at once, and makes Python "
    "floats of it.",
)


def ours(losses):
    return torch.stack(losses).tolist()


def make_losses(t, count, seed, dtype=torch.float32):
    return [loss.clone() for loss in (5 * t.randn(count, seed=seed)).to(dtype)]


def see_floats(t, losses, within=1e-5):
    got = t.call(losses)
    expect.kind(got, list, "a list")
    yield "the number of floats", len(got)
    for value in got:
        expect.kind(value, float, "a float", "an element of the list")
    yield Seen("the list", torch.tensor(got, dtype=torch.float64), within, asked="the losses, in their order")


def see_wait(t, losses):
    waits, count = t.watched(losses)[1].events.synchronizations, len(losses)
    why = ": {causes} each time" if len(waits) >= count else ", by {causes}"
    yield most(f"the host waited {{times}} for {count} losses{why}", waits, 1, "1 synchronization")


@scene(fetch_losses, ours, "a list of floats, in order")
def floats_in_order(t):
    for count, seed in zip((7, 1, 4), t.seeds, strict=True):
        losses = make_losses(t, count, seed)
        keep_busy(t.device)
        yield from see_floats(t, losses)
    odd = torch.tensor([2.0, float("nan"), 0.5, 2.0, float("inf"), -float("inf"), 0.5])
    yield from see_floats(t, [loss.clone() for loss in odd.to(t.device)])


@scene(fetch_losses, ours, "one synchronization, however many losses", only="accelerator")
def one_synchronization(t):
    for count in (9, 2, 70):  # with two losses alone, a wait for each looks like two waits for all
        yield from see_wait(t, make_losses(t, count, t.seeds[1]))


@scene(fetch_losses, ours, "losses with a graph, or in half precision")
def graphs_and_halves(t):
    weight = t.randn(4, seed=t.seeds[0]).requires_grad_()
    losses = [weight.square().sum() * number for number in (1.0, 0.5, 3.0)]
    yield from see_floats(t, losses)
    left = weight.grad
    words = {"cut": "a loss has lost its graph", "broken": "backward() of a loss fails after the call"}
    flows(losses[0], weight, None, asked="backward() gives a gradient afterwards", **words)
    yield must(left is None, "a loss was sent backward", "the graphs as they came, without a gradient", left)
    yield "the gradient of a loss after the call", weight.grad, 1e-3
    plain, leaf = t.randn(seed=t.seeds[1]), t.randn(seed=t.seeds[2]).requires_grad_()
    halves = make_losses(t, 5, t.seeds[2], torch.float16)
    for some in ([plain, weight.sum()], [weight.sum(), plain, leaf], halves):
        yield from see_floats(t, some)
    for some in (losses, halves) if t.device.type != "cpu" else ():
        yield from see_wait(t, some)
    if cases.holds(t.device, torch.float64):
        yield from see_floats(t, [loss / 3 for loss in make_losses(t, 4, t.seeds[1], torch.float64)], 0.0)
