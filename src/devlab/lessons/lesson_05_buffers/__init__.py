"""Lesson 05: models and buffers, and helpers made from their input."""

import torch
from torch import nn

from devlab.checks import cases, expect
from devlab.checks.exercise import Lesson
from devlab.checks.probes import Built

lesson = Lesson(
    "05_buffers",
    "Models and buffers",
    (
        "CausalMask",
        "RunningMean",
        "SinusoidalPositions",
        "mask_like",
        "add_noise",
        "append_ones",
        "left_behind",
        "model_device",
    ),
)


def expect_moves(made: Built, name: str, x: torch.Tensor, what: str) -> None:
    """Expect forward to give the same before a move of the model and after two, and to move nothing itself.

    Another row judges whether the result is right. A batch must leave nothing behind on its device that
    makes a later batch on another device fail.
    """
    home, elsewhere = x.device, made.trial.other()
    made.to(home).require_on(home, name)
    before = made.copy_result(x, what)
    for device in (elsewhere, home):
        made.to(device).require_on(device, name)
        expect.tensor(made(x.to(device)), before, device, f"{what} after a move")
    made.require_stays(name, x.to(elsewhere))


def norm() -> nn.Module:
    """Return a module with one parameter and two kinds of buffers, on the CPU."""
    module = cases.module(weight=nn.Parameter(torch.ones(3)))
    module.register_buffer("mean", torch.zeros(3))
    module.register_buffer("steps", torch.arange(4), persistent=False)
    return module
