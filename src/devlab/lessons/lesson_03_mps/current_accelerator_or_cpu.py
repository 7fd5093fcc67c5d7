"""The accelerator that is here, whatever its kind, else the CPU."""

import torch

from devlab.lessons.lesson_03_mps import (
    BUILT_FOR_CUDA,
    BUILT_FOR_MPS,
    GPU,
    GPUS,
    INTEL,
    MAC,
    NOTHING,
    expect_as_it_is,
    expect_kind,
    expect_now,
    lesson,
)

current_accelerator_or_cpu = lesson.exercise(
    "current_accelerator_or_cpu",
    signature="current_accelerator_or_cpu()",
    facts=("I6", "I4"),
    hints=(
        "`torch.accelerator` knows which kind of accelerator there is, whatever its name. Ask it one "
        "question, and return the CPU where the answer is no.",
        "`torch.accelerator.current_accelerator()` names what PyTorch was *built* for, or is None. Whether "
        "an accelerator is here, `torch.accelerator.is_available()` says, or the argument "
        "`check_available=True`.",
        "Write `if torch.accelerator.is_available(): return torch.accelerator.current_accelerator()`, and "
        "after "
        'it `return torch.device("cpu")`.',
    ),
)


@current_accelerator_or_cpu.row("the accelerator that is here")
def accelerator_here(trial):
    expect_kind(trial, GPU, "with an NVIDIA GPU", "cuda")
    expect_kind(trial, GPUS | {"current": 1}, "with three NVIDIA GPUs", "cuda")
    expect_kind(trial, MAC, "on a Mac with MPS", "mps")


@current_accelerator_or_cpu.row("whatever its kind")
def of_any_kind(trial):
    expect_kind(trial, INTEL, "with an Intel GPU, which PyTorch calls xpu", "xpu")


@current_accelerator_or_cpu.row("none at all: the CPU")
def no_accelerator(trial):
    expect_kind(trial, NOTHING, "where there is no accelerator", "cpu")


@current_accelerator_or_cpu.row("built for one that is not here: the CPU")
def built_for_it(trial):
    for machine, kind in ((BUILT_FOR_CUDA, "CUDA"), (BUILT_FOR_MPS, "MPS")):
        expect_kind(trial, machine, f"where PyTorch is built for {kind}, which is not available", "cpu")


@current_accelerator_or_cpu.row("asks anew at every call")
def accelerator_anew(trial):
    for machine, wanted in ((NOTHING, "cpu"), (MAC, "mps"), (INTEL, "xpu"), (GPU, "cuda"), (NOTHING, "cpu")):
        expect_now(trial, machine, wanted)


@current_accelerator_or_cpu.row("right for this machine as it is")
def accelerator_as_it_is(trial):
    here = torch.accelerator.is_available()
    wanted = torch.accelerator.current_accelerator().type if here else "cpu"
    expect_as_it_is(trial, wanted, f"this machine's accelerator is {wanted}")
