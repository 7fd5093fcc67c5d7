"""Many losses, each at the end of a graph, as one array that keeps none of them alive."""

import numpy
import torch

from devlab.checks import expect, verbs
from devlab.checks.isolation import undisturbed
from devlab.checks.probes import Graphs
from devlab.lessons.lesson_06_numpy_sharing import CPU, lesson

history = lesson.exercise(
    "history",
    signature="history(losses)",
    facts=("N1", "N2", "N3"),
    hints=(
        "NumPy takes neither a tensor with a graph nor one on an accelerator, and each `.item()` or `.cpu()` "
        "is a transfer of its own. How many transfers does one tensor with all the losses in it need?",
        "Losses have no dimension along which they could be joined; `torch.stack(losses)` gives them one, on "
        "their device. Leave the graph, and then transfer that one tensor.",
        "`return torch.stack(losses).detach().cpu().numpy()`",
    ),
)


def _running_means(losses: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack(losses).cumsum(0) / torch.arange(1, len(losses) + 1)


kept = verbs.Same(
    lambda losses: torch.tensor([loss.item() for loss in losses]),
    {
        "the losses were added up to one number": lambda losses: torch.stack(losses).sum(),
        "the losses were sorted by size": lambda losses: torch.stack(losses).sort().values,
        "the losses came in reverse order": lambda losses: torch.stack(losses[::-1]),
        "the numbers are running sums of the losses": lambda losses: torch.stack(losses).cumsum(0),
        "the numbers are running means of the losses": _running_means,
        "the losses were rounded to 2 digits": lambda losses: torch.stack(losses).round(decimals=2),
        "the losses were rounded to 3 digits": lambda losses: torch.stack(losses).round(decimals=3),
    },
    "the losses themselves, in order",
    what="the history",
)


def _weight(trial) -> torch.Tensor:
    return trial.randn(3, seed=trial.seeds[0]).requires_grad_()


def _losses(trial, weight: torch.Tensor, count: int, seed: int) -> list[torch.Tensor]:
    batches = trial.randn(count, 5, 3, seed=seed) + 2
    return [(batch @ weight).pow(2).mean() / (1 + place) for place, batch in enumerate(batches)]


def _history(trial, losses: list[torch.Tensor]) -> numpy.ndarray:
    """Call the answer, expect an array of all losses in order, and return it."""
    got = verbs.at_once(trial, losses, what="the array", values="numbers")
    expect.kind(got, numpy.ndarray, "a NumPy array", "the history")
    if got.dtype == object:
        expect.fail("the array holds tensors, not numbers", "a floating dtype", f"dtype {got.dtype}")
    if got.dtype.kind != "f":
        expect.fail(f"the array is {got.dtype}, losses are floats", "float32 or float64", got)
    if got.dtype.itemsize > 8:
        expect.fail(f"the array is {got.dtype}, which is wider than float64", "float32 or float64", got)
    if got.dtype.itemsize < 4:
        expect.fail(f"the array is {got.dtype}: digits of the losses are lost", "float32 or float64", got)
    kept.compare(trial, torch.tensor(got.astype("float32")), losses, on=CPU)
    return got


@history.row("one number for each loss, in order")
def one_number_each(trial):
    for seed, count in zip(trial.seeds, (7, 1, 4), strict=True):
        _history(trial, _losses(trial, _weight(trial), count, seed))


@history.row("losses with a graph or without")
def any_graph(trial):
    weight = _weight(trial)
    losses = _losses(trial, weight, 4, trial.seeds[1])
    losses[1], losses[3] = losses[1].detach(), losses[3].detach()
    losses.append(trial.randn(3, seed=trial.seeds[2]).sum().requires_grad_())
    losses.append(losses[0].detach().clone())  # two steps may well have the same loss
    losses.append(losses[0])
    losses.append(losses[1] * float("nan"))  # a run that went wrong is what a plot should show
    _history(trial, losses)
    _history(trial, [loss.detach() for loss in losses])
    _history(trial, losses[::-1])  # the first without a graph


@history.row("no graph stays alive for the array")
def no_graph_kept(trial):
    graphs = Graphs()
    with undisturbed():
        losses = [graphs.mark(loss) * 1 for loss in _losses(trial, _weight(trial), 3, trial.seeds[0])]
        got = _history(trial, losses)
        del losses
        left = graphs.left()
    if left:
        headline = "the caller has dropped the losses, and their graphs are still in memory"
        said = f"{verbs.times(got.size, 'number')}, and {verbs.times(left, 'graph')}"
        expect.fail(headline, "nothing kept but the numbers", said)


@history.row("the losses keep their graphs")
def graphs_still_work(trial):
    weight, twin, seed = _weight(trial), _weight(trial), trial.seeds[2]
    losses = _losses(trial, weight, 3, seed)
    verbs.pull(torch.stack(_losses(trial, twin, 3, seed)))
    _history(trial, losses)
    if weight.grad is not None:
        expect.fail("backward was called, and left gradients behind", "no gradients yet", weight.grad)
    verbs.flows(torch.stack(losses), weight, twin.grad, "weight", wrong="the gradient after the call")
