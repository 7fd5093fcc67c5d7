"""Parts on several devices joined to one batch again."""

import torch

from devlab.checks import cases, expect
from devlab.lessons import ranks
from devlab.lessons.lesson_09_several_devices import (
    each,
    expect_alike,
    expect_at_most,
    expect_gradients,
    expect_straight,
    have_float64,
    lesson,
    make_batch,
    rows_of,
    tensors_in,
)

gather = lesson.exercise(
    "gather",
    signature="gather(parts, device)",
    facts=("U1", "U2", "U5"),
    hints=(
        "Move every part to the device, and join them there along dimension 0, in their order.",
        "`torch.cat` joins only what is in one place. For parts that nest: gather the same place of all "
        "parts together, and build one container from the results.",
        "For tensors: `torch.cat([part.to(device) for part in parts])`. For dicts: "
        "`{key: gather([part[key] for part in parts], device) for key in parts[0]}`. Lists and tuples "
        "likewise.",
    ),
)


def _cut(batch: object, sizes: list[int], devices: list[torch.device]) -> list[object]:
    """Return parts of a batch of these lengths, on the devices, cut without the answer's help."""
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    return [
        each(rows_of(batch, start, start + size), lambda tensor, device=device: tensor.to(device))
        for start, size, device in zip(starts, sizes, devices, strict=True)
    ]


def _gather(trial, batch: object, sizes: list[int], devices, target: torch.device) -> None:
    """Call the answer with parts of the batch, and expect the batch on the device."""
    wanted = rows_of(batch, 0, sum(sizes))
    parts = _cut(batch, sizes, devices)
    got = trial.call(parts, target)
    if isinstance(wanted, torch.Tensor):
        reverse = {"the parts are joined in reverse order": torch.cat([one.cpu() for one in parts[::-1]])}
        expect.named(got, wanted, reverse, "the order of the list")
    expect_alike(got, wanted, target, "the whole")


def _leaves(trial, devices: list[torch.device], *shape: int) -> list[torch.Tensor]:
    return [trial.randn(*shape, seed=seed, on=at).requires_grad_() for seed, at in enumerate(devices)]


def _expect_gradients(whole: object, parts: list[torch.Tensor], what: str) -> None:
    named = {f"part {number}": part for number, part in enumerate(parts)}
    expect_gradients(whole, lambda *parts: torch.cat(parts), named, what)


@gather.row("the parts joined in order, on the device")
def joined(trial):
    ranks.wake()  # the exercise after this one needs processes that take seconds to start
    here, there = trial.device, trial.other()
    for seed in trial.seeds:
        x = trial.randn(9, 3, seed=seed)
        for target in cases.places(trial):
            _gather(trial, x, [5, 4], [here, there], target)
            _gather(trial, x, [4, 5], [there, here], target)
    if have_float64(trial):
        wide = trial.randn(5, 2, seed=trial.seeds[0]).double() + 1e-12
        _gather(trial, wide, [3, 2], [here, there], here)
    parts = _leaves(trial, [here, there], 2, 3)
    _expect_gradients(trial.call(parts, here), parts, "the whole")


@gather.row("any number of parts, empty ones too")
def any_parts(trial):
    places = cases.places(trial)
    x = trial.randn(6, 3, seed=trial.seeds[0])
    for sizes in ([6], [2, 2, 2], [3, 3, 0], [0, 6], [1, 2, 0, 3], [1, 1, 2, 2], [0, 0]):
        devices = [places[number % len(places)] for number in range(len(sizes))]
        _gather(trial, x, sizes, devices, trial.device)
        _gather(trial, x[:, 0], sizes, devices, trial.other())


@gather.row("nested parts become one batch again")
def joined_nested(trial):
    here, there = trial.device, trial.other()
    for target in cases.places(trial):
        _gather(trial, make_batch(trial, 7), [4, 3], [here, there], target)
    for sizes in ([2, 1, 1], [0, 3, 1], [0, 0, 0]):
        _gather(trial, make_batch(trial, 4), sizes, [here, there, here], here)
    _gather(trial, make_batch(trial, 4), [4], [there], here)
    x, y = trial.randn(5, 2, seed=trial.seeds[2]), trial.randint(0, 9, (5,))
    for batch in ((x, y), [y, x], (x,), [{"x": x}]):
        _gather(trial, batch, [3, 2], [here, there], there)
    parts = _leaves(trial, [here, there, here], 2)
    whole = trial.call([{"x": one} for one in parts], here)
    expect_alike(whole, {"x": torch.cat([one.detach().cpu() for one in parts])}, here, "the whole")
    _expect_gradients(whole["x"], parts, "the whole['x']")


@gather.row("each part transferred once, if it is elsewhere")
def gathered_once(trial):
    here = trial.device
    for target in cases.places(trial):
        parts = _cut(make_batch(trial, 7), [3, 2, 2], [here, trial.other(), here])
        _, log = trial.watched(parts, target)
        expect_straight(log, tensors_in(parts), target)
    _, log = trial.watched(_cut(make_batch(trial, 6), [3, 3], [here, here]), here)
    expect_at_most(log, 0, f"all parts are on {here}: nothing has to move")
    trial.second()
