"""The device that a whole model is on, or an error where it is on several."""

import re

import torch
from torch import nn

from devlab.checks import cases, expect, verbs
from devlab.checks.calls import AnswerRaised
from devlab.lessons.lesson_05_buffers import lesson, norm

model_device = lesson.exercise(
    "model_device(model)",
    ("L1", "L3"),
    "A module has no `.device`, but its tensors have. Go through all of `model.named_parameters()`, and only "
    "where there are none through `model.named_buffers()`.",
    "Note the first tensor you meet, and compare the device of each later one with its device, the index "
    "included. At the first that differs you have the two names and the two devices for the message.",
    "`tensors = list(model.named_parameters()) or list(model.named_buffers())`. Without any, return "
    '`torch.device("cpu")`. At one that differs, `raise ValueError(f"{first} is on {one}, {name} on '
    '{two}")`.',
)


def _parts(persistent: bool = True, **buffers: torch.Tensor) -> nn.Module:
    """Return a module with nothing in it but the given buffers."""
    module = nn.Module()
    for name, tensor in buffers.items():
        module.register_buffer(name, tensor, persistent)
    return module


def _expect_device(trial, model: nn.Module, wanted: torch.device, headline: str) -> None:
    try:
        verbs.answers(trial, model, wanted=wanted, why=f"{headline}, the answer is {{got}}")
    except AnswerRaised as raised:
        if not isinstance(raised.error, ValueError):
            raise
        expect.fail(headline, f'device("{wanted}")', f'ValueError: "{raised.error}"')


def _expect_refusal(trial, model: nn.Module) -> None:
    """Expect a ValueError whose text names two of the model's devices and a tensor on each."""
    parameters = dict(model.named_parameters())
    tensors = parameters or dict(model.named_buffers())
    names: dict[torch.device, list[str]] = {}
    for name, tensor in tensors.items():
        names.setdefault(tensor.device, []).append(name)
    places, what = " and ".join(map(str, names)), "parameters" if parameters else "buffers"
    asked = f"a ValueError that names two devices and a tensor on each, such as {next(iter(tensors))}"
    nothing = f"the model's {what} are on {places}, and nothing was raised"
    without = "" if parameters else " and no parameters"
    other = f"{{other}} was raised, not a {{kind}}, for a model with {what}{without} on {places}"
    text = str(verbs.raises(trial, model, kind=ValueError, asked=asked, nothing=nothing, other=other))
    said = f'ValueError: "{text}"'
    named = [device for device in names if str(device) in text or repr(device) in text]
    expect.that(len(named) > 1, "the error does not name the two devices", asked, said)
    here = [device for device, own in names.items() if any(name in text for name in own)]
    expect.that(len(here) > 1, "the error does not name a tensor on each device", asked, said)
    for name, tensor in tensors.items():
        for device in names.keys() - {tensor.device}:
            claim = rf"(?<![\w.]){re.escape(f'{name} is on {device}')}(?![\w:])"
            headline = f"the error puts `{name}` on {device}, and it is on {tensor.device}"
            expect.that(not re.search(claim, text), headline, asked, said)


@model_device.row("the device of the parameters")
def device_of_parameters(trial):
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Sequential(nn.Linear(2, 1))).to(trial.device)
    _expect_device(trial, model, trial.device, f"all parameters are on {trial.device}")
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    _expect_device(trial, model, trial.device, f"all parameters, frozen ones too, are on {trial.device}")
    model = cases.module(scale=nn.Parameter(trial.randn(2)), plain=torch.ones(2))
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
    model = nn.Sequential(nn.PReLU().to(here), nn.PReLU().to(there).requires_grad_(False))
    _expect_refusal(trial, model)
    mixed = _parts(left_table=torch.ones(2).to(here), right_table=torch.ones(2).to(there))
    _expect_refusal(trial, mixed)
    trial.second()


@model_device.row("without parameters, the buffers' device")
def device_of_buffers(trial):
    model = nn.Sequential(nn.ReLU(), _parts(table=trial.randn(3), count=trial.randint(0, 5, ())))
    _expect_device(trial, model, trial.device, f"there are only buffers, on {trial.device}")
    unsaved = _parts(persistent=False, table=trial.randint(0, 5, (3,)))
    _expect_device(
        trial, unsaved, trial.device, f"there is only a buffer that is not saved, on {trial.device}"
    )
    if trial.others:
        mixed = norm().to(trial.others[-1])
        mixed.weight, mixed.steps = nn.Parameter(trial.randn(3)), mixed.steps.to(trial.device)
        words = f"the parameter is on {trial.device}; buffers count only where there is none"
        _expect_device(trial, mixed, trial.device, words)
        both = nn.Sequential(_parts(table=trial.randn(2)), unsaved.to(trial.others[-1]))
        _expect_refusal(trial, both)


@model_device.row("with neither, the CPU")
def device_of_nothing(trial):
    cpu = torch.device("cpu")
    for model in (nn.ReLU(), nn.Sequential(nn.Flatten(), nn.Tanh()), cases.module(plain=trial.randn(2))):
        _expect_device(trial, model, cpu, "there is no parameter and no buffer: the answer is the CPU")
