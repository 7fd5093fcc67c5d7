"""Which device to work with: asked on machines that are pretended."""

import torch

from devlab.checks import expect, pretend
from devlab.lessons.lesson_03_mps import lesson

ONE = ("NVIDIA RTX A2000",)
THREE = ("NVIDIA H100 PCIe", "NVIDIA L4", "NVIDIA L4")

NOTHING = {"names": (), "built": False}
GPU = {"names": ONE}
MAC = {"names": (), "built": False, "other": "mps"}
INTEL = {"names": (), "built": False, "other": "xpu"}
BOTH = {"names": ONE, "other": "mps"}
BUILT_FOR_CUDA = {"names": (), "built": True}
BUILT_FOR_MPS = {"names": (), "built": False, "idle": "mps"}

choose_device = lesson.exercise(
    "choose_device",
    signature="choose_device()",
    facts=("I1", "I2", "I5"),
    hints=(
        "A ladder is a row of questions, and the first yes decides: CUDA, then MPS, and below them the CPU, "
        "which needs no question. Ask inside of the function.",
        "`torch.cuda.is_available()` and `torch.backends.mps.is_available()`, both with their brackets. "
        "`is_built` speaks of the package and not of the machine.",
        'Two times `if …is_available(): return torch.device("…")`, first "cuda" and then "mps", and at the '
        'end `return torch.device("cpu")`.',
    ),
)


def _answer(trial, machine: dict) -> torch.device:
    got = _called(trial, machine)
    if got is None:
        seen = trial.last_call, trial.situation
        elsewhere = _called(trial, NOTHING if machine["names"] or "other" in machine else GPU)
        trial.last_call, trial.situation = seen  # the verdict is about the call that was wrong
        if elsewhere is not None:
            expect.fail(f"{trial.situation} the answer is None", "a torch.device on every machine", "None")
    expect.kind(got, torch.device, "a torch.device", "the answer")
    return got


def _called(trial, machine: dict) -> object:
    with pretend.machine(trial, **machine):
        return trial.call()


def _expect(trial, machine: dict, situation: str, wanted: str) -> None:
    """Expect a kind of device, with an index that is there or without one."""
    got = _answer(trial, machine)
    count = max(len(machine["names"]), 1)
    if got.type != wanted:
        _refuse_one_answer_for_all(trial, got, wanted)
    if got.type != wanted or (got.index or 0) >= count:
        expect.fail(f"{situation} (pretended), the answer is {got}", wanted, got)


def _refuse_one_answer_for_all(trial, got: torch.device, wanted: str) -> None:
    """Say so where the answer is the same on machines that have nothing in common."""
    seen = trial.last_call, trial.situation
    others = [_called(trial, machine) for machine in (NOTHING, MAC, GPU, INTEL)]
    trial.last_call, trial.situation = seen  # the verdict is about the call that was wrong
    if all(isinstance(other, torch.device) and other.type == got.type for other in others):
        said = f"the answer is {got} on every machine, as if it were decided once or not asked at all"
        asked = f"{wanted} here; questions such as `torch.cuda.is_available()` need their parentheses"
        expect.fail(said, asked, got)


@choose_device.row("CUDA where it is available")
def cuda_first(trial):
    _expect(trial, GPU, "with an NVIDIA GPU", "cuda")
    _expect(trial, GPU | {"names": THREE, "current": 2}, "with three NVIDIA GPUs", "cuda")
    _expect(trial, BOTH, "where both CUDA and MPS are available", "cuda")


@choose_device.row("else MPS where it is available")
def mps_second(trial):
    _expect(trial, MAC, "on a Mac with MPS", "mps")
    _expect(trial, MAC | {"built": True}, "with MPS, and a PyTorch that knows CUDA too", "mps")


@choose_device.row("else the CPU")
def cpu_last(trial):
    _expect(trial, NOTHING, "where there is no accelerator", "cpu")
    _expect(trial, BUILT_FOR_MPS, "where PyTorch is built for MPS, which is not available", "cpu")
    _expect(trial, BUILT_FOR_CUDA, "where PyTorch is built for CUDA, which is not available", "cpu")
    _expect(trial, INTEL, "where the accelerator is xpu, which is not on this ladder", "cpu")


@choose_device.row("asks anew at every call")
def choose_anew(trial):
    for machine, wanted in ((NOTHING, "cpu"), (MAC, "mps"), (GPU, "cuda"), (MAC, "mps"), (NOTHING, "cpu")):
        _expect_now(trial, machine, wanted)


def _expect_now(trial, machine: dict, wanted: str) -> None:
    got = _answer(trial, machine)
    if got.type != wanted:
        here = "nothing but the CPU" if wanted == "cpu" else wanted
        said = f"{here} is available now (pretended), and the answer is {got}, as at an earlier call"
        expect.fail(said, f"{wanted}, asked at every call", got)


@choose_device.row("right for this machine as it is")
def choose_here(trial):
    wanted = "cpu"
    if torch.cuda.is_available():
        wanted = "cuda"
    elif torch.backends.mps.is_available():
        wanted = "mps"
    got = trial.call()
    expect.kind(got, torch.device, "a torch.device", "the answer")
    if got.type != wanted:
        expect.fail(f"the ladder leads to {wanted} on this machine, the answer is {got}", wanted, got)


current_accelerator_or_cpu = lesson.exercise(
    "current_accelerator_or_cpu",
    signature="current_accelerator_or_cpu()",
    facts=("I6", "I4"),
    hints=(
        "`torch.accelerator` knows which kind of accelerator there is, whatever its name. You ask one "
        "question, and give the CPU where the answer is no.",
        "`torch.accelerator.current_accelerator()` names what PyTorch was *built* for, or None. "
        "Whether one is here: `torch.accelerator.is_available()`, or the argument `check_available=True`.",
        "`if torch.accelerator.is_available(): return torch.accelerator.current_accelerator()`, and after it "
        '`return torch.device("cpu")`.',
    ),
)


@current_accelerator_or_cpu.row("the accelerator that is here")
def accelerator_here(trial):
    _expect(trial, GPU, "with an NVIDIA GPU", "cuda")
    _expect(trial, GPU | {"names": THREE, "current": 1}, "with three NVIDIA GPUs", "cuda")
    _expect(trial, MAC, "on a Mac with MPS", "mps")


@current_accelerator_or_cpu.row("whatever its kind")
def of_any_kind(trial):
    _expect(trial, INTEL, "with an Intel GPU, which PyTorch calls xpu", "xpu")


@current_accelerator_or_cpu.row("none at all: the CPU")
def no_accelerator(trial):
    _expect(trial, NOTHING, "where there is no accelerator", "cpu")


@current_accelerator_or_cpu.row("built for one that is not here: the CPU")
def built_for_it(trial):
    for machine, kind in ((BUILT_FOR_CUDA, "CUDA"), (BUILT_FOR_MPS, "MPS")):
        _expect(trial, machine, f"where PyTorch is built for {kind}, which is not available", "cpu")


@current_accelerator_or_cpu.row("asks anew at every call")
def accelerator_anew(trial):
    for machine, wanted in ((NOTHING, "cpu"), (MAC, "mps"), (INTEL, "xpu"), (GPU, "cuda"), (NOTHING, "cpu")):
        _expect_now(trial, machine, wanted)


@current_accelerator_or_cpu.row("right for this machine as it is")
def accelerator_as_it_is(trial):
    wanted = "cpu"
    if torch.accelerator.is_available():
        wanted = torch.accelerator.current_accelerator().type
    got = trial.call()
    expect.kind(got, torch.device, "a torch.device", "the answer")
    if got.type != wanted:
        expect.fail(f"this machine's accelerator is {wanted}, the answer is {got}", wanted, got)
