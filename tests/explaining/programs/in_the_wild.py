# ruff: noqa: D103, B905, RUF059 - learners write no docstrings
"""Programs written without looking at explain, in many styles: agents, caches, metrics, pipelines."""

import copy
import functools
from collections import deque
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from explaining.broken import broken
from torch import nn

device = torch.device("sim:0")


class Agent:
    def __init__(self):
        self.q = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        self.target = copy.deepcopy(self.q)
        self.q.to(device)
        self.memory = deque(maxlen=10)

    def learn(self):
        state, reward, following = zip(*self.memory)
        following = torch.stack(following).to(device)
        with torch.no_grad():
            future = self.target(following).max(1).values
        return torch.tensor(reward, device=device) + 0.9 * future


@broken("self.target", "it was not moved", "self.target.to(device)")
def target_network_of_an_agent():
    agent = Agent()
    agent.memory.extend((torch.randn(4), 1.0, torch.randn(4)) for _ in range(3))
    agent.learn()


@broken("weight", "made in", "weight = torch.tensor([2.0, 3.0], device=device)")
def weight_fixed_by_a_partial():
    weight = torch.tensor([2.0, 3.0])
    loss = functools.partial(F.binary_cross_entropy_with_logits, pos_weight=weight)
    loss(torch.randn(4, 2, device=device), torch.ones(4, 2, device=device))


class Statistics:
    def __init__(self, model):
        self.mean = torch.zeros(5)
        model.register_forward_hook(self.hook)

    def hook(self, module, inputs, output):
        self.mean = 0.9 * self.mean + 0.1 * output.mean(0)


@broken("self.mean", "made in __init__", "self.mean = torch.zeros(5, device=device)")
def statistics_of_a_hook():
    model = nn.Linear(4, 5).to(device)
    Statistics(model)
    model(torch.randn(2, 4, device=device))


@broken('batch["meta"]["weight"]', "an element of", '(out * batch["meta"]["weight"].to(device)).mean()')
def comprehension_that_moves_only_the_top():
    batch = {"x": torch.randn(2, 4), "meta": {"weight": torch.ones(2)}, "count": 3}
    batch = {key: value.to(device) if torch.is_tensor(value) else value for key, value in batch.items()}
    out = nn.Linear(4, 1).to(device)(batch["x"]).squeeze(1)
    (out * batch["meta"]["weight"]).mean()


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4)
        self.reset(2)

    def reset(self, size):
        self.state = (torch.zeros(1, size, 4), torch.zeros(1, size, 4))

    def forward(self, x):
        out, self.state = self.lstm(x, self.state)
        return out


@broken("self.state", "made in reset", "self.state = tuple(value.to(x.device) for value in self.state)")
def state_kept_between_calls():
    Stateful().to(device)(torch.randn(5, 2, 3, device=device))


def logged(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs)

    return inner


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 4)

    @logged
    def encode(self, ids):
        return self.table(ids)

    def forward(self, ids):
        return self.encode(ids).mean(1)


@broken("ids", "made in", "tokens = torch.tensor([[1, 2, 3]], device=device)")
def argument_through_a_decorator():
    tokens = torch.tensor([[1, 2, 3]])
    Encoder().to(device)(tokens)


class Normalized(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("running", torch.zeros(3))

    def reset(self):
        self.running = torch.zeros(3)

    def forward(self, x):
        self.running = 0.9 * self.running + 0.1 * x.mean(0)
        return x - self.running


@broken(
    "self.running",
    "registered buffer 'running' of Normalized",
    "self.running = torch.zeros(3, device=self.running.device)",
)
def buffer_given_a_new_tensor():
    norm = Normalized().to(device)
    norm.reset()
    norm(torch.randn(4, 3, device=device))


class Codes:
    table = torch.eye(3)

    @classmethod
    def hot(cls, labels):
        return F.embedding(labels, cls.table)


@broken("cls.table", "attribute 'table' of Codes", "table = torch.eye(3, device=device)")
def table_of_a_class():
    Codes.hot(torch.tensor([0, 2], device=device))


class Dropout(nn.Module):
    def __init__(self, seed):
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        keep = torch.rand(x.shape, generator=self.generator, device=x.device) > 0.1
        return self.linear(x) * keep


@broken(
    "self.generator", "made in __init__", "self.generator = torch.Generator(device=device).manual_seed(seed)"
)
def generator_of_a_module():
    Dropout(1).to(device)(torch.randn(2, 3, device=device))


class Queue(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(3, 4)
        self.queue = []

    def forward(self, x):
        query = self.encode(x)
        bank = torch.stack(self.queue)
        return query @ bank.T


@broken(
    "bank",
    "in the list plain attribute 'queue' of Queue",
    "model.queue = [torch.randn(4, device=device) for _ in range(5)]",
)
def memory_bank_of_contrastive_learning():
    model = Queue().to(device)
    model.queue = [torch.randn(4) for _ in range(5)]
    model(torch.randn(2, 3, device=device))


class Frequencies(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    @property
    def rates(self):
        return torch.linspace(1.0, 2.0, 3)

    def forward(self, x):
        return self.linear(x) * self.rates


@broken("self.rates", "made in rates", "torch.linspace(1.0, 2.0, 3, device=device)")
def made_by_a_property():
    Frequencies().to(device)(torch.randn(2, 3, device=device))


@broken("states[i]", "an element of a list", "states[i] = tuple(value.to(device) for value in states[i])")
def hidden_states_in_a_list():
    cells = nn.ModuleList([nn.LSTMCell(2, 3), nn.LSTMCell(3, 3)]).to(device)
    states = [(torch.zeros(1, 3), torch.zeros(1, 3)) for _ in cells]
    x = torch.randn(1, 2, device=device)
    for i, cell in enumerate(cells):
        x, _ = cell(x, states[i])


class KeyCache:
    def __init__(self):
        self.keys = None

    def append(self, new):
        self.keys = new if self.keys is None else torch.cat([self.keys, new], dim=1)


@broken("self.keys", "attribute 'keys' of KeyCache", "torch.cat([self.keys.to(new.device), new], dim=1)")
def keys_of_an_earlier_run():
    cache = KeyCache()
    cache.append(torch.randn(1, 2, 3))
    cache.append(torch.randn(1, 2, 3, device=device))


class Anchored:
    def __init__(self, model):
        self.anchor = {name: p.detach().clone() for name, p in model.named_parameters()}

    def penalty(self, model):
        return sum(((p - self.anchor[name]) ** 2).sum() for name, p in model.named_parameters())


@broken("self.anchor[name]", "in the dict attribute 'anchor' of Anchored", "self.anchor[name].to(device)")
def anchors_of_the_first_task():
    model = nn.Linear(2, 2)
    anchored = Anchored(model)
    model.to(device)
    anchored.penalty(model)


class TwoBranches(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Linear(2, 2).to("sim:0")
        self.right = nn.Linear(2, 2).to("sim:1")

    def forward(self, x):
        left = self.left(x)
        right = self.right(x.to("sim:1"))
        return left + right


@broken("left", "computed in forward", "left = left.to(right.device)")
def branches_on_two_accelerators():
    TwoBranches()(torch.randn(1, 2, device="sim:0"))


class Distilled(nn.Module):
    def __init__(self, student, teacher):
        super().__init__()
        self.student = student
        self.__dict__["teacher"] = teacher

    def forward(self, x):
        return F.mse_loss(self.student(x), self.teacher(x))


@broken("self.teacher", "does not have it registered", "self.teacher.to(x.device)")
def teacher_hidden_from_its_module():
    Distilled(nn.Linear(2, 2), nn.Linear(2, 2)).to(device)(torch.randn(1, 2, device=device))


class Moments(NamedTuple):
    mean: torch.Tensor
    step: int


def advance(moments, gradient):
    return Moments(0.9 * moments.mean + 0.1 * gradient, moments.step + 1)


@broken("moments.mean", "attribute 'mean' of Moments", "start = Moments(torch.zeros(3, device=device), 0)")
def state_in_a_named_tuple():
    start = Moments(torch.zeros(3), 0)
    advance(start, torch.ones(3, device=device))


@broken("w", "an element of a list", "sum(w.to(device) * out for w, out in zip(weights, outs))")
def weights_in_a_generator_expression():
    weights = [torch.tensor([0.5, 0.5]), torch.tensor([1.0, 2.0])]
    outs = [torch.ones(2, device=device), torch.ones(2, device=device)]
    sum(w * out for w, out in zip(weights, outs))


def accuracy(truth, guess):
    return np.mean(np.equal(truth, guess))


@broken("guess", "made in", "np.equal(truth.detach().cpu().numpy(), guess.detach().cpu().numpy())")
def metric_of_another_library():
    logits = torch.randn(4, 3, device=device)
    accuracy(torch.tensor([0, 1, 2, 0]), logits.argmax(1))


@broken("model", "it was not moved", "model.to(")
def convolution_never_moved():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    model(torch.ones(1, 1, 5, 5, device=device))
