"""A total over many steps: what is kept after each of them."""

from collections.abc import Callable
from statistics import fmean

import torch

from devlab.checks import expect, verbs
from devlab.checks.isolation import undisturbed
from devlab.checks.probes import Called, Graphs
from devlab.lessons.lesson_08_memory import books, lesson

total_loss = lesson.exercise(
    "total_loss",
    signature="total_loss(step, n)",
    facts=("H2", "K2", "K5"),
    hints=(
        "A loss holds its graph, and the graph everything that its step computed. What holds the losses?",
        "`loss.detach()` has the number and no graph. It shares the loss's memory, so adding to it in place "
        "would change the loss.",
        "Begin with `total = 0`, and n times `total = total + step().detach()`: all stays on the device.",
    ),
)


class _Steps:
    """A step to sum up: each call makes a graph of its own and notes what earlier ones left behind."""

    def __init__(self, trial, n: int, seed: int, module: object = None, keep: bool = False):
        self.device, self.module = trial.device, module
        self.weight = trial.randn(40, 11, seed=seed).requires_grad_()
        self.factors = [1 + 0.37 * index + 0.01 * (seed % 10) for index in range(n)]
        mean = float(self.weight.detach().cpu().double().square().mean())
        self.losses = [mean * factor**2 for factor in self.factors]
        self.marked, self.alive, self.allocated = Graphs(), [], []
        self.kept: list[torch.Tensor] | None = [] if keep else None

    def loss(self) -> torch.Tensor:
        """Return the next loss, with a graph."""
        factor = self.factors[len(self.alive) % len(self.factors)]
        self.alive.append(self.marked.alive)
        if self.module:
            self.allocated.append(self.module.memory_allocated(self.device))
        loss = self.marked.mark(self.weight * factor).square().mean()
        if self.kept is not None:
            self.kept.append(loss)
        return loss

    def step(self) -> Called:
        """Return the function for an answer to call.

        No attribute holds it: the steps and their function would keep each other, and their memory, alive.
        """
        return Called(self.loss, "step")


def _look(trial, got: torch.Tensor, wanted: torch.Tensor, losses: list[float], dtype: torch.dtype) -> None:
    expect.device(got, trial.device)
    if got.dim():
        expect.fail("the result is not zero-dimensional", "shape []", got)
    if got.dtype not in (torch.float32, torch.float64):
        expect.fail(f"the sum is {got.dtype}, the losses are torch.float32", "torch.float32", got)


def _of(number: Callable[[list[float]], float]) -> Callable:
    return lambda losses, dtype: torch.tensor(number(losses), dtype=dtype)


# Of the losses as numbers, and the dtype of the sum: float64 will do as well.
total = verbs.Same(
    _of(sum),
    {
        "that is the mean of the losses, and the task asks for their sum": _of(fmean),
        "that is the last loss alone, and the task asks for the sum of all": _of(lambda losses: losses[-1]),
        "the first loss was left out of the sum": _of(lambda losses: sum(losses[1:])),
        "the last loss was left out of the sum": _of(lambda losses: sum(losses[:-1])),
        "the first loss was counted twice": _of(lambda losses: sum(losses) + losses[0]),
    },
    what="the sum",
    first=_look,
)


@total_loss.row("the sum of n losses, where they are")
def the_sum(trial):
    for n, seed in zip((5, 1, 6), trial.seeds, strict=True):
        steps = _Steps(trial, n, seed)
        step = steps.step()
        got = trial.call(step, n)
        expect.kind(got, torch.Tensor, "a tensor")
        step.require_calls(n, graphs=False)
        if steps.weight.grad is not None:
            words = "the parameters of step were given gradients"
            expect.fail(words, "a sum, and no backward", "a gradient after a backward")
        total.compare(trial, got, steps.losses, got.dtype, within=1e-5 * sum(steps.losses))


@total_loss.row("no graph outlives its step")
def no_graph(trial):
    with undisturbed():
        steps = _Steps(trial, 7, trial.seeds[0])
        got = trial.call(steps.step(), 7)
        expect.kind(got, torch.Tensor, "a tensor")
        # The last loss may still have a name when the next step begins; more than that piles up.
        if (most := max(steps.alive, default=0)) > 1:
            expect.fail(
                f"{most} graphs of earlier steps were still alive as the last of 7 began",
                "each loss detached as soon as step returns it",
                f"{most} graphs, with all that they saved",
            )
        if got.requires_grad:
            expect.fail("the result still has a graph", "requires_grad=False", got)
        if left := steps.marked.left():
            headline = "after the call the graph of a step is still alive: something holds a loss"
            expect.fail(headline, "nothing kept but the sum", f"{left} of 7 graphs")


@total_loss.row("memory does not grow with n", only="accelerator")
def memory_does_not_grow(trial):
    with books(trial) as module:
        steps = _Steps(trial, 9, trial.seeds[1], module)
        step = steps.step()
        trial.call(step, 9)
        step.require_calls(9, graphs=False)
        growth = steps.allocated[-1] - steps.allocated[3]
        if growth > 0:
            expect.fail(
                "memory grows with every step: something of each is kept",
                f"as much allocated when step 9 begins as when step 4 did: {steps.allocated[3]:,} bytes",
                f"{growth:,} bytes more, {growth // 5:,} a step",
            )
        held = []
        # Room for all losses, taken beforehand, is memory that grows with n, too. A few that are added up
        # together are none: by the fortieth step such a handful has been full and emptied.
        for n in (40, 200):
            steps = _Steps(trial, n, trial.seeds[1], module)
            begun = module.memory_allocated(trial.device)
            trial.call(steps.step(), n)
            held.append(max(steps.allocated) - begun)
        if held[1] > held[0]:
            words = f"{held[0]:,} bytes beside the steps' own for n = 40, {held[1]:,} for n = 200"
            expect.fail("memory grows with n", "the same for every n", words)


@total_loss.row("no wait at each step", only="accelerator")
def no_wait(trial):
    steps = _Steps(trial, 6, trial.seeds[2])
    _, log = trial.watched(steps.step(), 6)
    verbs.counts(
        log.events.synchronizations,
        1,
        "the program waited for {device} {times}: {one.cause}",
        "a sum on the device, with no wait in the loop",
        "{count} waits in {steps} steps, at {one.line}",
        of="time",
        device=trial.device,
        steps=len(steps.alive),
    )


@total_loss.row("the losses stay as they are")
def losses_stay(trial):
    steps = _Steps(trial, 4, trial.seeds[2], keep=True)
    trial.call(steps.step(), 4)
    for index, (loss, wanted) in enumerate(zip(steps.kept, steps.losses, strict=False)):
        if abs(loss.item() - wanted) > 1e-3 * max(1.0, abs(wanted)):
            expect.fail(
                f"loss {index} was changed: `detach` shares its memory, and something was added in place",
                f"{wanted:.4f}, as step returned it",
                f"{loss.item():.4f}",
            )
