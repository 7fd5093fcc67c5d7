"""A sum of two tensors, wherever each of them is."""

import itertools
from collections.abc import Iterator

import torch

from devlab.checks import expect
from devlab.devices import has_float64
from devlab.lessons.lesson_09_several_devices import (
    expect_at_most,
    expect_gradient,
    expect_graph,
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
