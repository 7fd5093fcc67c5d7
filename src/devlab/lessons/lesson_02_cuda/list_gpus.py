"""Each GPU with its index and name: asked on machines that are pretended."""

import torch

from devlab.checks import expect, pretend
from devlab.checks.verbs import times
from devlab.lessons.lesson_02_cuda import ONE, THREE, lesson

list_gpus = lesson.exercise(
    "list_gpus()",
    ("A2", "A3", "G3"),
    "You need two answers: how many GPUs there are, and what number i is called. The indices count from 0, "
    "as Python's do, so `range` fits.",
    "Where there is no GPU, `torch.cuda.device_count()` is 0 and raises no error. "
    "`torch.cuda.get_device_name(i)` names number i, and without an index it names the current one.",
    "`return [(i, torch.cuda.get_device_name(i)) for i in range(torch.cuda.device_count())]`",
)


def _expect_listed(got: object, names: tuple[str, ...], pretended: str = "") -> None:
    wanted = list(enumerate(names))
    expect.kind(got, list, "a list", "the answer")
    here = f"with {times(len(names), f'{pretended}GPU')}" if names else "without a GPU"
    expect.that(len(got) == len(wanted), f"{here} the list has {times(len(got), 'entry')}", f"{wanted}", got)
    for entry, (index, name) in zip(got, wanted, strict=True):
        expect.kind(entry, tuple, "a tuple", "an entry")
        expect.that(len(entry) == 2, "an entry is not an index and a name", f"{(index, name)}", entry)
        expect.kind(entry[0], int, "an int", "the index")
        expect.kind(entry[1], str, "a str", "the name")
        if entry[0] != index:
            expect.fail(f"entry {index} of the list has index {entry[0]}", f"{wanted}", f"{got}")
        said = f"GPU {index} is called {entry[1]!r}, and PyTorch calls it {name!r}"
        if entry[1] in names:
            said = f"GPU {index} was given the name of GPU {names.index(entry[1])}"
        expect.that(entry[1] == name, said, f"{wanted}", f"{got}")


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
    _expect_list(trial, ONE + THREE[1::-1], current=1)  # the names are not sorted
    _expect_list(trial, ("Tesla T4",) * 12, current=7)  # as texts, the indices are not in order


@list_gpus.row("right for this machine as it is")
def lists_this_machine(trial):
    count = torch.cuda.device_count()
    here = tuple(torch.cuda.get_device_properties(index).name for index in range(count))
    _expect_listed(trial.call(), here)
