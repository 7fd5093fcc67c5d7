"""A step of an optimizer whose state is shared out among the ranks."""

import functools
from collections.abc import Callable

import torch
from torch import nn

from devlab.checks import expect, verbs
from devlab.checks.calls import leaves
from devlab.lessons import among_ranks, ranks
from devlab.lessons.lesson_13_bigger_than_one_device import lesson

sharded_step = lesson.exercise(
    "sharded_step",
    signature="sharded_step(rank, world_size, model, state, lr)",
    facts=("Q4", "Q6"),
    hints=(
        "Every rank has to come to the same owners without asking the others. Largest parameter first, each "
        "to the rank that has least so far: all ranks compute that from the same sizes.",
        "The owner alone updates: `v = state.setdefault(name, torch.zeros_like(p))`, then "
        "`v.mul_(0.9).add_(p.grad)` and `p.sub_(lr * v)`, all under `torch.no_grad()`. The other ranks still "
        "have the old parameter.",
        "Then every rank, owner or not, calls `dist.broadcast(p.data, src=owner)` for each parameter, and "
        "all go through the parameters in the same order.",
    ),
)

RATES = 0.2, 0.05, 0.1  # a learning rate for each step
FROZEN, UNUSED = "4.weight", "5.weight"
CPU = torch.device("cpu")
ASKED = "a step in each process"
MOST = 1.5  # times its even share that a rank may hold


def made(seed: int) -> nn.Module:
    """Return the model, the same in each process.

    Its largest weight with a gradient is four tenths of all, and stands last: three ranks end up uneven where
    parameters are given away in the model's order, or the smallest first. A weight that is frozen and one
    that has no part in the loss are larger still.
    """
    random = torch.Generator().manual_seed(seed)
    shapes = (4, 25), (25, 6), (6, 50), (50, 9), (9, 100), (100, 9)
    model = nn.Sequential(*(nn.Linear(*shape, bias=max(shape) < 100) for shape in shapes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=random))
    model.get_parameter(FROZEN).requires_grad_(False)
    return model


def gradients(model: nn.Module, seed: int, step: int) -> dict[str, torch.Tensor]:
    """Return the gradients of a step, which are the same in all processes, as after an all-reduce."""
    random = torch.Generator().manual_seed(1000 * (seed + 1) + step)
    return {name: torch.randn(one.shape, generator=random) for name, one in trained(model).items()}


def trained(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that get a gradient."""
    return {name: one for name, one in model.named_parameters() if name not in (FROZEN, UNUSED)}


def in_a_process(answer: Callable, rank: int, world_size: int, data: tuple) -> list:
    """Make the steps; return the parameters, then the tensors that this rank's state holds.

    Gradients are written into the same memory in each step, as backward adds them up there.
    """
    seed, state = int(data[0]), {}
    model = made(seed)
    for step, lr in enumerate(RATES):
        for name, values in gradients(model, seed, step).items():
            parameter = model.get_parameter(name)
            parameter.grad = torch.empty_like(parameter) if parameter.grad is None else parameter.grad
            parameter.grad.copy_(values)
        answer(rank, world_size, model, state, lr)
    return [*model.parameters(), *_tensors(state)]


def _tensors(state: dict) -> list[torch.Tensor]:
    """Return the tensors in a state, those of an optimizer that is kept in it too, but for single numbers."""
    found = [one for _, one in leaves(state)]
    kept = [one.state for one in found if isinstance(one, torch.optim.Optimizer)]
    found += [one for states in kept for _, one in leaves([*states.values()])]
    return [one for one in found if isinstance(one, torch.Tensor) and one.numel() > 1]


def _step(v: torch.Tensor, g: torch.Tensor, lr: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the new momentum, and what is subtracted from the parameter."""
    return (v := 0.9 * v + g), lr * v


SLIPS: dict[str, Callable] = {
    "those are steps without momentum": lambda v, g, lr: (g, lr * g),
    "the gradient enters the momentum by a tenth only": lambda v, g, lr: ((v := 0.9 * v + 0.1 * g), lr * v),
    "after the first step the gradient enters the momentum by a tenth only": lambda v, g, lr: (
        (v := 0.9 * v + (0.1 if v.any() else 1) * g),
        lr * v,
    ),
    "the whole old momentum is added, and 0.9 of it is asked": lambda v, g, lr: ((v := v + g), lr * v),
    "the momentum lies in the gradient's own memory, which the next backward overwrites": lambda v, g, lr: (
        (v := (1.8 if v.any() else 1) * g),
        lr * v,
    ),
    "the learning rate went into the momentum, where that of an earlier step stays": lambda v, g, lr: (
        ((v := 0.9 * v + lr * g),) * 2
    ),
    "each step was made with the learning rate of the first": lambda v, g, lr: _step(v, g, RATES[0]),
    "the step is taken by the momentum of the step before": lambda v, g, lr: (0.9 * v + g, lr * v),
    "the parameters grow along the gradient: lr * v is to be subtracted": lambda v, g, lr: _step(v, g, -lr),
    "that is Nesterov's momentum, which goes along g + 0.9 v, and the task goes along v": lambda v, g, lr: (
        (v := 0.9 * v + g),
        lr * (g + 0.9 * v),
    ),
}


def _after(seed: int, rule: Callable) -> dict[str, torch.Tensor]:
    """Return the parameters after the steps by a rule."""
    model = made(seed)
    found = {name: one.detach().clone() for name, one in model.named_parameters()}
    velocity = {name: torch.zeros_like(one) for name, one in found.items()}
    for step, lr in enumerate(RATES):
        for name, gradient in gradients(model, seed, step).items():
            velocity[name], change = rule(velocity[name], gradient, lr)
            found[name] -= change
    return found


def _run(trial, world: int, seed: int) -> list[ranks.Report]:
    return among_ranks.reports(trial, functools.partial(in_a_process, trial.answer), [[seed]] * world, ASKED)


def _expect_steps(found: list[ranks.Report], seed: int) -> None:
    before, wanted = dict(made(seed).named_parameters()), _after(seed, _step)
    each = [
        {name: torch.tensor(item["values"]) for name, item in zip(wanted, report.result, strict=False)}
        for report in found
    ]
    for name, right in wanted.items():
        _expect_sent([one[name] for one in each], name, before[name].detach(), right)
    for words, rule in SLIPS.items():
        slipped = _after(seed, rule)
        if all(expect.is_alike(each[0][name], slipped[name], 1e-4) for name in wanted):
            expect.fail(words, "v = 0.9 v + g, then p = p - lr * v", "other parameters")
    for rank, parameters in enumerate(each):
        for name, right in wanted.items():
            expect.tensor(parameters[name], right, CPU, f"rank {rank}'s {name}", within=1e-4)


def _expect_sent(each: list[torch.Tensor], name: str, before: torch.Tensor, right: torch.Tensor) -> None:
    """Expect a parameter to be another on every rank than before, or the same where it has no gradient."""
    still = [rank for rank, one in enumerate(each) if expect.is_alike(one, before, 1e-6)]
    if expect.is_alike(before, right):
        if len(still) < len(each):
            expect.fail(f"{name} has no gradient, and it was changed", f"{name} as it was", "other numbers")
    elif len(still) == len(each):
        headline = f"{name} is on every rank as it was: did a rank update it, and did that rank send it?"
        expect.fail(headline, f"{name} of its owner, on all ranks", "no rank has another")
    elif still:
        headline = f"rank {still[0]}'s {name} is as it was: the rank that has updated it must send it to all"
        expect.fail(headline, f"equal {name} on all ranks", f"another on rank {still[0]}")


@sharded_step.row("momentum SGD, with equal parameters on all ranks", only="cpu")
def equal_parameters(trial):
    _expect_steps(_run(trial, 2, trial.seeds[0]), trial.seeds[0])


@sharded_step.row("each momentum on one rank, shared out by size", only="cpu")
def shared_out(trial):
    _expect_shares(_run(trial, 2, trial.seeds[1]), trial.seeds[1])


@sharded_step.row("among three ranks as well", only="cpu")
def among_three(trial):
    found = _run(trial, 3, trial.seeds[2])
    _expect_steps(found, trial.seeds[2])
    _expect_shares(found, trial.seeds[2])


def _expect_shares(found: list[ranks.Report], seed: int) -> None:
    model, world = made(seed), len(found)
    count = len([*model.parameters()])
    held = [[torch.Size(item["shape"]).numel() for item in report.result[count:]] for report in found]
    sizes = [*map(sum, held)]
    ours = trained(model)
    total = sum(one.numel() for one in ours.values())
    if not any(sizes):
        expect.fail("no rank keeps anything in `state`", "the momentum of its parameters", "empty dicts")
    if sizes == [total] * world:
        headline = "every rank's state holds the momentum of every parameter: nothing is saved"
        expect.fail(headline, "on each rank its own part alone", verbs.times(len(held[0]), "tensor"))
    if sum(sizes) != total:
        headline = f"the states hold {sum(sizes)} numbers in all, and {total} are needed"
        asked = f"{verbs.times(len(ours), 'momentum')}, each on one rank: none without a gradient"
        expect.fail(headline, asked, verbs.times(sum(map(len, held)), "tensor"))
    if max(sizes) <= MOST * (share := total / world):
        return
    rising = sorted(ours, key=lambda name: ours[name].numel())
    every = sorted(dict(model.named_parameters()), key=lambda name: -model.get_parameter(name).numel())
    known = {
        "the smallest parameters were given away first": rising,
        "the parameters were given away in the model's order, and the largest comes first": list(ours),
        "parameters without a gradient were counted, and they have no momentum": every,
    }
    headline = f"the ranks hold {', '.join(map(str, sizes))} numbers, and an even share is {share:.0f}"
    for words, order in known.items():
        if sizes == _hold_by(order, model, world):
            headline = words
    expect.fail(headline, f"at most {int(MOST * share)} numbers on a rank", f"{max(sizes)} on one")


def _hold_by(order: list[str], model: nn.Module, world: int) -> list[int]:
    """Return the numbers of each rank's momenta where the rank that has least takes the next parameter."""
    load, held, ours = [0] * world, [0] * world, trained(model)
    for name in order:
        owner, size = load.index(min(load)), model.get_parameter(name).numel()
        load[owner] += size
        held[owner] += size * (name in ours)
    return held
