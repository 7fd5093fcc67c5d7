"""How much will it take: the bytes of training."""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from devlab.checks import expect
from devlab.checks.calls import AnswerRaised
from devlab.lessons.lesson_08_memory import BLOCK, bytes_equal, lesson

training_bytes = lesson.exercise(
    "training_bytes",
    signature="training_bytes(model, optimizer_name)",
    facts=("H1", "H7"),
    hints=(
        "Three sums: all parameters; a gradient for each that is trained; and what the optimizer remembers "
        "of each that is trained.",
        "`parameter.numel() * parameter.element_size()` is what its elements take. Which parameters have "
        "`requires_grad`?",
        '`{"sgd": 0, "sgd_momentum": 1, "adam": 2, "adamw": 2}` says how many numbers the optimizer '
        "remembers for each one trained. The gradient makes it one more.",
    ),
)

# How many numbers each optimizer remembers for each number that is trained.
STATES = {"sgd": 0, "sgd_momentum": 1, "adam": 2, "adamw": 2}


def _nbytes(tensors) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _rounded(tensors) -> int:
    return sum(-(-tensor.nbytes // BLOCK) * BLOCK for tensor in tensors)


class _Facts:
    """What people count of a model, in bytes where nothing else is said."""

    def __init__(self, model: nn.Module):
        every = list(model.parameters())
        trains = [parameter for parameter in every if parameter.requires_grad]
        self.whole, self.trained = _nbytes(every), _nbytes(trains)
        self.buffers = _nbytes(model.buffers())
        self.twice = _nbytes(p for _, p in model.named_parameters(remove_duplicate=False)) - self.whole
        self.numbers, self.trained_numbers = (sum(p.numel() for p in side) for side in (every, trains))
        self.whole_blocks, self.trained_blocks = _rounded(every), _rounded(trains)
        self.parameters, self.trains = len(every), len(trains)
        self.gradients = _nbytes(p.grad for p in every if p.grad is not None)


# What each mistake makes of a model's facts and the number of states that the optimizer's name stands for.
MISTAKES: tuple[tuple[str, Callable[[_Facts, int], int]], ...] = (
    ("the gradients are missing", lambda f, times: f.whole + times * f.trained),
    (
        "only gradients that are there already are counted",
        lambda f, times: f.whole + f.gradients + times * f.trained,
    ),
    ("that is the parameters alone: gradients and state are missing", lambda f, times: f.whole),
    ("that is the state_dict alone: gradients and state are missing", lambda f, times: f.whole + f.buffers),
    ("the optimizer's state is missing", lambda f, times: f.whole + f.trained),
    ("what is not trained has no gradient and no state", lambda f, times: (2 + times) * f.whole),
    ("what is not trained has no state", lambda f, times: f.whole + f.trained + times * f.whole),
    ("what is not trained has no gradient", lambda f, times: 2 * f.whole + times * f.trained),
    ("what is not trained is missing, and it takes memory as well", lambda f, times: (2 + times) * f.trained),
    (
        "buffers are counted, and they do not count",
        lambda f, times: f.whole + f.buffers + (1 + times) * f.trained,
    ),
    (
        "a parameter with two names is counted twice",
        lambda f, times: f.whole + f.twice + (1 + times) * (f.trained + f.twice),
    ),
    (
        "4 bytes for each number: not every parameter is float32",
        lambda f, times: 4 * (f.numbers + (1 + times) * f.trained_numbers),
    ),
    (
        "gradient and state have the parameter's own dtype, and not always 4 bytes",
        lambda f, times: f.whole + 4 * (1 + times) * f.trained_numbers,
    ),
    (
        "that is how many numbers, and bytes are asked",
        lambda f, times: f.numbers + (1 + times) * f.trained_numbers,
    ),
    (
        "each tensor is rounded up to a block, and its elements alone are asked",
        lambda f, times: f.whole_blocks + (1 + times) * f.trained_blocks,
    ),
    (
        "step counters are counted, and they do not count",
        lambda f, times: f.whole + (1 + times) * f.trained + (4 * f.trains if times == 2 else 0),
    ),
    (
        "step counters are counted, and they do not count",
        lambda f, times: f.whole + (1 + times) * f.trained + (4 * f.parameters if times == 2 else 0),
    ),
    (
        "'sgd_momentum' keeps as much as the trained parameters once",
        lambda f, times: f.whole + (1 + (0 if times == 1 else times)) * f.trained,
    ),
    (
        "'adam' and 'adamw' keep as much as the trained parameters twice",
        lambda f, times: f.whole + (1 + min(times, 1)) * f.trained,
    ),
)


def _telling_model() -> nn.Module:
    """Return a model for which no two mistakes give the same four numbers."""
    model = nn.Sequential(
        nn.Linear(7, 5).to(torch.float16), nn.BatchNorm1d(5), nn.Linear(5, 5), nn.Linear(5, 5)
    )
    model[0].weight.requires_grad_(False)
    model[3].weight = model[2].weight
    model[2].bias.requires_grad_(False)
    model[3].bias.grad = torch.zeros(5)
    return model


def _mistake(trial, facts: _Facts, times: int, number: int) -> str:
    """Return the one mistake that explains this number, and those for a telling model with each name."""
    call, model = trial.last_call, _telling_model().to(trial.device)
    try:
        got = [trial.call(model, name) for name in STATES]
    except (AnswerRaised, expect.Mismatch):
        return ""
    finally:
        trial.last_call = call
    known = _Facts(model)
    found = {
        words
        for words, sum_of in MISTAKES
        if sum_of(facts, times) == number and [sum_of(known, one) for one in STATES.values()] == got
    }
    return found.pop() if len(found) == 1 else ""


def _judge_bytes(trial, model: nn.Module) -> None:
    """Judge all four names on a model."""
    model.to(trial.device)
    state = [(p, p.requires_grad, p.grad) for p in model.parameters()]
    held = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    facts = _Facts(model)
    for name, times in STATES.items():
        wanted = facts.whole + (1 + times) * facts.trained
        otherwise = f"that is not what training with {name!r} takes"
        got = trial.call(model, name)
        bytes_equal(got, wanted, otherwise, probe=partial(_mistake, trial, facts, times, got))
    for parameter, (before, trains, grad) in zip(model.parameters(), state, strict=True):
        if parameter is not before or parameter.requires_grad != trains or parameter.grad is not grad:
            expect.fail("the model was changed", "the model as it came", parameter)
    if [module.training for module in model.modules()] != modes:
        expect.fail("the model's mode was changed", "train or eval as it came", "another mode")
    now = model.state_dict()
    for name in (*held, *now):
        if name not in now or name not in held or not torch.equal(held[name], now[name]):
            expect.fail(f"the model was changed: `{name}`", "the model as it came", now.get(name))


@training_bytes.row("parameters, gradients, optimizer state")
def three_sums(trial):
    n = 3 + trial.seeds[1] % 7
    _judge_bytes(trial, nn.Sequential(nn.Linear(n, 5), nn.ReLU(), nn.Linear(5, 2, bias=False)))
    _judge_bytes(trial, nn.Linear(1, 1 + n))
    _judge_bytes(trial, nn.ReLU())
    nested = nn.Sequential(nn.Sequential(nn.Linear(n, 3), nn.Sequential(nn.Linear(3, 4))))
    nested.scale = nn.Parameter(torch.ones(5))
    _judge_bytes(trial, nested)


@training_bytes.row("what is not trained only takes its place")
def frozen(trial):
    model = nn.Sequential(nn.Linear(7, 5), nn.Linear(5, 3))
    model[0].requires_grad_(False)
    _judge_bytes(trial, model)
    _judge_bytes(trial, nn.Linear(6, 6).requires_grad_(False))
    half = nn.Linear(6, 4)
    half.bias.requires_grad_(False)
    half.weight.grad = torch.zeros(4, 6)  # what is left of a step stays there
    _judge_bytes(trial, half)


@training_bytes.row("each dtype its size, a shared one once")
def dtypes_and_shared(trial):
    _judge_bytes(trial, nn.Sequential(nn.Linear(7, 5).to(torch.float16), nn.Linear(5, 3)))
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    _judge_bytes(trial, model)


@training_bytes.row("buffers and step counters do not count")
def no_buffers(trial):
    _judge_bytes(trial, nn.Sequential(nn.Linear(7, 5), nn.BatchNorm1d(5)))


@training_bytes.row("another name is a ValueError")
def another_name(trial):
    frozen = nn.Linear(3, 2).requires_grad_(False)
    for name in ("rmsprop", "lbfgs", "adamax", "nadam", "sgd_nesterov", "Adam", "SGD", " adam", ""):
        # Where nothing is trained no state has to be looked up, and the name is unknown all the same.
        for model in (nn.Linear(3, 2), frozen, nn.ReLU()):
            _expect_value_error(trial, model.to(trial.device), name)


def _expect_value_error(trial, model: nn.Module, name: str) -> None:
    try:
        got = trial.call(model, name)
    except AnswerRaised as raised:
        if not isinstance(raised.error, ValueError):
            kind = type(raised.error).__name__
            expect.fail(
                f"another name raised {kind}, and a ValueError is asked",
                "a ValueError",
                f"{kind} for {name!r}",
            )
        return
    if isinstance(got, ValueError):
        expect.fail(f"a ValueError was returned for {name!r}: `raise` it", "a ValueError raised", got)
    trains = any(parameter.requires_grad for parameter in model.parameters())
    where = "" if trains else " for a model of which nothing is trained"
    expect.fail(f"{name!r} was accepted{where}", "a ValueError", got)
