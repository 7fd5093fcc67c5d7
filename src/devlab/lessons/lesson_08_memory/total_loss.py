"""A total over many steps: what is kept after each of them."""

import torch

from devlab.checks.probes import Called, Graphs
from devlab.checks.scenes import scene
from devlab.checks.seen import most, must
from devlab.checks.settings import undisturbed
from devlab.lessons.lesson_08_memory import books, lesson

total_loss = lesson.exercise(
    "total_loss(step, n)",
    ("H2", "K2", "K5"),
    "A loss holds its graph, and the graph everything that its step computed. What holds the losses?",
    "`loss.detach()` has the number and no graph. It shares the loss's memory, so adding to it in place "
    "would change the loss.",
    "Begin with `total = 0`, and n times `total = total + step().detach()`: all stays on the device.",
)


class Steps:
    """A step to sum up: each call makes a graph of its own and notes what earlier ones left behind."""

    def __init__(self, t, seed: int, module=None, keep=False):
        self.device, self.module, self.keep = t.device, module, keep
        self.weight = t.randn(40, 11, seed=seed).requires_grad_()
        self.marked, self.alive, self.allocated, self.kept = Graphs(), [], [], []

    def loss(self):
        """Return the next loss, with a graph."""
        self.alive.append(self.marked.alive)
        if self.module:
            self.allocated.append(self.module.memory_allocated(self.device))
        loss = self.marked.mark(self.weight * (1 + 0.37 * len(self.alive))).square().mean()
        self.kept += [loss] * self.keep
        return loss


def ours(step, n):
    total = 0.0
    for _ in range(n):
        total = total + step().detach().double()
    return total.float()


@scene(total_loss, ours, "the sum of n losses, where they are")
def the_sum(t):
    for n, seed in zip((5, 1, 6), t.seeds, strict=True):
        steps = Steps(t, seed)
        step = Called(steps.loss, "step", most=50)
        got = t.call(step, n)
        got = got.float() if isinstance(got, torch.Tensor) and got.dtype is torch.float64 else got
        step.require_calls(n, graphs=False)
        yield must(
            steps.weight.grad is None, "the parameters of step were given gradients", "a sum, and no backward"
        )
        yield "the sum", got, 1e-3


@scene(total_loss, ours, "no graph outlives its step")
def no_graph(t):
    with undisturbed():
        steps = Steps(t, t.seeds[0])
        got = t.call(Called(steps.loss, "step"), 7)
        words = "{} graphs of earlier steps were still alive as a later one began"
        yield most(words, max(steps.alive, default=0), 1, "each loss detached as soon as step returns it")
        yield "requires_grad of the result", got.requires_grad
        left = steps.marked.left()
        yield most(
            "after the call {} graphs are still alive: something holds a loss", left, 0, "nothing but the sum"
        )


@scene(total_loss, ours, "memory does not grow with n", only="accelerator")
def memory_does_not_grow(t):
    with books(t) as module:
        steps = Steps(t, t.seeds[1], module)
        t.call(Called(steps.loss, "step"), 9)
        growth = steps.allocated[-1] - steps.allocated[3]
        yield most("memory grows with every step: {} bytes in 5 steps", growth, 0, "nothing kept of a step")
        held = []
        for n in (40, 200):
            steps = Steps(t, t.seeds[1], module)
            begun = module.memory_allocated(t.device)
            t.call(Called(steps.loss, "step"), n)
            held.append(max(steps.allocated) - begun)
        yield most("memory grows with n: {} bytes for n = 200", held[1], held[0], "the same for every n")


@scene(total_loss, ours, "no wait at each step", only="accelerator")
def no_wait(t):
    _, log = t.watched(Called(Steps(t, t.seeds[2]).loss, "step"), 6)
    waits = log.events.synchronizations
    yield most(
        "the program waited for the device {} times" + "".join(f": {one.cause}" for one in waits[:1]),
        len(waits),
        1,
    )


@scene(total_loss, ours, "the losses stay as they are")
def losses_stay(t):
    steps = Steps(t, t.seeds[2], keep=True)
    t.call(Called(steps.loss, "step"), 4)
    for index, loss in enumerate(steps.kept):
        yield f"loss {index}, as it is after the call,", loss.detach().clone(), 1e-3
