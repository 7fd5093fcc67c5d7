"""Answers to fix_mask."""

import torch
from bank import right, wrong

INF = float("-inf")
MADE = "the mask is made on x's device"


def future(x, **where):
    """Return the truth above the diagonal."""
    return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, **where).triu(1)


def mask_of(x, **where):
    """Return -inf above the diagonal and zeros elsewhere."""
    return torch.full((x.shape[1], x.shape[1]), INF, **where).triu(1)


@right
def from_x(x):
    time = x.shape[1]
    return x + x.new_full((time, time), INF).triu(1)


@right
def told_device_and_dtype(x):
    return x + mask_of(x, device=x.device, dtype=x.dtype)


@right
def filled(x):
    return x.masked_fill(torch.ones_like(x[0], dtype=torch.bool).triu(1), INF)


@right
def by_steps(x):
    steps = torch.arange(x.size(1), device=x.device)
    return x.masked_fill(steps[:, None] < steps, INF)


@right
def by_where(x):
    i = torch.arange(x.shape[1], device=x.device)
    return torch.where(i[:, None] >= i, x, INF)


@right
def row_by_row(x):
    o = x.clone()
    for i in range(x.shape[1]):
        o[:, i, i + 1 :] = INF
    return o


@right
def as_transformers_do(x):
    return x + torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1], x.device, x.dtype)


@wrong("the mask was made on the CPU and brought to {device} at each call", row=MADE)
def moved(x):
    return x + mask_of(x).to(x)


@wrong("the mask was made on the CPU and brought to {device} at each call", row=MADE)
def chosen(x):
    return torch.where(future(x).to(x.device), INF, x)


@wrong("the mask was made on the CPU and brought to {device} at each call", row=MADE)
def moved_without_the_dtype(x):
    return x + mask_of(x).to(x.device)


@wrong("the mask was made on the CPU and brought to {device} at each call", row=MADE)
def made_and_brought(x):
    return x + mask_of(x, dtype=x.dtype).to(x.device)


@wrong("Expected all tensors to be on the same device", row=MADE)
def the_broken_program(x):
    time = x.shape[1]
    mask = torch.full((time, time), float("-inf")).triu(1)
    return x + mask


@wrong("Expected all tensors to be on the same device", row=MADE)
def thrown_away(x):
    mask = mask_of(x)
    mask.to(x.device)
    return x + mask


@wrong("the result is torch.float32, not torch.float16", row="the result has x's dtype")
def the_device_alone(x):
    return x + mask_of(x, device=x.device)


@wrong("Expected all tensors to be on the same device", row=MADE)
def the_dtype_alone(x):
    return x + mask_of(x, dtype=x.dtype)


@wrong("something left {device} for cpu", row=MADE)
def on_the_cpu(x):
    return x.cpu() + mask_of(x, dtype=x.dtype)


@wrong("something left {device} for cpu", row=MADE)
def sum_on_the_cpu(x):
    return (x.cpu() + mask_of(x)).to(x)


@wrong("above the diagonal stand zeros: a softmax makes e⁰ of them, and of -inf it makes 0", row=MADE)
def times_a_triangle_of_ones(x):
    return x * x.new_ones(x.shape[1], x.shape[1]).tril()


@wrong("above the diagonal stand zeros: a softmax makes e⁰ of them, and of -inf it makes 0", row=MADE)
def filled_with_zeros(x):
    return x.masked_fill(future(x, device=x.device), 0)


@wrong("above the diagonal stand finite numbers: only -inf has the weight 0 after every softmax", row=MADE)
def a_large_negative_number(x):
    return x.masked_fill(future(x, device=x.device), -1e4)


@wrong("above the diagonal stand finite numbers: only -inf has the weight 0 after every softmax", row=MADE)
def minus_a_billion(x):
    return x.masked_fill(future(x, device=x.device), -1e9)


@wrong("above the diagonal stand finite numbers: only -inf has the weight 0 after every softmax", row=MADE)
def minus_a_hundred_thousand(x):
    return x.masked_fill(future(x, device=x.device), -1e5)


@wrong("above the diagonal stand finite numbers: only -inf has the weight 0 after every softmax", row=MADE)
def minus_a_million(x):
    return x.masked_fill(future(x, device=x.device), -1e6)


@wrong("above the diagonal stand finite numbers: only -inf has the weight 0 after every softmax", row=MADE)
def minus_a_hundred(x):
    return x.masked_fill(future(x, device=x.device), -100.0)


@wrong("above the diagonal stand finite numbers: only -inf has the weight 0 after every softmax", row=MADE)
def minus_a_thousand(x):
    return x.masked_fill(future(x, device=x.device), -1000.0)


@wrong("above the diagonal stand finite numbers: only -inf has the weight 0 after every softmax", row=MADE)
def the_smallest_of_the_dtype(x):
    return x.masked_fill(future(x, device=x.device), torch.finfo(x.dtype).min)


@wrong("the result holds nan or inf", row=MADE)
def infinity_times_zero(x):
    return x + future(x, device=x.device) * INF


@wrong("that is the upper triangle, and the lower one is asked", row=MADE)
def the_other_triangle(x):
    return x + x.new_full(x.shape[1:], INF).tril(-1)


@wrong("the diagonal is missing: x stays on it", row=MADE)
def without_the_diagonal(x):
    return x + x.new_full(x.shape[1:], INF).triu()


@wrong("that is x itself: nothing was masked", row=MADE)
def no_mask(x):
    return x.clone()


@wrong("the input `x` was changed in place", row=MADE)
def in_place(x):
    return x.detach().masked_fill_(future(x, device=x.device), INF)


@wrong("the result has shape [5,5], not [2,5,5]", row=MADE)
def the_mask_itself(x):
    return mask_of(x, device=x.device, dtype=x.dtype)


@wrong("that is the mask alone, and x with the mask is asked", row=MADE)
def the_mask_alone(x):
    return mask_of(x, device=x.device, dtype=x.dtype).expand_as(x)


@wrong("the result has left the graph", row="the gradient reaches x")
def detached(x):
    return x.detach() + mask_of(x, device=x.device, dtype=x.dtype)


@wrong("the result is torch.bool, not torch.float32", row=MADE)
def as_booleans_only(x):
    return future(x, device=x.device).expand_as(x)


@wrong("your code raised", row=MADE)
def always_cuda(x):
    return x + mask_of(x, device="cuda", dtype=x.dtype) * x.new_ones(())


@wrong("something left {second} for {device}", row=(MADE, "on a device that is not the current one"))
def on_the_current_device(x):
    device = "cpu" if x.device.type == "cpu" else torch.accelerator.current_accelerator()
    x = x.to(device)
    return x + x.new_full(x.shape[1:], INF).triu(1)


@wrong("Expected all tensors to be on the same device", row=MADE)
def by_legacy_tensors(x):
    return x + torch.FloatTensor(x.shape[1], x.shape[1]).fill_(INF).triu(1)


@wrong("the result is None: is a `return` missing?", row=MADE)
def forgets_to_return(x):
    x + x.new_full(x.shape[1:], INF).triu(1)


CACHE = {}


@wrong("Expected all tensors to be on the same device", row=MADE)
def cached_by_length(x):
    time = x.shape[1]
    if time not in CACHE:
        CACHE[time] = x.new_full((time, time), INF).triu(1)
    return x + CACHE[time]


@wrong("the values of the result are wrong", row="the result has x's dtype")
def in_float32(x):
    return (x.float() + mask_of(x, device=x.device)).to(x.dtype)


@wrong("the values of the gradient that reaches x are wrong", row="the gradient reaches x")
def twice_the_gradient(x):
    return (2 * x - x.detach()) + mask_of(x, device=x.device, dtype=x.dtype)
