"""Lesson 03: MPS and other accelerators: one program for all of them, and what some of them lack."""

import torch

from devlab.checks import expect, pretend
from devlab.checks.exercise import Lesson
from devlab.checks.verbs import aside

lesson = Lesson(
    "03_mps",
    "MPS and other accelerators",
    ("current_accelerator_or_cpu", "choose_device", "supported_dtype", "with_fallback", "portable_randn"),
)

# Machines to pretend: the arguments of `pretend.machine`.
NOTHING = {"names": (), "built": False}
GPU = {"names": ("NVIDIA RTX A2000",)}
GPUS = {"names": ("NVIDIA H100 PCIe", "NVIDIA L4", "NVIDIA L4")}
MAC = {"names": (), "built": False, "other": "mps"}
INTEL = {"names": (), "built": False, "other": "xpu"}
BUILT_FOR_CUDA = {"names": (), "built": True}
BUILT_FOR_MPS = {"names": (), "built": False, "idle": "mps"}


def ask_for_device(trial, machine: dict) -> torch.device:
    """Call the answer on a pretended machine, expect a torch.device of it, and return that."""
    got = call_on(trial, machine)
    if got is None:
        with aside(trial):
            elsewhere = call_on(trial, NOTHING if machine["names"] or "other" in machine else GPU)
        if elsewhere is not None:
            expect.fail(f"{trial.situation} the answer is None", "a torch.device on every machine", "None")
    expect.kind(got, torch.device, "a torch.device", "the answer")
    return got


def call_on(trial, machine: dict) -> object:
    with pretend.machine(trial, **machine):
        return trial.call()


def expect_kind(trial, machine: dict, situation: str, wanted: str) -> None:
    """Expect a kind of device; an index may be missing, but must be of a device that is there."""
    got = ask_for_device(trial, machine)
    if got.type == wanted and (got.index or 0) < max(len(machine["names"]), 1):
        return
    if got.type != wanted:
        with aside(trial):  # on machines that have nothing in common
            others = [call_on(trial, other) for other in (NOTHING, MAC, GPU, INTEL)]
        if all(isinstance(other, torch.device) and other.type == got.type for other in others):
            said = f"the answer is {got} on every machine, as if it were decided once or not asked at all"
            asked = f"{wanted} here; questions such as `torch.cuda.is_available()` need their parentheses"
            expect.fail(said, asked, got)
    expect.fail(f"{situation} (pretended), the answer is {got}", wanted, got)


def expect_now(trial, machine: dict, wanted: str) -> None:
    """Expect a kind of device after calls on other machines, whose answers must not have been kept."""
    got = ask_for_device(trial, machine)
    here = "nothing but the CPU" if wanted == "cpu" else wanted
    said = f"{here} is available now (pretended), and the answer is {got}, as at an earlier call"
    expect.that(got.type == wanted, said, f"{wanted}, asked at every call", got)


def expect_as_it_is(trial, wanted: str, why: str) -> None:
    """Expect the kind of device that this machine really has; `why` begins the headline."""
    got = trial.call()
    expect.kind(got, torch.device, "a torch.device", "the answer")
    expect.that(got.type == wanted, f"{why}, and the answer is {got}", wanted, got)
