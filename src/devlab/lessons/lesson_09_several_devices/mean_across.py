"""The mean of tensors that live in different places."""

import itertools

import torch

from devlab.checks import expect
from devlab.devices import has_float64
from devlab.lessons.lesson_09_several_devices import (
    expect_at_most,
    expect_straight,
    lesson,
    places,
)

mean_across = lesson.exercise(
    "mean_across",
    signature="mean_across(tensors, device)",
    facts=("U1", "U2", "U5"),
    hints=(
        "This is what data-parallel training does to gradients: the same tensor from each device, averaged "
        "element by element. The result has the shape of one of them.",
        "Bring each to `device`, put them side by side, and take the mean along the new dimension. Mind that "
        "a tensor which is there already is not copied by `.to`: do not write into it.",
        "`return torch.stack([tensor.to(device) for tensor in tensors]).mean(0)`",
    ),
)


def _spread(trial, count: int, *shape: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Return tensors of one shape, on the devices in turn."""
    where = itertools.cycle(places(trial))
    seeds = range(trial.seeds[0], trial.seeds[0] + 10 * count, 10)
    return [trial.randn(*shape, seed=seed, on=next(where)).to(dtype) for seed in seeds]


def _expect_mean(trial, tensors: list[torch.Tensor], device: torch.device, within: float | None = None):
    each = [tensor.cpu().double() for tensor in tensors]
    total, dtype = sum(each), tensors[0].dtype
    got = trial.call(tensors, device)

    def known() -> dict[str, torch.Tensor]:
        running = each[0]
        for tensor in each[1:]:
            running = (running + tensor) / 2
        found = {
            "that is the sum of the tensors, and their mean is asked": total,
            "that is the first tensor alone": each[0],
            "that is the mean of the first two tensors alone": sum(each[:2]) / 2,
            "that is the median of the tensors, and their mean is asked": torch.stack(each).median(0).values,
            "the mean was halved at each tensor, so that later ones count more": running,
            "the mean was rounded to whole numbers": total // len(each),
            "the sum was always divided by 2": total / 2,
            "a tensor that stands twice in the list was counted once": sum(_unique(each))
            / len(_unique(each)),
        }
        if len(each) > 1:
            found["the sum was divided by one less than there are tensors"] = total / (len(each) - 1)
        return {words: value.to(dtype) for words, value in found.items()}

    expect.told(got, (total / len(each)).to(dtype), device, "the mean", within, known)


def _unique(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [
        one for at, one in enumerate(tensors) if not any(torch.equal(one, other) for other in tensors[:at])
    ]


@mean_across.row("the elementwise mean, on the device")
def elementwise(trial):
    for count in (5, 2, 3):
        tensors = _spread(trial, count, 3, 2)
        for device in places(trial):
            _expect_mean(trial, tensors, device, within=1e-5)


@mean_across.row("of any number, of any shape")
def any_number(trial):
    _expect_mean(trial, _spread(trial, 1, 4, 3), trial.other())
    _expect_mean(trial, _spread(trial, 1, 4, 3), trial.device)
    _expect_mean(trial, _spread(trial, 3), trial.device, within=1e-5)
    _expect_mean(trial, _spread(trial, 4, 2, 1, 5), trial.other(), within=1e-5)
    _expect_mean(trial, _spread(trial, 2, 0, 5), trial.device)
    one = trial.randn(3, seed=trial.seeds[1])
    _expect_mean(trial, [one, one, trial.randn(3, on=trial.other())], trial.device, within=1e-5)
    unknown = _spread(trial, 2, 3)
    unknown[0][1] = float("nan")
    _expect_mean(trial, unknown, trial.device, within=1e-5)
    _expect_mean(trial, [one.T for one in _spread(trial, 3, 4, 2)], trial.device, within=1e-5)


@mean_across.row("in the tensors' own dtype")
def own_dtype(trial):
    _expect_mean(trial, _spread(trial, 3, 5, 3, dtype=torch.bfloat16), trial.device, within=0.05)
    _expect_mean(trial, _spread(trial, 3, 5, 3, dtype=torch.float16), trial.other(), within=0.006)
    if all(map(has_float64, places(trial))):
        wide = [1 + 1e-9 * one for one in _spread(trial, 3, 5, 3, dtype=torch.float64)]
        _expect_mean(trial, wide, trial.device, within=1e-12)


@mean_across.row("each transferred once, if it is elsewhere")
def one_transfer_each(trial):
    for device in places(trial):
        tensors = _spread(trial, 5, 6, 4)
        _, log = trial.watched(tensors, device)
        expect_straight(log, tensors, device)
    here = [trial.randn(4, 2, seed=seed) for seed in trial.seeds]
    _, log = trial.watched(here, trial.device)
    expect_at_most(log, 0, f"all are on {trial.device}: nothing has to move")
