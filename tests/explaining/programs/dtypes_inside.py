# ruff: noqa: D103 - learners write no docstrings
"""Dtypes that met inside an expression, in a write by index, in a target, in an index."""

import numpy as np
import torch
from explaining.broken import broken
from torch import nn
from torch.nn import functional as F


@broken(
    "x * 2", "made in half_net_of_an_expression", "x = torch.ones(2, 4, device=device, dtype=torch.bfloat16)"
)
def half_net_of_an_expression(device):
    net = nn.Linear(4, 4).to(device, torch.bfloat16)
    x = torch.ones(2, 4, device=device)
    return net(x * 2)


@broken("torch.relu(x - 1)", "made in half_net_of_a_call", "return net(torch.relu(x - 1).to(torch.float16))")
def half_net_of_a_call(device):
    net = nn.Linear(4, 4).to(device).half()
    x = torch.ones(2, 4, device=device)
    return net(torch.relu(x - 1))


@broken(
    "F.one_hot(ids, 4).float()",
    "made in half_net_of_a_method",
    "return net(F.one_hot(ids, 4).float().to(torch.float16))",
)
def half_net_of_a_method(device):
    net = nn.Linear(4, 4).half().to(device)
    ids = torch.tensor([1, 2], device=device)
    return net(F.one_hot(ids, 4).float())


@broken(
    "k.transpose(1, 2)",
    "made in batched_product_of_a_transpose",
    "k = torch.ones(1, 3, 4, device=device, dtype=torch.float16)",
)
def batched_product_of_a_transpose(device):
    q = torch.ones(1, 2, 4, dtype=torch.float16, device=device)
    k = torch.ones(1, 3, 4, device=device)
    return torch.bmm(q, k.transpose(1, 2))


@broken("k", "made in product_with_a_transpose", "return q @ k.T.to(torch.bfloat16)")
def product_with_a_transpose(device):
    q = torch.ones(2, 4, dtype=torch.bfloat16, device=device)
    k = torch.ones(3, 4, device=device)
    return q @ k.T


@broken(
    "scores.softmax(-1, dtype=torch.float32)",
    "made in scores_and_values",
    "return scores.softmax(-1, dtype=torch.float32).to(torch.float16) @ values",
)
def scores_and_values(device):
    scores = torch.zeros(2, 3, device=device, dtype=torch.float16)
    values = torch.ones(3, 4, device=device, dtype=torch.float16)
    return scores.softmax(-1, dtype=torch.float32) @ values


@broken("b", "made in einsum_of_two", "b = torch.ones(3, 4, dtype=torch.float32, device=device)")
def einsum_of_two(device):
    a = torch.ones(2, 3, device=device)
    b = torch.ones(3, 4, dtype=torch.float64, device=device)
    return torch.einsum("ij,jk->ik", a, b)


@broken(
    "torch.ones(2, device=device)",
    "made in value_written_by_index",
    "canvas[where] = torch.ones(2, device=device, dtype=torch.bfloat16)",
)
def value_written_by_index(device):
    canvas = torch.zeros(4, dtype=torch.bfloat16, device=device)
    where = torch.tensor([0, 2], device=device)
    canvas[where] = torch.ones(2, device=device)
    return canvas


@broken(
    "fresh",
    "made in named_value_written_by_index",
    "fresh = torch.rand(2, 2, device=device, dtype=torch.float16)",
)
def named_value_written_by_index(device):
    cache = torch.zeros(4, 2, dtype=torch.float16, device=device)
    rows = torch.tensor([1, 3], device=device)
    fresh = torch.rand(2, 2, device=device)
    cache[rows] = fresh
    return cache


@broken(
    "torch.rand(4, device=device)",
    "made in value_written_by_a_mask",
    "x[keep] = torch.rand(4, device=device, dtype=torch.float16)[keep]",
)
def value_written_by_a_mask(device):
    x = torch.zeros(4, dtype=torch.float16, device=device)
    keep = torch.tensor([True, False, True, False], device=device)
    x[keep] = torch.rand(4, device=device)[keep]
    return x


@broken(
    "torch.ones(2, dtype=torch.float64, device=device)",
    "made in index_put",
    "return x.index_put((where,), torch.ones(2, dtype=torch.float32, device=device))",
)
def index_put(device):
    x = torch.zeros(4, device=device)
    where = torch.tensor([0, 1], device=device)
    return x.index_put((where,), torch.ones(2, dtype=torch.float64, device=device))


@broken(
    "torch.ones(2, dtype=torch.float64, device=device)",
    "made in index_add_of_another_dtype",
    "total.index_add_(0, where, torch.ones(2, dtype=torch.float32, device=device))",
)
def index_add_of_another_dtype(device):
    total = torch.zeros(4, device=device)
    where = torch.tensor([0, 2], device=device)
    total.index_add_(0, where, torch.ones(2, dtype=torch.float64, device=device))
    return total


@broken(
    "amounts",
    "made in scatter_of_another_dtype",
    "amounts = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float32, device=device)",
)
def scatter_of_another_dtype(device):
    total = torch.zeros(4, device=device)
    where = torch.tensor([0, 2, 2], device=device)
    amounts = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, device=device)
    return total.scatter_add(0, where, amounts)


@broken(
    "target",
    "made in int_target_of_bce",
    "target = torch.tensor([0, 1, 1], device=device, dtype=torch.float32)",
)
def int_target_of_bce(device):
    logits = torch.zeros(3, device=device, requires_grad=True)
    target = torch.tensor([0, 1, 1], device=device)
    return F.binary_cross_entropy_with_logits(logits, target)


@broken("y", "made in int_target_of_a_loss_module", "y = y.to(torch.float32)")
def int_target_of_a_loss_module(device):
    criterion = nn.BCEWithLogitsLoss()
    net = nn.Linear(3, 1).to(device)
    x, y = torch.ones(4, 3, device=device), torch.randint(0, 2, (4,), device=device)
    loss = criterion(net(x).squeeze(1), y)
    loss.backward()


@broken(
    "y",
    "made in bool_target_of_bce",
    "y = torch.tensor([True, False, True], device=device, dtype=torch.float32)",
)
def bool_target_of_bce(device):
    p = torch.full((3,), 0.5, device=device)
    y = torch.tensor([True, False, True], device=device)
    return F.binary_cross_entropy(p, y)


@broken(
    "scores > 0.5",
    "made in comparison_as_a_target",
    "return F.binary_cross_entropy(p, (scores > 0.5).to(p.dtype))",
)
def comparison_as_a_target(device):
    p = torch.full((3,), 0.5, device=device, requires_grad=True)
    scores = torch.rand(3, device=device)
    return F.binary_cross_entropy(p, scores > 0.5)


@broken(
    "labels",
    "made in float_labels_of_cross_entropy",
    "labels = torch.tensor([0.0, 1.0, 3.0], device=device, dtype=torch.int64)",
)
def float_labels_of_cross_entropy(device):
    logits = torch.zeros(3, 4, device=device)
    labels = torch.tensor([0.0, 1.0, 3.0], device=device)
    return F.cross_entropy(logits, labels)


@broken("labels", "put on sim:0 in int32_labels", "return F.nll_loss(logits.log_softmax(1), labels.long())")
def int32_labels(device):
    logits = torch.zeros(3, 4, device=device)
    labels = torch.from_numpy(np.array([0, 1, 3], dtype=np.int32)).to(device)
    return F.nll_loss(logits.log_softmax(1), labels)


@broken("image", "put on sim:0 in image_of_bytes", "image = image.to(torch.float32)")
def image_of_bytes(device):
    net = nn.Conv2d(1, 1, 3).to(device)
    image = (torch.ones(1, 1, 5, 5, dtype=torch.uint8) * 3).to(device)
    return net(image)


@broken(
    "torch.from_numpy(image).to(device)",
    "put on sim:0 in image_of_bytes_from_numpy",
    "return net(torch.from_numpy(image).to(device).to(torch.float32))",
)
def image_of_bytes_from_numpy(device):
    net = nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU()).to(device)
    image = np.zeros((1, 3, 5, 5), dtype=np.uint8)
    return net(torch.from_numpy(image).to(device))


@broken(
    "torch.tensor([[1, 2, 3]], device=device)",
    "made in integers_in_a_linear",
    "return net(torch.tensor([[1, 2, 3]], device=device, dtype=torch.float32))",
)
def integers_in_a_linear(device):
    net = nn.Linear(3, 2).to(device)
    return net(torch.tensor([[1, 2, 3]], device=device))


@broken(
    "torch.from_numpy(rows).to(device)",
    "put on sim:0 in double_from_numpy",
    "return net(torch.from_numpy(rows).to(device).to(torch.float32))",
)
def double_from_numpy(device):
    rows = np.random.rand(4, 3)
    net = nn.Linear(3, 2).to(device)
    return net(torch.from_numpy(rows).to(device))


@broken("x", "made in double_as_tensor", "x = x.to(torch.float32)")
def double_as_tensor(device):
    net = nn.GRU(3, 2).to(device)
    x = torch.as_tensor(np.ones((4, 1, 3)), device=device)
    return net(x)[0]


@broken("ids", "made in float_ids", "ids = torch.tensor([0.0, 2.0], device=device, dtype=torch.long)")
def float_ids(device):
    table = nn.Embedding(5, 3).to(device)
    ids = torch.tensor([0.0, 2.0], device=device)
    return table(ids)


@broken("ids / 2", "made in ids_of_a_division", "return table((ids / 2).to(torch.int64))")
def ids_of_a_division(device):
    table = nn.Embedding(5, 3).to(device)
    ids = torch.tensor([2, 4], device=device)
    return table(ids / 2)


@broken("order", "made in float_index", "order = torch.linspace(0, 4, 3, device=device, dtype=torch.int64)")
def float_index(device):
    rows = torch.rand(5, 3, device=device)
    order = torch.linspace(0, 4, 3, device=device)
    return rows[order]


@broken("flat / 3", "made in index_of_a_quotient", "return rows[(flat / 3).long()]")
def index_of_a_quotient(device):
    rows = torch.rand(5, 3, device=device)
    flat = torch.tensor([3, 7], device=device)
    return rows[flat / 3]


@broken(
    "best",
    "made in gather_by_floats",
    "best = torch.tensor([[0.0], [2.0]], device=device, dtype=torch.int64)",
)
def gather_by_floats(device):
    rows = torch.rand(2, 3, device=device)
    best = torch.tensor([[0.0], [2.0]], device=device)
    return rows.gather(1, best)


@broken(
    "torch.rand(2, device=device)",
    "made in index_select_by_floats",
    "return torch.index_select(rows, 0, torch.rand(2, device=device).to(torch.int64))",
)
def index_select_by_floats(device):
    rows = torch.rand(4, 3, device=device)
    return torch.index_select(rows, 0, torch.rand(2, device=device))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(1, 2)
        weights = scores.float().softmax(-1)
        return weights @ x


@broken("weights", "computed in forward", "return weights.to(x.dtype) @ x")
def softmax_in_single_precision(device):
    net = Attention().to(device).half()
    return net(torch.ones(1, 3, 4, device=device, dtype=torch.float16))


class Mask(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        noise = torch.rand(x.shape, device=x.device)
        return self.lin(x + noise)


@broken("x + noise", "made in noise_of_the_default_dtype", "return self.lin((x + noise).to(torch.bfloat16))")
def noise_of_the_default_dtype(device):
    net = Mask().to(device).to(torch.bfloat16)
    return net(torch.ones(2, 4, device=device, dtype=torch.bfloat16))


@broken(
    "torch.zeros(1, 2, 4, device=device)",
    "made in recurrent_state_of_another_dtype",
    "return rnn(x, torch.zeros(1, 2, 4, device=device, dtype=torch.float16))[0]",
)
def recurrent_state_of_another_dtype(device):
    rnn = nn.GRU(3, 4).to(device).half()
    x = torch.ones(5, 2, 3, device=device, dtype=torch.float16)
    return rnn(x, torch.zeros(1, 2, 4, device=device))[0]


@broken("kv", "made in attention_of_three", "kv = torch.ones(1, 3, 4, device=device, dtype=torch.float16)")
def attention_of_three(device):
    q = torch.ones(1, 2, 4, device=device, dtype=torch.float16)
    kv = torch.ones(1, 3, 4, device=device)
    return F.scaled_dot_product_attention(q, kv, kv)


@broken("counts", "made in in_place_result", "counts = counts + torch.rand(3, device=device)")
def in_place_result(device):
    counts = torch.zeros(3, dtype=torch.int64, device=device)
    counts += torch.rand(3, device=device)
    return counts


@broken("counts", "made in in_place_division", "counts = counts / 2")
def in_place_division(device):
    counts = torch.tensor([2, 4], device=device)
    counts /= 2
    return counts


@broken("steps", "made in norm_of_integers", "steps = torch.arange(4, device=device, dtype=torch.float32)")
def norm_of_integers(device):
    steps = torch.arange(4, device=device)
    return steps.mean()


@broken("b", "made in lerp_of_two", "b = torch.ones(3, dtype=torch.float32, device=device)")
def lerp_of_two(device):
    a = torch.zeros(3, device=device)
    b = torch.ones(3, dtype=torch.float64, device=device)
    return torch.lerp(a, b, 0.5)


@broken("b", "made in distances", "return torch.dot(a[0], b[0].to(torch.float32))")
def distances(device):
    a = torch.zeros(2, 3, device=device)
    b = torch.ones(2, 3, dtype=torch.float64, device=device)
    return torch.dot(a[0], b[0])


@broken(
    "torch.tensor([1, 0, 1], device=device)",
    "made in mask_of_integers",
    "return x.masked_fill(torch.tensor([1, 0, 1], device=device, dtype=torch.bool), 0.0)",
)
def mask_of_integers(device):
    x = torch.ones(3, device=device)
    return x.masked_fill(torch.tensor([1, 0, 1], device=device), 0.0)


@broken(
    "torch.tensor([1, 0, 1], device=device)",
    "made in where_of_integers",
    "return torch.where(torch.tensor([1, 0, 1], device=device, dtype=torch.bool), x, 0.0)",
)
def where_of_integers(device):
    x = torch.ones(3, device=device)
    return torch.where(torch.tensor([1, 0, 1], device=device), x, 0.0)
