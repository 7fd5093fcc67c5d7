"""A sum of two tensors, wherever each of them is."""

import itertools
from collections.abc import Iterator

import torch

from devlab.checks import cases, expect, verbs
from devlab.lessons.lesson_09_several_devices import (
    MOVES,
    expect_at_most,
    expect_gradients,
    have_float64,
    lesson,
    still_under_way,
)

add_across = lesson.exercise(
    "add_across",
    signature="add_across(x, y, out_device)",
    facts=("U1", "U2", "U3"),
    hints=(
        "A sum is computed in one place, so both tensors have to be there first. Which place spares the "
        "result a transfer of its own?",
        "`.to(out_device)` gives a tensor there, from any device, with its graph. Where the tensor is there "
        "already, it is returned as it is, without a transfer.",
        "`return x.to(out_device) + y.to(out_device)`",
    ),
)


def _routes(trial) -> Iterator[tuple[torch.device, torch.device, torch.device]]:
    """Yield places for x, for y and for the sum: x on the trial's device, the two others anywhere."""
    yield from itertools.product([trial.device], cases.places(trial), cases.places(trial))


def _late(trial, got: torch.Tensor, wanted: torch.Tensor, x: torch.Tensor, y: torch.Tensor, out) -> None:
    """Say so where x or y was read before it had arrived."""
    if got.is_meta or torch.equal(got.detach().cpu(), wanted):
        return
    with verbs.aside(trial):
        _, log = trial.watched(x, y, out)
    if still_under_way(log):
        x, y, nothing = x.detach().cpu(), y.detach().cpu(), torch.zeros_like(wanted)
        why = "was read before it had arrived: its copy to the CPU is made with non_blocking=True"
        slips = {f"y {why}": x + nothing, f"x {why}": y + nothing, f"x and y: each {why}": nothing}
        expect.named(got, wanted, slips, "the sum of x and y")


total = verbs.Same(
    lambda x, y, out: x + y,
    {
        "that is x - y, and the task asks for x + y": lambda x, y, out: x - y,
        "the sum holds x alone: y was left out": lambda x, y, out: x + torch.zeros_like(y),
        "the sum holds y alone: x was left out": lambda x, y, out: torch.zeros_like(x) + y,
        "the sum holds zeros: neither x nor y is in it": lambda x, y, out: torch.zeros_like(x + y),
        "that is x twice, and y is missing": lambda x, y, out: x + x + torch.zeros_like(y),
        "that is x times y, and the task asks for x + y": lambda x, y, out: x * y,
    },
    "the sum of x and y",
    what="the sum",
    first=_late,
)


@add_across.row("the sum, on out_device")
def sum_there(trial):
    for seed, (x_at, y_at, out) in enumerate(_routes(trial), trial.seeds[0]):
        x, y = trial.randn(4, 3, seed=seed, on=x_at), trial.randn(4, 3, seed=seed + 50, on=y_at)
        for one, other in ((x, y), (y, x))[: 1 + (y_at != x_at)]:
            got = verbs.at_once(trial, one, other, out, what="the sum")
            total.compare(trial, got, one, other, out, on=out)


@add_across.row("shapes and dtypes as + gives them")
def like_plus(trial):
    there = trial.other()
    x, whole = trial.randn(4, 3), trial.randint(-9, 9, (3,)).to(there)
    half, single = trial.randn(2, 0, 3, dtype=torch.float16), trial.randn(on=there)
    wide = trial.randn(3, dtype=torch.bfloat16), trial.randn(2, 1, on=there)
    truths = x > 0, (x < 1).to(there)
    pairs = [(x, whole), (whole, x), (half, single), (single, half), (x.T, whole[:1]), wide, truths]
    pairs += [(whole.to(trial.device), whole + 2**53)]  # digits that a third dtype on the way would lose
    for (one, other), out in itertools.product(pairs, (trial.device, there)):
        total(trial, one, other, out, on=out)
    if have_float64(trial):  # where a sum is rounded once, alike on every device
        for out in (trial.device, there):
            total(trial, x.double() / 3, single.double(), out, on=out, within=0.0)


@add_across.row("gradients flow back to both")
def gradients_return(trial):
    there = trial.other()
    x, y = trial.randn(3, 2, seed=trial.seeds[0]), trial.randn(3, 2, seed=trial.seeds[1], on=there)
    both = x.clone().requires_grad_(), y.clone().requires_grad_()
    # A single number asks for a gradient, and what it is added to does not.
    single, last = x[0, 0].clone().requires_grad_(), y[0, 0].clone().requires_grad_()
    for one, other in (both, (single, y), (x, last)):
        for out in (trial.device, there):
            got = total(trial, one, other, out, on=out)
            expect_gradients(got, torch.add, {"x": one, "y": other}, "the sum")


@add_across.row("two transfers at most, none if all are together")
def few_transfers(trial):
    one, other, _ = trial.seeds
    for x_at, y_at, out in _routes(trial):
        x, y = trial.randn(6, 5, seed=one, on=x_at), trial.randn(6, 5, seed=other, on=y_at)
        together = x_at == y_at == out
        needed = "each tensor to the place of the other or of the sum, and straight there"
        needed = f"x, y and the sum are all on {out}: nothing has to move" if together else needed
        for given in (y, y[0, 0]) if together else (y,):
            _, log = trial.watched(x, given, out)
            expect_at_most(log, 0 if together else 2, needed)
            places = (x_at, y_at, out)
            astray = [one for one in log.events.transfers if torch.device(one.target) not in places]
            headline = "something goes to {one.target}, which has no part in the sum"
            verbs.counts(astray, 0, headline, needed, MOVES)
    trial.second()
