"""The tool for the whole scene: which tensors of a model and its batch are not where the model is."""

from collections import OrderedDict
from typing import NamedTuple

import torch
from torch import nn

from devlab.checks import cases
from devlab.checks.names import expect_names, find_tensors
from devlab.lessons.lesson_10_debugging import lesson, unchanged

find_strays = lesson.exercise(
    "find_strays(model, batch)",
    ("X2", "X3", "X4", "X5", "E4"),
    "First find the one device that counts, `next(model.parameters()).device`. Then collect everything, from "
    "the model and from the batch, as pairs of a name and a tensor, and keep the names of those that are on "
    "another device.",
    "One inner function `walk(name, value)` that calls itself reaches all of it. A tensor is compared; a "
    "dict, list or tuple is walked item by item; a module is walked attribute by attribute, its "
    "`_parameters`, `_buffers` and `_modules` among them. Keep the ids of the tensors seen, so that each is "
    "named once.",
    "The helper in your `left_behind` of lesson 05 is most of it. There a tensor was noted when `.to` would "
    "not move it; here it is noted when `value.device != home`. A module's three dicts add nothing to the "
    'name: `walk(name, item)` for them, and `walk(f"{name}.{key}", item)` for any other attribute. Start '
    'with `walk("model", model)` and `walk("batch", batch)`.',
)


def _expect_strays(trial, model: nn.Module, **batch: object) -> None:
    """Expect the names of all tensors that are not where the first parameter is, in any order."""
    with unchanged(model, "the model was changed: looking must change nothing"):
        got = trial.call(model, batch)
    home = next(model.parameters()).device
    tensors = [*find_tensors(model, "model", "the model"), *find_tensors(batch, "batch", "the batch")]
    strays = [
        found._replace(words=f"{found.words}, on {found.tensor.device}; the first parameter is on {home}")
        for found in tensors
        if found.tensor.device != home
    ]
    expect_names(got, strays, lambda name: f"is named, but no tensor of this name is away from {home}")


class Box(NamedTuple):
    """A tuple with names, as a loader may yield one."""

    width: object
    height: object


def _make_encoder() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))


@find_strays.row("parameters and buffers elsewhere")
def registered_ones(trial):
    trial.other()  # a stray needs somewhere to be
    for other in trial.others:
        model = cases.module(encoder=_make_encoder(), head=nn.Linear(4, 2)).to(trial.device)
        model.register_buffer("steps", torch.arange(4, device=other), persistent=False)
        model.register_buffer("shift", torch.ones(3, device=other))
        model.head.to(other)
        model.encoder[1].running_mean = model.encoder[1].running_mean.to(other)
        _expect_strays(trial, model, x=trial.randn(2, 3))


@find_strays.row("attributes, lists and dicts elsewhere")
def plain_ones(trial):
    trial.other()
    for other in trial.others:
        away = torch.ones(3, device=other)
        model = cases.module(encoder=_make_encoder()).to(trial.device)
        model.scale, model._cache = away.clone(), {"key": away.clone(), 7: [away.clone()]}
        model.encoder.positions = torch.tensor(2.0, device=other)
        model.encoder[1].center, model.scales = away.clone(), [nn.Parameter(away.clone())]
        model.blocks = [nn.Linear(2, 3, device=other), nn.Sequential(nn.BatchNorm1d(2, device=other))]
        model.pair = (torch.ones(2, device=trial.device), away.clone())
        model.heads = {"main": cases.module(bias=away.clone(), parts=[{"deep": (away.clone(),)}])}
        model.both = (nn.Linear(2, 1, bias=False, device=other), 3)
        # Two tensors share one memory and two have none: each of the four is a tensor of its own.
        model.some, model.none, model.nought = away[:2], away[:0].clone(), away[:0].clone()
        model.all = away
        _expect_strays(trial, model, x=trial.randn(2, 3))


@find_strays.row("the batch, however deep")
def in_the_batch(trial):
    trial.other()
    for seed, other in zip(trial.seeds, trial.others, strict=False):
        away = torch.ones(2, device=other)
        _expect_strays(
            trial,
            nn.Linear(3, 2).to(trial.device),
            x=trial.randn(2, 3, seed=seed),
            labels=torch.arange(2, device=other),
            name="first",
            weight=0.5,
            extra={"mask": away > 0, "ids": [1, away.clone()]},
            pair=(trial.randn(2, seed=seed), torch.tensor(3, device=other)),
            boxes=[{"at": away.clone()}, (1, [away.clone()])],
            kept=OrderedDict(ids=away.clone()),
            named=Box(away.clone(), 2),
            state=away.clone().requires_grad_() * 2,
        )


@find_strays.row("the first parameter's device decides")
def first_decides(trial):
    other = trial.other()
    # Most of the model is elsewhere, and the whole batch is: they are the strays all the same.
    layers = [nn.Linear(size, 2, bias=False, device=other) for size in (3, 2, 2)]
    model = nn.Sequential(*layers)
    model[0].to(trial.device)
    _expect_strays(trial, model, x=trial.randn(2, 3, on=other))
    # A buffer that comes first does not decide, and a frozen parameter does. Frozen parameters may be strays.
    model = nn.Module()
    model.register_buffer("table", torch.ones(2, device=other))
    model.scale = nn.Parameter(torch.ones(2, device=trial.device), requires_grad=False)
    model.head = nn.Linear(2, 1, device=other).requires_grad_(False).eval()
    _expect_strays(trial, model)
    trial.second()


@find_strays.row("what is in place is not named; each once")
def in_place(trial):
    model = cases.module(encoder=_make_encoder(), memory=nn.GRU(2, 3)).to(trial.device)
    model.scale, model.tables = trial.randn(3), [trial.randn(2), None, "text"]
    model.first, model.name = [model.encoder], "net"
    batch = {"x": trial.randn(2, 3), "rest": [trial.randint(0, 3, (2,)), 7, None], "none": {}}
    _expect_strays(trial, model, **batch)
    if trial.others:
        away = trial.randn(2, on=trial.others[-1])
        model.left, model.again = away, {"same": away}
        model.late = nn.Linear(2, 1, bias=False, device=trial.others[-1])
        model.late_too, model.last = [model.late.weight], model.late
        batch["same"], batch["one"] = away, away.clone()
        batch["two"] = batch["one"]
        _expect_strays(trial, model, **batch)
