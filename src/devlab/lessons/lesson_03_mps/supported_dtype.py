"""What to use in place of a dtype that an accelerator lacks."""

import torch

from devlab.checks.cases import holds
from devlab.checks.verbs import answers
from devlab.lacking import apples_rules
from devlab.lessons.lesson_03_mps import lesson

supported_dtype = lesson.exercise(
    "supported_dtype(dtype, device)",
    ("I3",),
    "Only float64 is in question, and every other dtype goes straight back. Whether a device has float64, "
    "the device itself knows best.",
    "`torch.ones(1, dtype=torch.float64, device=device).add(1)` makes one element and computes with it. "
    "Where there is no float64, one of the two raises a TypeError or a RuntimeError. A list of names would "
    "be wrong for the next accelerator.",
    "Where dtype is float64, `try:` that line and return `dtype`, and under `except (TypeError, "
    "RuntimeError):` return `torch.float32`.",
)

OTHERS = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)
OTHERS += (torch.int16, torch.int8)


def _expect_dtype(trial, dtype: torch.dtype, device: torch.device, wanted: torch.dtype, why: str) -> None:
    answers(trial, dtype, device, wanted=wanted, why=f"{why}, and the answer is {{got}}")


@supported_dtype.row("float64 stays where the device has it")
def float64_stays(trial):
    # MPS has no float64, so on a Mac this row asks about the CPU.
    device = trial.device if holds(trial.device, torch.float64) else torch.device("cpu")
    _expect_dtype(trial, torch.float64, device, torch.float64, f"{device} has float64")


@supported_dtype.row("float64 becomes float32 under Apple's rules", only="first accelerator")
def float64_falls(trial):
    with apples_rules(trial.device):
        why = f"{trial.device} follows Apple's rules here and has no float64"
        _expect_dtype(trial, torch.float64, trial.device, torch.float32, why)
        _expect_dtype(trial, torch.float64, torch.device("cpu"), torch.float64, "the CPU has float64")
    if holds(trial.device, torch.float64):
        why = f"{trial.device} follows its own rules again and has float64"
        _expect_dtype(trial, torch.float64, trial.device, torch.float64, why)


@supported_dtype.row("every other dtype stays")
def others_stay(trial):
    for dtype in OTHERS:
        _expect_dtype(trial, dtype, trial.device, dtype, f"{trial.device} has {dtype}")
    cpu = torch.device("cpu")
    for dtype in (torch.float8_e5m2, torch.int16, torch.complex64, torch.complex128):
        _expect_dtype(trial, dtype, cpu, dtype, f"the CPU has {dtype}")


@supported_dtype.row("also under Apple's rules", only="first accelerator")
def others_stay_there(trial):
    with apples_rules(trial.device):
        for dtype in OTHERS:
            _expect_dtype(trial, dtype, trial.device, dtype, f"{dtype} exists under Apple's rules")
