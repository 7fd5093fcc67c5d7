"""The clinic: the hidden state, which a model makes or is given."""

import copy

import torch
from torch import nn

from devlab.checks import expect, slips
from devlab.checks.holding import changed, holdings
from devlab.checks.isolation import seed_generators
from devlab.lessons.lesson_10_debugging import gradient, lesson, require_graph, sources, watched_straight

hidden = lesson.exercise(
    "fix_hidden_state",
    signature="fix_hidden_state(cell, x, state)",
    facts=("X4", "X5", "E4"),
    hints=(
        "Two roads lead to this cell: no state yet, and a state from the last call. Each leaves the state "
        "where it was made. Where is that?",
        "The zeros are a helper: make them from x. A state that came from somewhere else is brought to x. Do "
        "not detach it: the gradient may have to flow back through time.",
        "`if state is None: state = x.new_zeros(x.shape[0], cell.hidden_size)`, and then "
        "`return cell(x, state.to(x.device))`.",
    ),
)


def _cell(
    trial, seed: int, dtype: torch.dtype = torch.float32, size: int = 5
) -> tuple[nn.GRUCell, nn.GRUCell]:
    """Return a cell on the device, and its copy on the CPU."""
    with torch.random.fork_rng(devices=[]):
        seed_generators(seed)
        cell = nn.GRUCell(3, size).to(dtype)
    return copy.deepcopy(cell).to(trial.device), cell


def _expect_state(trial, got: object, same: nn.GRUCell, x: torch.Tensor, state: torch.Tensor) -> None:
    """Expect what the cell's copy on the CPU makes of x and the state."""
    own, zeros = x.detach().cpu(), torch.zeros_like(state)

    def known() -> dict[str, torch.Tensor]:
        found = {
            "the state that came in was not used: the step began from zeros": zeros,
            "the step began from ones, and zeros are asked": torch.ones_like(zeros),
        }
        made = {words: same(own, begun).detach() for words, begun in found.items()}
        twice = same(own, same(own, state)).detach()
        return made | {"the cell was called twice, and one step is asked": twice}

    slips.tensor(got, same(own, state).detach(), trial.device, "the new state", 1e-4, known)


def _expect_step(trial, seed: int, rows: int, state: torch.Tensor | None) -> None:
    cell, same = _cell(trial, seed)
    x = trial.randn(rows, 3, seed=seed)
    zeros = torch.zeros(rows, 5)
    before = holdings(dict(cell.named_parameters()))
    got = watched_straight(trial, cell, x, state, comes=("the state",), makes="the zeros were")
    _expect_state(trial, got, same, x, zeros if state is None else state.detach().cpu())
    if path := changed(before, dict(cell.named_parameters())):
        words = f"another `{path}`, or the same elsewhere"
        expect.fail("the cell's parameters were changed", "the cell as it came", words)


@hidden.row("a first step, without a state")
def hidden_first(trial):
    for seed, rows in zip(trial.seeds, (4, 1, 7), strict=True):
        _expect_step(trial, seed, rows, None)
    cell, same = _cell(trial, seed, size=4)
    for seed in trial.seeds:  # each None begins anew, also with a cell that has worked before
        x = trial.randn(3, 3, seed=seed)
        _expect_state(trial, trial.call(cell, x, None), same, x, torch.zeros(3, 4))


@hidden.row("a state from any device")
def hidden_from_anywhere(trial):
    for source in sources(trial):
        _expect_step(trial, trial.seeds[0], 4, trial.randn(4, 5, seed=trial.seeds[1], on=source))


@hidden.row("the zeros take x's dtype, too")
def hidden_dtype(trial):
    try:
        cell, same = _cell(trial, trial.seeds[1], torch.float64)
    except (TypeError, RuntimeError):  # Apple's GPUs have no float64
        return
    x = trial.randn(3, 3, seed=trial.seeds[2]).cpu().double().to(trial.device)
    wanted = same(x.cpu(), torch.zeros(3, 5, dtype=torch.float64)).detach()
    expect.tensor(trial.call(cell, x, None), wanted, trial.device, "the new state")
    state = trial.randn(3, 5, seed=trial.seeds[0]).cpu().double().to(trial.device)
    wanted = same(x.cpu(), state.cpu()).detach()
    expect.tensor(trial.call(cell, x, state), wanted, trial.device, "the new state")


@hidden.row("gradients flow back, into x and the state")
def hidden_graph(trial):
    cell, same = _cell(trial, trial.seeds[2])
    x = trial.randn(2, 3, seed=trial.seeds[1]).requires_grad_()
    got = trial.call(cell, x, None)
    expect.kind(got, torch.Tensor, "a tensor", "the new state")
    require_graph(got, x, "x", gradient(same, x))
    x = x.detach()
    for source in sources(trial):
        state = trial.randn(2, 5, seed=trial.seeds[0], on=source).requires_grad_()
        got = trial.call(cell, x, state)
        expect.kind(got, torch.Tensor, "a tensor", "the new state")
        require_graph(got, state, "the state", gradient(lambda one: same(x.cpu(), one), state))
