"""A ladder of devices: CUDA, MPS, the CPU."""

import torch

from devlab.lessons import lesson_03_mps as kit
from devlab.lessons.lesson_03_mps import lesson

choose_device = lesson.exercise(
    "choose_device()",
    ("I1", "I2", "I5"),
    "A ladder is a row of questions, and the first yes decides: CUDA, then MPS, and below them the CPU, "
    "about which you need not ask. Ask inside the function.",
    "The questions are `torch.cuda.is_available()` and `torch.backends.mps.is_available()`, both with their "
    "parentheses. `is_built` speaks of the package and not of the machine.",
    'Write `if …is_available(): return torch.device("…")` twice, first for "cuda" and then for "mps", and at '
    'the end `return torch.device("cpu")`.',
)


@choose_device.row("CUDA where it is available")
def cuda_first(trial):
    kit.expect_kind(trial, kit.GPU, "with an NVIDIA GPU", "cuda")
    kit.expect_kind(trial, kit.GPUS | {"current": 2}, "with three NVIDIA GPUs", "cuda")
    kit.expect_kind(trial, kit.GPU | {"other": "mps"}, "where both CUDA and MPS are available", "cuda")


@choose_device.row("else MPS where it is available")
def mps_second(trial):
    kit.expect_kind(trial, kit.MAC, "on a Mac with MPS", "mps")
    kit.expect_kind(trial, kit.MAC | {"built": True}, "with MPS, and a PyTorch that knows CUDA too", "mps")


@choose_device.row("else the CPU")
def cpu_last(trial):
    kit.expect_kind(trial, kit.NOTHING, "where there is no accelerator", "cpu")
    kit.expect_kind(trial, kit.BUILT_FOR_MPS, "where PyTorch is built for MPS, which is not available", "cpu")
    kit.expect_kind(
        trial, kit.BUILT_FOR_CUDA, "where PyTorch is built for CUDA, which is not available", "cpu"
    )
    kit.expect_kind(trial, kit.INTEL, "where the accelerator is xpu, which is not on this ladder", "cpu")


@choose_device.row("asks anew at every call")
def choose_anew(trial):
    for machine, wanted in (
        (kit.NOTHING, "cpu"),
        (kit.MAC, "mps"),
        (kit.GPU, "cuda"),
        (kit.MAC, "mps"),
        (kit.NOTHING, "cpu"),
    ):
        kit.expect_now(trial, machine, wanted)


@choose_device.row("right for this machine as it is")
def choose_here(trial):
    wanted = "cpu"
    if torch.cuda.is_available():
        wanted = "cuda"
    elif torch.backends.mps.is_available():
        wanted = "mps"
    kit.expect_as_it_is(trial, wanted, f"the ladder leads to {wanted} on this machine")
