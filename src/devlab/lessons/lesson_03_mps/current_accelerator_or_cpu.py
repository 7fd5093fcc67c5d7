"""The accelerator that is here, whatever its kind, else the CPU."""

import torch

from devlab.lessons import lesson_03_mps as kit
from devlab.lessons.lesson_03_mps import lesson

current_accelerator_or_cpu = lesson.exercise(
    "current_accelerator_or_cpu()",
    ("I6", "I4"),
    "`torch.accelerator` knows which kind of accelerator there is, whatever its name. Ask it one question, "
    "and return the CPU where the answer is no.",
    "`torch.accelerator.current_accelerator()` names what PyTorch was *built* for, or is None. To find out "
    "whether that accelerator is here, ask `torch.accelerator.is_available()`, or pass "
    "`check_available=True`.",
    "Write `if torch.accelerator.is_available(): return torch.accelerator.current_accelerator()`, and after "
    'it `return torch.device("cpu")`.',
)


@current_accelerator_or_cpu.row("the accelerator that is here")
def accelerator_here(trial):
    kit.expect_kind(trial, kit.GPU, "with an NVIDIA GPU", "cuda")
    kit.expect_kind(trial, kit.GPUS | {"current": 1}, "with three NVIDIA GPUs", "cuda")
    kit.expect_kind(trial, kit.MAC, "on a Mac with MPS", "mps")


@current_accelerator_or_cpu.row("whatever its kind")
def of_any_kind(trial):
    kit.expect_kind(trial, kit.INTEL, "with an Intel GPU, which PyTorch calls xpu", "xpu")


@current_accelerator_or_cpu.row("none at all: the CPU")
def no_accelerator(trial):
    kit.expect_kind(trial, kit.NOTHING, "where there is no accelerator", "cpu")


@current_accelerator_or_cpu.row("built for one that is not here: the CPU")
def built_for_it(trial):
    for machine, kind in ((kit.BUILT_FOR_CUDA, "CUDA"), (kit.BUILT_FOR_MPS, "MPS")):
        kit.expect_kind(trial, machine, f"where PyTorch is built for {kind}, which is not available", "cpu")


@current_accelerator_or_cpu.row("asks anew at every call")
def accelerator_anew(trial):
    for machine, wanted in (
        (kit.NOTHING, "cpu"),
        (kit.MAC, "mps"),
        (kit.INTEL, "xpu"),
        (kit.GPU, "cuda"),
        (kit.NOTHING, "cpu"),
    ):
        kit.expect_now(trial, machine, wanted)


@current_accelerator_or_cpu.row("right for this machine as it is")
def accelerator_as_it_is(trial):
    here = torch.accelerator.is_available()
    wanted = torch.accelerator.current_accelerator().type if here else "cpu"
    kit.expect_as_it_is(trial, wanted, f"this machine's accelerator is {wanted}")
