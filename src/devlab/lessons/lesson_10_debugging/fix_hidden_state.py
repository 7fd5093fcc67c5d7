"""The clinic: the hidden state, which a model makes or is given."""

import copy

import torch
from torch import nn

from devlab.checks import cases, expect, verbs
from devlab.checks.isolation import seed_generators
from devlab.lessons.lesson_10_debugging import lesson, sources, watched_straight

fix_hidden_state = lesson.exercise(
    "fix_hidden_state",
    signature="fix_hidden_state(cell, x, state)",
    facts=("X4", "X5", "E4"),
    hints=(
        "The state comes to this cell in one of two ways: it is made here, or it is what the last call "
        "returned. In either case it is where it was made. Where is that?",
        "The zeros are a helper, so make them from x. A state that comes from another device is moved to "
        "x. Do not detach it: the gradient may have to flow back through time.",
        "`if state is None: state = x.new_zeros(x.shape[0], cell.hidden_size)`, and then `return cell(x, "
        "state.to(x.device))`.",
    ),
)


def _cell(trial, seed: int, size: int = 5, bias: bool = True) -> nn.GRUCell:
    seed_generators(seed)
    return nn.GRUCell(3, size, bias).to(trial.device)


def _step(cell: nn.GRUCell, x: torch.Tensor, state: torch.Tensor | None) -> torch.Tensor:
    """Return what the cell's copy on the CPU makes of x and the state."""
    cell = copy.deepcopy(cell).cpu()
    return cell(x, x.new_zeros(len(x), cell.hidden_size) if state is None else state).detach()


def _ones(cell: nn.GRUCell, x: torch.Tensor, state: torch.Tensor | None) -> torch.Tensor:
    return _step(cell, x, x.new_ones(len(x), cell.hidden_size))


stepped = verbs.Same(
    _step,
    {
        "the state that came in was not used: the step began from zeros": lambda cell, x, _: _step(
            cell, x, None
        ),
        "the step began from ones, and zeros are asked": _ones,
        "the cell was called twice, and one step is asked": lambda cell, x, state: _step(
            cell, x, _step(cell, x, state)
        ),
    },
    what="the new state",
    within=1e-4,
)


def _expect_step(trial, seed: int, rows: int, state: torch.Tensor | None, training: bool = True) -> None:
    cell = _cell(trial, seed).train(training)
    for parameter in cell.parameters():  # gradients of an earlier step, which the answer leaves alone
        parameter.grad = torch.ones_like(parameter)
    args = cell, trial.randn(rows, 3, seed=seed), state
    wanted = _step(*map(verbs.here, args))
    words = (
        "the cell was changed",
        "the cell as it came",
        "another `{path}`, or the same elsewhere",
    )
    with verbs.untouched(cell, *words):
        got = watched_straight(trial, *args, what="the state", makes="the zeros were")
        stepped.compare(trial, got, *args, wanted=wanted)


@fix_hidden_state.row("a first step, without a state")
def hidden_first(trial):
    for seed, rows, training in zip(trial.seeds, (4, 1, 7), (True, False, True), strict=True):
        _expect_step(trial, seed, rows, None, training)
    cell = _cell(trial, seed, size=4, bias=False)
    for seed in trial.seeds:  # each None begins anew, also with a cell that has worked before
        stepped(trial, cell, trial.randn(3, 3, seed=seed), None)


@fix_hidden_state.row("a state from any device")
def hidden_from_anywhere(trial):
    for source in sources(trial):
        _expect_step(trial, trial.seeds[0], 4, trial.randn(4, 5, seed=trial.seeds[1], on=source))


@fix_hidden_state.row("the zeros take x's dtype, too")
def hidden_dtype(trial):
    if not cases.holds(trial.device, torch.float64):
        return
    cell = _cell(trial, trial.seeds[1]).double()
    x, state = (
        trial.randn(3, 3, seed=trial.seeds[2]).double(),
        trial.randn(3, 5, seed=trial.seeds[0]).double(),
    )
    for begun in (None, state):
        wanted = _step(*map(verbs.here, (cell, x, begun)))
        expect.tensor(trial.call(cell, x, begun), wanted, trial.device, "the new state")


@fix_hidden_state.row("gradients flow back, into x and the state")
def hidden_graph(trial):
    cell = _cell(trial, trial.seeds[2])
    same = copy.deepcopy(cell).cpu()
    x = trial.randn(2, 3, seed=trial.seeds[1]).requires_grad_()
    got = trial.call(cell, x, None)
    expect.kind(got, torch.Tensor, "a tensor", "the new state")
    verbs.flows(got, x, same)
    for source in sources(trial):
        x = x.detach().requires_grad_()
        state = trial.randn(2, 5, seed=trial.seeds[0], on=source).requires_grad_()
        got = trial.call(cell, x, state)
        expect.kind(got, torch.Tensor, "a tensor", "the new state")
        verbs.flows(got, state, lambda one, x=x: same(x.detach().cpu(), one), "the state")
        verbs.flows(got, x, lambda one, state=state: same(one, state.detach().cpu()))
