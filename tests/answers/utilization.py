"""Answers to utilization."""

import copy

import torch
from bank import right, wrong
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

ONCE = "each parameter once"
COUNTED = "the operations that a step is counted to do"
SHARE = "the share of the peak"
META = "a model without data, billions of parameters"


def linears(model):
    """Return the Linears of a model."""
    return [one for one in model.modules() if isinstance(one, nn.Linear)]


def count(model):
    """Return the number of parameters, and the operations for a token."""
    weights = sum(one.weight.numel() for one in linears(model))
    return sum(one.numel() for one in model.parameters()), 6 * weights


@right
def linear_by_linear(model, tokens, seconds, peak):
    numbers = sum(parameter.numel() for parameter in model.parameters())
    operations = 0
    for module in model.modules():
        if isinstance(module, nn.Linear):
            operations += 6 * module.in_features * module.out_features * tokens
    return numbers, operations, operations / (seconds * peak)


@right
def counted_by_pytorch_on_meta(model, tokens, seconds, peak):
    twin = copy.deepcopy(model).to("meta")
    words = torch.zeros(1, tokens, dtype=torch.long, device="meta")
    for parameter in twin.parameters():
        parameter.requires_grad_(True)
    with FlopCounterMode(display=False) as counter:
        twin(words).sum().backward()
    operations = counter.get_total_flops()
    return sum(one.numel() for one in model.parameters()), operations, operations / seconds / peak


@right
def by_dimensions(model, tokens, seconds, peak):
    every = dict(model.named_parameters(remove_duplicate=False))
    tables = {f"{name}.weight" for name, one in model.named_modules() if isinstance(one, nn.Embedding)}
    matrices = sum(p.numel() for name, p in every.items() if p.dim() == 2 and name not in tables)
    each = {id(parameter): parameter.numel() for parameter in every.values()}
    operations = 2 * 3 * tokens * matrices
    return sum(each.values()), operations, operations / seconds / peak


@wrong("a parameter that stands in two places is counted twice", row=ONCE)
def of_the_state_dict(model, tokens, seconds, peak):
    numbers = sum(one.numel() for one in model.state_dict().values())
    operations = count(model)[1] * tokens
    return numbers, operations, operations / seconds / peak


@wrong("what is frozen is a parameter, too", row=ONCE)
def trained_alone(model, tokens, seconds, peak):
    numbers = sum(one.numel() for one in model.parameters() if one.requires_grad)
    operations = count(model)[1] * tokens
    return numbers, operations, operations / seconds / peak


@wrong("those are the parameters' bytes, and their numbers are asked", row=ONCE)
def in_bytes(model, tokens, seconds, peak):
    operations = count(model)[1] * tokens
    return sum(one.nbytes for one in model.parameters()), operations, operations / seconds / peak


@wrong("those are tensors, and the numbers in them are asked", row=ONCE)
def tensors(model, tokens, seconds, peak):
    operations = count(model)[1] * tokens
    return len(list(model.parameters())), operations, operations / seconds / peak


@wrong("every parameter is counted, and a lookup, a norm and a bias multiply no matrix", row=COUNTED)
def six_for_every_parameter(model, tokens, seconds, peak):
    numbers, _ = count(model)
    operations = 6 * numbers * tokens
    return numbers, operations, operations / seconds / peak


@wrong("the forward alone is counted: the backward does twice as much again", row=COUNTED)
def forward_alone(model, tokens, seconds, peak):
    numbers, each = count(model)
    operations = each // 3 * tokens
    return numbers, operations, operations / seconds / peak


@wrong("a multiplication and an addition are two operations", row=COUNTED)
def multiplications(model, tokens, seconds, peak):
    numbers, each = count(model)
    operations = each // 2 * tokens
    return numbers, operations, operations / seconds / peak


@wrong("the backward computes two gradients, of the input and of the weight", row=COUNTED)
def four_for_each(model, tokens, seconds, peak):
    numbers, each = count(model)
    operations = each * 2 // 3 * tokens
    return numbers, operations, operations / seconds / peak


@wrong("those are the operations for a single token", row=COUNTED)
def of_one_token(model, tokens, seconds, peak):
    numbers, each = count(model)
    return numbers, each, each * tokens / seconds / peak


@wrong("the table that is tied to a Linear is left out, and that Linear multiplies by it", row=COUNTED)
def without_the_tables(model, tokens, seconds, peak):
    numbers, _ = count(model)
    tables = {id(one.weight) for one in model.modules() if isinstance(one, nn.Embedding)}
    operations = (
        6 * tokens * sum(one.weight.numel() for one in linears(model) if id(one.weight) not in tables)
    )
    return numbers, operations, operations / seconds / peak


@wrong("the biases are added, and multiply nothing", row=COUNTED)
def with_biases(model, tokens, seconds, peak):
    numbers, _ = count(model)
    operations = 6 * tokens * sum(p.numel() for one in linears(model) for p in one.parameters())
    return numbers, operations, operations / seconds / peak


@wrong("the time is left out: the peak is in operations per second", row=SHARE)
def without_the_time(model, tokens, seconds, peak):
    numbers, each = count(model)
    return numbers, each * tokens, each * tokens / peak


@wrong("that is the reciprocal: the share is what was done of what could be done", row=SHARE)
def upside_down(model, tokens, seconds, peak):
    numbers, each = count(model)
    return numbers, each * tokens, seconds * peak / (each * tokens)


@wrong("that is in percent, and a share is asked, which is 1 at most", row=SHARE)
def in_percent(model, tokens, seconds, peak):
    numbers, each = count(model)
    return numbers, each * tokens, 100 * each * tokens / seconds / peak


@wrong("Cannot copy out of meta tensor", row=META)
def counted_on_the_cpu(model, tokens, seconds, peak):
    twin = copy.deepcopy(model).to("cpu").requires_grad_(True)
    with FlopCounterMode(display=False) as counter:
        twin(torch.zeros(1, tokens, dtype=torch.long, device="cpu")).sum().backward()
    operations = counter.get_total_flops()
    return sum(one.numel() for one in model.parameters()), operations, operations / seconds / peak


@wrong("the number of operations is a float, not an int", row=ONCE)
def in_teraflop(model, tokens, seconds, peak):
    numbers, each = count(model)
    return numbers, each * tokens / 1e12, each * tokens / seconds / peak


@wrong("the tuple has three parts: parameters, operations, share", row=ONCE)
def share_alone(model, tokens, seconds, peak):
    numbers, each = count(model)
    return numbers, each * tokens / seconds / peak


@wrong("is a `return` missing?", row=ONCE)
def forgot_to_return(model, tokens, seconds, peak):
    count(model)
