"""Gradients of one model from two processes, by DistributedDataParallel."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from devlab.checks.scenes import scene
from devlab.checks.seen import Seen, must
from devlab.checks.values import times
from devlab.lessons import ranks
from devlab.lessons.lesson_09_several_devices import CPU, lesson, read_gradients, run_in_processes

ddp_gradients = lesson.exercise(
    "ddp_gradients(rank, world_size, data)",
    ("U2", "U4", "U5"),
    "Every process runs the same lines: the same model from the same seed, other rows. No line of yours "
    "sends a gradient: DistributedDataParallel does that, during backward.",
    "`x, y = data`, then rows `x[rank::world_size]`. `torch.manual_seed(0)` before `nn.Linear(4, 1)`. Wrap "
    "the model: `DistributedDataParallel(model)`, and call the wrapped one, not the model inside.",
    "`loss = nn.functional.mse_loss(ddp(x[rank::world_size]), y[rank::world_size])`, `loss.backward()`, "
    "`return [p.grad for p in ddp.parameters()]`",
)

WORLD = 2
WITHIN = 1e-4  # by which gradients may differ: sums over rows in another order
NAMES = "weight", "bias"


def ours(rank, world_size, data):
    x, y = (part[rank::world_size] for part in data)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(4, 1))
    F.mse_loss(model(x), y).backward()
    return [parameter.grad for parameter in model.parameters()]


def make_data(t, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = t.randn(10, 4, seed=seed, on=CPU)
    noise = t.randn(10, 1, seed=seed + 7, on=CPU)
    return x, (x @ torch.tensor([1.0, -2.0, 0.5, 3.0]))[:, None] + noise


def see_gradients(rank: int, report: ranks.Report, wrong: str = "") -> Iterator[Seen]:
    """See a rank's gradients; `wrong` says what other numbers mean."""
    got = read_gradients(report, rank)
    count = len(got)
    headline = f"rank {rank} returned {times(count, 'gradient')} for {len(NAMES)} parameters"
    yield must(count == len(NAMES), headline, "the gradient of the weight, then of the bias")
    for name, gradient in zip(NAMES, got, strict=True):
        yield Seen(f"rank {rank}'s gradient of the {name}", gradient, WITHIN, wrong=wrong)


WHOLE = "those of nn.Linear(4, 1) directly after torch.manual_seed(0), of all rows"


@scene(ddp_gradients, ours, "both processes have the whole batch's gradients", WHOLE, only="cpu")
def the_same_everywhere(t):
    for rank, report in enumerate(run_in_processes(t, [make_data(t, t.seeds[0])] * WORLD)):
        yield from see_gradients(
            rank, report, f"rank {rank} has other gradients than those of the whole batch"
        )


@scene(ddp_gradients, ours, "each process works on rows rank::world_size", only="cpu")
def own_rows(t):
    x, y = make_data(t, t.seeds[1])
    data = [(x + 3, y - 2) for _ in range(WORLD)]
    for rank, (own_x, own_y) in enumerate(data):
        own_x[rank::WORLD], own_y[rank::WORLD] = x[rank::WORLD], y[rank::WORLD]
    for rank, report in enumerate(run_in_processes(t, data)):
        yield from see_gradients(rank, report, f"rank {rank}'s result depends on rows that are not for it")


@scene(ddp_gradients, ours, "DistributedDataParallel does the averaging", only="cpu")
def by_ddp(t):
    for rank, report in enumerate(run_in_processes(t, [make_data(t, t.seeds[2])] * WORLD)):
        headline = f"no DistributedDataParallel ran forward in rank {rank}: was the model inside called?"
        yield must(
            report.forwards, headline, "the model wrapped, and the wrapped one called", "a model alone"
        )
        headline = f"backward was called {report.backwards} times in rank {rank}, and once is asked"
        asked = "one backward, of the loss of all its rows"
        yield must(report.backwards < 2, headline, asked, f"{report.backwards} calls")
