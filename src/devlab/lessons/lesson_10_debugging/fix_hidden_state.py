"""The clinic: the hidden state, which a model makes or is given."""

import torch
from torch import nn

from devlab.checks import cases
from devlab.checks.scenes import scene
from devlab.checks.settings import seed_generators
from devlab.lessons.lesson_10_debugging import lesson, see_gradients, sources, unchanged, watched_straight

fix_hidden_state = lesson.exercise(
    "fix_hidden_state(cell, x, state)",
    ("X4", "X5", "E4"),
    "The state comes to this cell in one of two ways: it is made here, or it is what the last call returned. "
    "In either case it is where it was made. Where is that?",
    "The zeros are a helper, so make them from x. A state that comes from another device is moved to x. Do "
    "not detach it: the gradient may have to flow back through time.",
    "`if state is None: state = x.new_zeros(x.shape[0], cell.hidden_size)`, and then `return cell(x, "
    "state.to(x.device))`.",
)


def ours(cell, x, state):
    return cell(x, x.new_zeros(len(x), cell.hidden_size) if state is None else state.to(x.device))


def make_cell(t, seed, size=5, bias=True):
    seed_generators(seed)
    return nn.GRUCell(3, size, bias).to(t.device)


def step(t, seed, rows, state, training=True):
    """See a step of a cell, which has to stay as it is."""
    cell = make_cell(t, seed).train(training)
    for parameter in cell.parameters():  # gradients of an earlier step, which the answer leaves alone
        parameter.grad = torch.ones_like(parameter)
    with unchanged(cell, "`{path}` of the cell was changed"):
        args = cell, t.randn(rows, 3, seed=seed), state
        yield "the new state", watched_straight(t, *args, what="the state", makes="the zeros were"), 1e-4


@scene(fix_hidden_state, ours, "a first step, without a state", "one step, from zeros")
def hidden_first(t):
    for seed, rows, training in zip(t.seeds, (4, 1, 7), (True, False, True), strict=True):
        yield from step(t, seed, rows, None, training)
    cell = make_cell(t, seed, size=4, bias=False)
    for seed in t.seeds:  # each None begins anew, also with a cell that has worked before
        yield "the new state", t.call(cell, t.randn(3, 3, seed=seed), None), 1e-4


@scene(fix_hidden_state, ours, "a state from any device", "one step, from the state that came in")
def hidden_from_anywhere(t):
    for source in sources(t):
        yield from step(t, t.seeds[0], 4, t.randn(4, 5, seed=t.seeds[1], on=source))


@scene(fix_hidden_state, ours, "the zeros take x's dtype, too")
def hidden_dtype(t):
    if cases.holds(t.device, torch.float64):
        cell, x = make_cell(t, t.seeds[1]).double(), t.randn(3, 3, seed=t.seeds[2]).double()
        for state in (None, t.randn(3, 5, seed=t.seeds[0]).double()):
            yield "the new state", t.call(cell, x, state)


@scene(fix_hidden_state, ours, "gradients flow back, into x and the state")
def hidden_graph(t):
    cell = make_cell(t, t.seeds[2])
    for source in (None, *sources(t)):
        leaves = {"x": t.randn(2, 3, seed=t.seeds[1]).requires_grad_()}
        if source:
            leaves["the state"] = t.randn(2, 5, seed=t.seeds[0], on=source).requires_grad_()
        got = t.call(cell, leaves["x"], leaves.get("the state"))
        yield from see_gradients("the new state", got, dict(reversed(leaves.items())), 1e-4)
