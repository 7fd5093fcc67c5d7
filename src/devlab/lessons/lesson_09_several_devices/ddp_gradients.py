"""Gradients of one model from two processes, by DistributedDataParallel."""

import linecache
import time
import warnings
import weakref
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from devlab.checks import expect
from devlab.checks.calls import AnswerRaised, place
from devlab.checks.isolation import seed_generators
from devlab.checks.placeholder import STUB
from devlab.checks.trial import Skip
from devlab.lessons.lesson_09_several_devices import lesson, ranks

WORLD = 2
WITHIN = 1e-4  # by which gradients may differ: sums over rows in another order

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


def _data(trial, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = trial.randn(10, 4, seed=seed, on=torch.device("cpu"))
    noise = trial.randn(10, 1, seed=seed + 7, on=x.device)
    return x, (x @ torch.tensor([1.0, -2.0, 0.5, 3.0]))[:, None] + noise


def _reference(x: torch.Tensor, y: torch.Tensor, loss: Callable = F.mse_loss) -> list[torch.Tensor]:
    """Return the gradients of the whole batch, in one process."""
    seed_generators(0)
    model = nn.Linear(4, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a loss may be a mistake's
        loss(model(x), y).backward()
    return [parameter.grad for parameter in model.parameters()]


def _run(trial, data: list[tuple[torch.Tensor, torch.Tensor]]) -> list[ranks.Report]:
    """Run the answer in both processes; raise what a learner should read where one of them failed."""
    _expect_quick(trial)
    try:
        reports = ranks.run(trial.answer, [[part.tolist() for part in own] for own in data])
    except ranks.CannotShip as problem:
        expect.fail(
            f"the function cannot be sent to another process: {problem}",
            "a function that uses modules, functions and plain values",
            "something that cannot leave the notebook",
        )
    except OSError as problem:
        raise Skip(f"no processes could be started here ({problem.strerror})") from None
    except ranks.Apart as problem:
        raise Skip(f"its processes did not find each other ({problem}): run the check once more") from None
    if all(report.stub for report in reports):
        raise AnswerRaised(NotImplementedError(STUB))
    # A process that waits for one which has failed fails too: the one that did not wait knows why.
    broken = [(rank, one) for rank, one in enumerate(reports) if one.kind in ("error", "gone", "late")]
    for rank, report in sorted(broken, key=lambda pair: _is_echo(pair[1])):
        slow = report.kind == "late" or "timed out" in report.error.lower()
        fault = (
            _waited(rank, report) if _is_echo(report) else f"in the process of rank {rank}: {report.error}"
        )
        if slow:
            _slow[trial.answer] = time.monotonic(), fault, _line(report)
        expect.fail(fault, "gradients from each process", _line(report))
    for rank, report in enumerate(reports):
        if report.kind == "NoneType":
            expect.fail(f"rank {rank} returned None: is a `return` missing?", "a list of gradients", "None")
        if report.kind != "list":
            said = f"rank {rank} returned a {report.kind}, and a list is asked"
            expect.fail(said, "a list of gradients", report.kind)
    return reports


# What took seconds in one row does so in each: the other rows of one verdict say the same at once.
_slow: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
MINUTE = 60.0


def _expect_quick(trial) -> None:
    """Say at once what the row before had to wait for."""
    found = _slow.get(trial.answer)
    if found and time.monotonic() - found[0] < MINUTE:
        expect.fail(found[1], "gradients from each process", found[2])


def _is_echo(report: ranks.Report) -> bool:
    words = ("connection closed", "timed out", "wait timeout", "connection reset", "by peer")
    return any(word in report.error.lower() for word in words)


def _waited(rank: int, report: ranks.Report) -> str:
    """Return what an error of the group's own says of a process that waited for the other in vain."""
    other = f"rank {1 - rank}"
    why = "in vain" if "timed out" in report.error.lower() else "and it had ended"
    return f"rank {rank} waited for {other}, {why}: each process has to take part in every communication"


def _line(report: ranks.Report) -> str:
    if not report.file:
        return report.error
    text = linecache.getline(report.file, report.line).strip()
    return f"{place(report.file)}, line {report.line}" + (f":  {text}" if text else "")


def _gradients(report: ranks.Report, rank: int) -> list[torch.Tensor]:
    """Return a rank's gradients; raises where something else is in the list."""
    found = []
    for number, item in enumerate(report.result):
        if item.get("is") == "NoneType":
            when = "backward fills it, and `zero_grad` takes it away again"
            what = f"item {number} of rank {rank}'s list is None: {when}"
            expect.fail(what, "a gradient for each parameter", "None")
        if "is" in item:
            what = f"item {number} of rank {rank}'s list is a {item['is']}, and a tensor is asked"
            expect.fail(what, "a gradient for each parameter", item["is"])
        if item["parameter"]:
            what = f"rank {rank} returned the parameters, and their gradients are asked"
            expect.fail(what, "`parameter.grad` of each", "the parameters themselves")
        if not item["device"].startswith("cpu"):
            expect.fail(f"rank {rank}'s gradients are on {item['device']}", "the CPU", item["device"])
        found.append(torch.tensor(item["values"], dtype=torch.float64).reshape(item["shape"]))
    return found


def _expect(trial, report: ranks.Report, rank: int, wanted: list[torch.Tensor], headline: str = "") -> None:
    got = _gradients(report, rank)
    if len(got) != len(wanted):
        expect.fail(
            f"rank {rank} returned {len(got)} gradients for {len(wanted)} parameters",
            "the gradient of the weight, then of the bias",
            f"{len(got)} tensors",
        )
    for one, other, name in zip(got, wanted, ("weight", "bias"), strict=True):
        if one.shape != other.shape:
            got_shape, shape = list(one.shape), list(other.shape)
            said = f"rank {rank}'s gradient of the {name} has shape {got_shape}, not {shape}"
            expect.fail(said, f"shape {shape}", f"shape {got_shape}")
        if headline and not torch.allclose(one.float(), other, rtol=1e-4, atol=1e-5):
            expect.fail(headline, _numbers(other), _numbers(one))
        what = f"rank {rank}'s gradient of the {name}"
        expect.values(one.float(), other, what, within=WITHIN)


def _alike(got: list[torch.Tensor], wanted: list[torch.Tensor]) -> bool:
    return len(got) == len(wanted) and all(
        one.shape == other.shape and torch.allclose(one.float(), other.float(), rtol=1e-4)
        for one, other in zip(got, wanted, strict=True)
    )


def _expect_model_and_loss(reports: list[ranks.Report], x: torch.Tensor, y: torch.Tensor) -> None:
    """Say what the numbers tell where both processes agree, on other gradients than the wanted ones."""
    wanted = _reference(x, y)
    got, other = (_gradients(report, rank) for rank, report in enumerate(reports))
    in_form = [one.shape for one in got] == [one.shape for one in wanted]
    if not in_form or not _alike(got, other):
        return
    mine, right = (torch.cat([one.flatten().double() for one in side]) for side in (got, wanted))
    if torch.allclose(mine, right, rtol=0, atol=WITHIN):
        return
    factor = mine @ right / (right @ right)
    if torch.allclose(mine, factor * right, rtol=1e-3, atol=1e-5):
        expect.fail(
            f"both processes have {factor:.3g} times the gradients of the whole batch"
            + _times(reports[0], factor, len(x)),
            "the mean over a process's rows, by the loss, and over the processes, by DistributedDataParallel",
            _numbers(got[0]),
        )
    known = {
        words: torch.cat([one.flatten().double() for one in side]) for words, side in _others(x, y).items()
    }
    expect.fail(
        expect.recognized(mine, known, WITHIN)
        or "both processes agree, but on other gradients than those of the whole batch",
        f"those of nn.Linear(4, 1) directly after torch.manual_seed(0): {_numbers(wanted[0])}",
        _numbers(got[0]),
    )


def _times(report: ranks.Report, factor: torch.Tensor, rows: int) -> str:
    """Return what makes gradients so many times too large, where it was seen or the factor tells it."""
    if report.backwards > 1:
        return f": backward was called {report.backwards} times, and gradients add up"
    if report.reductions:
        return ": `all_reduce` came on top of what DistributedDataParallel does"
    if abs(factor - rows / WORLD) < 1e-3:
        return ": the loss is the sum over the rows, and their mean is asked"
    if abs(factor - 1 / WORLD) < 1e-3:
        return ": something was divided by world_size, which DistributedDataParallel has done"
    return ""


def _others(x: torch.Tensor, y: torch.Tensor) -> dict[str, list[torch.Tensor]]:
    """Return the gradients that mistakes about the loss give."""

    def by(loss: Callable) -> list[torch.Tensor]:
        each = [_reference(x[rank::WORLD], y[rank::WORLD], loss) for rank in range(WORLD)]
        return [torch.stack(pair).mean(0) for pair in zip(*each, strict=True)]

    return {
        "those are the gradients of the mean absolute error, and the squared one is asked": by(F.l1_loss),
        "outputs and y differ in shape, so each output is compared with every row of y": by(
            lambda out, y: F.mse_loss(out, y.squeeze())
        ),
        "those are the gradients of the root of the mean squared error": by(
            lambda out, y: F.mse_loss(out, y).sqrt()
        ),
    }


def _numbers(tensor: torch.Tensor) -> str:
    return "[" + ", ".join(f"{value:.4g}" for value in tensor.flatten().tolist()) + "]"


@ddp_gradients.row("both processes have the whole batch's gradients", only="cpu")
def the_same_everywhere(trial):
    x, y = _data(trial, trial.seeds[0])
    reports = _run(trial, [(x, y)] * WORLD)
    wanted = _reference(x, y)
    for rank, report in enumerate(reports):
        alone = _reference(x[rank::WORLD], y[rank::WORLD])
        got = _gradients(report, rank)
        if rank == 0 and _alike(got, alone) and _alike(_gradients(reports[1], 1), alone):
            headline = "both processes worked on the same rows, x[0::world_size]"
            expect.fail(headline, "rows x[rank::world_size] in each", _numbers(got[0]))
        if _alike(got, alone):
            expect.fail(
                f"rank {rank} has the gradients of its own rows alone: they were not averaged",
                "the average of both processes, in each",
                _numbers(got[0]),
            )
    _expect_model_and_loss(reports, x, y)
    for rank, report in enumerate(reports):
        _expect(trial, report, rank, wanted)


@ddp_gradients.row("each process works on rows rank::world_size", only="cpu")
def own_rows(trial):
    x, y = _data(trial, trial.seeds[1])
    wanted = _reference(x, y)
    data = []
    for rank in range(WORLD):
        own_x, own_y = x + 3, y - 2
        own_x[rank::WORLD], own_y[rank::WORLD] = x[rank::WORLD], y[rank::WORLD]
        data.append((own_x, own_y))
    for rank, report in enumerate(_run(trial, data)):
        headline = f"rank {rank}'s result depends on rows that are not for it"
        _expect(trial, report, rank, wanted, headline)


@ddp_gradients.row("DistributedDataParallel does the averaging", only="cpu")
def by_ddp(trial):
    x, y = _data(trial, trial.seeds[2])
    for rank, report in enumerate(_run(trial, [(x, y)] * WORLD)):
        if not report.ddp:
            expect.fail(
                f"no DistributedDataParallel ran forward in rank {rank}: was the model inside called?",
                "the model wrapped, and the wrapped model called",
                "a model alone",
            )
