# ruff: noqa: D103 - learners write no docstrings
"""Modules that `.to` does not see: in lists and dicts, in closures, added later, criteria, teachers."""

import torch
from explaining.broken import broken
from torch import nn
from torch.nn import functional as F

DEVICE = torch.device("sim:0")


class Stack(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.embed = nn.Linear(3, 4)
        self.layers = [nn.Linear(4, 4) for _ in range(depth)]

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x).relu()
        return x


@broken(
    "self.layers[0].weight",
    "a plain list of Stack",
    "self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(depth)])",
)
def layers_in_a_list():
    Stack(2).to(DEVICE)(torch.randn(2, 3, device=DEVICE))


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 2)
        self.experts = {"a": nn.Sequential(nn.Linear(4, 4), nn.GELU()), "b": nn.Linear(4, 4)}

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        return sum(weights[:, i : i + 1] * expert(x) for i, expert in enumerate(self.experts.values()))


@broken("self.experts['a'][0].weight", "a plain dict of Experts", "self.experts = nn.ModuleDict({")
def experts_in_a_dict():
    Experts().to(DEVICE)(torch.randn(2, 4, device=DEVICE))


def make_step(model):
    teacher = nn.Linear(4, 2)

    def step(x):
        with torch.no_grad():
            soft = teacher(x)
        return F.mse_loss(model(x), soft)

    return step


@broken("teacher", "it was not moved", "teacher.to(x.device)")
def teacher_in_a_closure():
    model = nn.Linear(4, 2).to(DEVICE)
    step = make_step(model)
    step(torch.randn(3, 4, device=DEVICE))


@broken("model.head", "added or made after the move", "model.head.to(DEVICE)")
def head_replaced_after_the_move():
    model = nn.Module()
    model.body = nn.Linear(4, 4)
    model.head = nn.Linear(4, 10)
    model.to(DEVICE)
    model.head = nn.Linear(4, 3)
    x = torch.randn(2, 4, device=DEVICE)
    model.head(model.body(x))


@broken("criterion", "it was not moved", "criterion.to(DEVICE)")
def weighted_criterion():
    model = nn.Linear(4, 3).to(DEVICE)
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5]))
    x = torch.randn(5, 4, device=DEVICE)
    y = torch.randint(0, 3, (5,), device=DEVICE)
    criterion(model(x), y)


@broken("weights", "made in class_weights_by_hand", "weights = torch.tensor([0.1, 0.7, 0.2], device=DEVICE)")
def class_weights_by_hand():
    weights = torch.tensor([0.1, 0.7, 0.2])
    logits = torch.randn(5, 3, device=DEVICE)
    F.cross_entropy(logits, logits.argmax(1), weight=weights)


class Trainer:
    def __init__(self, model, device):
        self.model = model
        self.device = device
        self.critic = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
        self.model.to(device)

    def step(self, x):
        return self.critic(self.model(x)).mean()


@broken("self.critic", "it was not moved", "self.critic.to(x.device)")
def second_network_of_a_trainer():
    Trainer(nn.Linear(4, 2), DEVICE).step(torch.randn(3, 4, device=DEVICE))


@broken("model", "it was not moved", "model.to(DEVICE)")
def model_never_moved():
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model(torch.randn(2, 5, 8, device=DEVICE))


@broken("model", "it was not moved", "model.to(x.device)")
def model_rebuilt_for_evaluation():
    def evaluate(state, x):
        model = nn.LSTM(3, 4, batch_first=True)
        model.load_state_dict(state)
        return model(x)[0]

    trained = nn.LSTM(3, 4, batch_first=True).to(DEVICE)
    evaluate(trained.state_dict(), torch.randn(2, 5, 3, device=DEVICE))


class Adapter(nn.Module):
    """A low-rank addition whose factors are plain tensors in a list."""

    def __init__(self, base, rank):
        super().__init__()
        self.base = base
        self.factors = [nn.Parameter(torch.randn(rank, 4)), nn.Parameter(torch.zeros(4, rank))]

    def forward(self, x):
        down, up = self.factors
        return self.base(x) + x @ down.T @ up.T


@broken("down", "in the list plain attribute 'factors' of Adapter", "self.factors = nn.ParameterList([")
def parameters_in_a_list():
    Adapter(nn.Linear(4, 4), 2).to(DEVICE)(torch.randn(3, 4, device=DEVICE))
