# ruff: noqa: D103 - learners write no docstrings
"""Programs in which a change at the wrong place breaks another line: shared, chained, remembered tensors."""

import functools

import numpy as np
import torch
from explaining.broken import broken
from torch import nn
from torch.nn import functional as F


@functools.lru_cache
def grid(n):
    return torch.stack(torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij"), -1).float()


@broken("grid(3)", "made in grid", "return x - grid(3).to(device)")
def grid_that_is_remembered(device):
    x = torch.rand(3, 3, 2, device=device)
    return x - grid(3)


def scale(w, x):
    return w * x


@broken(
    "w", "made in first_argument_of_a_partial", "f = functools.partial(scale, torch.ones(3, device=device))"
)
def first_argument_of_a_partial(device):
    f = functools.partial(scale, torch.ones(3))
    return f(torch.ones(3, device=device))


@broken(
    "p.loc",
    "attribute 'loc' of Normal",
    "sum(torch.distributions.Normal(loc=p.loc.to(device), scale=p.scale.to(device)).log_prob(z).sum() for ",
)
def distributions_in_a_list(device):
    parts = [torch.distributions.Normal(torch.zeros(2), torch.ones(2)) for _ in range(2)]
    z = torch.randn(3, 2, device=device)
    return sum(p.log_prob(z).sum() for p in parts)


MEAN_OF_TWO = torch.tensor([0.5, 0.5, 0.5])
STD_OF_TWO = torch.tensor([0.2, 0.2, 0.2])


def normalize(x):
    return (x - MEAN_OF_TWO) / STD_OF_TWO


@broken("MEAN_OF_TWO", "a global variable", "return (x - MEAN_OF_TWO.to(x.device)) / STD_OF_TWO.to(x.device)")
def two_global_names(device):
    return normalize(torch.rand(2, 3, device=device))


@broken("limit", "made in in_the_head_of_a_condition", "limit = torch.full((3,), 2.0, device=device)")
def in_the_head_of_a_condition(device):
    limit = torch.full((3,), 2.0)
    x = torch.ones(3, device=device)
    if (x > limit).any():
        x = x * 2
    return x


class BlockMaskFor(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.lin = nn.Linear(4, 4).to(d)

    def forward(self, x, mask):
        return self.lin(x) * mask


@broken(
    "mask",
    "made in mask_for_both_cards",
    "x = block(x.to(block.lin.weight.device), mask.to(next(block.parameters()).device))",
)
def mask_for_both_cards(first, second):
    blocks = [BlockMaskFor(first), BlockMaskFor(second)]
    x, mask = torch.ones(2, 4, device=first), torch.ones(2, 1, device=first)
    for block in blocks:
        x = block(x.to(block.lin.weight.device), mask)
    return x


class PipeChainOver(nn.Module):
    def __init__(self, devices):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4).to(d) for d in devices)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


@broken("x", "made in chain_over_two_cards", "x = layer(x.to(next(layer.parameters()).device))")
def chain_over_two_cards(first, second):
    return PipeChainOver([first, second])(torch.ones(1, 4, device=first))


@broken(
    "x",
    "made in <genexpr>",
    "return sum(net(x.to(next(net.parameters()).device)).sum().item() for net in nets)",
)
def ensemble_over_two_cards(first, second):
    nets = [nn.Linear(3, 2).to(first), nn.Linear(3, 2).to(second)]
    x = torch.ones(1, 3, device=first)
    return sum(net(x).sum().item() for net in nets)


@broken(
    "y",
    "made in labels_that_the_first_card_needs",
    "return F.cross_entropy(logits, y.to(logits.device)) + weights.sum().to(second)",
)
def labels_that_the_first_card_needs(first, second):
    y = torch.tensor([0, 1], device=first)
    weights = torch.ones(2, device=first)[y]
    logits = nn.Linear(4, 2).to(second)(torch.ones(2, 4, device=second))
    return F.cross_entropy(logits, y) + weights.sum().to(second)


@broken(
    "pixels",
    "made in mean_and_deviation_of_integers",
    "pixels = torch.randint(0, 255, (2, 3), device=device, dtype=torch.float32)",
)
def mean_and_deviation_of_integers(device):
    pixels = torch.randint(0, 255, (2, 3), device=device)
    return (pixels - pixels.mean()) / pixels.std()


@broken(
    "q.half()",
    "made in keys_and_values_in_half_precision",
    "return att(q, q.half().to(torch.float32), q.half().to(torch.float32))[0]",
)
def keys_and_values_in_half_precision(device):
    att = nn.MultiheadAttention(4, 1, batch_first=True).to(device)
    q = torch.ones(1, 3, 4, device=device)
    return att(q, q.half(), q.half())[0]


@broken("x", "made in norm_in_bfloat16", "x = torch.randn(2, 4, device=device, dtype=torch.bfloat16)")
def norm_in_bfloat16(device):
    norm = nn.LayerNorm(4).to(device, torch.bfloat16)
    x = torch.randn(2, 4, device=device)
    return norm(x)


@broken("hist", "made in integers_that_take_fractions", "hist = hist.add(probs)")
def integers_that_take_fractions(device):
    hist = torch.zeros(3, dtype=torch.long, device=device)
    probs = torch.rand(3, device=device)
    hist.add_(probs)
    return hist


class AffineTwoAttributes(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.scale, self.offset = torch.ones(3), torch.zeros(3)

    def forward(self, x):
        return self.lin(x) * self.scale + self.offset


@broken(
    "self.scale",
    "plain attribute 'scale' of AffineTwoAttributes",
    'self.register_buffer("scale", torch.ones(3)); self.register_buffer("offset", torch.zeros(3))',
)
def two_attributes_in_one_line(device):
    return AffineTwoAttributes().to(device)(torch.ones(2, 3, device=device))


@broken(
    "w",
    "made in one_of_two_in_a_call",
    "return F.mse_loss(torch.ones(3, device=device), (w if use else w * 2).to(device))",
)
def one_of_two_in_a_call(device):
    use = True
    w = torch.ones(3)
    return F.mse_loss(torch.ones(3, device=device), w if use else w * 2)


@broken(
    "metrics",
    "made in values_of_a_dict_to_numpy",
    "np.array([x.detach().cpu().numpy() if torch.is_tensor(x) else x for x in list(metrics.values())])",
)
def values_of_a_dict_to_numpy(device):
    metrics = {"loss": torch.tensor(0.5, device=device), "acc": 0.9}
    return np.array(list(metrics.values()))


@broken("x", "made in numpy_in_the_head_of_a_condition", "x = x.detach().cpu().numpy()")
def numpy_in_the_head_of_a_condition(device):
    x = torch.ones(3, device=device)
    if np.asarray(x).sum() > 1:
        return 1
    return 0


def make():
    return nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))


@broken("net", "a Sequential whose parameters and buffers are on cpu: it was not moved", "net.to(device)")
def loaded_on_the_cpu_by_assignment(device):
    state = make().state_dict()
    with torch.device("meta"):
        net = make()
    net.load_state_dict(state, assign=True)
    return net(torch.ones(1, 2, device=device))


@broken(
    "a", "made in distances_in_two_precisions", "a = torch.randn(3, 2, device=device, dtype=torch.float16)"
)
def distances_in_two_precisions(device):
    a = torch.randn(3, 2, device=device)
    b = torch.randn(4, 2, device=device).half()
    return torch.cdist(a, b)


@broken("x", "made in teacher_on_another_card", "soft = teacher(x.to(next(teacher.parameters()).device))")
def teacher_on_another_card(first, second):
    student, teacher = nn.Linear(3, 2).to(first), nn.Linear(3, 2).to(second)
    x = torch.ones(4, 3, device=first)
    with torch.no_grad():
        soft = teacher(x)
    return F.mse_loss(student(x), soft)


@broken("mix._component_distribution.loc", "attribute 'loc' of Normal", "")
def mixture_of_distributions(device):
    D = torch.distributions
    mix = D.MixtureSameFamily(D.Categorical(torch.ones(2)), D.Normal(torch.zeros(2), torch.ones(2)))
    return mix.log_prob(torch.randn(3, device=device)).sum()


@broken("input of Linear", "an argument of forward", "")
def chain_that_moves_nothing(first, second):
    net = nn.Sequential(nn.Linear(4, 4).to(first), nn.ReLU(), nn.Linear(4, 2).to(second))
    return net(torch.ones(1, 4, device=first))
