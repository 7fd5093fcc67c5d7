"""How much will it take: the bytes of training."""

import contextlib
from functools import partial

import torch
from torch import nn

from devlab.checks import cases, expect, verbs
from devlab.checks.calls import AnswerRaised
from devlab.lessons.lesson_08_memory import bytes_equal, in_blocks, lesson

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
    return sum(tensor.nbytes for tensor in tensors)


def _slips(model: nn.Module, times: int) -> tuple[tuple[str, int], ...]:
    """Return what each mistake makes of a model and an optimizer with so many states, behind its words."""
    every = list(model.parameters())
    trains = [parameter for parameter in every if parameter.requires_grad]
    whole, trained, buffers = _nbytes(every), _nbytes(trains), _nbytes(model.buffers())
    twice = _nbytes(p for _, p in model.named_parameters(remove_duplicate=False)) - whole
    numbers, trained_numbers = (sum(p.numel() for p in side) for side in (every, trains))
    gradients, more, counters = _nbytes(p.grad for p in every if p.grad is not None), 1 + times, times == 2
    counted = "step counters are counted, and they do not count"
    return (
        ("the gradients are missing", whole + times * trained),
        ("only gradients that are there already are counted", whole + gradients + times * trained),
        ("that is the parameters alone: gradients and state are missing", whole),
        ("that is the state_dict alone: gradients and state are missing", whole + buffers),
        ("the optimizer's state is missing", whole + trained),
        ("what is not trained has no gradient and no state", whole + more * whole),
        ("what is not trained has no state", whole + trained + times * whole),
        ("what is not trained has no gradient", 2 * whole + times * trained),
        ("what is not trained is missing, and it takes memory as well", trained + more * trained),
        ("buffers are counted, and they do not count", whole + buffers + more * trained),
        ("a parameter with two names is counted twice", whole + twice + more * (trained + twice)),
        ("4 bytes for each number: not every parameter is float32", 4 * (numbers + more * trained_numbers)),
        (
            "gradient and state have the parameter's own dtype, and not always 4 bytes",
            whole + 4 * more * trained_numbers,
        ),
        ("that is how many numbers, and the task asks for bytes", numbers + more * trained_numbers),
        (
            "each tensor is rounded up to a block, and the task asks for its elements alone",
            in_blocks(every) + more * in_blocks(trains),
        ),
        (counted, whole + more * trained + 4 * len(trains) * counters),
        (counted, whole + more * trained + 4 * len(every) * counters),
        (
            "'sgd_momentum' keeps as much as the trained parameters once",
            whole + (1 if times == 1 else more) * trained,
        ),
        ("'adam' and 'adamw' keep as much as the trained parameters twice", whole + min(more, 2) * trained),
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


def _mistake(trial, model: nn.Module, times: int, number: int) -> str:
    """Return the one mistake that explains this number, and those for a telling model with each name."""
    telling, got = _telling_model().to(trial.device), [number]
    with verbs.aside(trial), contextlib.suppress(AnswerRaised, expect.Mismatch):
        got += [trial.call(telling, name) for name in STATES]
    same = zip(_slips(model, times), *(_slips(telling, one) for one in STATES.values()), strict=True)
    found = {one[0][0] for one in same if [wrong for _, wrong in one] == got}
    return found.pop() if len(found) == 1 else ""


def _judge_bytes(trial, model: nn.Module) -> None:
    """Judge all four names on a model."""
    model.to(trial.device)
    every = list(model.parameters())
    trained = _nbytes(parameter for parameter in every if parameter.requires_grad)
    with verbs.untouched(model, "the model was changed: `{path}`", "the model as it came"):
        for name, times in STATES.items():
            got = trial.call(model, name)
            otherwise = partial(_mistake, trial, model, times, got)
            headline = f"that is not what training with {name!r} takes"
            bytes_equal(got, _nbytes(every) + (1 + times) * trained, headline, otherwise=otherwise)


@training_bytes.row("parameters, gradients, optimizer state")
def three_sums(trial):
    n = 3 + trial.seeds[1] % 7
    _judge_bytes(trial, nn.Sequential(nn.Linear(n, 5), nn.ReLU(), nn.Linear(5, 2, bias=False)))
    _judge_bytes(trial, nn.Linear(1, 1 + n))
    _judge_bytes(trial, nn.ReLU())
    nested = nn.Sequential(nn.Sequential(nn.Linear(n, 3), nn.Sequential(nn.Linear(3, 4))))
    nested.scale = nn.Parameter(torch.ones(5))
    _judge_bytes(trial, nested)
    shapes = nn.Sequential(nn.Conv2d(2, 3, 4), nn.PReLU())
    shapes.scale = nn.Parameter(torch.ones(()))
    _judge_bytes(trial, shapes)
    part = nn.Linear(1, n)
    part.weight = nn.Parameter(torch.ones(n, 9, device=trial.device)[:, :1])  # of memory that holds more
    _judge_bytes(trial, part)
    mixed = nn.Sequential(nn.Linear(n, 2), nn.Dropout(0.5))
    mixed[1].eval()
    _judge_bytes(trial, mixed)
    _judge_bytes(trial, mixed.eval())


@training_bytes.row("what is not trained takes only its own place")
def frozen(trial):
    model = nn.Sequential(nn.Linear(7, 5), nn.Linear(5, 3))
    model[0].requires_grad_(False)
    _judge_bytes(trial, model)
    _judge_bytes(trial, nn.Linear(6, 6).requires_grad_(False))
    half = nn.Linear(6, 4)
    half.bias.requires_grad_(False)
    half.weight.grad = torch.ones(4, 6)  # what is left of a step stays there
    _judge_bytes(trial, half)
    half.weight.requires_grad_(False)  # and is no gradient of training any more
    half.bias.requires_grad_(True)
    _judge_bytes(trial, half)


@training_bytes.row("each dtype at its size, shared parameters once")
def dtypes_and_shared(trial):
    dtypes = [torch.float16, torch.bfloat16] + [torch.float64] * cases.holds(trial.device, torch.float64)
    for dtype in dtypes:
        _judge_bytes(trial, nn.Sequential(nn.Linear(7, 5).to(dtype), nn.Linear(5, 3)))
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
    trains = any(parameter.requires_grad for parameter in model.parameters())
    where = "" if trains else " for a model of which nothing is trained"
    verbs.raises(
        trial,
        model,
        name,
        kind=ValueError,
        asked="a ValueError",
        nothing=f"{name!r} was accepted{where}",
        other="another name raised {name}, and the task asks for a ValueError",
    )
