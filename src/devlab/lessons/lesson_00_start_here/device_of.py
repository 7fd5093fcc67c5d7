"""The device that a tensor is on."""

import torch

from devlab.checks import cases, expect, verbs
from devlab.lessons.lesson_00_start_here import lesson

device_of = lesson.exercise(
    "device_of(x)",
    ("D1",),
    "A tensor carries its address with it, next to `x.shape` and `x.dtype`.",
    "That attribute is a `torch.device` already. The task asks for it as it is, and not for its text.",
    "The whole body is `return x.device`.",
)

DTYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16)
DTYPES += (torch.complex64,)


def _expect_device(trial, x: torch.Tensor, wanted: torch.device, words: str) -> None:
    verbs.answers(trial, x, wanted=wanted, why=f"{words} is on {wanted}, and the answer is {{got}}")


@device_of.row("answers with a torch.device")
def answers_with_a_device(trial):
    expect.kind(trial.call(trial.randn(5, 3)), torch.device, "a torch.device", "the answer")


@device_of.row("is right for every kind of tensor")
def right_for_every_kind(trial):
    x = trial.randn(5, 3)
    kinds = {"a matrix": x, "integers": x.long(), "a tensor of many dimensions": x[None, None, :, None]}
    kinds |= {f"a tensor of {dtype}": x.to(dtype) for dtype in (*DTYPES, *cases.rare(trial.device))}
    kinds |= cases.views(x) | cases.kinds(x) | {"a tensor of nothing": torch.empty(0, device=trial.device)}
    for words, one in kinds.items():
        _expect_device(trial, one, trial.device, words)


@device_of.row("is right for a tensor from elsewhere")
def right_elsewhere(trial):
    moved = trial.randn(2, 7, on=trial.other())
    _expect_device(trial, moved, trial.other(), "a tensor of another device")
