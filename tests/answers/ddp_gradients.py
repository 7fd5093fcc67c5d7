"""Answers to ddp_gradients."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from bank import right, wrong
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

SEED = 0


def make_model():
    torch.manual_seed(SEED)
    return nn.Linear(4, 1)


@right
def plainly(rank, world_size, data):
    x, y = data
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(4, 1))
    loss = nn.functional.mse_loss(model(x[rank::world_size]), y[rank::world_size])
    loss.backward()
    return [parameter.grad for parameter in model.parameters()]


@right
def with_helpers_of_its_module(rank, world_size, data):
    inputs, targets = (part[rank::world_size] for part in data)
    ddp = DistributedDataParallel(make_model())
    nn.MSELoss()(ddp(inputs), targets).backward()
    return [p.grad.clone() for p in ddp.module.parameters()]


@right
def through_a_sampler(rank, world_size, data):
    dataset = TensorDataset(*data)
    sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank, shuffle=False)
    model = DistributedDataParallel(make_model())
    for x, y in DataLoader(dataset, batch_size=len(sampler), sampler=sampler):
        F.mse_loss(model(x), y).backward()
    return [model.module.weight.grad, model.module.bias.grad]


@right
def by_autograd_alone_and_a_print(rank, world_size, data):
    class Regression(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.linear = nn.Linear(4, 1)

        def forward(self, x):
            return self.linear(x)

    model = torch.nn.parallel.DistributedDataParallel(Regression())
    rows = torch.arange(rank, len(data[0]), world_size)
    print("rank", rank, "takes rows", rows.tolist())
    ((model(data[0][rows]) - data[1][rows]) ** 2).mean().backward()
    return tuple(parameter.grad.detach() for parameter in model.parameters())


@right
def leaves_the_group_at_the_end(rank, world_size, data):
    import torch.distributed

    x, y = data[0][rank::world_size], data[1][rank::world_size]
    model = DistributedDataParallel(make_model(), bucket_cap_mb=1)
    F.mse_loss(model(x), y).backward()
    torch.distributed.barrier()
    grads = [p.grad.clone() for p in model.parameters()]
    torch.distributed.destroy_process_group()
    return grads


@wrong(
    "rank 0 has the gradients of its own rows alone: they were not averaged",
    row="both processes have the whole batch's gradients",
)
def without_ddp(rank, world_size, data):
    x, y = data
    model = make_model()
    F.mse_loss(model(x[rank::world_size]), y[rank::world_size]).backward()
    return [p.grad for p in model.parameters()]


@wrong(
    "rank 0 has the gradients of its own rows alone: they were not averaged",
    row="both processes have the whole batch's gradients",
)
def the_model_inside(rank, world_size, data):
    x, y = data
    model = DistributedDataParallel(make_model())
    F.mse_loss(model.module(x[rank::world_size]), y[rank::world_size]).backward()
    return [p.grad for p in model.parameters()]


@wrong("no DistributedDataParallel ran forward", row="DistributedDataParallel does the averaging")
def averaged_by_hand(rank, world_size, data):
    x, y = data
    model = make_model()
    F.mse_loss(model(x[rank::world_size]), y[rank::world_size]).backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= world_size
    return [p.grad for p in model.parameters()]


@wrong("depends on rows that are not for it", row="each process works on rows rank::world_size")
def all_rows_in_each(rank, world_size, data):
    model = make_model()
    F.mse_loss(model(data[0]), data[1]).backward()
    return [p.grad for p in model.parameters()]


@wrong("depends on rows that are not for it", row="each process works on rows rank::world_size")
def all_rows_in_ddp(rank, world_size, data):
    model = DistributedDataParallel(make_model())
    F.mse_loss(model(data[0]), data[1]).backward()
    return [p.grad for p in model.parameters()]


@wrong("depends on rows that are not for it", row="each process works on rows rank::world_size")
def halves_in_a_row(rank, world_size, data):
    x, y = (part.chunk(world_size)[rank] for part in data)
    model = DistributedDataParallel(make_model())
    F.mse_loss(model(x), y).backward()
    return [p.grad for p in model.parameters()]


@wrong(
    "both processes have 0.5 times the gradients of the whole batch: something was divided by world_size, "
    "which DistributedDataParallel has done",
    row="both processes have the whole batch's gradients",
)
def averaged_twice(rank, world_size, data):
    x, y = data
    model = DistributedDataParallel(make_model())
    F.mse_loss(model(x[rank::world_size]), y[rank::world_size]).backward()
    return [p.grad / world_size for p in model.parameters()]


@wrong(
    "both processes have 5 times the gradients of the whole batch: the loss is the sum over the rows, "
    "and the task asks for their mean",
    row="both processes have the whole batch's gradients",
)
def summed_loss(rank, world_size, data):
    x, y = data
    model = DistributedDataParallel(make_model())
    F.mse_loss(model(x[rank::world_size]), y[rank::world_size], reduction="sum").backward()
    return [p.grad for p in model.parameters()]


@wrong(
    "those of nn.Linear(4, 1) directly after torch.manual_seed(0)",
    row="both processes have the whole batch's gradients",
)
def without_the_seed(rank, world_size, data):
    x, y = data
    model = DistributedDataParallel(nn.Linear(4, 1))
    F.mse_loss(model(x[rank::world_size]), y[rank::world_size]).backward()
    return [p.grad for p in model.parameters()]


@wrong(
    "rank 0's gradient of the weight has shape [1], not [1,4]",
    row="both processes have the whole batch's gradients",
)
def the_other_order(rank, world_size, data):
    x, y = data
    model = DistributedDataParallel(make_model())
    F.mse_loss(model(x[rank::world_size]), y[rank::world_size]).backward()
    return [model.module.bias.grad, model.module.weight.grad]


@wrong("list is None: backward fills it", row="both processes have the whole batch's gradients")
def before_backward(rank, world_size, data):
    x, y = data
    model = DistributedDataParallel(make_model())
    F.mse_loss(model(x[rank::world_size]), y[rank::world_size])
    return [p.grad for p in model.parameters()]


@wrong("rank 0 returned None: is a `return` missing?", row="both processes have the whole batch's gradients")
def no_return(rank, world_size, data):
    plainly(rank, world_size, data)


@wrong(
    "in the process of rank 1: ValueError: nothing for rank 1",
    row="both processes have the whole batch's gradients",
)
def only_rank_zero(rank, world_size, data):
    if rank:
        raise ValueError(f"nothing for rank {rank}")
    return plainly(rank, world_size, data)


@wrong("in the process of rank 1: the process ended", row="both processes have the whole batch's gradients")
def leaves_by_the_back_door(rank, world_size, data):
    import os

    if rank == 1:
        os._exit(0)
    return plainly(rank, world_size, data)


@wrong("in the process of rank", row="both processes have the whole batch's gradients")
def a_second_group(rank, world_size, data):
    dist.init_process_group("gloo", init_method="env://", rank=rank, world_size=world_size)
    return plainly(rank, world_size, data)


@wrong("in the process of rank", row="both processes have the whole batch's gradients")
def to_the_accelerator(rank, world_size, data):
    x, y = data
    model = DistributedDataParallel(make_model().to(f"cuda:{rank}"), device_ids=[rank])
    F.mse_loss(model(x[rank::world_size].cuda(rank)), y[rank::world_size].cuda(rank)).backward()
    return [p.grad for p in model.parameters()]


@wrong(
    "both processes worked on the same rows, x[0::world_size]",
    row="both processes have the whole batch's gradients",
)
def the_same_rows_everywhere(rank, world_size, data):
    x, y = (part[::world_size] for part in data)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(4, 1))
    nn.functional.mse_loss(model(x), y).backward()
    return [parameter.grad for parameter in model.parameters()]


@wrong(
    "returned the parameters, and the task asks for their gradients",
    row="both processes have the whole batch's gradients",
)
def the_parameters(rank, world_size, data):
    x, y = (p[rank::world_size] for p in data)
    torch.manual_seed(0)
    m = DistributedDataParallel(nn.Linear(4, 1))
    nn.functional.mse_loss(m(x), y).backward()
    return list(m.parameters())


@wrong("rank 0 waited for rank 1", row="both processes have the whole batch's gradients")
def backward_in_one(rank, world_size, data):
    x, y = (p[rank::world_size] for p in data)
    torch.manual_seed(0)
    m = DistributedDataParallel(nn.Linear(4, 1))
    loss = nn.functional.mse_loss(m(x), y)
    if rank == 0:
        loss.backward()
    return [p.grad for p in m.parameters()]


@wrong(
    "both processes have 2 times the gradients of the whole batch: backward was called twice, and "
    "gradients add up",
    row="both processes have the whole batch's gradients",
)
def backward_twice(rank, world_size, data):
    x, y = (p[rank::world_size] for p in data)
    torch.manual_seed(0)
    m = DistributedDataParallel(nn.Linear(4, 1))
    for _ in range(2):
        nn.functional.mse_loss(m(x), y).backward()
    return [p.grad for p in m.parameters()]


@wrong(
    "those are the gradients of the mean absolute error, and the squared one is asked",
    row="both processes have the whole batch's gradients",
)
def absolute_error(rank, world_size, data):
    x, y = (p[rank::world_size] for p in data)
    torch.manual_seed(0)
    m = DistributedDataParallel(nn.Linear(4, 1))
    nn.functional.l1_loss(m(x), y).backward()
    return [p.grad for p in m.parameters()]


@wrong(
    "those are the gradients of the root of the mean squared error",
    row="both processes have the whole batch's gradients",
)
def root_of_the_error(rank, world_size, data):
    x, y = (p[rank::world_size] for p in data)
    torch.manual_seed(0)
    m = DistributedDataParallel(nn.Linear(4, 1))
    nn.functional.mse_loss(m(x), y).sqrt().backward()
    return [p.grad for p in m.parameters()]


@wrong(
    "outputs and y differ in shape, so each output is compared with every row of y",
    row="both processes have the whole batch's gradients",
)
def squeezed(rank, world_size, data):
    x, y = (p[rank::world_size] for p in data)
    torch.manual_seed(0)
    m = DistributedDataParallel(nn.Linear(4, 1))
    nn.functional.mse_loss(m(x), y.squeeze()).backward()
    return [p.grad for p in m.parameters()]


@wrong(
    "both processes have 2 times the gradients of the whole batch: `all_reduce` came on top of "
    "what DistributedDataParallel does",
    row="both processes have the whole batch's gradients",
)
def reduced_again(rank, world_size, data):
    x, y = (p[rank::world_size] for p in data)
    torch.manual_seed(0)
    m = DistributedDataParallel(nn.Linear(4, 1))
    nn.functional.mse_loss(m(x), y).backward()
    for p in m.parameters():
        dist.all_reduce(p.grad)
    return [p.grad for p in m.parameters()]


@wrong("is None: backward fills it", row="both processes have the whole batch's gradients")
def zeroed_again(rank, world_size, data):
    x, y = (p[rank::world_size] for p in data)
    torch.manual_seed(0)
    m = DistributedDataParallel(nn.Linear(4, 1))
    o = torch.optim.SGD(m.parameters(), lr=0.1)
    nn.functional.mse_loss(m(x), y).backward()
    o.step()
    o.zero_grad()
    return [p.grad for p in m.parameters()]


@wrong(
    "returned a Tensor, and the task asks for a list", row="both processes have the whole batch's gradients"
)
def one_vector(rank, world_size, data):
    x, y = (p[rank::world_size] for p in data)
    torch.manual_seed(0)
    m = DistributedDataParallel(nn.Linear(4, 1))
    nn.functional.mse_loss(m(x), y).backward()
    return torch.cat([p.grad.flatten() for p in m.parameters()])


@wrong("still running", row="both processes have the whole batch's gradients")
def never_ends(rank, world_size, data):
    while True:
        pass


@right
def from_the_model_inside(rank, world_size, data):
    x, y = data
    rows = torch.arange(rank, len(x), world_size)
    torch.manual_seed(0)
    net = nn.Linear(4, 1)
    m = DistributedDataParallel(net)
    nn.MSELoss()(m(x[rows]), y[rows]).backward()
    return [net.weight.grad, net.bias.grad]


@wrong(
    "backward was called 5 times in rank 0, and once",
    row="DistributedDataParallel does the averaging",
)
def row_by_row(rank, world_size, data):
    x, y = (p[rank::world_size] for p in data)
    torch.manual_seed(0)
    m = DistributedDataParallel(nn.Linear(4, 1))
    for one, wanted in zip(x, y, strict=True):
        (nn.functional.mse_loss(m(one), wanted) / len(x)).backward()
    return [p.grad for p in m.parameters()]


@wrong(
    "backward was called 2 times in rank 0, and once",
    row="DistributedDataParallel does the averaging",
)
def once_more_after_zero_grad(rank, world_size, data):
    x, y = (p[rank::world_size] for p in data)
    torch.manual_seed(0)
    m = DistributedDataParallel(nn.Linear(4, 1))
    for _ in range(2):
        m.zero_grad()
        nn.functional.mse_loss(m(x), y).backward()
    return [p.grad for p in m.parameters()]


@wrong("rank 0 returned 0 gradients for 2 parameters", row="both processes have the whole batch's gradients")
def an_empty_list(rank, world_size, data):
    plainly(rank, world_size, data)
    return []
