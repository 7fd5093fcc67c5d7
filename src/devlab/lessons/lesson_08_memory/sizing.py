"""How much will it take: the bytes of training."""

import torch
from torch import nn

from devlab.checks import expect
from devlab.checks.calls import AnswerRaised
from devlab.lessons.lesson_08_memory.base import bytes_equal, lesson

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

STATES = {"sgd": 0, "sgd_momentum": 1, "adam": 2, "adamw": 2}


def _nbytes(tensors) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _judge_bytes(trial, model: nn.Module) -> None:
    """Judge all four names on a model; each wrong reading that people have gets its own words."""
    model.to(trial.device)
    state = [(p, p.requires_grad, p.grad) for p in model.parameters()]
    held = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    every = list(model.parameters())
    trained = _nbytes(p for p in every if p.requires_grad)
    whole, buffers = _nbytes(every), _nbytes(model.buffers())
    shared = _nbytes(p for _, p in model.named_parameters(remove_duplicate=False)) - whole
    for name, times in STATES.items():
        wanted = whole + (1 + times) * trained
        guesses = [
            (whole if name == "sgd" else None, "the gradients are missing"),
            ((2 + times) * whole, "parameters that are not trained have no gradient and no state"),
            ((2 + times) * trained, "parameters that are not trained are missing: they take memory, too"),
            (wanted + buffers, "buffers are counted, too"),
            ((2 + times) * (whole + shared), "a parameter with two names is counted twice"),
            (sum((2 + times) * 4 * p.numel() for p in every), "4 bytes each: not every parameter is float32"),
            (sum((2 + times) * p.numel() for p in every), "that is how many numbers, not how many bytes"),
            *((whole + (1 + t) * trained, f"that is not the state that {name!r} keeps") for t in range(4)),
        ]
        bytes_equal(
            trial.call(model, name), wanted, f"that is not what training with {name!r} takes", *guesses
        )
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
    model = nn.Linear(3, 2).to(trial.device)
    for name in ("rmsprop", "lbfgs", "adamax", "nadam", "sgd_nesterov", "Adam", "SGD", " adam", ""):
        try:
            got = trial.call(model, name)
        except AnswerRaised as raised:
            if not isinstance(raised.error, ValueError):
                raise
        else:
            expect.fail(f"{name!r} was accepted", "a ValueError", got)
