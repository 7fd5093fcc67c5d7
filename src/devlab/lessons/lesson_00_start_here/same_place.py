"""Whether tensors, devices and names mean one place."""

import torch

from devlab.checks import expect
from devlab.checks.verbs import answers, current, kept
from devlab.lessons.lesson_00_start_here import lesson

same_place = lesson.exercise(
    "same_place(a, b)",
    ("D1", "D3"),
    "Begin with a small helper that turns a tensor, a device or a name into one `torch.device`. Then compare "
    "two of those. `torch.device(x)` accepts a name as well as a device.",
    'A bare name has no index: `torch.device("sim") == torch.device("sim:0")` is False. PyTorch fills the '
    "index in when it makes a tensor there.",
    "An empty tensor costs nothing and knows its full address: `torch.empty(0, device=name).device`. For the "
    "CPU, which has only one memory, compare the types alone.",
)


@same_place.row("two tensors on one device")
def tensors_together(trial):
    x = trial.randn(4, 3)
    for y in (trial.randn(7), x.long(), x.sum(), x[:0], torch.nn.Parameter(x.clone())):
        answers(trial, x, y, wanted=True, why="shapes and dtypes differ, but the place is the same")


@same_place.row("two tensors on different devices")
def tensors_apart(trial):
    x = trial.randn(4, 3)
    for other in trial.others:
        for y in (trial.randn(4, 3, on=other), trial.randn(1, on=other).sum()):
            answers(trial, x, y, wanted=False, why=f"{trial.device} and {other} are two places")
    trial.second()


@same_place.row("devices and names, alone or mixed")
def devices_and_names(trial):
    device, other, x = trial.device, trial.other(), trial.randn(2)
    for same in (device, str(device)):
        for pair in ((x, same), (same, x)):
            answers(trial, *pair, wanted=True, why="a tensor is at its own device's address")
    for pair in ((str(device), other), (str(other), x)):
        answers(trial, *pair, wanted=False, why=f"{device} and {other} are two places")
    for default in (device, other):  # a default that the learner has set stays what it is
        for name in (str(device), device.type):
            kept(trial, x, name, device=default)


@same_place.row("a bare name means the current device")
def bare_names(trial):
    bare = trial.device.type
    with current(trial.device):
        why = f'"{bare}" means {trial.device} while that is the current device'
        for other in (trial.device, *trial.others):
            for named in (trial.randn(2, on=other), other, str(other)):
                for pair in ((named, bare), (bare, named), (named, torch.device(bare))):
                    answers(trial, *pair, wanted=other == trial.device, why=why)
            pair = (torch.device(bare), trial.randn(2, on=other))
            answers(trial, *pair, wanted=other == trial.device, why=why)
        answers(trial, torch.device(bare), bare, wanted=True, why=why)
        got = kept(trial, trial.randn(2), bare, device=(trial.device, *trial.others)[-1])
        said = f'"{bare}" means {trial.device}, the current device, whatever the default device is'
        expect.equal(got, True, said)
    trial.second()


@same_place.row("the CPU is one place, with index or without")
def one_cpu(trial):
    x = trial.randn(2, on=torch.device("cpu"))
    for device in (trial.device, *trial.others):  # the CPU has one memory, whichever accelerator is current
        with current(device):
            for name in ("cpu:0", torch.device("cpu", 0)):
                for pair in ((name, x), ("cpu", name)):
                    answers(trial, *pair, wanted=True, why='"cpu" and "cpu:0" are one place')
    trial.second()
