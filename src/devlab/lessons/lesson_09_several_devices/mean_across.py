"""The mean of tensors that live in different places."""

import functools
import itertools
from collections.abc import Callable

import torch

from devlab.checks import cases, verbs
from devlab.lessons.lesson_09_several_devices import expect_at_most, expect_straight, have_float64, lesson

mean_across = lesson.exercise(
    "mean_across",
    signature="mean_across(tensors, device)",
    facts=("U1", "U2", "U5"),
    hints=(
        "Data-parallel training does this with gradients: tensors of one shape, one from each device, are "
        "averaged element by element. The lesson adds them up; a mean needs one thing more.",
        "Bring each to `device`, put them side by side, and take the mean along the new dimension. Mind that "
        "a tensor which is there already is not copied by `.to`: do not write into it.",
        "`return torch.stack([tensor.to(device) for tensor in tensors]).mean(0)`",
    ),
)


def _of_all(function: Callable) -> Callable:
    """Return a slip that is a function of the tensors stacked in float64."""
    return lambda tensors, _: function(torch.stack(tensors).double()).to(tensors[0].dtype)


def _halved(each: torch.Tensor) -> torch.Tensor:
    return functools.reduce(lambda running, tensor: (running + tensor) / 2, each)


SLIPS = {
    "a tensor that stands twice in the list was counted once": lambda each: each.unique(dim=0).mean(0),
    "that is the sum of the tensors, and the task asks for their mean": lambda each: each.sum(0),
    "that is the first tensor alone": lambda each: each[0],
    "that is the mean of the first two tensors alone": lambda each: each[:2].mean(0),
    "that is the median of the tensors, and the task asks for their mean": lambda each: each.median(0).values,
    "the mean was halved at each tensor, so that later ones count more": _halved,
    "the mean was rounded to whole numbers": lambda each: each.sum(0) // len(each),
    "the sum was always divided by 2": lambda each: each.sum(0) / 2,
    "the sum was divided by one less than there are tensors": lambda each: each.sum(0) / (len(each) - 1),
}
mean = verbs.Same(
    lambda tensors, _: (sum(one.double() for one in tensors) / len(tensors)).to(tensors[0].dtype),
    {words: _of_all(slip) for words, slip in SLIPS.items()},
    "the mean of the tensors, element by element",
    what="the mean",
)


def _spread(trial, count: int, *shape: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Return tensors of one shape, on the devices in turn."""
    where = itertools.cycle(cases.places(trial))
    seeds = range(trial.seeds[0], trial.seeds[0] + 10 * count, 10)
    return [trial.randn(*shape, seed=seed, on=next(where)).to(dtype) for seed in seeds]


@mean_across.row("the elementwise mean, on the device")
def elementwise(trial):
    for count in (5, 2, 3):
        tensors = _spread(trial, count, 3, 2)
        for device in cases.places(trial):
            mean(trial, tensors, device, on=device, within=1e-5)


@mean_across.row("of any number, of any shape")
def any_number(trial):
    one, here = trial.randn(3, seed=trial.seeds[1]), trial.device
    unknown = _spread(trial, 2, 3)
    unknown[0][1] = float("nan")
    for tensors, device in (
        (_spread(trial, 1, 4, 3), trial.other()),
        (_spread(trial, 1, 4, 3), here),
        (_spread(trial, 3), here),
        (_spread(trial, 4, 2, 1, 5), trial.other()),
        (_spread(trial, 2, 0, 5), here),
        ([one, one, trial.randn(3, on=trial.other())], here),
        (unknown, here),
        ([tensor.T for tensor in _spread(trial, 3, 4, 2)], here),
    ):
        mean(trial, tensors, device, on=device, within=1e-5)


@mean_across.row("in the tensors' own dtype")
def own_dtype(trial):
    here, there = trial.device, trial.other()
    mean(trial, _spread(trial, 3, 5, 3, dtype=torch.bfloat16), here, on=here, within=0.05)
    mean(trial, _spread(trial, 3, 5, 3, dtype=torch.float16), there, on=there, within=0.006)
    if have_float64(trial):
        wide = [1 + 1e-9 * one for one in _spread(trial, 3, 5, 3, dtype=torch.float64)]
        mean(trial, wide, here, on=here, within=1e-12)


@mean_across.row("each transferred once, if it is elsewhere")
def one_transfer_each(trial):
    for device in cases.places(trial):
        tensors = _spread(trial, 5, 6, 4)
        _, log = trial.watched(tensors, device)
        expect_straight(log, tensors, device, itemsize=8)  # who adds in float64 may transfer float64
    _, log = trial.watched([trial.randn(4, 2, seed=seed) for seed in trial.seeds], trial.device)
    expect_at_most(log, 0, f"all are on {trial.device}: nothing has to move")
    trial.second()
