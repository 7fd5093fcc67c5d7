"""Is there a GPU, and which ones: asked on machines that are pretended."""

import torch

from devlab.checks import expect, pretend
from devlab.lessons.lesson_02_cuda import lesson

WITH, WITHOUT = "with one GPU", "without a GPU"
ONE = ("NVIDIA RTX A2000",)
THREE = ("NVIDIA H100 PCIe", "NVIDIA L4", "NVIDIA L4")

pick_cuda_or_cpu = lesson.exercise(
    "pick_cuda_or_cpu",
    signature="pick_cuda_or_cpu()",
    facts=("G1", "G4", "A1"),
    hints=(
        "There is one question to ask, and two answers to return. Ask it inside of the function, so that "
        "it is asked each time.",
        "`torch.cuda.is_available()` is the question, with its brackets: without them it is a function, "
        "and a function counts as true. Both answers are a `torch.device`.",
        'The whole body is `return torch.device("cuda" if torch.cuda.is_available() else "cpu")`.',
    ),
)


def _pick(trial, gpus: tuple[str, ...], **options) -> torch.device:
    with pretend.machine(trial, gpus, **options):
        got = trial.call()
    expect.kind(got, torch.device, "a torch.device", "the answer")
    return got


def _expect_pick(trial, gpus: tuple[str, ...], situation: str, **options) -> None:
    """Expect the one right answer; a plain situation tells an answer that never asks from one that errs."""
    got = _pick(trial, gpus, **options)
    wanted = "cuda" if gpus else "cpu"
    if got.type == wanted and (got.index or 0) < max(len(gpus), 1):
        return
    asked = f"{wanted}, as `torch.cuda.is_available()`, with its parentheses, says at each call"
    if got.type != wanted and situation in (WITH, WITHOUT):
        seen = trial.last_call, trial.situation
        opposite = _pick(trial, (), built=False) if gpus else _pick(trial, ONE)
        trial.last_call, trial.situation = seen  # the verdict is about the call that was wrong
        if opposite.type == got.type:
            expect.fail(f"the answer is {got} with a GPU and without one", asked, got)
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


@pick_cuda_or_cpu.row("a build for CUDA is no GPU, nor is a Mac's")
def nothing_but_cuda_counts(trial):
    _expect_pick(trial, (), "where PyTorch is built for CUDA, and no GPU is here")
    for kind in ("mps", "xpu"):
        _expect_pick(trial, (), f"where the accelerator is {kind} and not CUDA", built=False, other=kind)


@pick_cuda_or_cpu.row("right for this machine as it is")
def right_as_it_is(trial):
    wanted = "cuda" if torch.cuda.is_available() else "cpu"
    got = trial.call()
    expect.kind(got, torch.device, "a torch.device", "the answer")
    if got.type != wanted:
        expect.fail(f"this machine has to use {wanted}, the answer is {got}", wanted, got)


list_gpus = lesson.exercise(
    "list_gpus",
    signature="list_gpus()",
    facts=("A2", "A3", "G3"),
    hints=(
        "Two questions: how many are there, and what is the name of number i? Indices run from 0, as "
        "Python's do, so `range` fits.",
        "`torch.cuda.device_count()` is 0 where there is no GPU, without any error. "
        "`torch.cuda.get_device_name(i)` names number i; without an index it names the current one.",
        "`return [(i, torch.cuda.get_device_name(i)) for i in range(torch.cuda.device_count())]`",
    ),
)


def _expect_listed(got: object, names: tuple[str, ...], pretended: str = "") -> None:
    wanted = list(enumerate(names))
    expect.kind(got, list, "a list", "the answer")
    if len(got) != len(wanted):
        count = f"{len(got)} {'entry' if len(got) == 1 else 'entries'}"
        here = f"{len(names)} {pretended}GPU{'' if len(names) == 1 else 's'}" if names else "no GPU"
        expect.fail(f"with {here} the list has {count}", f"{wanted}", got)
    for entry, (index, name) in zip(got, wanted, strict=True):
        expect.kind(entry, tuple, "a tuple", "an entry")
        if len(entry) != 2:
            expect.fail("an entry is not an index and a name", f"{(index, name)}", entry)
        expect.kind(entry[0], int, "an int", "the index")
        expect.kind(entry[1], str, "a str", "the name")
        if entry[0] != index:
            expect.fail(f"entry {index} of the list has index {entry[0]}", f"{wanted}", f"{got}")
        if entry[1] in names and entry[1] != name:
            said = f"GPU {index} was given the name of GPU {names.index(entry[1])}"
            expect.fail(said, f"{wanted}", f"{got}")
        if entry[1] != name:
            said = f"GPU {index} is called {entry[1]!r}, and PyTorch calls it {name!r}"
            expect.fail(said, f"{wanted}", f"{got}")


def _expect_list(trial, names: tuple[str, ...], **options) -> None:
    with pretend.machine(trial, names, **options):
        got = trial.call()
    _expect_listed(got, names, "pretended ")


@list_gpus.row("no GPU: an empty list, and no error")
def lists_none(trial):
    _expect_list(trial, ())
    _expect_list(trial, (), built=False, other="mps")


@list_gpus.row("one GPU: its index and its name")
def lists_one(trial):
    for name in (*ONE, "Tesla T4"):
        _expect_list(trial, (name,))


@list_gpus.row("three GPUs: each has its own name")
def lists_three(trial):
    for current in (0, 1, 2):
        _expect_list(trial, THREE, current=current)
    _expect_list(trial, ONE + THREE[1::-1], current=1)  # in no order of names


@list_gpus.row("right for this machine as it is")
def lists_this_machine(trial):
    count = torch.cuda.device_count()
    here = tuple(torch.cuda.get_device_properties(index).name for index in range(count))
    _expect_listed(trial.call(), here)
