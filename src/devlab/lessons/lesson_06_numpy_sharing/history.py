"""Many losses, each at the end of a graph, as one array that keeps none of them alive."""

import numpy
import torch

from devlab.checks import expect, verbs
from devlab.checks.probes import Graphs
from devlab.checks.scenes import scene
from devlab.checks.seen import must
from devlab.checks.settings import undisturbed
from devlab.lessons.lesson_06_numpy_sharing import lesson

history = lesson.exercise(
    "history(losses)",
    ("N1", "N2", "N3"),
    "NumPy takes neither a tensor with a graph nor one on an accelerator, and each `.item()` or `.cpu()` is "
    "a transfer of its own. How many transfers does one tensor with all the losses in it need?",
    "Losses have no dimension along which they could be joined; `torch.stack(losses)` gives them one, on "
    "their device. Leave the graph, and then transfer that one tensor.",
    "`return torch.stack(losses).detach().cpu().numpy()`",
)


def ours(losses):
    return torch.stack(losses).detach().cpu().numpy()


def weight_and_losses(t, count, seed):
    weight, batches = t.randn(3, seed=t.seeds[0]).requires_grad_(), t.randn(count, 5, 3, seed=seed) + 2
    return weight, [(batch @ weight).pow(2).mean() / (1 + place) for place, batch in enumerate(batches)]


def see(t, losses):
    got = verbs.at_once(t, losses, what="the array", values="numbers")
    expect.kind(got, numpy.ndarray, "a NumPy array", "the history")
    yield "the dtype of the array", "float32 or float64" if got.dtype in ("f4", "f8") else got.dtype.name
    yield "the history", torch.tensor(got.astype("float32")), None, "the losses themselves, in order"
    return got


@scene(history, ours, "one number for each loss, in order")
def one_number_each(t):
    for seed, count in zip(t.seeds, (7, 1, 4), strict=True):
        yield from see(t, weight_and_losses(t, count, seed)[1])


@scene(history, ours, "losses with a graph or without")
def any_graph(t):
    losses = weight_and_losses(t, 4, t.seeds[1])[1]
    losses[1], losses[3] = losses[1].detach(), losses[3].detach()
    losses.append(t.randn(3, seed=t.seeds[2]).sum().requires_grad_())
    losses += [losses[0].detach().clone(), losses[0], losses[1] * float("nan")]  # equal losses, and nan
    for given in (losses, [loss.detach() for loss in losses], losses[::-1]):
        yield from see(t, given)


@scene(history, ours, "no graph stays alive for the array")
def no_graph_kept(t):
    graphs = Graphs()
    with undisturbed():
        losses = [graphs.mark(loss) * 1 for loss in weight_and_losses(t, 3, t.seeds[0])[1]]
        got = yield from see(t, losses)
        del losses
        left = graphs.left()
    told = "the caller has dropped the losses, and their graphs are still in memory"
    said = f"{got.size} numbers, and {verbs.times(left, 'graph')}"
    yield must(not left, told, "nothing kept but the numbers", said)


@scene(history, ours, "the losses keep their graphs")
def graphs_still_work(t):
    weight, losses = weight_and_losses(t, 3, t.seeds[2])
    yield from see(t, losses)
    yield must(weight.grad is None, "backward was called, and left gradients behind", "none yet", weight.grad)
    verbs.flows(torch.stack(losses), weight, None, "weight")
    yield "the gradient after the call", weight.grad, 1e-3
