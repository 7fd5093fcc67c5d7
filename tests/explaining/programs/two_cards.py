# ruff: noqa: D103 - learners write no docstrings
"""Programs on two cards, and tensors that serve more than one use."""

import numpy as np
import torch
from explaining.broken import broken
from torch import nn


class Two(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.left, self.right = nn.Linear(4, 4).to(first), nn.Linear(4, 4).to(second)

    def forward(self, x):
        return self.left(x).sum().item() + self.right(x).sum().item()


@broken(
    "x",
    "put on sim:0 in shared_input",
    "return self.left(x).sum().item() + self.right(x.to(next(self.right.parameters()).device)).sum().item()",
)
def shared_input(first, second):
    return Two(first, second)(torch.ones(1, 4).to(first))


@broken("x", "put on sim:0 in split_residual", "return h + x.to(h.device)")
def split_residual(first, second):
    a, b = nn.Linear(4, 4).to(first), nn.Linear(4, 4).to(second)
    x = torch.ones(1, 4).to(first)
    h = a(x)
    h = b(h.to(second))
    return h + x


@broken("y", "made in loss_on_the_last_card", "y = torch.tensor([0, 1], device=second)")
def loss_on_the_last_card(first, second):
    a, b = nn.Linear(4, 4).to(first), nn.Linear(4, 3).to(second)
    x = torch.ones(2, 4, device=first)
    y = torch.tensor([0, 1], device=first)
    return nn.functional.cross_entropy(b(a(x).to(second)), y)


@broken("h", "made in hidden_passed_on", "h = stage(h.to(next(stage.parameters()).device))")
def hidden_passed_on(first, second):
    stages = [nn.Linear(4, 4).to(first), nn.Linear(4, 4).to(second)]
    h = torch.ones(1, 4, device=first)
    for stage in stages:
        h = stage(h)
    return h


@broken(
    "b(a(x).to(second))",
    "computed in three_stages",
    "return a(b(a(x).to(second)).to(next(a.parameters()).device))",
)
def three_stages(first, second):
    a, b = nn.Linear(4, 4).to(first), nn.Linear(4, 4).to(second)
    x = torch.ones(1, 4, device=first)
    return a(b(a(x).to(second)))


@broken("b", "made in two_of_three_on_the_first", "b = torch.ones(3, device=first)")
def two_of_three_on_the_first(first, second):
    a = torch.ones(3, device=first)
    b = torch.ones(3, device=second)
    c = torch.ones(3, device=first)
    return torch.addcmul(a, b, c)


@broken(
    "parts[1]",
    "an element of a list or dict",
    "[torch.ones(1, 3, device=first), torch.ones(1, 3, device=first), torch.ones(1, 3, device=first)]",
)
def concatenated(first, second):
    parts = [torch.ones(1, 3, device=first), torch.ones(1, 3, device=second), torch.ones(1, 3, device=first)]
    return torch.cat(parts)


@broken("losses[0]", "an element of a list or dict", "losses = [value.to(second) for value in losses]")
def gathered_losses(first, second):
    losses = []
    for device in (first, second):
        net = nn.Linear(3, 1).to(device)
        losses.append(net(torch.ones(2, 3, device=device)).mean())
    return torch.stack(losses).mean()


class Shared(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.embed = nn.Embedding(5, 4).to(first)
        self.body = nn.Linear(4, 4).to(second)

    def forward(self, ids):
        h = self.body(self.embed(ids).to(self.body.weight.device))
        return h @ self.embed.weight.T


@broken("h", "computed in forward", "h = h.to(self.embed.weight.device)")
def tied_weights(first, second):
    return Shared(first, second)(torch.tensor([1, 2], device=first))


@broken("weights", "made in weights_that_numpy_reads_too", "return scores * weights.to(device), order")
def weights_that_numpy_reads_too(device):
    weights = torch.tensor([1.0, 2.0, 3.0])
    order = np.argsort(weights.numpy())
    scores = torch.ones(2, 3, device=device)
    return scores * weights, order


@broken("table", "made in a_table_that_the_cpu_uses_too", "return x * table.to(device), host")
def a_table_that_the_cpu_uses_too(device):
    table = torch.arange(4.0)
    host = torch.ones(4) + table
    x = torch.ones(4, device=device)
    return x * table, host


@broken("rows", "made in rows_that_stay_and_rows_that_go", "after = net(rows.to(device))")
def rows_that_stay_and_rows_that_go(device):
    rows = torch.rand(6, 3)
    host_net, net = nn.Linear(3, 2), nn.Linear(3, 2).to(device)
    before = host_net(rows)
    after = net(rows)
    return before, after


@broken("rows", "made in write_into_host_storage", "store.index_copy_(0, where, rows.to(store.device))")
def write_into_host_storage(device):
    store = torch.zeros(4, 2)
    where = torch.tensor([1, 3])
    rows = torch.ones(2, 2, device=device)
    store.index_copy_(0, where, rows)
    return store.sum().item()


@broken(
    "torch.ones(2, device=device)",
    "made in counts_on_the_host",
    "counts.index_add_(0, labels.cpu(), torch.ones(2, device=counts.device))",
)
def counts_on_the_host(device):
    counts = torch.zeros(5)
    for _ in range(2):
        labels = torch.tensor([1, 3], device=device)
        counts.index_add_(0, labels.cpu(), torch.ones(2, device=device))
    return counts.tolist()


@broken(
    "amounts",
    "made in scattered_into_the_host",
    "return total.scatter_add_(0, where, amounts.to(total.device))",
)
def scattered_into_the_host(device):
    total = torch.zeros(4)
    where = torch.tensor([0, 2, 2])
    amounts = torch.rand(3, device=device)
    return total.scatter_add_(0, where, amounts)


@broken("mean", "made in running_mean_on_the_host", "mean = torch.zeros(3, device=device)")
def running_mean_on_the_host(device):
    mean = torch.zeros(3)
    for _ in range(2):
        batch = torch.ones(4, 3, device=device)
        mean.mul_(0.9).add_(batch.mean(0), alpha=0.1)
    return mean


@broken("mask", "made in chosen_among_two", "return torch.where(mask.to(device), x, fallback.to(device))")
def chosen_among_two(device):
    mask = torch.tensor([True, False, True])
    fallback = torch.zeros(3)
    x = torch.ones(3, device=device)
    return torch.where(mask, x, fallback)


@broken(
    "torch.tensor([True, False, True, False])",
    "made in masked_assignment",
    "x[torch.tensor([True, False, True, False], device=device)] = torch.ones(2, device=device)",
)
def masked_assignment(device):
    x = torch.zeros(4, device=device)
    x[torch.tensor([True, False, True, False])] = torch.ones(2)
    return x


@broken(
    "torch.zeros(3)",
    "made in clamped_between",
    "return x.clamp(torch.zeros(3, device=device), torch.ones(3, device=device))",
)
def clamped_between(device):
    x = torch.ones(3, device=device)
    return x.clamp(torch.zeros(3), torch.ones(3))


@broken(
    "start",
    "made in interpolated",
    "start, end = torch.zeros(3, device=device), torch.ones(3, device=device)",
)
def interpolated(device):
    start, end = torch.zeros(3), torch.ones(3)
    weight = torch.rand(3, device=device)
    return torch.lerp(start, end, weight)
