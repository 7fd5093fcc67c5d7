# ruff: noqa: D103, B905 - learners write no docstrings
"""Failures in odd places: coroutines, loaders, mapped functions, chains over several lines, assignments."""

import asyncio

import torch
from explaining.broken import broken
from torch import nn
from torch.utils.data import DataLoader, Dataset

DEVICE = torch.device("sim:0")


@broken("table", "made in serve", "table = torch.arange(3.0, device=x.device)")
def in_a_coroutine():
    async def serve(x):
        table = torch.arange(3.0)
        return x + table

    asyncio.run(serve(torch.ones(3, device=DEVICE)))


class OnTheDevice(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.ones(index + 1, device=DEVICE)


def collate(items):
    padded = torch.zeros(len(items), 4)
    for row, item in zip(padded, items):
        row[: len(item)] += item
    return padded


@broken("row", "made in collate", "padded = torch.zeros(len(items), 4, device=DEVICE)")
def padding_in_a_collate_function():
    next(iter(DataLoader(OnTheDevice(), batch_size=4, collate_fn=collate)))


@broken("weight", "captured from the function around", "weight = torch.randn(3, device=DEVICE)")
def in_a_mapped_function():
    weight = torch.randn(3)
    torch.func.vmap(lambda row: (row * weight).sum())(torch.randn(4, 3, device=DEVICE))


@broken("offsets", "made in", "offsets = torch.tensor([0, 2], device=DEVICE)")
def offsets_of_a_bag():
    bag = nn.EmbeddingBag(10, 3).to(DEVICE)
    text = torch.tensor([1, 2, 3], device=DEVICE)
    offsets = torch.tensor([0, 2])
    bag(text, offsets)


@broken(
    "optimizer.state[parameter 0]['momentum_buffer']",
    "optimizer state",
    "optimizer.load_state_dict(optimizer.state_dict())",
)
def momentum_put_aside_to_save_memory():
    model = nn.Linear(2, 1).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(1, 2, device=DEVICE)).sum().backward()
    optimizer.step()
    for state in optimizer.state.values():
        state["momentum_buffer"] = state["momentum_buffer"].cpu()
    model(torch.ones(1, 2, device=DEVICE)).sum().backward()
    optimizer.step()


@broken("fresh", "made in", "fresh = torch.ones(2, 2, device=DEVICE)")
def assigned_through_a_mask():
    x = torch.zeros(4, 2, device=DEVICE)
    keep = torch.tensor([True, False, True, False], device=DEVICE)
    fresh = torch.ones(2, 2)
    x[keep] = fresh


@broken("bias", "made in", "bias = torch.zeros(3, 3, device=DEVICE)")
def chain_over_several_lines():
    scores = torch.randn(2, 3, 3, device=DEVICE)
    bias = torch.zeros(3, 3)
    return scores.softmax(-1).add(
        bias,
    )


@broken("batch", "put on sim", "batch = torch.randn(3, 2).to(second)")
def bare_move_to_the_current_accelerator():
    second = torch.device("sim:1")
    model = nn.Linear(2, 2).to(second)
    batch = torch.randn(3, 2).sim()
    model(batch)


@broken("x", "made in", "x = torch.randn(4, 3, device=DEVICE, dtype=torch.float16)")
def single_precision_into_a_half_model():
    model = nn.Linear(3, 2).to(DEVICE).half()
    x = torch.randn(4, 3, device=DEVICE)
    model(x)
