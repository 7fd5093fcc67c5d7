"""Answers to accumulated_gradients."""

import contextlib

import torch
import torch.distributed as dist
from bank import right, wrong
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

PARTS = "the gradients of all parts of both processes"
ONCE = "one exchange, for all parts together"


def make_model():
    torch.manual_seed(0)
    return DistributedDataParallel(nn.Linear(4, 1))


def gradients(model):
    return [parameter.grad for parameter in model.parameters()]


@right
def two_loops(rank, world_size, data):
    x, y = data
    model = make_model()
    with model.no_sync():
        for part in range(len(x) - 1):
            (F.mse_loss(model(x[part]), y[part]) / len(x)).backward()
    (F.mse_loss(model(x[-1]), y[-1]) / len(x)).backward()
    return gradients(model)


@right
def an_exit_stack(rank, world_size, data):
    model = make_model()
    parts = list(zip(*data, strict=True))
    with contextlib.ExitStack() as quiet:
        quiet.enter_context(model.no_sync())
        for number, (x, y) in enumerate(parts, start=1):
            if number == len(parts):
                quiet.close()
            loss = ((model(x) - y) ** 2).sum() / (len(x) * len(parts))
            loss.backward()
    return tuple(gradients(model))


@right
def divided_at_the_end(rank, world_size, data):
    model = make_model()
    for number, (x, y) in enumerate(zip(*data, strict=True)):
        last = number == len(data[0]) - 1
        with contextlib.nullcontext() if last else model.no_sync():
            nn.MSELoss()(model(x), y).backward()
    return [gradient / len(data[0]) for gradient in gradients(model)]


@wrong("3 of 3 forwards in rank 0 have their gradients exchanged", row=ONCE)
def an_exchange_for_each(rank, world_size, data):
    model = make_model()
    for x, y in zip(*data, strict=True):
        (F.mse_loss(model(x), y) / len(data[0])).backward()
    return gradients(model)


@wrong("3 of 3 forwards in rank 0 have their gradients exchanged", row=ONCE)
def forward_outside(rank, world_size, data):
    model = make_model()
    for number, (x, y) in enumerate(zip(*data, strict=True)):
        loss = F.mse_loss(model(x), y) / len(data[0])
        with contextlib.nullcontext() if number == len(data[0]) - 1 else model.no_sync():
            loss.backward()
    return gradients(model)


@wrong("no exchange took place: each process has its own gradients", row=PARTS)
def all_without_an_exchange(rank, world_size, data):
    model = make_model()
    with model.no_sync():
        for x, y in zip(*data, strict=True):
            (F.mse_loss(model(x), y) / len(data[0])).backward()
    return gradients(model)


@wrong("that is the sum over the parts, and the mean over all rows is asked", row=PARTS)
def never_divided(rank, world_size, data):
    model = make_model()
    with model.no_sync():
        for x, y in zip(data[0][:-1], data[1][:-1], strict=True):
            F.mse_loss(model(x), y).backward()
    F.mse_loss(model(data[0][-1]), data[1][-1]).backward()
    return gradients(model)


@wrong("that is divided by the number of processes, which DDP has done already", row=PARTS)
def divided_by_the_processes(rank, world_size, data):
    model = make_model()
    scale = len(data[0]) * world_size
    with model.no_sync():
        for x, y in zip(data[0][:-1], data[1][:-1], strict=True):
            (F.mse_loss(model(x), y) / scale).backward()
    (F.mse_loss(model(data[0][-1]), data[1][-1]) / scale).backward()
    return gradients(model)


@wrong("those are the gradients of the last part alone", row=PARTS)
def cleared_before_each(rank, world_size, data):
    model = make_model()
    for number, (x, y) in enumerate(zip(*data, strict=True)):
        model.zero_grad()
        with contextlib.nullcontext() if number == len(data[0]) - 1 else model.no_sync():
            (F.mse_loss(model(x), y) / len(data[0])).backward()
    return gradients(model)


@wrong("1 forward in rank 0 for 3 parts", row=ONCE)
def all_at_once(rank, world_size, data):
    model = make_model()
    F.mse_loss(model(data[0].flatten(0, 1)), data[1].flatten(0, 1)).backward()
    return gradients(model)


@wrong("no DistributedDataParallel ran forward in rank 0", row=ONCE)
def by_hand(rank, world_size, data):
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    for x, y in zip(*data, strict=True):
        (F.mse_loss(model(x), y) / len(data[0])).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= world_size
    return gradients(model)


@wrong("0 of 3 forwards in rank 0 have their gradients exchanged", row=ONCE)
def an_all_reduce_at_the_end(rank, world_size, data):
    model = make_model()
    with model.no_sync():
        for x, y in zip(*data, strict=True):
            (F.mse_loss(model(x), y) / len(data[0])).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= world_size
    return gradients(model)


@wrong("rank 0 returned None: is a `return` missing?", row=PARTS)
def returns_nothing(rank, world_size, data):
    gradients(make_model())


@wrong("rank 0 returned the parameters", row=PARTS)
def the_parameters(rank, world_size, data):
    model = make_model()
    F.mse_loss(model(data[0]), data[1]).backward()
    return list(model.parameters())
