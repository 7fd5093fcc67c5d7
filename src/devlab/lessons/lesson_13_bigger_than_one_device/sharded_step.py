"""A step of an optimizer whose state is shared out among the ranks."""

import functools
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
from torch import nn

from devlab.checks import expect
from devlab.checks.calls import leaves
from devlab.checks.scenes import scene
from devlab.checks.seen import Seen, most, must
from devlab.checks.values import times
from devlab.lessons import among_ranks, ranks
from devlab.lessons.lesson_13_bigger_than_one_device import lesson

sharded_step = lesson.exercise(
    "sharded_step(rank, world_size, model, state, lr)",
    ("Q4", "Q6"),
    "Every rank has to come to the same owners without asking the others. Largest parameter first, each to "
    "the rank that has least so far: all ranks compute that from the same sizes.",
    "The owner alone updates: `v = state.setdefault(name, torch.zeros_like(p))`, then "
    "`v.mul_(0.9).add_(p.grad)` and `p.sub_(lr * v)`, all under `torch.no_grad()`. The other ranks still "
    "have the old parameter.",
    "Then every rank, owner or not, calls `dist.broadcast(p.data, src=owner)` for each parameter, and all go "
    "through the parameters in the same order.",
)

RATES = 0.2, 0.05, 0.1  # a learning rate for each step
FROZEN, UNUSED = "4.weight", "5.weight"
MOST = 1.5  # times its even share that a rank may hold


@torch.no_grad()
def ours(rank, world_size, model, state, lr):
    load, trained = [0] * world_size, {name: p for name, p in model.named_parameters() if p.grad is not None}
    for name in sorted(trained, key=lambda name: -trained[name].numel()):
        p, owner = trained[name], load.index(min(load))
        load[owner] += p.numel()
        if owner == rank:
            state[name] = 0.9 * state.get(name, torch.zeros_like(p)) + p.grad
            p.sub_(lr * state[name])
        dist.broadcast(p.data, src=owner)


def make_model(seed: int) -> nn.Module:
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


def find_trained(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that get a gradient."""
    return {name: one for name, one in model.named_parameters() if name not in (FROZEN, UNUSED)}


def in_a_process(answer: Callable, rank: int, world_size: int, data: tuple) -> list:
    """Make the steps; return the parameters, then the tensors that this rank's state holds.

    Gradients are written into the same memory in each step, as backward adds them up there.
    """
    seed, state = int(data[0]), {}
    model = make_model(seed)
    random = torch.Generator().manual_seed(seed)  # gradients are the same in all processes
    for lr in RATES:
        for parameter in find_trained(model).values():
            parameter.grad = torch.empty_like(parameter) if parameter.grad is None else parameter.grad
            parameter.grad.copy_(torch.randn(parameter.shape, generator=random))
        answer(rank, world_size, model, state, lr)
    return [*model.parameters(), *list_tensors(state)]


def list_tensors(state: dict) -> list[torch.Tensor]:
    """Return the tensors in a state, those of an optimizer that is kept in it too, but for single numbers."""
    found = [one for _, one in leaves(state)]
    kept = [one.state for one in found if isinstance(one, torch.optim.Optimizer)]
    found += [one for states in kept for _, one in leaves([*states.values()])]
    return [one for one in found if isinstance(one, torch.Tensor) and one.numel() > 1]


def run_ranks(t, world: int, seed: int) -> list[ranks.Report]:
    function = functools.partial(in_a_process, t.answer)
    return among_ranks.reports(t, function, [[seed]] * world, "a step in each process")


def see_steps(found: list[ranks.Report], seed: int) -> Iterator[Seen]:
    """See the parameters of each rank; those with a gradient have to be others than before."""
    before = dict((model := make_model(seed)).named_parameters())
    each = [[torch.tensor(item["values"]) for item in report.result[: len(before)]] for report in found]
    for number, (name, old) in enumerate(before.items()):
        still = [rank for rank, one in enumerate(each) if expect.is_alike(one[number], old, 1e-6)]
        if name not in find_trained(model):
            headline = f"{name} has no gradient, and it was changed"
            yield must(len(still) == len(each), headline, f"{name} as it was", "other numbers")
            continue
        headline = f"{name} is on every rank as it was: did a rank update it, and did that rank send it?"
        asked = f"{name} of its owner, on all ranks"
        yield must(len(still) < len(each), headline, asked, "no rank has another")
        late = f"rank {min(still, default=0)}'s {name} is as it was"
        headline = f"{late}: the rank that has updated it must send it to all"
        yield must(not still, headline, f"equal {name} on all ranks", "another on other ranks")
    for rank, parameters in enumerate(each):
        for name, values in zip(before, parameters, strict=True):
            yield f"rank {rank}'s {name}", values, 1e-4


def see_shares(found: list[ranks.Report], seed: int) -> Iterator[Seen]:
    """See that each momentum is on one rank, and no rank holds much more than its share."""
    model, world = make_model(seed), len(found)
    count, trained = len([*model.parameters()]), find_trained(model)
    held = [[torch.Size(item["shape"]).numel() for item in report.result[count:]] for report in found]
    sizes, total = [*map(sum, held)], sum(one.numel() for one in trained.values())
    headline = "no rank keeps anything in `state`"
    yield must(any(sizes), headline, "the momentum of its parameters", "empty dicts")
    headline = "every rank's state holds the momentum of every parameter: nothing is saved"
    same = sizes == [total] * world
    yield must(not same, headline, "on each rank its own part alone", times(len(held[0]), "tensor"))
    headline = f"the states hold {sum(sizes)} numbers in all, and {total} are needed"
    asked = f"{times(len(trained), 'momentum')}, each on one rank: none without a gradient"
    yield must(sum(sizes) == total, headline, asked, times(sum(map(len, held)), "tensor"))
    share, said = total / world, ", ".join(map(str, sizes))
    headline = f"the ranks hold {said} numbers, and an even share is {share:.0f}"
    yield most(headline, max(sizes), MOST * share, f"at most {int(MOST * share)} numbers on a rank")


ASKED = "v = 0.9 v + g, then p = p - lr * v"


@scene(sharded_step, ours, "momentum SGD, with equal parameters on all ranks", ASKED, only="cpu")
def equal_parameters(t):
    yield from see_steps(run_ranks(t, 2, t.seeds[0]), t.seeds[0])


@scene(sharded_step, ours, "each momentum on one rank, shared out by size", only="cpu")
def shared_out(t):
    yield from see_shares(run_ranks(t, 2, t.seeds[1]), t.seeds[1])


@scene(sharded_step, ours, "among three ranks as well", ASKED, only="cpu")
def among_three(t):
    found = run_ranks(t, 3, t.seeds[2])
    yield from see_steps(found, t.seeds[2])
    yield from see_shares(found, t.seeds[2])
