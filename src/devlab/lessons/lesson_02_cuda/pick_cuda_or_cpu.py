"""CUDA where it is available, else the CPU: asked on machines that are pretended."""

import torch

from devlab.checks import expect, pretend
from devlab.checks.verbs import aside
from devlab.lessons.lesson_02_cuda import ONE, THREE, lesson

WITH, WITHOUT = "with one GPU", "without a GPU"

pick_cuda_or_cpu = lesson.exercise(
    "pick_cuda_or_cpu()",
    ("G1", "G4", "A1"),
    "There is one question to ask, and there are two devices to return. Ask inside the function, so that the "
    "question is asked at every call.",
    "The question is `torch.cuda.is_available()`. Without its parentheses it is a function, and a function "
    "counts as true. Both answers are a `torch.device`.",
    'The whole body is `return torch.device("cuda" if torch.cuda.is_available() else "cpu")`.',
)


def _pick(trial, gpus: tuple[str, ...], **options) -> torch.device:
    with pretend.machine(trial, gpus, **options):
        got = trial.call()
    expect.kind(got, torch.device, "a torch.device", "the answer")
    return got


def _expect_pick(trial, gpus: tuple[str, ...], situation: str, **options) -> None:
    """Expect the right answer; in a plain situation, say so where the answer never asks the machine."""
    got = _pick(trial, gpus, **options)
    wanted = "cuda" if gpus else "cpu"
    if got.type == wanted and (got.index or 0) < max(len(gpus), 1):
        return
    asked = f"{wanted}, as `torch.cuda.is_available()`, with its parentheses, says at each call"
    if got.type != wanted and situation in (WITH, WITHOUT):
        with aside(trial):
            opposite = _pick(trial, (), built=False) if gpus else _pick(trial, ONE)
        expect.that(opposite.type != got.type, f"the answer is {got} with a GPU and without one", asked, got)
    expect.fail(f"{situation} (pretended), the answer is {got}", asked, got)


@pick_cuda_or_cpu.row("CUDA where it is available")
def cuda_where_available(trial):
    _expect_pick(trial, ONE, WITH)
    _expect_pick(trial, THREE, "with three GPUs", current=1)


@pick_cuda_or_cpu.row("the CPU where it is not")
def cpu_elsewhere(trial):
    _expect_pick(trial, (), WITHOUT, built=False)


@pick_cuda_or_cpu.row("asks anew at every call")
def asks_at_every_call(trial):
    for gpus in ((), ONE, (), THREE):
        got = _pick(trial, gpus, built=bool(gpus))
        wanted = "cuda" if gpus else "cpu"
        if got.type != wanted:
            said = f"CUDA is {'available' if gpus else 'not available'} (pretended), the answer is {got}"
            expect.fail(f"{said}, as at an earlier call", f"{wanted}, asked at every call", got)


@pick_cuda_or_cpu.row("another kind of GPU, or a build alone: the CPU")
def nothing_but_cuda_counts(trial):
    _expect_pick(trial, (), "where PyTorch is built for CUDA, and no GPU is here")
    for kind in ("mps", "xpu"):
        _expect_pick(trial, (), f"where the accelerator is {kind} and not CUDA", built=False, other=kind)


@pick_cuda_or_cpu.row("right for this machine as it is")
def right_as_it_is(trial):
    wanted = "cuda" if torch.cuda.is_available() else "cpu"
    got = trial.call()
    expect.kind(got, torch.device, "a torch.device", "the answer")
    expect.that(got.type == wanted, f"this machine has to use {wanted}, and the answer is {got}", wanted, got)
