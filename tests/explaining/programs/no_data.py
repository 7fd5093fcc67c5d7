# ruff: noqa: D103 - learners write no docstrings
"""Modules and tensors on meta, a full memory, an index outside, compiled code, lists of mixed numbers."""

import warnings

import numpy as np
import torch
from explaining.broken import broken
from torch import nn


@broken(
    "net",
    "made on meta, with shapes and without values",
    "net.to_empty(device=device).apply(lambda m: m.reset_parameters() if ",
)
def meta_module_called(device):
    with torch.device("meta"):
        net = nn.Linear(2, 2)
    return net(torch.ones(1, 2, device=device))


class Net(nn.Module):
    def __init__(self, device=None):
        super().__init__()
        self.body = nn.Linear(3, 3, device=device)
        self.head = nn.Linear(3, 2, device=device)

    def forward(self, x):
        return self.head(self.body(x).relu())


@broken(
    "net",
    "made on meta, with shapes and without values",
    "net.to_empty(device=device).apply(lambda m: m.reset_parameters() if ",
)
def meta_network_called(device):
    net = Net("meta")
    return net(torch.ones(1, 3, device=device))


@broken(
    "net[1]",
    "made on meta, with shapes and without values",
    "net[1].to_empty(device=device).apply(lambda m: m.reset_parameters() if ",
)
def meta_part_of_a_sequence(device):
    with torch.device("meta"):
        net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    net[0] = nn.Linear(3, 3, device=device)
    return net(torch.ones(1, 3, device=device))


@broken(
    "net",
    "made on meta, with shapes and without values",
    "net.to_empty(device=device).apply(lambda m: m.reset_parameters() if ",
)
def meta_network_moved(device):
    net = Net("meta")
    net.to(device)
    return net(torch.ones(1, 3, device=device))


@broken("net", "made on meta, with shapes and without values", "net.load_state_dict(saved, assign=True)")
def meta_network_loaded_without_assign(device):
    saved = Net().to(device).state_dict()
    net = Net("meta")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net.load_state_dict(saved)
    return net(torch.ones(1, 3, device=device))


@broken(
    "net.head",
    "made on meta, with shapes and without values",
    "net.head.to_empty(device=device).apply(lambda m: m.reset_parameters() if ",
)
def half_loaded(device):
    saved = {name: t for name, t in Net().to(device).state_dict().items() if "body" in name}
    net = Net("meta")
    net.load_state_dict(saved, strict=False, assign=True)
    return net(torch.ones(1, 3, device=device))


@broken("x", "made in meta_tensor_to_a_number", "x = torch.ones(3, device=device)")
def meta_tensor_to_a_number(device):
    x = torch.ones(3, device="meta")
    return x.sum().item()


@broken("x", "made in meta_tensor_to_numpy", 'x = torch.ones(3, device="cpu")')
def meta_tensor_to_numpy(device):
    x = torch.ones(3, device="meta")
    return x.numpy()


@broken("x", "made in meta_tensor_to_a_list", "x = torch.ones(3, device=device)")
def meta_tensor_to_a_list(device):
    x = torch.ones(3, device="meta")
    return x.tolist()


@broken("x", "made in meta_tensor_moved", "x = torch.zeros(2, 3, device=device)")
def meta_tensor_moved(device):
    x = torch.zeros(2, 3, device="meta")
    return x.to(device)


@broken("scale", "made in meta_tensor_added", "scale = torch.empty(3, device=device)")
def meta_tensor_added(device):
    x = torch.ones(3, device=device)
    scale = torch.empty(3, device="meta")
    return x * scale


@broken("x", "made in meta_tensor_as_a_condition", "x = torch.ones(3, device=device)")
def meta_tensor_as_a_condition(device):
    x = torch.ones(3, device="meta")
    return 1 if x.sum() > 0 else 0


@broken("kept", "more than any other name that can be seen from here", "")
def out_of_memory(device):
    kept = []
    for _ in range(64):
        kept.append(torch.ones(16 * 2**20, device=device))
    return len(kept)


@broken("rows = table(torch.tensor([1, 7], device=device))", "launched `embedding` and went on", "")
def index_out_of_range(device):
    table = nn.Embedding(5, 3).to(device)
    rows = table(torch.tensor([1, 7], device=device))
    return rows.sum().item()


@broken("loss = nn.functional.cross_entropy(scores, labels)", "launched `nll_loss_forward` and went on", "")
def label_out_of_range(device):
    scores, labels = torch.zeros(2, 3, device=device), torch.tensor([0, 3], device=device)
    loss = nn.functional.cross_entropy(scores, labels)
    return loss.tolist()


@broken(
    "hits",
    "made in numpy_list_of_mixed",
    "return np.array([loss.item(), (hits * 100).detach().cpu().numpy()])",
)
def numpy_list_of_mixed(device):
    loss = torch.ones(3, device=device).sum()
    hits = torch.tensor(0.5, device=device)
    return np.array([loss.item(), hits * 100])


@broken(
    "history[1]",
    "an element of a list or dict",
    "return np.mean([x.item() if torch.is_tensor(x) else x for x in history])",
)
def numpy_of_floats_and_a_loss(device):
    history = []
    w = torch.ones(3, device=device, requires_grad=True)
    for step in range(2):
        loss = (w * step).sum()
        history.append(loss if step else loss.item())
    return np.mean(history)


@broken(
    "table",
    "captured from the function around this one (a closure)",
    'table = torch.arange(3.0, device="sim:0")',
)
def compiled_function(device):
    table = torch.arange(3.0)

    @torch.compile(backend="eager")
    def go(x):
        return x + table

    return go(torch.ones(3, device=device))


@broken("", "", "")
def compiled_module(device):
    net = nn.Linear(3, 2)
    return torch.compile(net, backend="eager")(torch.ones(1, 3, device=device))


class Anchors(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.lin(x) * self.scale


@broken("net", "made on meta, with shapes and without values", "")
def parameters_that_have_no_beginning(device):
    with torch.device("meta"):
        net = Anchors()
    return net(torch.ones(1, 3, device=device))
