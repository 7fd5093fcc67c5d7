# ruff: noqa: D103 - learners write no docstrings
"""Changes that fit what a name is: parameters, closures, globals, fields, things that have no `.to`."""

import collections
import dataclasses
import functools
import types
import typing
from typing import NamedTuple

import torch
from explaining.broken import broken
from torch import nn
from torch.nn import functional as F


class Gain(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def add_gain(self):
        self.gain = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.lin(x) * self.gain


@broken("self.gain", "parameter 'gain' of Gain", "return self.lin(x) * self.gain.to(x.device)")
def parameter_added_after_the_move(device):
    net = Gain().to(device)
    net.add_gain()
    return net(torch.ones(2, 3, device=device))


@broken("net.bias", "a parameter of net that was made or given after the move", "net.to(device)")
def parameter_set_from_outside(device):
    net = nn.Linear(3, 3).to(device)
    net.bias = nn.Parameter(torch.zeros(3))
    return net(torch.ones(2, 3, device=device))


class Prompt(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Linear(width, width)
        self.tokens = {"soft": nn.Parameter(torch.zeros(2, width))}

    def forward(self, x):
        return self.body(torch.cat([self.tokens["soft"], x]))


@broken(
    'self.tokens["soft"]',
    "in the dict plain attribute 'tokens' of Prompt",
    'self.tokens = nn.ParameterDict({"soft": nn.Parameter(torch.zeros(2, width))})',
)
def parameter_in_a_plain_dict(device):
    return Prompt(4).to(device)(torch.ones(3, 4, device=device))


@broken(
    "offset", "made in parameter_that_no_module_has", "offset = nn.Parameter(torch.zeros(3, device=device))"
)
def parameter_that_no_module_has(device):
    offset = nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.SGD([offset], lr=0.1)
    loss = (torch.ones(2, 3, device=device) - offset).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def scaler(rows):
    low, high = rows.min(0).values, rows.max(0).values

    def go(x):
        return (x - low) / (high - low)

    return go


@broken(
    "low",
    "captured from the function around this one (a closure)",
    "return (x - low.to(x.device)) / (high.to(x.device) - low.to(x.device))",
)
def two_names_in_a_closure(device):
    go = scaler(torch.rand(5, 3))
    return go(torch.ones(2, 3, device=device))


def centred(rows):
    mean = rows.mean(0)
    return lambda x: x - mean


@broken(
    "mean", "captured from the function around this one (a closure)", "return lambda x: x - mean.to(x.device)"
)
def lambda_with_a_mean(device):
    return centred(torch.rand(5, 3))(torch.ones(2, 3, device=device))


def shifted(amount):
    def go(x):
        return x + amount

    return go


@broken("amount", "captured from the function around this one (a closure)", "return x + amount.to(x.device)")
def argument_of_the_function_around(device):
    go = shifted(sum([torch.ones(3), torch.ones(3)]))
    return go(torch.ones(2, 3, device=device))


def counter():
    total = torch.zeros(3)

    def add(x):
        nonlocal total
        total = total + x
        return total

    return add


@broken(
    "total",
    "captured from the function around this one (a closure)",
    'total = torch.zeros(3, device="sim:0")',
)
def nonlocal_total(device):
    add = counter()
    return add(torch.ones(3, device=device))


SCALES = [torch.ones(3) * k for k in (1.0, 2.0)]


@broken(
    "SCALES[1]",
    "an element of a list or dict",
    'SCALES = [torch.ones(3, device="sim:0") * k for k in (1.0, 2.0)]',
)
def element_of_a_global_list(device):
    x = torch.ones(3, device=device)
    return x * SCALES[1]


TOTAL = sum([torch.ones(3), torch.ones(3)])


def normed(x):
    return x / TOTAL


@broken("TOTAL", "a global variable", "return x / TOTAL.to(x.device)")
def global_of_a_sum(device):
    return normed(torch.ones(2, 3, device=device))


@broken(
    "prior.loc",
    "attribute 'loc' of Normal",
    "prior = torch.distributions.Normal(loc=prior.loc.to(device), scale=prior.scale.to(device))",
)
def distribution_made_on_the_cpu(device):
    prior = torch.distributions.Normal(torch.zeros(3), torch.ones(3))
    z = torch.randn(2, 3).to(device)
    return prior.log_prob(z).sum()


class Prior(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.normal = torch.distributions.Normal(torch.zeros(3), torch.ones(3))

    def forward(self, x):
        return self.normal.log_prob(self.lin(x)).sum()


@broken(
    "self.normal.loc",
    "attribute 'loc' of Normal",
    "self.normal = torch.distributions.Normal(loc=self.normal.loc.to(x.device), scale=",
)
def distribution_as_an_attribute(device):
    return Prior().to(device)(torch.ones(2, 3, device=device))


@broken(
    "policy.logits",
    "attribute 'logits' of Categorical",
    "policy = torch.distributions.Categorical(logits=policy.logits.to(device))",
)
def categorical_of_logits(device):
    policy = torch.distributions.Categorical(logits=torch.zeros(4))
    action = torch.tensor([1, 2], device=device)
    return policy.log_prob(action).sum()


@broken(
    "prior.scale",
    "attribute 'scale' of Normal",
    "prior = torch.distributions.Normal(loc=prior.loc.to(device), scale=prior.scale.to(device))",
)
def divergence_of_two_distributions(device):
    posterior = torch.distributions.Normal(torch.zeros(3, device=device), torch.ones(3, device=device))
    prior = torch.distributions.Normal(torch.zeros(3), torch.ones(3))
    return torch.distributions.kl_divergence(posterior, prior).sum()


def make_mixer(width):
    mix = nn.Linear(width, width)

    def run(x):
        return x + mix(x)

    return run


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Linear(4, 4)
        self.mixer = make_mixer(4)

    def forward(self, x):
        return self.mixer(self.front(x))


@broken("mix", "a Linear whose parameters and buffers are on cpu: it was not moved", "mix.to(x.device)")
def module_inside_a_function(device):
    return Mixed().to(device)(torch.ones(2, 4, device=device))


class Wrapper:
    def __init__(self, net):
        self.net = net

    def __call__(self, x):
        return self.net(x)


class Wrapping(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Linear(4, 4)
        self.tail = Wrapper(nn.Linear(4, 2))

    def forward(self, x):
        return self.tail(self.front(x))


@broken(
    "self.tail.net",
    "self.tail is a plain Wrapper, and .to does not look for modules in it",
    "self.tail.net.to(x.device)",
)
def module_inside_a_plain_object(device):
    return Wrapping().to(device)(torch.ones(2, 4, device=device))


class Partials(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.loss = functools.partial(F.cross_entropy, weight=torch.ones(3))

    def forward(self, x, y):
        return self.loss(self.lin(x), y)


@broken(
    "self.loss.keywords['weight']",
    "attribute 'keywords' of partial",
    "self.loss.keywords['weight'] = self.loss.keywords['weight'].to(x.device)",
)
def partial_as_an_attribute(device):
    net = Partials().to(device)
    return net(torch.ones(2, 3, device=device), torch.tensor([0, 1], device=device))


@dataclasses.dataclass(frozen=True)
class Statistics:
    mean: torch.Tensor
    spread: torch.Tensor


def standardized(x, statistics):
    return (x - statistics.mean) / statistics.spread


def measured(rows):
    return Statistics(rows.mean(0), rows.std(0))


@broken(
    "statistics.mean",
    "attribute 'mean' of Statistics",
    "return (x - statistics.mean.to(x.device)) / statistics.spread.to(x.device)",
)
def frozen_dataclass_from_a_helper(device):
    statistics = measured(torch.rand(5, 3))
    return standardized(torch.ones(2, 3, device=device), statistics)


class Limits(NamedTuple):
    low: torch.Tensor
    high: torch.Tensor


def limits_of(rows):
    return Limits(rows.min(0).values, rows.max(0).values)


@broken(
    "limits.low",
    "attribute 'low' of Limits",
    "return torch.clamp(x, limits.low.to(device), limits.high.to(device))",
)
def field_of_a_named_tuple(device):
    limits = limits_of(torch.rand(5, 3))
    x = torch.ones(2, 3, device=device)
    return torch.clamp(x, limits.low, limits.high)


@broken(
    "best.values", "attribute 'values' of max", "return torch.ones(3, device=device) * best.values.to(device)"
)
def field_of_a_result(device):
    best = torch.rand(3, 4).max(1)
    return torch.ones(3, device=device) * best.values


class Camera:
    def __init__(self, focal):
        self._focal = focal

    @property
    def matrix(self):
        return torch.eye(3) * self._focal


@broken("camera.matrix", "made in matrix", 'return torch.eye(3, device="sim:0") * self._focal')
def property_of_a_plain_object(device):
    camera = Camera(2.0)
    return torch.ones(2, 3, device=device) @ camera.matrix


class Slotted:
    __slots__ = ("bias",)

    def __init__(self):
        self.bias = torch.ones(3)


def biased(x, holder):
    return x + holder.bias


@broken("holder.bias", "attribute 'bias' of Slotted", "return x + holder.bias.to(x.device)")
def attribute_in_a_slot(device):
    return biased(torch.ones(2, 3, device=device), Slotted())


@broken("a", "made in sum_of_two_names", "return x * ((a + b).to(device))")
def sum_of_two_names(device):
    a, b = torch.ones(3), torch.zeros(3)
    x = torch.ones(3, device=device)
    return x * (a + b)


@broken("a", "made in a_conditional_expression", "return x * ((a if len(x) > 2 else b).to(device))")
def a_conditional_expression(device):
    a, b = torch.ones(3), torch.zeros(3)
    x = torch.ones(3, device=device)
    return x * (a if len(x) > 2 else b)


@broken("weight", "an element of (torch.ones(3), torch.zeros(3))", "weight = weight.to(device)")
def loop_over_a_tuple(device):
    x = torch.ones(3, device=device)
    for weight in (torch.ones(3), torch.zeros(3)):
        x = x + weight
    return x


@broken("w", "an element of a list or dict", "return sum(x * w.to(device) for w in weights)")
def comprehension_over_a_list(device):
    weights = [torch.ones(3), torch.zeros(3)]
    x = torch.ones(3, device=device)
    return sum(x * w for w in weights)


@broken(
    "arguments[1]",
    "an element of a list or dict",
    "arguments = [torch.ones(3, device=device), torch.ones(3, device=device)]",
)
def unpacked_call(device):
    arguments = [torch.ones(3, device=device), torch.ones(3)]
    return torch.add(*arguments)


@broken(
    "options['weight']", "an element of a list or dict", 'options = {"weight": torch.ones(3, device=device)}'
)
def keyword_arguments_of_a_dict(device):
    options = {"weight": torch.ones(3)}
    return F.cross_entropy(torch.ones(2, 3, device=device), torch.tensor([0, 1], device=device), **options)


def with_default(x, weight=torch.ones(3)):  # noqa: B008 - the default is the mistake
    return x * weight


@broken("weight", "an argument of with_default", "weight = weight.to(x.device)")
def default_of_a_parameter(device):
    return with_default(torch.ones(2, 3, device=device))


class Config:
    weights: typing.ClassVar = {"a": torch.ones(3), "b": torch.zeros(3)}


@broken(
    'Config.weights["a"]',
    "in the dict attribute 'weights' of Config",
    'return torch.ones(3, device=device) * Config.weights["a"].to(device)',
)
def dict_of_a_class(device):
    return torch.ones(3, device=device) * Config.weights["a"]


@broken(
    "w",
    "made in two_statements_in_one_line",
    "x = torch.ones(3, device=device); w = torch.ones(3, device=device); return x * w",
)
def two_statements_in_one_line(device):
    x = torch.ones(3, device=device); w = torch.ones(3); return x * w  # noqa: E702  # fmt: skip


@broken("mask", "made in a_walrus", "mask = mask.to(device)")
def a_walrus(device):
    x = torch.ones(3, device=device)
    if (mask := torch.ones(3)).sum() > 0:
        x = x * mask
    return x


@broken(
    "made.scale",
    "attribute 'scale' of SimpleNamespace",
    "return torch.ones(3, device=device) * made.scale.to(device)",
)
def namespace_from_a_helper(device):
    def settings():
        return types.SimpleNamespace(scale=torch.ones(3), steps=3)

    made = settings()
    return torch.ones(3, device=device) * made.scale


@broken(
    'cache["k"]', "an element of a list or dict", 'cache["k"] = [value.to(device) for value in cache["k"]]'
)
def cache_built_in_a_loop(device):
    cache = collections.defaultdict(list)
    for step in range(3):
        cache["k"].append(torch.rand(1, 4) * step)
    query = torch.ones(2, 4, device=device)
    return query @ torch.cat(cache["k"]).T


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.masks = {}
        for size in (2, 3):
            self.masks[size] = torch.tril(torch.ones(size, size))

    def forward(self, x):
        return x * self.masks[x.shape[-1]]


@broken(
    "self.masks[x.shape[-1]]",
    "in the dict plain attribute 'masks' of Cached",
    "return x * self.masks[x.shape[-1]].to(x.device)",
)
def cache_of_a_module_built_in_a_loop(device):
    return Cached().to(device)(torch.ones(3, 3, device=device))


@broken(
    "p['weight']", "an element of a list or dict", "p = {key: value.to(x.device) for key, value in p.items()}"
)
def ensemble_of_stacked_states(device):
    nets = [nn.Linear(3, 2) for _ in range(2)]
    params, buffers = torch.func.stack_module_state(nets)
    base = nn.Linear(3, 2).to("meta")

    def call(p, b, x):
        return torch.func.functional_call(base, (p, b), (x,))

    return torch.vmap(call, in_dims=(0, 0, None))(params, buffers, torch.ones(4, 3, device=device))


@broken(
    "saved", "an element of a list or dict", "saved = {key: value.to(device) for key, value in saved.items()}"
)
def functional_call_with_saved_weights(device):
    net = nn.Linear(3, 2)
    saved = {name: p.detach().clone() for name, p in net.named_parameters()}
    net.to(device)
    return torch.func.functional_call(net, saved, (torch.ones(1, 3, device=device),))
