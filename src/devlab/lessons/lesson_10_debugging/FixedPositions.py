"""The clinic: a table of positions, which a model keeps."""

import contextlib

import torch
from torch import nn

from devlab.checks import expect, slips
from devlab.checks.calls import AnswerRaised
from devlab.lessons.lesson_10_debugging import gradient, lesson, require_graph, sources

positions = lesson.exercise(
    "FixedPositions",
    signature="class FixedPositions(n, d)",
    facts=("X3", "X4", "X5", "E4"),
    hints=(
        "`device_report(module)` lists what the module has registered. Is the table on the list?",
        "A tensor that the module needs and that is not trained is a buffer. A buffer moves with the model "
        "and is saved with it.",
        '`self.register_buffer("table", torch.linspace(0, 1, n * d).reshape(n, d))`. The rest was right.',
    ),
)


def _made(trial, n: int, d: int) -> tuple[nn.Module, str]:
    label = f"FixedPositions({n}, {d})"
    module = trial.call(n, d)
    expect.module(module, "FixedPositions", f"what {label} makes")
    return module, label


def _table(n: int, d: int) -> torch.Tensor:
    return torch.tensor([i / max(n * d - 1, 1) for i in range(n * d)]).reshape(n, d)


def _expect_added(trial, made: tuple[nn.Module, str], x: torch.Tensor, n: int) -> None:
    module, label = made
    own, time, d = x.detach().cpu(), x.shape[1], x.shape[2]
    table = _table(n, d)

    def known() -> dict[str, torch.Tensor]:
        columns = table.flatten().reshape(d, n).t()
        return {
            "those are the last rows of the table, and the first are asked": own + table[-time:],
            "the table is filled column by column, and row by row is asked": own + columns[:time],
            "the table ends before 1: `torch.linspace(0, 1, n * d)` reaches it": own
            + table[:time] * ((n * d - 1) / (n * d)),
            "the first row was left out": own + _table(n, d).roll(-1, 0)[:time],
            "that is x itself: no table was added": own,
        }

    slips.tensor(trial.run(module, x, label=label), own + table[:time], x.device, within=1e-5, known=known)


def _buffer(module: nn.Module) -> torch.Tensor:
    found = dict(module.named_buffers()).get("table")
    if found is None:
        value = getattr(module, "table", None)
        words = "there is no buffer named `table` after __init__"
        if isinstance(value, nn.Parameter):
            words = "`table` is a parameter, not a buffer"
        elif isinstance(value, torch.Tensor):
            words = "`table` is a plain attribute: `.to` leaves it behind"
        expect.fail(words, 'a buffer named "table"', value)
    return found


@positions.row("it works wherever the model has moved")
def positions_move(trial):
    made = _made(trial, 7, 3)
    x = trial.randn(2, 5, 3, seed=trial.seeds[0])
    trial.run(nn.Sequential(made[0]).to, trial.device, label=f"nn.Sequential({made[1]}).to")
    _expect_added(trial, made, x, 7)
    for other in sources(trial)[1:]:
        trial.run(made[0].to, other, label=f"{made[1]}.to")
        _expect_added(trial, made, x.detach().to(other), 7)
    trial.run(made[0].to, trial.device, label=f"{made[1]}.to")
    _expect_added(trial, made, x, 7)


@positions.row("`table` is a buffer, and forward reads it")
def positions_buffer(trial):
    module, label = _made(trial, 6, 4)
    table = _buffer(module)
    expect.device(table, torch.device("cpu"), "the table of a new module")
    expect.tensor(table, _table(6, 4), torch.device("cpu"), "`table`", within=1e-5)
    if table.requires_grad:
        expect.fail("`table` asks for a gradient, and it is not to be trained", "requires_grad=False", table)
    for name, parameter in module.named_parameters():
        expect.fail(f"`{name}` is a parameter: an optimizer would train it", "no parameter", parameter)
    module.to(trial.device)
    x = trial.randn(2, 5, 4, seed=trial.seeds[1])
    expect.device(_buffer(module), trial.device, f"after `.to({str(trial.device)!r})` the buffer `table`")
    with torch.no_grad():
        _buffer(module).zero_()
    got = trial.run(module, x, label=label)
    expect.kind(got, torch.Tensor, "a tensor")
    expect.device(_buffer(module), trial.device, "after a forward the buffer `table`")
    if not (got.shape == x.shape and torch.equal(got.detach().cpu(), x.cpu())):
        wanted = "x unchanged once `table` is filled with zeros"
        expect.fail("forward answers from another tensor than the buffer `table`", wanted, got)
    for other in trial.others:
        with contextlib.suppress(AnswerRaised):  # an error is the right answer to an x that is elsewhere
            trial.run(module, x.to(other), label=label)
        if _buffer(module).device != trial.device:
            headline = f"forward moved `table` to {other}, where x was: a module is moved by `.to` alone"
            expect.fail(headline, f"`table` on {trial.device}", f"`table` on {other}")


@positions.row("`table` is saved with the module")
def positions_saved(trial):
    module, _ = _made(trial, 5, 2)
    _buffer(module)
    saved = module.to(trial.device).state_dict()
    if list(saved) != ["table"]:
        words = "`table` is not saved: the state_dict lacks it"
        if "table" in saved:
            words = "the state_dict holds more than `table`"
        expect.fail(words, '["table"]', list(saved))
    again = _made(trial, 5, 2)
    loaded = {"table": saved["table"].clone() * 2}
    again[0].to(trial.device).load_state_dict(loaded)
    x = trial.randn(3, 4, 2, seed=trial.seeds[2])
    got = trial.run(again[0], x, label=again[1])
    wanted = x.cpu() + 2 * _table(5, 2)[:4]
    expect.tensor(got, wanted, trial.device, "the result after load_state_dict", within=1e-5)


@positions.row("the first rows, at every length")
def positions_right(trial):
    made = _made(trial, 9, 2)
    made[0].to(trial.device)
    for time, batch in ((3, 2), (9, 1), (1, 4), (6, 3)):
        _expect_added(trial, made, trial.randn(batch, time, 2, seed=trial.seeds[0]), 9)
    x = trial.randn(2, 4, 2, seed=trial.seeds[1]).requires_grad_()
    require_graph(
        trial.run(made[0], x, label=made[1]), x, "x", gradient(lambda one: one + _table(9, 2)[:4], x)
    )
    # The table may change at any time, as loading a state_dict changes it.
    with torch.no_grad():
        _buffer(made[0]).mul_(2)
    got = trial.run(made[0], x, label=made[1])
    wanted = x.detach().cpu() + 2 * _table(9, 2)[:4]
    expect.tensor(got, wanted, trial.device, "the result after the table has changed", within=1e-5)
