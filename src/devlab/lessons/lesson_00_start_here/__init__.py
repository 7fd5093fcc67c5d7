"""Lesson 00: where a tensor lives, and how to ask."""

import torch

from devlab.checks import expect, verbs
from devlab.checks.exercise import Lesson

lesson = Lesson("00_start_here", "Start here", ("device_of", "same_place"))

device_of = lesson.exercise(
    "device_of",
    signature="device_of(x)",
    facts=("D1",),
    hints=(
        "A tensor carries its place with it, next to `x.shape` and `x.dtype`.",
        'The attribute is a `torch.device` already; turning it into text throws away what `"sim"` and '
        '`"sim:0"` have in common.',
        "The whole body is `return x.device`.",
    ),
)


DTYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16)


def _all_kinds(trial) -> dict[str, torch.Tensor]:
    x = trial.randn(5, 3)
    return {
        "a matrix": x,
        "integers": x.long(),
        **{f"a tensor of {dtype}": x.to(dtype) for dtype in DTYPES},
        "an expanded tensor": x[:1].expand(7, 3),
        "a tensor of many dimensions": x[None, None, :, None],
        "a result in a graph": x.clone().requires_grad_() * 2,
        "a single number": x.sum(),
        "an empty tensor": x[:0],
        "a tensor of nothing": torch.empty(0, device=trial.device),
        "a view": x.t()[1:],
        "a parameter": torch.nn.Parameter(x),
    }


def _expect_device(trial, x: torch.Tensor, wanted: torch.device, words: str) -> None:
    got = trial.call(x)
    expect.kind(got, torch.device, "a torch.device", "the answer")
    if got.type == wanted.type and got.index is None and wanted.index is not None:
        expect.fail(f"the answer is {got}, without its index", f'device("{wanted}")', got)
    expect.equal(got, wanted, f"{words} is on {wanted}, and the answer is {got}")


@device_of.row("answers with a torch.device")
def answers_with_a_device(trial):
    expect.kind(trial.call(trial.randn(5, 3)), torch.device, "a torch.device", "the answer")


@device_of.row("is right for every kind of tensor")
def right_for_every_kind(trial):
    for words, x in _all_kinds(trial).items():
        _expect_device(trial, x, trial.device, words)


@device_of.row("is right for a tensor from elsewhere")
def right_elsewhere(trial):
    moved = trial.randn(2, 7, on=trial.other())
    _expect_device(trial, moved, trial.other(), "a tensor of another device")


same_place = lesson.exercise(
    "same_place",
    signature="same_place(a, b)",
    facts=("D1", "D3"),
    hints=(
        "Write a small helper first that turns a tensor, a device or a name into one `torch.device`; then "
        "compare two of those. `torch.device(x)` accepts a name and a device alike.",
        'A bare name has no index: `torch.device("sim") == torch.device("sim:0")` is False. PyTorch fills '
        "the index in when it makes a tensor there.",
        "An empty tensor costs nothing and knows its full address: `torch.empty(0, device=name).device`. "
        "For the CPU compare the types alone, it has only one memory.",
    ),
)


def _expect_answer(trial, a, b, wanted: bool, why: str):
    got = trial.call(a, b)
    expect.kind(got, bool, "a bool", "the answer")
    expect.equal(got, wanted, why)


@same_place.row("two tensors on one device")
def tensors_together(trial):
    x = trial.randn(4, 3)
    for y in (trial.randn(7), x.long(), x.sum(), x[:0]):
        _expect_answer(trial, x, y, True, "shapes and dtypes differ, but the place is the same")


@same_place.row("two tensors on different devices")
def tensors_apart(trial):
    x = trial.randn(4, 3)
    for other in (*trial.others, trial.other()):
        for y in (trial.randn(4, 3, on=other), trial.randn(1, on=other).sum()):
            _expect_answer(trial, x, y, False, f"{trial.device} and {other} are two places")


@same_place.row("devices and names, alone or mixed")
def devices_and_names(trial):
    device, other = trial.device, trial.other()
    for same in (device, str(device)):
        _expect_answer(trial, trial.randn(2), same, True, "a tensor is at its own device's address")
        _expect_answer(trial, same, trial.randn(2), True, "a tensor is at its own device's address")
    _expect_answer(trial, str(device), other, False, f"{device} and {other} are two places")
    _expect_answer(trial, str(other), trial.randn(2), False, f"{device} and {other} are two places")
    for default in (device, *trial.others)[-1:]:  # a default that the learner has set stays what it is
        verbs.kept(trial, trial.randn(2), str(device), device=default)
        verbs.kept(trial, trial.randn(2), device.type, device=default)


@same_place.row("a bare name means the current device")
def bare_names(trial):
    bare = trial.device.type
    with verbs.current(trial.device):
        for other in (trial.device, *trial.others):
            is_current = other == trial.device
            why = f'"{bare}" means {trial.device} while that is the current device'
            _expect_answer(trial, trial.randn(2, on=other), bare, is_current, why)
            _expect_answer(trial, bare, other, is_current, why)
            _expect_answer(trial, other, torch.device(bare), is_current, why)


@same_place.row("the CPU is one place, with index or without")
def one_cpu(trial):
    x = trial.randn(2, on=torch.device("cpu"))
    for current in (trial.device, *trial.others):  # the CPU has one memory, whichever accelerator is current
        with verbs.current(current):
            for name in ("cpu:0", torch.device("cpu", 0)):
                _expect_answer(trial, name, x, True, '"cpu" and "cpu:0" are one place')
                _expect_answer(trial, "cpu", name, True, '"cpu" and "cpu:0" are one place')
