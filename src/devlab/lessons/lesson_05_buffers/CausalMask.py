"""A module with a saved buffer that never changes: the causal mask."""

import torch

from devlab.checks import expect, verbs
from devlab.checks.probes import Built
from devlab.lessons.lesson_05_buffers import expect_moves, lesson

causal_mask = lesson.exercise(
    "CausalMask",
    signature="class CausalMask(max_length)",
    facts=("B1", "B2", "B3", "B4", "L4"),
    hints=(
        "Make the whole triangle once, in `__init__`, and only cut from it in `forward`. What must it be "
        "so that `.to` moves it?",
        '`self.register_buffer("mask", table)` registers a tensor under a name. From then on `self.mask` '
        "is that tensor, wherever the module has been moved.",
        "`torch.ones(n, n, dtype=torch.bool).triu(1)` is True above the diagonal. `forward` returns "
        "`self.mask[:time, :time]`, where `time = x.shape[1]`.",
    ),
)


def _future(time: int) -> torch.Tensor:
    steps = torch.arange(time)
    return steps[None, :] > steps[:, None]


def _slips(x: torch.Tensor, longest: int) -> dict[str, expect.Slip]:
    batch, time, last = x.shape[0], x.shape[1], x.shape[-1]
    wanted, whole, diagonal = _future(time), _future(longest), torch.eye(time).bool()
    late = wanted.triu(2)
    return {
        "the diagonal is True as well, as if each step lay in its own future": wanted | diagonal,
        "the first step of the future is still False: the True half begins one column too late": late,
        "the past and the present are True and the future False: it is the other way round": ~wanted,
        "the past is True, and not the future: rows and columns have changed places": wanted.T,
        "every element is True": torch.ones_like(wanted),
        "every element is False": torch.zeros_like(wanted),
        "the whole buffer came back: it was not cut to the time of x": whole,
        f"the mask is for {batch} steps, the batch size of x, and not for its time, {time}": _future(batch),
        f"the mask is for {last} steps, x's last dimension, and not for its time, {time}": _future(last),
        "only the rows were cut to the time of x, and not the columns": whole[:time],
        "the mask is one step longer than the time of x": _future(time + 1),
        "the mask has a dimension too many, for the batch": wanted[None],
        "the mask comes once for each row of the batch, and is to come once": wanted.expand(batch, -1, -1),
    }


# The arguments are x, and the number of steps that the module was made for.
mask = verbs.Same(
    lambda x, longest: _future(x.shape[1]),
    _slips,
    lambda x, longest: "True where column j > row i, shape [{0},{0}]".format(x.shape[1]),
    what="the mask",
)


@causal_mask.row("`mask` is a buffer, and forward reads it")
def mask_is_a_buffer(trial):
    made = Built(trial, 6)
    made.buffer("mask")
    made.require_only_buffers()
    made.to(trial.device).require_read("mask", trial.randn(2, 5, 3), "the mask")


@causal_mask.row("it moves with the model, at any time")
def mask_moves(trial):
    expect_moves(Built(trial, 7), "mask", trial.randn(2, 5, 3, seed=trial.seeds[0]), "the mask")


@causal_mask.row("it is saved with the model")
def mask_is_saved(trial):
    made = Built(trial, 5).to(trial.device)
    made.require_saved("mask")
    made(trial.randn(3, 4, 2))
    made.require_saved("mask")


@causal_mask.row("True for the future, at every length")
def mask_is_right(trial):
    made = Built(trial, 9).to(trial.device)
    table = made.buffer("mask")
    if table.shape[-1] != 9:
        headline = f"the buffer `mask` has room for {table.shape[-1]} steps, and max_length is 9"
        expect.fail(headline, "9 by 9", table)
    inputs = [trial.randn(2, time, 6, seed=trial.seeds[0]) for time in (4, 9, 1)]
    inputs += [
        trial.randint(0, 50, (4, 7), seed=trial.seeds[1]),
        trial.randn(3, 5, 2, 4, seed=trial.seeds[2], dtype=torch.float16),
        trial.randn(8, 2, 3, seed=trial.seeds[2]).transpose(0, 1),
        trial.randn(0, 4, 6),
    ]
    for x in inputs:
        got = made(x)
        if made.buffer("mask").shape[-1] < 9:
            headline = "forward cut the buffer `mask` itself, and a longer x no longer fits"
            expect.fail(headline, "`mask` as it was, and a part of it as the result", made.buffer("mask"))
        mask.compare(trial, got, x, 9)
    table, future = made.buffer("mask").detach().cpu().squeeze(), _future(9)
    if table.shape != (9, 9) or not any(torch.equal(table.bool(), one) for one in (future, ~future)):
        headline = "the buffer `mask` does not hold the triangle, although forward gives the right mask"
        expect.fail(headline, "the whole triangle, 9 by 9, made once", table)
