"""Gradients of one model from two processes, by DistributedDataParallel."""

import warnings
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from devlab.checks import expect, verbs
from devlab.checks.settings import seed_generators
from devlab.lessons import ranks
from devlab.lessons.lesson_09_several_devices import CPU, lesson, read_gradients, run_in_processes

ddp_gradients = lesson.exercise(
    "ddp_gradients",
    signature="ddp_gradients(rank, world_size, data)",
    facts=("U2", "U4", "U5"),
    hints=(
        "Every process runs the same lines: the same model from the same seed, other rows. No line of yours "
        "sends a gradient: DistributedDataParallel does that, during backward.",
        "`x, y = data`, then rows `x[rank::world_size]`. `torch.manual_seed(0)` before `nn.Linear(4, 1)`. "
        "Wrap the model: `DistributedDataParallel(model)`, and call the wrapped one, not the model inside.",
        "`loss = nn.functional.mse_loss(ddp(x[rank::world_size]), y[rank::world_size])`, `loss.backward()`, "
        "`return [p.grad for p in ddp.parameters()]`",
    ),
)

WORLD = 2
WITHIN = 1e-4  # by which gradients may differ: sums over rows in another order
Gradients = list[torch.Tensor]


def _data(trial, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = trial.randn(10, 4, seed=seed, on=CPU)
    noise = trial.randn(10, 1, seed=seed + 7, on=CPU)
    return x, (x @ torch.tensor([1.0, -2.0, 0.5, 3.0]))[:, None] + noise


def _reference(x: torch.Tensor, y: torch.Tensor, loss: Callable = F.mse_loss) -> Gradients:
    """Return the gradients of the whole batch, in one process."""
    seed_generators(0)
    model = nn.Linear(4, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a loss may be a mistake's
        loss(model(x), y).backward()
    return [parameter.grad for parameter in model.parameters()]


def _expect(got: Gradients, rank: int, wanted: Gradients, headline: str = "") -> None:
    """Expect a rank's gradients; `headline` says what other numbers mean."""
    if len(got) != len(wanted):
        headline = f"rank {rank} returned {verbs.times(len(got), 'gradient')} for {len(wanted)} parameters"
        asked = "the gradient of the weight, then of the bias"
        expect.fail(headline, asked, verbs.times(len(got), "tensor"))
    for one, other, name in zip(got, wanted, ("weight", "bias"), strict=True):
        if headline and one.shape == other.shape and not expect.is_alike(one, other, WITHIN):
            expect.fail(headline, _numbers(other), _numbers(one))
        expect.tensor(one, other, CPU, f"rank {rank}'s gradient of the {name}", WITHIN)


def _alike(got: Gradients, wanted: Gradients) -> bool:
    return expect.is_alike(_flat(got), _flat(wanted), WITHIN)


def _numbers(tensor: torch.Tensor) -> str:
    return "[" + ", ".join(f"{value:.4g}" for value in tensor.flatten().tolist()) + "]"


def _flat(gradients: Gradients) -> torch.Tensor:
    return torch.cat([torch.zeros(0), *(one.flatten() for one in gradients)])


def _expect_model_and_loss(report: ranks.Report, got: Gradients, x: torch.Tensor, y: torch.Tensor) -> None:
    """Fail with the likely cause where the gradients that both processes agree on are not the wanted ones."""
    wanted = _reference(x, y)
    if [one.shape for one in got] != [one.shape for one in wanted]:
        return
    mine, right = _flat(got), _flat(wanted)
    if _alike(got, wanted):
        return
    factor = float(mine @ right / (right @ right))
    if torch.allclose(mine, factor * right, rtol=1e-3, atol=1e-5):
        headline = f"both processes have {factor:.3g} times the gradients of the whole batch"
        asked = "the mean over a process's rows, by the loss, and over the processes, "
        asked += "by DistributedDataParallel"
        expect.fail(headline + _why_larger(report, factor, len(x)), asked, _numbers(got[0]))

    losses = {
        "those are the gradients of the mean absolute error, and the squared one is asked": F.l1_loss,
        "outputs and y differ in shape, so each output is compared with every row of y": (
            lambda out, y: F.mse_loss(out, y.squeeze())
        ),
        "those are the gradients of the root of the mean squared error": (
            lambda out, y: F.mse_loss(out, y).sqrt()
        ),
    }
    slips = {}
    for words, loss in losses.items():
        each = [_flat(_reference(x[rank::WORLD], y[rank::WORLD], loss)) for rank in range(WORLD)]
        slips[words] = torch.stack(each).mean(0)
    asked = f"those of nn.Linear(4, 1) directly after torch.manual_seed(0): {_numbers(wanted[0])}"
    expect.named(mine, right, slips, asked, WITHIN)
    headline = "both processes agree, but on other gradients than those of the whole batch"
    expect.fail(headline, asked, _numbers(got[0]))


def _why_larger(report: ranks.Report, factor: float, rows: int) -> str:
    """Return what makes gradients so many times too large, where it was seen or the factor tells it."""
    if report.backwards > 1:
        return f": backward was called {report.backwards} times, and gradients add up"
    if report.reductions:
        return ": `all_reduce` came on top of what DistributedDataParallel does"
    if abs(factor - rows / WORLD) < 1e-3:
        return ": the loss is the sum over the rows, and the task asks for their mean"
    if abs(factor - 1 / WORLD) < 1e-3:
        return ": something was divided by world_size, which DistributedDataParallel has done"
    return ""


@ddp_gradients.row("both processes have the whole batch's gradients", only="cpu")
def the_same_everywhere(trial):
    x, y = _data(trial, trial.seeds[0])
    reports = run_in_processes(trial, [(x, y)] * WORLD)
    found = [read_gradients(report, rank) for rank, report in enumerate(reports)]
    alone = [_reference(x[rank::WORLD], y[rank::WORLD]) for rank in range(WORLD)]
    if all(_alike(got, alone[0]) for got in found):
        headline = "both processes worked on the same rows, x[0::world_size]"
        expect.fail(headline, "rows x[rank::world_size] in each", _numbers(found[0][0]))
    for rank, got in enumerate(found):
        if _alike(got, alone[rank]):
            headline = f"rank {rank} has the gradients of its own rows alone: they were not averaged"
            expect.fail(headline, "the average of both processes, in each", _numbers(got[0]))
    if _alike(*found):
        _expect_model_and_loss(reports[0], found[0], x, y)
    for rank, got in enumerate(found):
        _expect(got, rank, _reference(x, y))


@ddp_gradients.row("each process works on rows rank::world_size", only="cpu")
def own_rows(trial):
    x, y = _data(trial, trial.seeds[1])
    data = [(x + 3, y - 2) for _ in range(WORLD)]
    for rank, (own_x, own_y) in enumerate(data):
        own_x[rank::WORLD], own_y[rank::WORLD] = x[rank::WORLD], y[rank::WORLD]
    for rank, report in enumerate(run_in_processes(trial, data)):
        headline = f"rank {rank}'s result depends on rows that are not for it"
        _expect(read_gradients(report, rank), rank, _reference(x, y), headline)


@ddp_gradients.row("DistributedDataParallel does the averaging", only="cpu")
def by_ddp(trial):
    for rank, report in enumerate(run_in_processes(trial, [_data(trial, trial.seeds[2])] * WORLD)):
        if not report.forwards:
            headline = f"no DistributedDataParallel ran forward in rank {rank}: was the model inside called?"
            expect.fail(headline, "the model wrapped, and the wrapped model called", "a model alone")
        if report.backwards > 1:
            headline = f"backward was called {report.backwards} times in rank {rank}, and once is asked"
            expect.fail(headline, "one backward, of the loss of all its rows", f"{report.backwards} calls")
