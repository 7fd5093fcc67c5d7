"""The mean of tensors that live in different places."""

import itertools

import torch

from devlab.checks import cases
from devlab.checks.scenes import scene
from devlab.lessons.lesson_09_several_devices import have_float64, lesson, see_straight_transfers

mean_across = lesson.exercise(
    "mean_across(tensors, device)",
    ("U1", "U2", "U5"),
    "Data-parallel training does this with gradients: tensors of one shape, one from each device, are "
    "averaged element by element. The lesson adds them up; a mean needs one thing more.",
    "Bring each to `device`, put them side by side, and take the mean along the new dimension. Mind that a "
    "tensor which is there already is not copied by `.to`: do not write into it.",
    "`return torch.stack([tensor.to(device) for tensor in tensors]).mean(0)`",
)


ASKED = "the mean of the tensors, element by element"


def ours(tensors, device):
    return torch.stack([tensor.to(device) for tensor in tensors]).mean(0)


def spread(t, count, *shape, dtype=torch.float32):
    where, seeds = itertools.cycle(cases.places(t)), range(t.seeds[0], t.seeds[0] + 10 * count, 10)
    return [t.randn(*shape, seed=seed, on=next(where)).to(dtype) for seed in seeds]


@scene(mean_across, ours, "the elementwise mean, on the device", ASKED)
def elementwise(t):
    for count, device in itertools.product((5, 2, 3), cases.places(t)):
        yield "the mean", t.call(spread(t, count, 3, 2), device), 1e-5


@scene(mean_across, ours, "of any number, of any shape", ASKED)
def any_number(t):
    single, unknown = t.randn(3, seed=t.seeds[1]), spread(t, 2, 3)
    unknown[0][1] = float("nan")
    for tensors in (spread(t, 1, 4, 3), spread(t, 4, 2, 1, 5)):
        yield "the mean", t.call(tensors, t.other()), 1e-5
    twice, turned = [single, single, t.randn(3, on=t.other())], [one.T for one in spread(t, 3, 4, 2)]
    for tensors in (spread(t, 1, 4, 3), spread(t, 3), spread(t, 2, 0, 5), twice, unknown, turned):
        yield "the mean", t.call(tensors, t.device), 1e-5


@scene(mean_across, ours, "in the tensors' own dtype", ASKED)
def own_dtype(t):
    yield "the mean", t.call(spread(t, 3, 5, 3, dtype=torch.bfloat16), t.device), 0.05
    yield "the mean", t.call(spread(t, 3, 5, 3, dtype=torch.float16), t.other()), 0.006
    if have_float64(t):
        wide = [1 + 1e-9 * one for one in spread(t, 3, 5, 3, dtype=torch.float64)]
        yield "the mean", t.call(wide, t.device), 1e-12


@scene(mean_across, ours, "each transferred once, if it is elsewhere")
def one_transfer_each(t):
    together = t.device, [t.randn(4, 2, seed=seed) for seed in t.seeds]
    for device, tensors in [*((at, spread(t, 5, 6, 4)) for at in cases.places(t)), together]:
        _, log = t.watched(tensors, device)
        yield from see_straight_transfers(log, tensors, device, itemsize=8)  # float64 may be transferred
    t.second()
