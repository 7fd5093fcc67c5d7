"""A total over many steps: what is kept after each of them."""

import gc
import weakref
from functools import partial

import torch

from devlab.checks import expect
from devlab.checks.isolation import undisturbed
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


class _Marked(torch.autograd.Function):
    """Hands a tensor on and leaves a token in the graph, which lives as long as the graph does."""

    @staticmethod
    def forward(ctx, x, token):
        ctx.token = token
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class _Token:
    """Something to hold."""


class _Steps:
    """A step to sum up: each call makes a graph of its own and notes what earlier ones left behind."""

    def __init__(self, trial, n: int, seed: int, module=None, keep=False, mark=False):
        self.weight = trial.randn(40, 11, seed=seed).requires_grad_()
        self.factors = [1 + 0.37 * index + 0.01 * (seed % 10) for index in range(n)]
        self.device, self.module = trial.device, module
        mean = float(self.weight.detach().cpu().double().square().mean())
        self.losses = [mean * factor**2 for factor in self.factors]
        self.calls = 0
        self.graphs: weakref.WeakSet[_Token] = weakref.WeakSet()
        self.alive: list[int] = []
        self.allocated: list[int] = []
        self.mark = mark
        self.kept: list[torch.Tensor] | None = [] if keep else None

    def __call__(self) -> torch.Tensor:
        """Return the next loss, with a graph."""
        self.alive.append(len(self.graphs))
        if self.module:
            self.allocated.append(self.module.memory_allocated(self.device))
        index = self.calls % len(self.factors)
        self.calls += 1
        scaled = self.weight * self.factors[index]
        if self.mark:
            token = _Token()
            self.graphs.add(token)
            scaled = _Marked.apply(scaled, token)
        loss = scaled.square().mean()
        if self.kept is not None:
            self.kept.append(loss)
        return loss

    def __repr__(self) -> str:
        return "step"

    def require_calls(self) -> None:
        """Expect one call for each loss of the sum."""
        if self.calls != len(self.factors):
            wanted = f"{len(self.factors)} calls"
            times = {0: "never", 1: "once"}.get(self.calls, f"{self.calls} times")
            expect.fail(
                f"step was called {times}, not {len(self.factors)} times", wanted, f"{self.calls} calls"
            )


@total_loss.row("the sum of n losses, where they are")
def the_sum(trial):
    for n, seed in zip((5, 1, 6), trial.seeds, strict=True):
        steps = _Steps(trial, n, seed)
        got = trial.call(steps, n)
        expect.kind(got, torch.Tensor, "a tensor")
        steps.require_calls()
        if steps.weight.grad is not None:
            words = "the parameters of step were given gradients"
            expect.fail(words, "a sum, and no backward", "a gradient after a backward")
        expect.device(got, trial.device)
        if got.dim():
            expect.fail("the result is not zero-dimensional", "shape []", got)
        if got.dtype not in (torch.float32, torch.float64):
            expect.fail(f"the sum is {got.dtype}, the losses are torch.float32", "torch.float32", got)
        wanted = torch.tensor(sum(steps.losses), dtype=got.dtype)
        within = 1e-5 * float(wanted)
        expect.told(got, wanted, trial.device, "the sum", within, partial(_other_sums, steps, got.dtype))


def _other_sums(steps: _Steps, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Return what else people make of the losses."""
    total, losses = sum(steps.losses), steps.losses
    found = {
        "that is the mean of the losses, and their sum is asked": total / len(losses),
        "that is the last loss alone, and the sum of all is asked": losses[-1],
        "the first loss was left out of the sum": total - losses[0],
        "the last loss was left out of the sum": total - losses[-1],
        "the first loss was counted twice": total + losses[0],
    }
    return {words: torch.tensor(value, dtype=dtype) for words, value in found.items()}


@total_loss.row("no graph outlives its step")
def no_graph(trial):
    with undisturbed():
        steps = _Steps(trial, 7, trial.seeds[0], mark=True)
        got = trial.call(steps, 7)
        expect.kind(got, torch.Tensor, "a tensor")
        # The last loss may still have a name when the next step begins; more than that piles up.
        if max(steps.alive) > 2:
            expect.fail(
                f"{max(steps.alive)} graphs of earlier steps were still alive as the last of 7 began",
                "each loss detached as soon as step returns it",
                f"{max(steps.alive)} graphs, with all that they saved",
            )
        if got.requires_grad:
            expect.fail("the result still has a graph", "requires_grad=False", got)
        if steps.graphs:
            gc.collect()  # what only holds itself goes
        if steps.graphs:
            expect.fail(
                "after the call the graph of a step is still alive: something holds a loss",
                "nothing kept but the sum",
                f"{len(steps.graphs)} of 7 graphs",
            )


@total_loss.row("memory does not grow with n", only="accelerator")
def memory_does_not_grow(trial):
    with books(trial) as module:
        steps = _Steps(trial, 9, trial.seeds[1], module)
        trial.call(steps, 9)
        steps.require_calls()
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
            trial.call(steps, n)
            held.append(max(steps.allocated) - begun)
        if held[1] > held[0]:
            words = f"{held[0]:,} bytes beside the steps' own for n = 40, {held[1]:,} for n = 200"
            expect.fail("memory grows with n", "the same for every n", words)


@total_loss.row("no wait at each step", only="accelerator")
def no_wait(trial):
    steps = _Steps(trial, 6, trial.seeds[2])
    _, log = trial.watched(steps, 6)
    if log.synchronizations > 1:
        cause = log.events.synchronizations[0].cause
        expect.fail(
            f"the program waited for {trial.device} {log.synchronizations} times: {cause}",
            "a sum on the device, with no wait in the loop",
            f"{log.synchronizations} waits in {steps.calls} steps, at {log.events.synchronizations[0].line}",
        )


@total_loss.row("the losses stay as they are")
def losses_stay(trial):
    steps = _Steps(trial, 4, trial.seeds[2], keep=True)
    trial.call(steps, 4)
    for index, (loss, wanted) in enumerate(zip(steps.kept, steps.losses, strict=False)):
        if abs(loss.item() - wanted) > 1e-3 * max(1.0, abs(wanted)):
            expect.fail(
                f"loss {index} was changed: `detach` shares its memory, and something was added in place",
                f"{wanted:.4f}, as step returned it",
                f"{loss.item():.4f}",
            )
