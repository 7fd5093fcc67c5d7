"""Answers to fix_mask."""

import torch
from bank import right, wrong


@right
def from_x(x):
    time = x.shape[1]
    return x * x.new_ones(time, time).tril()


@right
def told_device_and_dtype(x):
    mask = torch.tril(torch.ones(x.shape[1], x.shape[2], device=x.device, dtype=x.dtype))
    return x * mask


@right
def without_a_mask(x):
    return torch.tril(x)


@right
def as_booleans(x):
    steps = torch.arange(x.size(1), device=x.device)
    return x * (steps[:, None] >= steps)


@right
def filled(x):
    future = torch.ones_like(x[0], dtype=torch.bool).triu(1)
    return x.masked_fill(future, 0)


@wrong("the mask was made on the CPU and brought to {device}", row="the mask is made on x's device")
def moved(x):
    mask = torch.tril(torch.ones(x.shape[1], x.shape[1]))
    return x * mask.to(x)


@wrong("the mask was made on the CPU and brought to {device}", row="the mask is made on x's device")
def chosen(x):
    past = torch.ones(x.shape[1:], dtype=torch.bool).tril().to(x.device)
    return torch.where(past, x, 0)


@wrong("Expected all tensors to be on the same device", row="the mask is made on x's device")
def the_broken_program(x):
    time = x.shape[1]
    mask = torch.tril(torch.ones(time, time))
    return x * mask


@wrong("Expected all tensors to be on the same device", row="the mask is made on x's device")
def thrown_away(x):
    mask = torch.tril(torch.ones(x.shape[1], x.shape[1]))
    mask.to(x.device)
    return x * mask


@wrong("the result is torch.float32, not torch.float16", row="the result has x's dtype")
def the_device_alone(x):
    time = x.shape[1]
    return x * torch.tril(torch.ones(time, time, device=x.device))


@wrong("Expected all tensors to be on the same device", row="the mask is made on x's device")
def the_dtype_alone(x):
    time = x.shape[1]
    return x * torch.tril(torch.ones(time, time, dtype=x.dtype))


@wrong("the mask was made on the CPU", row="the mask is made on x's device")
def moved_without_the_dtype(x):
    return x * torch.tril(torch.ones(x.shape[1], x.shape[1])).to(x.device)


@wrong("something left {device} for cpu", row="the mask is made on x's device")
def on_the_cpu(x):
    return x.cpu() * torch.tril(torch.ones(x.shape[1], x.shape[1], dtype=x.dtype))


@wrong("that is the upper triangle", row="the mask is made on x's device")
def the_other_triangle(x):
    return x * torch.ones_like(x).triu()


@wrong("the diagonal is missing", row="the mask is made on x's device")
def without_the_diagonal(x):
    return x * torch.ones_like(x).tril(-1)


@wrong("nothing was masked", row="the mask is made on x's device")
def no_mask(x):
    return x.clone()


@wrong("above the diagonal stands -inf", row="the mask is made on x's device")
def filled_with_minus_infinity(x):
    return x.masked_fill(torch.ones_like(x, dtype=torch.bool).triu(1), float("-inf"))


@wrong("was changed in place", row="the mask is made on x's device")
def in_place(x):
    return x.detach().tril_()


@wrong("the result has shape", row="the mask is made on x's device")
def the_mask_itself(x):
    return x.new_ones(x.shape[1], x.shape[1]).tril()


@wrong("the result has left the graph", row="the gradient reaches x")
def detached(x):
    return x.detach().tril()


@wrong("the result is torch.bool", row="the mask is made on x's device")
def as_booleans_only(x):
    return torch.ones_like(x, dtype=torch.bool).tril()


@wrong("your code raised", row="the mask is made on x's device")
def always_cuda(x):
    return x * torch.tril(torch.ones(x.shape[1], x.shape[1], device="cuda", dtype=x.dtype))


@wrong(
    "something left {second} for {device}",
    row=("the mask is made on x's device", "on a device that is not the current one"),
)
def on_the_current_device(x):
    device = "cpu" if x.device.type == "cpu" else torch.accelerator.current_accelerator()
    x = x.to(device)
    return x * x.new_ones(x.shape[1], x.shape[1]).tril()


@wrong("Expected all tensors to be on the same device", row="the mask is made on x's device")
def by_legacy_tensors(x):
    mask = torch.FloatTensor(x.shape[1], x.shape[1]).fill_(1).tril()
    return x * mask


@wrong("is None: is a `return` missing?", row="the mask is made on x's device")
def forgets_to_return(x):
    x * x.new_ones(x.shape[1], x.shape[1]).tril()


CACHE = {}


@wrong("Expected all tensors to be on the same device", row="the mask is made on x's device")
def cached_by_length(x):
    time = x.shape[1]
    if time not in CACHE:
        CACHE[time] = x.new_ones(time, time).tril()
    return x * CACHE[time]


@wrong("the values of the result are wrong", row="the result has x's dtype")
def in_float32(x):
    time = x.shape[1]
    mask = torch.tril(torch.ones(time, time, device=x.device))
    return (x.float() * mask).to(x.dtype)


@wrong("the values of the gradient that reaches x are wrong", row="the gradient reaches x")
def straight_through(x):
    return x + (x.tril() - x).detach()


@wrong("something left {device} for cpu", row="the mask is made on x's device")
def product_on_the_cpu(x):
    t = x.shape[1]
    return (x.cpu() * torch.tril(torch.ones(t, t))).to(x)


@wrong("that is the mask alone", row="the mask is made on x's device")
def the_mask_alone(x):
    t = x.shape[1]
    return torch.tril(torch.ones(t, t, device=x.device, dtype=x.dtype)).expand_as(x)


@wrong("the mask was made on the CPU", row="the mask is made on x's device")
def made_and_brought(x):
    t = x.shape[1]
    m = torch.tril(torch.ones(t, t, dtype=x.dtype))
    return x * m.to(x.device)


@right
def by_where(x):
    i = torch.arange(x.shape[1], device=x.device)
    return torch.where(i[:, None] >= i, x, 0)


@right
def by_truths(x):
    return x * torch.ones(x.shape[1], x.shape[2], dtype=torch.bool, device=x.device).tril()


@right
def row_by_row(x):
    o = x.clone()
    for i in range(x.shape[1]):
        o[:, i, i + 1 :] = 0
    return o
