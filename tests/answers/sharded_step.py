"""Answers to sharded_step."""

import torch
import torch.distributed as dist
from bank import right, wrong

EQUAL = "momentum SGD, with equal parameters on all ranks"
SHARED = "each momentum on one rank, shared out by size"
THREE = "among three ranks as well"


def to_the_least(named, world_size):
    load, owners = [0] * world_size, {}
    for name, parameter in named:
        owners[name] = load.index(min(load))
        load[owners[name]] += parameter.numel()
    return owners


def in_order(model):
    return [(name, one) for name, one in model.named_parameters() if one.grad is not None]


def largest_first(model, world_size):
    return to_the_least(sorted(in_order(model), key=lambda pair: -pair[1].numel()), world_size)


@right
@torch.no_grad()
def by_broadcasts(rank, world_size, model, state, lr):
    load, owners = [0] * world_size, {}
    trained = {name: p for name, p in model.named_parameters() if p.grad is not None}
    for name in sorted(trained, key=lambda name: -trained[name].numel()):
        owners[name] = min(range(world_size), key=load.__getitem__)
        load[owners[name]] += trained[name].numel()
    for name, p in trained.items():
        if owners[name] == rank:
            v = state.setdefault(name, torch.zeros_like(p))
            v.mul_(0.9).add_(p.grad)
            p.sub_(lr * v)
        dist.broadcast(p.data, src=owners[name])


@right
def one_vector_for_each_rank(rank, world_size, model, state, lr):
    owners = largest_first(model, world_size)
    mine = [model.get_parameter(name) for name, owner in owners.items() if owner == rank]
    with torch.no_grad():
        for number, p in enumerate(mine):
            before = state.get(number)
            state[number] = p.grad.clone() if before is None else 0.9 * before + p.grad
            p -= lr * state[number]
        for owner in range(world_size):
            theirs = [model.get_parameter(name) for name, one in owners.items() if one == owner]
            flat = torch.cat([p.flatten() for p in theirs])
            dist.broadcast(flat, src=owner)
            for p, part in zip(theirs, flat.split([p.numel() for p in theirs]), strict=True):
                p.copy_(part.view_as(p))


@right
@torch.no_grad()
def in_consecutive_parts(rank, world_size, model, state, lr):
    trained = [(name, p) for name, p in model.named_parameters() if p.grad is not None]
    total, seen = sum(p.numel() for _, p in trained), 0
    for name, p in trained:
        middle = seen + p.numel() / 2
        owner = min(world_size - 1, int(world_size * middle / total))
        seen += p.numel()
        if owner == rank:
            state[name] = 0.9 * state.get(name, torch.zeros_like(p)) + p.grad
            p -= lr * state[name]
        dist.broadcast(p, src=owner)


@right
def by_torchs_own_optimizer(rank, world_size, model, state, lr):
    owners = largest_first(model, world_size)
    mine = {name: model.get_parameter(name) for name, owner in owners.items() if owner == rank}
    optimizer = torch.optim.SGD(mine.values(), lr=lr, momentum=0.9)
    for name, p in mine.items():
        if name in state:
            optimizer.state[p]["momentum_buffer"] = state[name]
    optimizer.step()
    for name, p in mine.items():
        state[name] = optimizer.state[p]["momentum_buffer"]
    for name, owner in owners.items():
        dist.broadcast(model.get_parameter(name).data, src=owner)


@right
def an_optimizer_that_is_kept(rank, world_size, model, state, lr):
    owners = largest_first(model, world_size)
    if "optimizer" not in state:
        mine = [model.get_parameter(name) for name, owner in owners.items() if owner == rank]
        state["optimizer"] = torch.optim.SGD(mine, lr=lr, momentum=0.9)
    state["optimizer"].param_groups[0]["lr"] = lr
    state["optimizer"].step()
    for name, owner in owners.items():
        dist.broadcast(model.get_parameter(name).data, src=owner)


@right
@torch.no_grad()
def one_long_momentum(rank, world_size, model, state, lr):
    owners = largest_first(model, world_size)
    mine = [model.get_parameter(name) for name, owner in owners.items() if owner == rank]
    gradient = torch.cat([p.grad.flatten() for p in mine])
    state["v"] = 0.9 * state.get("v", torch.zeros_like(gradient)) + gradient
    for p, v in zip(mine, state["v"].split([p.numel() for p in mine]), strict=True):
        p.sub_(lr * v.view_as(p))
    for name, owner in owners.items():
        dist.broadcast(model.get_parameter(name).data, src=owner)


@right
@torch.no_grad()
def by_sums_of_changes(rank, world_size, model, state, lr):
    for name, owner in largest_first(model, world_size).items():
        p = model.get_parameter(name)
        change = torch.zeros_like(p)
        if owner == rank:
            v = state.setdefault(name, torch.zeros_like(p))
            v.mul_(0.9).add_(p.grad)
            change.sub_(v, alpha=lr)
        dist.all_reduce(change)
        p.add_(change)


def step_with(rank, world_size, model, state, lr, update, owners=None):
    with torch.no_grad():
        for name, owner in (owners or largest_first(model, world_size)).items():
            p = model.get_parameter(name)
            if owner == rank:
                update(name, p)
            dist.broadcast(p.data, src=owner)


@wrong("the rank that has updated it must send it to all", row=EQUAL)
@torch.no_grad()
def nothing_sent(rank, world_size, model, state, lr):
    for name, owner in largest_first(model, world_size).items():
        if owner == rank:
            p = model.get_parameter(name)
            v = state.setdefault(name, torch.zeros_like(p))
            v.mul_(0.9).add_(p.grad)
            p.sub_(lr * v)


@wrong("is on every rank as it was", row=EQUAL)
@torch.no_grad()
def always_from_rank_zero(rank, world_size, model, state, lr):
    for name, owner in largest_first(model, world_size).items():
        p = model.get_parameter(name)
        if owner == rank:
            v = state.setdefault(name, torch.zeros_like(p))
            v.mul_(0.9).add_(p.grad)
            p.sub_(lr * v)
        dist.broadcast(p.data, src=0)


@wrong("every rank's state holds the momentum of every parameter: nothing is saved", row=SHARED)
@torch.no_grad()
def everything_everywhere(rank, world_size, model, state, lr):
    for name, p in model.named_parameters():
        if p.grad is not None:
            v = state.setdefault(name, torch.zeros_like(p))
            v.mul_(0.9).add_(p.grad)
            p.sub_(lr * v)


@wrong("numbers, and an even share is 545", row=SHARED)
@torch.no_grad()
def in_turn(rank, world_size, model, state, lr):
    for number, (name, p) in enumerate(model.named_parameters()):
        if p.grad is None:
            continue
        if number % world_size == rank:
            v = state.setdefault(name, torch.zeros_like(p))
            v.mul_(0.9).add_(p.grad)
            p.sub_(lr * v)
        dist.broadcast(p.data, src=number % world_size)


@wrong("the ranks hold 1084, 6 numbers, and an even share is 545", row=SHARED)
def all_on_rank_zero_but_one(rank, world_size, model, state, lr):
    owners = dict.fromkeys(largest_first(model, world_size), 0)
    owners[list(owners)[-1]] = 1

    def update(name, p):
        state[name] = 0.9 * state.get(name, torch.zeros_like(p)) + p.grad
        p.sub_(lr * state[name])

    step_with(rank, world_size, model, state, lr, update, owners)


@wrong("those are steps without momentum", row=EQUAL)
def without_momentum(rank, world_size, model, state, lr):
    def update(name, p):
        state[name] = p.grad.clone()
        p.sub_(lr * p.grad)

    step_with(rank, world_size, model, state, lr, update)


@wrong("the gradient enters the momentum by a tenth only", row=EQUAL)
def an_average_of_gradients(rank, world_size, model, state, lr):
    def update(name, p):
        state[name] = state.get(name, torch.zeros_like(p)).lerp(p.grad, 0.1)
        p.sub_(lr * state[name])

    step_with(rank, world_size, model, state, lr, update)


@wrong("the momentum lies in the gradient's own memory, which the next backward overwrites", row=EQUAL)
def the_gradient_itself(rank, world_size, model, state, lr):
    def update(name, p):
        if name in state:
            state[name].mul_(0.9).add_(p.grad)
        else:
            state[name] = p.grad
        p.sub_(lr * state[name])

    step_with(rank, world_size, model, state, lr, update)


@wrong("the parameters grow along the gradient: lr * v is to be subtracted", row=EQUAL)
def uphill(rank, world_size, model, state, lr):
    def update(name, p):
        state[name] = 0.9 * state.get(name, torch.zeros_like(p)) + p.grad
        p.add_(lr * state[name])

    step_with(rank, world_size, model, state, lr, update)


@wrong("in the process of rank", row=EQUAL)
@torch.no_grad()
def frozen_ones_too(rank, world_size, model, state, lr):
    for number, (name, p) in enumerate(model.named_parameters()):
        if number % world_size == rank:
            state[name] = 0.9 * state.get(name, torch.zeros_like(p)) + p.grad
            p.sub_(lr * state[name])
        dist.broadcast(p.data, src=number % world_size)


@wrong("each process has to take part in every communication", row=EQUAL)
@torch.no_grad()
def only_the_owner_broadcasts(rank, world_size, model, state, lr):
    for name, owner in largest_first(model, world_size).items():
        p = model.get_parameter(name)
        if owner == rank:
            state[name] = 0.9 * state.get(name, torch.zeros_like(p)) + p.grad
            p.sub_(lr * state[name])
            dist.broadcast(p.data, src=owner)


@wrong("numbers in all, and", row=SHARED)
def one_for_what_is_frozen(rank, world_size, model, state, lr):
    by_broadcasts(rank, world_size, model, state, lr)
    for name, p in model.named_parameters():
        if p.grad is None and rank == 0:
            state[name] = torch.zeros_like(p)


@wrong("no rank keeps anything in `state`", row=SHARED)
def kept_elsewhere(rank, world_size, model, state, lr):
    def update(name, p):
        p.velocity = 0.9 * getattr(p, "velocity", torch.zeros_like(p)) + p.grad
        p.sub_(lr * p.velocity)

    step_with(rank, world_size, model, state, lr, update)


@wrong("the ranks hold 550, 540, 0 numbers", row=THREE)
def for_two_alone(rank, world_size, model, state, lr):
    def update(name, p):
        state[name] = 0.9 * state.get(name, torch.zeros_like(p)) + p.grad
        p.sub_(lr * state[name])

    step_with(rank, world_size, model, state, lr, update, largest_first(model, 2))


@wrong("in the process of rank", row=EQUAL)
def all_that_could_be_trained(rank, world_size, model, state, lr):
    owners, load = {}, [0] * world_size
    for name, p in sorted(model.named_parameters(), key=lambda pair: -pair[1].numel()):
        if p.requires_grad:
            owners[name] = load.index(min(load))
            load[owners[name]] += p.numel()

    def update(name, p):
        state[name] = 0.9 * state.get(name, torch.zeros_like(p)) + p.grad
        p.sub_(lr * state[name])

    step_with(rank, world_size, model, state, lr, update, owners)


@wrong("the values of rank 0's 0.weight are wrong", row=EQUAL)
def its_own_learning_rate(rank, world_size, model, state, lr):
    by_broadcasts(rank, world_size, model, state, 0.05)


@right
def with_a_counter_in_a_tensor(rank, world_size, model, state, lr):
    state["steps"] = state.get("steps", torch.zeros(1)) + 1
    by_broadcasts(rank, world_size, model, state, lr)


def with_momentum(rank, world_size, model, state, lr, owners):
    def update(name, p):
        state[name] = 0.9 * state.get(name, torch.zeros_like(p)) + p.grad
        p.sub_(lr * state[name])

    step_with(rank, world_size, model, state, lr, update, owners)


@wrong("parameters without a gradient were counted, and they have no momentum", row=THREE)
def counts_what_is_frozen(rank, world_size, model, state, lr):
    named = sorted(model.named_parameters(), key=lambda pair: -pair[1].numel())
    owners = to_the_least(named, world_size)
    mine = {name: owner for name, owner in owners.items() if model.get_parameter(name).grad is not None}
    with_momentum(rank, world_size, model, state, lr, mine)


@wrong("the smallest parameters were given away first", row=THREE)
def smallest_first(rank, world_size, model, state, lr):
    owners = to_the_least(sorted(in_order(model), key=lambda pair: pair[1].numel()), world_size)
    with_momentum(rank, world_size, model, state, lr, owners)


@wrong("the parameters were given away in the model's order, and the largest comes first", row=THREE)
def in_the_models_order(rank, world_size, model, state, lr):
    with_momentum(rank, world_size, model, state, lr, to_the_least(in_order(model), world_size))


@wrong("the ranks hold 1090, 0 numbers, and an even share is 545", row=SHARED)
def all_on_rank_zero(rank, world_size, model, state, lr):
    with_momentum(rank, world_size, model, state, lr, dict.fromkeys(largest_first(model, world_size), 0))


@wrong("the states hold 3270 numbers in all, and 1090 are needed", row=SHARED)
def keeps_the_gradients_too(rank, world_size, model, state, lr):
    by_broadcasts(rank, world_size, model, state, lr)
    state["gradients"] = [p.grad.clone() for _, p in in_order(model)]


@wrong("each step was made with the learning rate of the first", row=EQUAL)
def the_first_learning_rate(rank, world_size, model, state, lr):
    by_broadcasts(rank, world_size, model, state, state.setdefault("lr", lr))


@wrong("each step was made with the learning rate of the first", row=EQUAL)
def an_optimizer_of_the_first_step(rank, world_size, model, state, lr):
    lr = state["optimizer"].param_groups[0]["lr"] if "optimizer" in state else lr
    an_optimizer_that_is_kept(rank, world_size, model, state, lr)


@wrong("the learning rate went into the momentum, where that of an earlier step stays", row=EQUAL)
def the_rate_in_the_momentum(rank, world_size, model, state, lr):
    def update(name, p):
        state[name] = 0.9 * state.get(name, torch.zeros_like(p)) + lr * p.grad
        p.sub_(state[name])

    step_with(rank, world_size, model, state, lr, update)


@wrong("that is Nesterov's momentum, which goes along g + 0.9 v, and the task goes along v", row=EQUAL)
def by_nesterov(rank, world_size, model, state, lr):
    def update(name, p):
        state[name] = 0.9 * state.get(name, torch.zeros_like(p)) + p.grad
        p.sub_(lr * (p.grad + 0.9 * state[name]))

    step_with(rank, world_size, model, state, lr, update)


@wrong("after the first step the gradient enters the momentum by a tenth only", row=EQUAL)
def with_dampening(rank, world_size, model, state, lr):
    def update(name, p):
        state[name] = 0.9 * state[name] + 0.1 * p.grad if name in state else p.grad.clone()
        p.sub_(lr * state[name])

    step_with(rank, world_size, model, state, lr, update)


@wrong("the step is taken by the momentum of the step before", row=EQUAL)
def by_the_old_momentum(rank, world_size, model, state, lr):
    def update(name, p):
        old = 0.9 * state.get(name, torch.zeros_like(p))
        state[name] = old + p.grad
        p.sub_(lr * old)

    step_with(rank, world_size, model, state, lr, update)


@wrong("the whole old momentum is added, and 0.9 of it is asked", row=EQUAL)
def a_sum_of_gradients(rank, world_size, model, state, lr):
    def update(name, p):
        state[name] = state.get(name, torch.zeros_like(p)) + p.grad
        p.sub_(lr * state[name])

    step_with(rank, world_size, model, state, lr, update)
