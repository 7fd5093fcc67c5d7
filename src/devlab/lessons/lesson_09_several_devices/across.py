"""Sums and means of tensors that live in different places."""

import itertools
from collections.abc import Iterator

import torch

from devlab.checks import expect
from devlab.devices import has_float64
from devlab.lessons.lesson_09_several_devices import (
    expect_at_most,
    expect_gradient,
    expect_graph,
    expect_straight,
    lesson,
    places,
)

add_across = lesson.exercise(
    "add_across",
    signature="add_across(x, y, out_device)",
    facts=("U1", "U2", "U3"),
    hints=(
        "A sum is computed in one place, so both have to be in one place first. Which place saves the way "
        "of the result?",
        "`.to(out_device)` gives a tensor there, from any device, with its graph, and returns the tensor "
        "itself where it is there already.",
        "`return x.to(out_device) + y.to(out_device)`",
    ),
)


def _routes(trial) -> Iterator[tuple[torch.device, torch.device, torch.device]]:
    """Yield places for x, for y and for the sum: x on the trial's device, the two others anywhere."""
    yield from itertools.product([trial.device], places(trial), places(trial))


def _expect_sum(trial, got: object, x: torch.Tensor, y: torch.Tensor, out: torch.device) -> None:
    """Expect the sum on a device; say what else it is, such as one of tensors that had not arrived."""
    mine, theirs = x.detach().cpu(), y.detach().cpu()
    wanted = mine + theirs
    nothing = torch.zeros_like(wanted)

    def known() -> dict[str, torch.Tensor]:
        late = _may_arrive_late(trial, x, y, out)
        said = {
            "x": "the sum holds x alone: y was left out",
            "y": "the sum holds y alone: x was left out",
            "": "the sum holds zeros: neither x nor y is in it",
        }
        if late:
            why = "was read before it had arrived: its copy to the CPU is made with non_blocking=True"
            said = {"x": f"y {why}", "y": f"x {why}", "": f"x and y: each {why}"}
        others = {} if wanted.dtype is torch.bool else {"that is x - y, and x + y is asked": mine - theirs}
        return others | {
            said["x"]: mine + nothing,
            said["y"]: theirs + nothing,
            said[""]: nothing,
            "that is x twice, and y is missing": mine + mine + nothing,
            "that is x times y, and x + y is asked": mine * theirs,
        }

    # In float64 a sum is rounded once, alike on every device.
    within = 0.0 if wanted.dtype is torch.float64 else None
    expect.told(got, wanted, out, "the sum", within, known)


def _may_arrive_late(trial, x: torch.Tensor, y: torch.Tensor, out: torch.device) -> bool:
    """Tell whether the answer makes copies to the CPU for which nothing waits."""
    _, log = trial.watched(x, y, out)
    pending = [copy for copy in log.events.transfers if copy.target == "cpu" and not copy.blocking]
    return bool(pending) and not log.synchronizations


@add_across.row("the sum, on out_device")
def sum_there(trial):
    for seed, (x_at, y_at, out) in enumerate(_routes(trial), trial.seeds[0]):
        x, y = trial.randn(4, 3, seed=seed, on=x_at), trial.randn(4, 3, seed=seed + 50, on=y_at)
        _expect_sum(trial, trial.call(x, y, out), x, y, out)
        if y_at != x_at:
            _expect_sum(trial, trial.call(y, x, out), y, x, out)


@add_across.row("shapes and dtypes as + has them")
def like_plus(trial):
    there = trial.other()
    x, whole = trial.randn(4, 3), trial.randint(-9, 9, (3,)).to(there)
    half, single = trial.randn(2, 0, 3, dtype=torch.float16), trial.randn(on=there)
    wide = trial.randn(3, dtype=torch.bfloat16), trial.randn(2, 1, on=there)
    truths = x > 0, (x < 1).to(there)
    pairs = [(x, whole), (whole, x), (half, single), (single, half), (x.T, whole[:1]), wide, truths]
    pairs += [(whole.to(trial.device), whole + 2**53)]  # digits that a third dtype on the way would lose
    pairs += [(x.double() / 3, single.double())] if all(map(has_float64, places(trial))) else []
    for one, other in pairs:
        for out in (trial.device, there):
            _expect_sum(trial, trial.call(one, other, out), one, other, out)


@add_across.row("gradients find the way back to both")
def gradients_return(trial):
    there = trial.other()
    for out in (trial.device, there):
        x = trial.randn(3, 2, seed=trial.seeds[0]).requires_grad_()
        y = trial.randn(3, 2, seed=trial.seeds[1], on=there).requires_grad_()
        weight = trial.randn(3, 2, seed=trial.seeds[2], on=out)
        total = trial.call(x, y, out)
        _expect_sum(trial, total, x, y, out)
        expect_graph(total, "the sum")
        (total * weight).sum().backward()
        expect_gradient(x, weight, "x")
        expect_gradient(y, weight, "y")
        # A single number asks for a gradient, and what it is added to does not.
        single = trial.randn(seed=trial.seeds[0]).requires_grad_()
        total = trial.call(single, y.detach(), out)
        expect_graph(total, "the sum")
        (total * weight).sum().backward()
        expect_gradient(single, weight.sum(), "x")
        single = trial.randn(seed=trial.seeds[1], on=there).requires_grad_()
        total = trial.call(x.detach(), single, out)
        expect_graph(total, "the sum")
        (total * weight).sum().backward()
        expect_gradient(single, weight.sum(), "y")


@add_across.row("two transfers at most, none if all are together")
def few_transfers(trial):
    for x_at, y_at, out in _routes(trial):
        x, y = (
            trial.randn(6, 5, seed=trial.seeds[0], on=x_at),
            trial.randn(6, 5, seed=trial.seeds[1], on=y_at),
        )
        _, log = trial.watched(x, y, out)
        if x_at == y_at == out:
            _, single = trial.watched(x, y[0, 0], out)
            expect_at_most(single, 0, f"x, y and the sum are all on {out}: nothing has to move")
            expect_at_most(log, 0, f"x, y and the sum are all on {out}: nothing has to move")
        else:
            expect_at_most(log, 2, "each tensor to the place of the other or of the sum, and straight there")


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
