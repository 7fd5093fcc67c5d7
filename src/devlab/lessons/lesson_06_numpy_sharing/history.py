"""Many losses, each at the end of a graph, as one array that keeps none of them alive."""

import gc
import weakref

import numpy
import torch

from devlab.checks import expect
from devlab.checks.isolation import undisturbed
from devlab.lessons.lesson_06_numpy_sharing import lesson, read_at_once

history = lesson.exercise(
    "history",
    signature="history(losses)",
    facts=("N1", "N2", "N3"),
    hints=(
        "NumPy takes neither a tensor with a graph nor one on an accelerator. And each `.item()` or `.cpu()` "
        "is a journey of its own. How many journeys does one tensor with all the losses in it need?",
        "`torch.stack(losses)` makes one tensor of many single numbers, on their device. Leave the graph, and"
        " then bring that one tensor home.",
        "`return torch.stack(losses).detach().cpu().numpy()`",
    ),
)


class _Saved:
    """What a graph keeps of one tensor; it dies with the graph."""

    def __init__(self, tensor: torch.Tensor):
        self.tensor = tensor


def _losses(trial, weight: torch.Tensor, count: int, seed: int) -> list[torch.Tensor]:
    batches = trial.randn(count, 5, 3, seed=seed) + 2
    return [(batch @ weight).pow(2).mean() / (1 + place) for place, batch in enumerate(batches)]


def _weight(trial) -> torch.Tensor:
    return trial.randn(3, seed=trial.seeds[0]).requires_grad_()


def _expect_history(trial, losses: list[torch.Tensor]) -> numpy.ndarray:
    wanted = torch.cat([loss.detach().reshape(1) for loss in losses]).cpu()
    got = read_at_once(trial, losses)
    expect.kind(got, numpy.ndarray, "a NumPy array", "the history")
    if got.dtype == object:
        expect.fail("the array holds tensors, not numbers", "a floating dtype", f"dtype {got.dtype}")
    if got.dtype.kind != "f":
        expect.fail(f"the array is {got.dtype}, losses are floats", "float32 or float64", got)
    if got.shape != (len(losses),):
        words = f"the history has shape {list(got.shape)}, not [{len(losses)}]"
        if got.shape == () and abs(got.item() - wanted.double().sum().item()) < 1e-3:
            words = "the losses were added up to one number"
        expect.fail(words, f"one number for each of {len(losses)} losses", got)
    if got.dtype.itemsize < 4:
        expect.fail(f"the array is {got.dtype}: digits of the losses are lost", "float32 or float64", got)
    exact = wanted.double()
    mistaken = {
        "the losses were sorted by size": exact.sort().values,
        "the losses came in reverse order": exact.flip(0),
        "the numbers are running sums of the losses": exact.cumsum(0),
        "the numbers are running means of the losses": exact.cumsum(0) / torch.arange(1, len(exact) + 1),
        **{f"the losses were rounded to {n} digits": exact.round(decimals=n) for n in (2, 3)},
    }
    mine = torch.tensor(got.astype("float64"))
    expect.named(mine, exact, mistaken, "the losses themselves, in order", within=1e-6)
    expect.values(torch.tensor(got.astype("float32")), wanted, "the history")
    return got


@history.row("one number for each loss, in order")
def one_number_each(trial):
    for seed, count in zip(trial.seeds, (7, 1, 4), strict=True):
        _expect_history(trial, _losses(trial, _weight(trial), count, seed))


@history.row("losses with a graph or without")
def any_graph(trial):
    weight = _weight(trial)
    losses = _losses(trial, weight, 4, trial.seeds[1])
    losses[1], losses[3] = losses[1].detach(), losses[3].detach()
    losses.append(trial.randn(3, seed=trial.seeds[2]).sum().requires_grad_())
    losses.append(losses[0].detach().clone())  # two steps may well have the same loss
    losses.append(losses[0])
    losses.append(losses[1] * float("nan"))  # a run that went wrong is what a plot should show
    _expect_history(trial, losses)
    _expect_history(trial, [loss.detach() for loss in losses])


@history.row("no graph stays alive for the array")
def no_graph_kept(trial):
    alive: list[weakref.ref] = []

    def keep(tensor):
        saved = _Saved(tensor)
        alive.append(weakref.ref(saved))
        return saved

    with undisturbed():
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved.tensor):
            losses = _losses(trial, _weight(trial), 3, trial.seeds[0])
        got = _expect_history(trial, losses)
        del losses
        if any(one() is not None for one in alive):
            gc.collect()
    left = sum(one() is not None for one in alive)
    if left:
        words = "the caller has dropped the losses, and their graphs are still in memory"
        got_words = f"{got.size} numbers, and {left} tensors of the graphs"
        expect.fail(words, "nothing kept but the numbers", got_words)


@history.row("the losses keep their graphs")
def graphs_still_work(trial):
    weight = _weight(trial)
    twin = weight.detach().clone().requires_grad_()
    losses = _losses(trial, weight, 3, trial.seeds[2])
    torch.stack(_losses(trial, twin, 3, trial.seeds[2])).sum().backward()
    _expect_history(trial, losses)
    if weight.grad is not None:
        expect.fail("backward was called, and left gradients behind", "no gradients yet", weight.grad)
    torch.stack(losses).sum().backward()
    expect.values(weight.grad, twin.grad, "the gradient after the call", within=1e-3)
