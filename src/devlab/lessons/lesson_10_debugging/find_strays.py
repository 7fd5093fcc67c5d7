"""The tool for the whole scene: which tensors of a model and its batch are not where the model is."""

from collections import OrderedDict
from typing import NamedTuple

import torch
from torch import nn

from devlab.checks import cases, expect
from devlab.lessons.lesson_10_debugging import lesson, unchanged

find_strays = lesson.exercise(
    "find_strays",
    signature="find_strays(model, batch)",
    facts=("X2", "X3", "X4", "X5", "E4"),
    hints=(
        "First find the one device that counts, `next(model.parameters()).device`. Then collect "
        "everything, from the model and from the batch, as pairs of a name and a tensor, and keep the "
        "names of those that are on another device.",
        "One inner function `walk(name, value)` that calls itself reaches all of it. A tensor is compared; "
        "a dict, list or tuple is walked item by item; a module is walked attribute by attribute, its "
        "`_parameters`, `_buffers` and `_modules` among them. Keep the ids of the tensors seen, so that "
        "each is named once.",
        "The helper in your `left_behind` of lesson 05 is most of it. There a tensor was noted when `.to` "
        "would not move it; here it is noted when `value.device != home`. A module's three dicts add "
        'nothing to the name: `walk(name, item)` for them, and `walk(f"{name}.{key}", item)` for any other '
        'attribute. Start with `walk("model", model)` and `walk("batch", batch)`.',
    ),
)


def _expect(trial, model: nn.Module, batch: dict, wanted: dict[str | tuple, str]) -> None:
    """Expect exactly the wanted names, in any order; of a tuple, whose names are one tensor, expect one."""
    with unchanged(model, "the model was changed: looking must change nothing"):
        got = trial.call(model, batch)
    home = next(model.parameters()).device
    expect.names(got, wanted, lambda name: f"is named, but no tensor of this name is away from {home}")


class Box(NamedTuple):
    """A tuple with names, as a loader may yield one."""

    width: object
    height: object


def _encoder() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))


@find_strays.row("parameters and buffers elsewhere")
def registered_ones(trial):
    trial.other()  # a stray needs somewhere to be
    for other in trial.others:
        model = cases.module(encoder=_encoder(), head=nn.Linear(4, 2)).to(trial.device)
        model.register_buffer("steps", torch.arange(4, device=other), persistent=False)
        model.register_buffer("shift", torch.ones(3, device=other))
        model.head.to(other)
        model.encoder[1].running_mean = model.encoder[1].running_mean.to(other)
        away = f"it is on {other}, the first parameter on {trial.device}"
        names = ("head.weight", "head.bias", "encoder.1.running_mean", "steps", "shift")
        wanted = dict.fromkeys((f"model.{name}" for name in names), away)
        _expect(trial, model, {"x": trial.randn(2, 3)}, wanted)


@find_strays.row("attributes, lists and dicts elsewhere")
def plain_ones(trial):
    trial.other()
    for other in trial.others:
        away = torch.ones(3, device=other)
        model = cases.module(encoder=_encoder()).to(trial.device)
        model.scale, model._cache = away.clone(), {"key": away.clone(), 7: [away.clone()]}
        model.encoder.positions = torch.tensor(2.0, device=other)
        model.encoder[1].center, model.scales = away.clone(), [nn.Parameter(away.clone())]
        model.blocks = [nn.Linear(2, 3, device=other), nn.Sequential(nn.BatchNorm1d(2, device=other))]
        model.pair = (torch.ones(2, device=trial.device), away.clone())
        wanted = dict.fromkeys(("model.scale", "model._cache.key"), "an attribute elsewhere")
        wanted["model._cache.7.0"] = "the first of a list, which a dict holds under the number 7"
        wanted["model.encoder.positions"] = "a plain attribute of a submodule, a single number in a tensor"
        wanted["model.pair.1"] = "an element of a tuple"
        wanted["model.encoder.1.center"] = "a plain attribute of a module in a submodule"
        wanted["model.scales.0"] = "a parameter in a plain list is not registered, and counts"
        inside = "a module in a plain list is not registered, and its tensors count"
        kept = ("0.weight", "0.bias", "1.0.weight", "1.0.bias")
        kept += ("1.0.running_mean", "1.0.running_var", "1.0.num_batches_tracked")
        wanted |= {f"model.blocks.{name}": inside for name in kept}
        model.heads = {"main": cases.module(bias=away.clone(), parts=[{"deep": (away.clone(),)}])}
        model.both = (nn.Linear(2, 1, bias=False, device=other), 3)
        # Two tensors share one memory and two have none: every one of the four is a tensor of its own.
        model.some, model.none, model.nought = away[:2], away[:0].clone(), away[:0].clone()
        model.all = away
        kept = ("heads.main.bias", "heads.main.parts.0.deep.0", "both.0.weight")
        wanted |= {f"model.{name}": "it is in a module in a plain container" for name in kept}
        wanted |= {f"model.{name}": "an attribute elsewhere" for name in ("some", "none", "nought", "all")}
        _expect(trial, model, {"x": trial.randn(2, 3)}, wanted)


@find_strays.row("the batch, however deep")
def in_the_batch(trial):
    trial.other()
    for seed, other in zip(trial.seeds, trial.others, strict=False):
        model = nn.Linear(3, 2).to(trial.device)
        batch = {
            "x": trial.randn(2, 3, seed=seed),
            "labels": torch.arange(2, device=other),
            "name": "first",
            "weight": 0.5,
            "extra": {
                "mask": torch.ones(2, dtype=torch.bool, device=other),
                "ids": [1, torch.ones(2, device=other)],
            },
            "pair": (trial.randn(2, seed=seed), torch.tensor(3, device=other)),
            "boxes": [{"at": torch.ones(4, device=other)}, (1, [torch.ones(1, device=other)])],
            "kept": OrderedDict(ids=torch.ones(2, device=other)),
            "named": Box(torch.ones(1, device=other), 2),
            "state": torch.ones(2, device=other, requires_grad=True) * 2,
        }
        wanted = {
            "batch.labels": "it is in the batch",
            "batch.extra.mask": "it is in a dict in the batch",
            "batch.extra.ids.1": "it is in a list in a dict in the batch",
            "batch.pair.1": "it is in a tuple in the batch, a single number in a tensor",
            "batch.boxes.0.at": "it is in a dict in a list in the batch",
            "batch.boxes.1.1.0": "it is in a list in a tuple in a list in the batch",
            "batch.kept.ids": "an OrderedDict is a dict",
            ("batch.named.0", "batch.named.width"): "a named tuple is a tuple",
            "batch.state": "a result in a graph is a tensor, too",
        }
        _expect(trial, model, batch, wanted)


@find_strays.row("the first parameter's device decides")
def first_decides(trial):
    other = trial.other()
    # Most of the model is elsewhere, and the whole batch is: they are the strays all the same.
    model = nn.Sequential(
        nn.Linear(3, 2, bias=False), nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False)
    )
    model = model.to(other)
    model[0].to(trial.device)
    wanted = dict.fromkeys(
        ("model.1.weight", "model.2.weight", "batch.x"), f"the first parameter is on {trial.device}"
    )
    _expect(trial, model, {"x": trial.randn(2, 3, on=other)}, wanted)
    # A buffer that comes first does not decide, and a frozen parameter does. Frozen parameters may be strays.
    model = nn.Module()
    model.register_buffer("table", torch.ones(2, device=other))
    model.scale = nn.Parameter(torch.ones(2, device=trial.device), requires_grad=False)
    model.head = nn.Linear(2, 1, device=other).requires_grad_(False).eval()
    wanted = dict.fromkeys(("model.table", "model.head.weight", "model.head.bias"), "it is elsewhere")
    _expect(trial, model, {}, wanted)
    trial.second()


@find_strays.row("what is in place is not named; each once")
def in_place(trial):
    model = cases.module(encoder=_encoder(), memory=nn.GRU(2, 3)).to(trial.device)
    model.scale, model.tables = trial.randn(3), [trial.randn(2), None, "text"]
    model.first, model.name = [model.encoder], "net"
    batch = {"x": trial.randn(2, 3), "rest": [trial.randint(0, 3, (2,)), 7, None], "none": {}}
    _expect(trial, model, batch, {})
    if trial.others:
        away = trial.randn(2, on=trial.others[-1])
        model.left, model.again = away, {"same": away}
        model.late = nn.Linear(2, 1, bias=False, device=trial.others[-1])
        model.late_too, model.last = [model.late.weight], model.late
        batch["same"], batch["one"] = away, away.clone()
        batch["two"] = batch["one"]
        wanted = {("model.left", "model.again.same", "batch.same"): "an attribute elsewhere"}
        wanted[("batch.one", "batch.two")] = "it is in the batch"
        names = "model.late.weight", "model.late_too.0", "model.last.weight"
        wanted[names] = "a parameter elsewhere"
        _expect(trial, model, batch, wanted)
