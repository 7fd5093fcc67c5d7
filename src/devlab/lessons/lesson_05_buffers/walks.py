"""Walks over a module: what `.to` will not find, and where the rest lives."""

import re
from collections import OrderedDict
from typing import NamedTuple

import torch
from torch import nn

from devlab.checks import expect
from devlab.checks.calls import AnswerRaised
from devlab.checks.holding import changed, holdings
from devlab.lessons.lesson_05_buffers.base import lesson

left_behind = lesson.exercise(
    "left_behind",
    signature="left_behind(module)",
    facts=("L4", "L5", "B4"),
    hints=(
        "`.to` moves what `module.parameters()` and `module.buffers()` yield, in every submodule, and "
        "nothing else. Everything else that a module holds is among its ordinary attributes: "
        "`vars(module)`.",
        "Write an inner function `walk(name, value)` that calls itself: a tensor is noted, a list, tuple "
        "or dict is walked element by element, a module attribute by attribute. Keep the ids of the "
        "tensors that move, and of those already noted, in a set.",
        "For each `path, part in module.named_modules()`, walk the items of `vars(part)` but "
        '`"_parameters"`, `"_buffers"` and `"_modules"`. A module found in a list has not been '
        "registered: its own parameters and buffers count as well, under the path that led there.",
    ),
)


class Box(NamedTuple):
    """A tuple with names."""

    width: object
    height: object


def holding(**attributes: object) -> nn.Module:
    """Return a bare module with the attributes, set as `self.name = value` sets them."""
    module = nn.Module()
    for name, value in attributes.items():
        setattr(module, name, value)
    return module


def _norm() -> nn.Module:
    """Return a module with one parameter and two kinds of buffers, on the CPU."""
    module = holding(weight=nn.Parameter(torch.ones(3)))
    module.register_buffer("mean", torch.zeros(3))
    module.register_buffer("steps", torch.arange(4), persistent=False)
    return module


def _expect_left(trial, module: nn.Module, wanted: dict[str | tuple, str]) -> None:
    """Expect exactly the wanted names, in any order; of a tuple of names, which are one tensor, one."""
    before = holdings(module)
    got = trial.call(module)
    if path := changed(before, module):
        headline = "the module was changed: asking must not move anything"
        expect.fail(headline, "the module as it came", f"another `{path}`, or the same elsewhere")

    def unwanted(name: str) -> str:
        why = "`.to` moves it" if _leads_to_a_tensor(module, name) else "the module holds no such tensor"
        return f"is listed, but {why}"

    expect.names(got, wanted, unwanted)


def _leads_to_a_tensor(value: object, path: str) -> bool:
    """Tell whether the dotted path leads from the module to a tensor."""
    for key in path.split("."):
        if isinstance(value, nn.Module):
            value = getattr(value, key, ())
        elif isinstance(value, dict | list | tuple):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            value = {str(place): item for place, item in items}.get(key, ())
    return isinstance(value, torch.Tensor)


@left_behind.row("plain tensor attributes, by name")
def plain_attributes(trial):
    module = holding(
        scale=torch.ones(3), _cache=torch.zeros(2, 2), step=torch.tensor(3), trained=nn.Linear(3, 2)
    )
    module.name, module.width, module.act, module.nothing = "net", 3, torch.relu, None
    wanted = {
        "scale": "a plain attribute",
        "_cache": "a plain attribute, private or not",
        "step": "a single number in a tensor is a tensor",
    }
    _expect_left(trial, module, wanted)
    # The names are a fact about the module, wherever its registered part is at the moment.
    _expect_left(trial, module.to(trial.device), wanted)
    alone = holding(window=trial.randn(4), ramp=torch.ones(2, requires_grad=True))
    _expect_left(trial, alone, {"window": "it was made there and stays there", "ramp": "it is no parameter"})


@left_behind.row("what `.to` moves is not listed")
def moved_is_not_listed(trial):
    trained = nn.Linear(3, 2)
    module = holding(norm=_norm(), own=nn.Parameter(torch.ones(2)))
    _expect_left(trial, module.to(trial.device), {})
    module.trained, module.more = trained.to(trial.device), nn.ModuleList([nn.Linear(2, 2)])
    module.several = nn.ParameterList([torch.ones(2)])
    # Listed a second time, in a plain list, a registered tensor still moves: nn.GRU itself does so.
    module.layers, module.first = [trained], {"weight": trained.weight}
    module.memory = nn.GRU(1, 1)
    module.scale = torch.ones(3)
    _expect_left(trial, module, {"scale": "a plain attribute beside registered ones"})


@left_behind.row("lists, tuples and dicts, nested")
def containers(trial):
    module = holding(
        tables=[torch.ones(2), "text", torch.zeros(3)],
        pair=(torch.ones(1), None),
        cache={"key": torch.ones(2), "deep": [{"low": (7, torch.ones(4))}], 7: torch.full((3,), 7.0)},
        weights=[nn.Parameter(torch.ones(3))],
        empty=[],
        state=OrderedDict(low=torch.ones(2)),
        sizes=torch.Size([2]),
        box=Box(torch.ones(1), 2),
    )
    wanted = {
        "tables.0": "an element of a list",
        "tables.2": "an element of a list, by its place in the list",
        "pair.0": "an element of a tuple",
        "weights.0": "a parameter in a plain list is not registered",
        "cache.key": "a value of a dict",
        "cache.7": "a value of a dict whose key is a number",
        "cache.deep.0.low.1": "a tensor in a tuple in a dict in a list in a dict",
        "state.low": "an OrderedDict is a dict",
        ("box.0", "box.width"): "a named tuple is a tuple",
    }
    _expect_left(trial, module.to(trial.device), wanted)


@left_behind.row("modules inside, registered or in a list")
def modules_inside(trial):
    inner = holding(positions=torch.ones(5), norm=_norm(), parts=[torch.ones(1)])
    module = holding(encoder=nn.Sequential(nn.ReLU(), inner))
    module.blocks = [nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 1, bias=False), _norm())]
    module.heads = {"main": holding(bias=torch.ones(2), parts=[torch.ones(3)])}
    module.tails = (nn.Sequential(nn.ReLU(), holding(scale=torch.ones(2))),)
    inside = "a module in a plain list is not registered"
    wanted = {
        "encoder.1.positions": "a plain attribute of a registered submodule",
        "encoder.1.parts.0": "a list in a registered submodule",
        "blocks.0.weight": inside,
        "blocks.0.bias": inside,
        "blocks.1.0.weight": inside,
        "blocks.1.1.weight": inside,
        "blocks.1.1.mean": f"{inside}, nor are its buffers",
        "blocks.1.1.steps": f"{inside}, nor are its buffers, saved or not",
        "heads.main.bias": "a module in a plain dict has plain attributes, too",
        "heads.main.parts.0": "a list in a module in a plain dict",
        "tails.0.1.scale": "a plain attribute of a module inside of one that is not registered",
    }
    _expect_left(trial, module.to(trial.device), wanted)


@left_behind.row("a tensor with two names, once")
def shared_once(trial):
    window, tied = torch.ones(3), nn.Linear(2, 2, bias=False)
    module = holding(window=window, other=torch.ones(3), inner=holding(again=[window]), pair=[tied, tied])
    wanted = {
        ("window", "inner.again.0"): "a plain attribute",
        "other": "equal content, but another tensor",
        ("pair.0.weight", "pair.1.weight"): "a module in a plain list is not registered",
    }
    _expect_left(trial, module.to(trial.device), wanted)
    # Tensors of one memory, or of none, are several all the same; of a registered one only it moves.
    memory = torch.ones(6)
    module = holding(low=memory[:2], all=memory, first=torch.zeros(0), second=torch.zeros(0))
    module.register_buffer("table", torch.arange(4))
    module.row = module.table[:2]
    view = "a tensor of its own, whoever else has that memory"
    wanted = dict.fromkeys(("low", "all", "row"), view) | dict.fromkeys(("first", "second"), "it is empty")
    _expect_left(trial, module, wanted)


model_device = lesson.exercise(
    "model_device",
    signature="model_device(model)",
    facts=("L1", "L3"),
    hints=(
        "A module has no `.device`: its tensors have. Go through `model.named_parameters()`, all of them,"
        " and only where there are none through `model.named_buffers()`.",
        "Note the first tensor you meet and compare each later one's device with it, whole devices, not "
        "their types. At the first that differs you hold the two names and the two devices for the "
        "message.",
        "`tensors = list(model.named_parameters()) or list(model.named_buffers())`. No tensors: "
        '`torch.device("cpu")`. A differing one: `raise ValueError(f"{first} is on {one}, {name} on '
        '{two}")`.',
    ),
)


def _parts(**buffers: torch.Tensor) -> nn.Module:
    """Return a module with nothing in it but the given buffers."""
    module = nn.Module()
    for name, tensor in buffers.items():
        module.register_buffer(name, tensor)
    return module


def _expect_device(trial, model: nn.Module, wanted: torch.device, headline: str) -> None:
    try:
        got = trial.call(model)
    except AnswerRaised as raised:
        if not isinstance(raised.error, ValueError):
            raise
        expect.fail(headline, f'device("{wanted}")', f'ValueError: "{raised.error}"')
    expect.kind(got, torch.device, "a torch.device", "the answer")
    expect.equal(got, wanted, headline)


@model_device.row("the device of the parameters")
def device_of_parameters(trial):
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Sequential(nn.Linear(2, 1))).to(trial.device)
    _expect_device(trial, model, trial.device, f"all parameters are on {trial.device}")
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    _expect_device(trial, model, trial.device, f"all parameters, frozen ones too, are on {trial.device}")
    model = holding(scale=nn.Parameter(trial.randn(2)), plain=torch.ones(2))
    _expect_device(trial, model, trial.device, f"the one parameter is on {trial.device}")
    for device in trial.others:
        model.to(device)
        _expect_device(trial, model, device, f"the model has moved to {device}")


@model_device.row("a mixed model: ValueError names both")
def mixed_model(trial):
    here, there = trial.device, trial.other()
    for other in trial.others:
        model = nn.Sequential()
        for name, device in (("encoder", here), ("middle", here), ("head", other)):
            model.add_module(name, nn.PReLU().to(device))
        _expect_refusal(trial, model)
        model.add_module("encoder", nn.PReLU().to(other))
        _expect_refusal(trial, model)
    mixed = _parts(left_table=torch.ones(2).to(here), right_table=torch.ones(2).to(there))
    _expect_refusal(trial, mixed)


def _expect_refusal(trial, model: nn.Module) -> None:
    """Expect a ValueError whose text names two of the model's devices and a tensor on each."""
    tensors = list(model.named_parameters()) or list(model.named_buffers())
    names: dict[torch.device, list[str]] = {}
    for name, tensor in tensors:
        names.setdefault(tensor.device, []).append(name)
    places = " and ".join(map(str, names))
    asked = f"a ValueError that names two devices and a tensor on each, such as {tensors[0][0]}"
    try:
        got = trial.call(model)
    except AnswerRaised as raised:
        error = raised.error
    else:
        expect.fail(f"the model is on {places}, and nothing was raised", asked, got)
    if not isinstance(error, ValueError):
        expect.fail(f"{expect.a_type(error)} was raised, not a ValueError", asked, f"{error!r}")
    text = str(error)
    said = f'ValueError: "{text}"'
    if sum(str(device) in text or repr(device) in text for device in names) < 2:
        expect.fail("the error does not name the two devices", asked, said)
    if sum(any(name in text for name in here) for here in names.values()) < 2:
        expect.fail("the error does not name a tensor on each device", asked, said)
    for name, tensor in tensors:
        for device in names:
            claim = f"{name} is on {device}"
            if device == tensor.device or claim not in text:
                continue
            if re.search(rf"(?<![\w.]){re.escape(claim)}(?![\w:])", text):
                headline = f"the error puts `{name}` on {device}, and it is on {tensor.device}"
                expect.fail(headline, asked, said)


@model_device.row("without parameters, the buffers' device")
def device_of_buffers(trial):
    model = nn.Sequential(nn.ReLU(), _parts(table=trial.randn(3), count=trial.randint(0, 5, ())))
    _expect_device(trial, model, trial.device, f"there are only buffers, on {trial.device}")
    unsaved = nn.Module()
    unsaved.register_buffer("table", trial.randn(3), persistent=False)
    words = f"there is only a buffer that is not saved, on {trial.device}"
    _expect_device(trial, unsaved, trial.device, words)
    if trial.others:
        mixed = _norm().to(trial.others[-1])
        mixed.weight = nn.Parameter(trial.randn(3))
        words = f"the parameter is on {trial.device}; buffers count only where there is none"
        _expect_device(trial, mixed, trial.device, words)


@model_device.row("with neither, the CPU")
def device_of_nothing(trial):
    cpu = torch.device("cpu")
    for model in (nn.ReLU(), nn.Sequential(nn.Flatten(), nn.Tanh()), holding(plain=trial.randn(2))):
        _expect_device(trial, model, cpu, "there is no parameter and no buffer: the answer is the CPU")
