"""Gradients of several parts in two processes, exchanged once: DistributedDataParallel's no_sync."""

import contextlib

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from devlab.checks.scenes import scene
from devlab.checks.seen import Seen, must
from devlab.checks.values import times
from devlab.lessons.lesson_09_several_devices import CPU, lesson, read_gradients, run_in_processes

accumulated_gradients = lesson.exercise(
    "accumulated_gradients(rank, world_size, data)",
    ("U2", "U4"),
    "Each backward adds to `.grad`, and DistributedDataParallel exchanges gradients in each of them, "
    "unless it is told not to. Which backward is the only one that needs an exchange?",
    "`with model.no_sync():` around **forward and backward** of every part but the last: DDP decides in "
    "forward whether the backward will exchange. The exchange of the last backward sends what has been "
    "added up.",
    "Two loops will do: all parts but the last under `no_sync`, then the last without it. In both the "
    "loss is divided by the number of parts: `(mse_loss(model(x[part]), y[part]) / len(x)).backward()`.",
)

WORLD = 2
WITHIN = 1e-4  # by which gradients may differ: sums over rows in another order


def ours(rank, world_size, data):
    x, y = data
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(4, 1))
    for part in range(len(x)):
        with contextlib.nullcontext() if part == len(x) - 1 else model.no_sync():
            (F.mse_loss(model(x[part]), y[part]) / len(x)).backward()
    return [parameter.grad for parameter in model.parameters()]


def run_parts(t, parts, seed):
    """Run the answer in both processes, each with parts of its own; return the reports."""
    data = []
    for rank in range(WORLD):
        x = t.randn(parts, 3, 4, seed=seed + rank, on=CPU)
        data.append((x, x.sum(-1, keepdim=True) * (rank + 1) + t.randn(parts, 3, 1, seed=seed, on=CPU)))
    return run_in_processes(t, data)


@scene(accumulated_gradients, ours, "the gradients of all parts of both processes", only="cpu")
def of_all_parts(t):
    for rank, report in enumerate(run_parts(t, 4, t.seeds[0])):
        found = read_gradients(report, rank)
        yield f"the number of gradients of rank {rank}", len(found)
        for name, gradient in zip(("weight", "bias"), found, strict=False):
            what = f"rank {rank}'s gradient of the {name}"
            yield Seen(what, gradient, WITHIN, "of the mean over all rows of all parts and processes")


@scene(accumulated_gradients, ours, "one exchange, for all parts together", only="cpu")
def one_exchange(t):
    for rank, report in enumerate(run_parts(t, 3, t.seeds[1])):
        headline = f"no DistributedDataParallel ran forward in rank {rank}: was the model inside called?"
        yield must(
            report.forwards, headline, "the model wrapped, and the wrapped model called", "a model alone"
        )
        headline = (
            f"{report.exchanges} of {report.forwards} forwards in rank {rank} have their gradients exchanged"
        )
        asked = "one: forward and backward of every part but the last under no_sync"
        yield must(report.exchanges == 1 and not report.reductions, headline, asked, report.exchanges)
        for what, count in (("forward", report.forwards), ("backward", report.backwards)):
            headline = f"{times(count, what)} in rank {rank} for 3 parts"
            yield must(
                count == 3, headline, f"one {what} for each part, so that one part is held at a time", count
            )
