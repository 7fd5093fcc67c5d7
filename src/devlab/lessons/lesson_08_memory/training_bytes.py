"""How much will it take: the bytes of training."""

import torch
from torch import nn

from devlab.checks import cases, expect, verbs
from devlab.checks.scenes import scene
from devlab.lessons.lesson_08_memory import lesson

training_bytes = lesson.exercise(
    "training_bytes(model, optimizer_name)",
    ("H1", "H7"),
    "Three sums: all parameters; a gradient for each that is trained; and what the optimizer remembers of "
    "each that is trained.",
    "`parameter.numel() * parameter.element_size()` is what its elements take. Which parameters have "
    "`requires_grad`?",
    '`{"sgd": 0, "sgd_momentum": 1, "adam": 2, "adamw": 2}` says how many numbers the optimizer remembers '
    "for each one trained. The gradient makes it one more.",
)

# How many numbers each optimizer remembers for each number that is trained.
STATES = {"sgd": 0, "sgd_momentum": 1, "adam": 2, "adamw": 2}


def ours(model, optimizer_name):
    if optimizer_name not in STATES:
        raise ValueError(f"no optimizer is named {optimizer_name!r}")
    each = 2 + STATES[optimizer_name]
    return sum(one.nbytes * (each if one.requires_grad else 1) for one in model.parameters())


def bytes_of(t, *models):
    """See what is answered for each model and the four names, and that the model stays as it is."""
    for model in models:
        found = []
        with verbs.untouched(model.to(t.device), "the model was changed: `{path}`", "the model as it came"):
            for name in STATES:
                found.append(t.call(model, name))
                expect.kind(found[-1], int, "an int", "the number of bytes")
        yield f"the list of bytes for {', '.join(map(repr, STATES))}", found


@scene(training_bytes, ours, "parameters, gradients, optimizer state")
def three_sums(t):
    n = 3 + t.seeds[1] % 7
    plain = nn.Sequential(nn.Linear(n, 5), nn.ReLU(), nn.Linear(5, 2, bias=False))
    nested = nn.Sequential(nn.Sequential(nn.Linear(n, 3), nn.Sequential(nn.Linear(3, 4))))
    nested.scale = nn.Parameter(torch.ones(5))
    shapes = nn.Sequential(nn.Conv2d(2, 3, 4), nn.PReLU())
    shapes.scale = nn.Parameter(torch.ones(()))
    part = nn.Linear(1, n)
    part.weight = nn.Parameter(torch.ones(n, 9, device=t.device)[:, :1])  # of memory that holds more
    mixed = nn.Sequential(nn.Linear(n, 2), nn.Dropout(0.5))
    mixed[1].eval()
    yield from bytes_of(t, plain, nn.Linear(1, 1 + n), nn.ReLU(), nested, shapes, part, mixed)
    yield from bytes_of(t, mixed.eval())


@scene(training_bytes, ours, "what is not trained takes only its own place")
def frozen(t):
    model = nn.Sequential(nn.Linear(7, 5), nn.Linear(5, 3))
    model[0].requires_grad_(False)
    half = nn.Linear(6, 4)
    half.bias.requires_grad_(False)
    half.weight.grad = torch.ones(4, 6)  # what is left of a step stays there
    yield from bytes_of(t, model, nn.Linear(6, 6).requires_grad_(False), half)
    half.weight.requires_grad_(False)  # and is no gradient of training any more
    half.bias.requires_grad_(True)
    yield from bytes_of(t, half)


@scene(training_bytes, ours, "each dtype at its size, shared parameters once")
def dtypes_and_shared(t):
    dtypes = [torch.float16, torch.bfloat16] + [torch.float64] * cases.holds(t.device, torch.float64)
    for dtype in dtypes:
        yield from bytes_of(t, nn.Sequential(nn.Linear(7, 5).to(dtype), nn.Linear(5, 3)))
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    yield from bytes_of(t, model)


@scene(training_bytes, ours, "buffers and step counters do not count")
def no_buffers(t):
    yield from bytes_of(t, nn.Sequential(nn.Linear(7, 5), nn.BatchNorm1d(5)))


@scene(training_bytes, ours, "another name is a ValueError")
def another_name(t):
    frozen = nn.Linear(3, 2).requires_grad_(False)
    for name in ("rmsprop", "lbfgs", "adamax", "nadam", "sgd_nesterov", "Adam", "SGD", " adam", ""):
        # Where nothing is trained no state has to be looked up, and the name is unknown all the same.
        for model in (nn.Linear(3, 2), frozen, nn.ReLU()):
            trains = any(one.requires_grad for one in model.parameters())
            nothing = f"{name!r} was accepted" + " for a model of which nothing is trained" * (not trains)
            other = "another name raised {name}, and the task asks for a ValueError"
            given = model.to(t.device), name
            verbs.raises(t, *given, kind=ValueError, asked="a ValueError", nothing=nothing, other=other)
    yield "the end", True
