"""The clinic: a table of positions, which a model keeps."""

import torch
from torch import nn

from devlab.checks import expect, verbs
from devlab.checks.probes import Built
from devlab.lessons.lesson_10_debugging import lesson, sources

FixedPositions = lesson.exercise(
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


CPU = torch.device("cpu")


def _table(n: int, d: int) -> torch.Tensor:
    return torch.tensor([i / max(n * d - 1, 1) for i in range(n * d)]).reshape(n, d)


def _columns(x: torch.Tensor, n: int) -> torch.Tensor:
    return x + _table(n, x.shape[2]).reshape(x.shape[2], n).t()[: x.shape[1]]


def _one_short(x: torch.Tensor, n: int) -> torch.Tensor:
    count = n * x.shape[2]
    return x + _table(n, x.shape[2])[: x.shape[1]] * ((count - 1) / count)


added = verbs.Same(
    lambda x, n: x + _table(n, x.shape[2])[: x.shape[1]],
    {
        "those are the last rows of the table, and the first are asked": (
            lambda x, n: x + _table(n, x.shape[2])[-x.shape[1] :]
        ),
        "the table is filled column by column, and row by row is asked": _columns,
        "the table ends before 1: `torch.linspace(0, 1, n * d)` reaches it": _one_short,
        "the first row was left out": lambda x, n: x + _table(n, x.shape[2]).roll(-1, 0)[: x.shape[1]],
        "that is x itself: no table was added": lambda x, n: x,
    },
    within=1e-5,
)


def _buffer(made: Built) -> torch.Tensor:
    """Return the buffer `table`; raises Mismatch that says what it is instead."""
    value = getattr(made.module, "table", None)
    if isinstance(value, nn.Parameter):
        expect.fail("`table` is a parameter, not a buffer", 'a buffer named "table"', value)
    return value if "table" in dict(made.module.named_buffers()) else made.buffer("table")


@FixedPositions.row("it works wherever the model has moved")
def positions_move(trial):
    made = Built(trial, 7, 3)
    x = trial.randn(2, 5, 3, seed=trial.seeds[0])
    for device in (trial.device, *sources(trial)[1:], trial.device):
        there = x.detach().to(device)
        added.compare(trial, made.to(device)(there), there, 7)


@FixedPositions.row("`table` is a buffer, and forward reads it")
def positions_buffer(trial):
    made = Built(trial, 6, 4)
    table = _buffer(made)
    expect.tensor(table, _table(6, 4), CPU, "the table of a new module", within=1e-5)
    if table.requires_grad:
        expect.fail("`table` asks for a gradient, and it is not to be trained", "requires_grad=False", table)
    made.require_only_buffers()
    made.module.to(trial.device)
    made.require_on(trial.device, "table")
    x = trial.randn(2, 5, 4, seed=trial.seeds[1])
    with torch.no_grad():
        _buffer(made).zero_()
    got = made(x)
    expect.kind(got, torch.Tensor, "a tensor")
    expect.device(_buffer(made), trial.device, "after a forward the buffer `table`")
    if not (got.shape == x.shape and torch.equal(got.detach().cpu(), x.cpu())):
        wanted = "x unchanged once `table` is filled with zeros"
        expect.fail("forward answers from another tensor than the buffer `table`", wanted, got)
    for other in trial.others:
        made.require_stays("table", x.to(other))


@FixedPositions.row("`table` is saved with the module")
def positions_saved(trial):
    made = Built(trial, 5, 2)
    _buffer(made)
    saved = made.module.to(trial.device).state_dict()
    if list(saved) != ["table"]:
        more = "table" in saved
        words = (
            "the state_dict holds more than `table`"
            if more
            else "`table` is not saved: the state_dict lacks it"
        )
        expect.fail(words, '["table"]', list(saved))
    again = Built(trial, 5, 2)
    again.module.to(trial.device).load_state_dict({"table": saved["table"].clone() * 2})
    x = trial.randn(3, 4, 2, seed=trial.seeds[2])
    wanted = x.cpu() + 2 * _table(5, 2)[:4]
    expect.tensor(again(x), wanted, trial.device, "the result after load_state_dict", within=1e-5)


@FixedPositions.row("the first rows, at every length")
def positions_right(trial):
    made = Built(trial, 9, 2)
    made.module.to(trial.device)
    for time, batch in ((3, 2), (9, 1), (1, 4), (6, 3)):
        x = trial.randn(batch, time, 2, seed=trial.seeds[0])
        added.compare(trial, made(x), x, 9)
    x = trial.randn(2, 4, 2, seed=trial.seeds[1]).requires_grad_()
    verbs.flows(made(x), x, lambda one: one + _table(9, 2)[:4])
    # The table may change at any time, as loading a state_dict changes it, and after every move.
    for device in (*sources(trial)[1:], trial.device):
        made.to(device)(x.detach().to(device))
    with torch.no_grad():
        _buffer(made).mul_(2)
    wanted = x.detach().cpu() + 2 * _table(9, 2)[:4]
    expect.tensor(made(x), wanted, trial.device, "the result after the table has changed", within=1e-5)
