"""Parts on several devices joined to one batch again."""

import torch

from devlab.checks import expect
from devlab.devices import has_float64
from devlab.lessons.lesson_09_several_devices import (
    expect_alike,
    expect_at_most,
    expect_gradient,
    expect_graph,
    expect_straight,
    lesson,
    make_batch,
    places,
    ranks,
    rebuilt,
    rows_of,
    tensors_in,
)

gather = lesson.exercise(
    "gather",
    signature="gather(parts, device)",
    facts=("U1", "U2", "U5"),
    hints=(
        "The way back: bring every part to the device, and join them along dimension 0, in their order.",
        "`torch.cat` joins only what is in one place. For parts that nest: gather the same place of all "
        "parts together, and build one container from the results.",
        "For tensors: `torch.cat([part.to(device) for part in parts])`. For dicts: "
        "`{key: gather([part[key] for part in parts], device) for key in parts[0]}`. Lists and tuples "
        "likewise.",
    ),
)


def _cut(batch: object, sizes: list[int], devices: list[torch.device]) -> list[object]:
    """Return parts of a batch of these lengths, on the devices, by the reference's own hand."""
    parts, start = [], 0
    for size, device in zip(sizes, devices, strict=True):
        parts.append(_moved(rows_of(batch, start, start + size), device))
        start += size
    return parts


def _moved(value: object, device: torch.device) -> object:
    if isinstance(value, torch.Tensor):
        return value.to(device)
    return rebuilt(value, lambda item: _moved(item, device))


def _expect_gathered(trial, batch: object, sizes: list[int], devices, target: torch.device) -> None:
    wanted = rows_of(batch, 0, sum(sizes))
    parts = _cut(batch, sizes, devices)
    _expect_order(got := trial.call(parts, target), parts)
    expect_alike(got, wanted, target, "the whole")


def _expect_order(got: object, parts: list) -> None:
    """Expect of a joined tensor that its parts are not in the reverse order."""
    if isinstance(got, torch.Tensor) and isinstance(parts[0], torch.Tensor) and len(got):
        reverse = torch.cat([part.detach().cpu() for part in reversed(parts)])
        forward = torch.cat([part.detach().cpu() for part in parts])
        same = got.shape == reverse.shape and torch.equal(got.detach().cpu(), reverse)
        if same and not torch.equal(forward, reverse):
            expect.fail(
                "the parts are joined in reverse order", "the order of the list", "the last part first"
            )


@gather.row("the parts joined in order, on the device")
def joined(trial):
    ranks.wake()  # the exercise after this one needs processes that take seconds to start
    for seed in trial.seeds:
        x = trial.randn(9, 3, seed=seed)
        for target in places(trial):
            _expect_gathered(trial, x, [5, 4], [trial.device, trial.other()], target)
            _expect_gathered(trial, x, [4, 5], [trial.other(), trial.device], target)
    if all(map(has_float64, places(trial))):
        wide = trial.randn(5, 2, seed=trial.seeds[0]).double() + 1e-12
        _expect_gathered(trial, wide, [3, 2], [trial.device, trial.other()], trial.device)
    parts = [trial.randn(2, 3, on=place).requires_grad_() for place in (trial.device, trial.other())]
    whole = trial.call(parts, trial.device)
    expect.kind(whole, torch.Tensor, "a tensor", "the whole")
    expect_graph(whole, "the whole")
    whole.square().sum().backward()
    for number, part in enumerate(parts):
        expect_gradient(part, 2 * part.detach(), f"part {number}")


@gather.row("any number of parts, also empty ones")
def any_parts(trial):
    here = places(trial)
    x = trial.randn(6, 3, seed=trial.seeds[0])
    for sizes in ([6], [2, 2, 2], [3, 3, 0], [0, 6], [1, 2, 0, 3], [0, 0]):
        devices = [here[number % len(here)] for number in range(len(sizes))]
        _expect_gathered(trial, x, sizes, devices, trial.device)
        _expect_gathered(trial, x[:, 0], sizes, devices, trial.other())


@gather.row("nested parts become one batch again")
def joined_nested(trial):
    for target in places(trial):
        _expect_gathered(trial, make_batch(trial, 7), [4, 3], [trial.device, trial.other()], target)
    devices = [trial.device, trial.other(), trial.device]
    _expect_gathered(trial, make_batch(trial, 4), [2, 1, 1], devices, trial.device)
    x = [trial.randn(2, seed=seed, on=place).requires_grad_() for seed, place in enumerate(devices)]
    whole = trial.call([{"x": one} for one in x], trial.device)
    expect_alike(whole, {"x": torch.cat([one.detach().cpu() for one in x])}, trial.device, "the whole")
    expect_graph(whole["x"], "the whole['x']")
    whole["x"].square().sum().backward()
    for number, one in enumerate(x):
        expect_gradient(one, 2 * one.detach(), f"part {number}")


@gather.row("each part transferred once, if it is elsewhere")
def gathered_once(trial):
    for target in places(trial):
        devices = [trial.device, trial.other(), trial.device]
        parts = _cut(make_batch(trial, 7), [3, 2, 2], devices)
        _, log = trial.watched(parts, target)
        expect_straight(log, tensors_in(parts), target)
    parts = _cut(make_batch(trial, 6), [3, 3], [trial.device] * 2)
    _, log = trial.watched(parts, trial.device)
    expect_at_most(log, 0, f"all parts are on {trial.device}: nothing has to move")
