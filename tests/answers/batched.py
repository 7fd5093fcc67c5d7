"""Answers to batched."""

import torch
from bank import right, wrong


@right
def at(xs, w):
    return xs @ w


@right
def reshaped(xs, w):
    n, a, b = xs.shape
    return (xs.reshape(n * a, b) @ w).reshape(n, a, -1)


@right
def bmm(xs, w):
    return torch.bmm(xs, w.expand(len(xs), *w.shape))


@right
def einsum(xs, w):
    return torch.einsum("nab,bc->nac", xs, w)


@right
def linear(xs, w):
    return torch.nn.functional.linear(xs, w.t())


@right
def tensordot(xs, w):
    return torch.tensordot(xs, w, dims=1)


@wrong("matrix products were launched for 2 matrices", row="one matrix product, however many matrices")
def loop(xs, w):
    return torch.stack([x @ w for x in xs])


@wrong("matrix products were launched for 2 matrices", row="one matrix product, however many matrices")
def into_a_buffer(xs, w):
    out = xs.new_empty(xs.shape[0], xs.shape[1], w.shape[1])
    for i in range(len(xs)):
        out[i] = xs[i] @ w
    return out


@wrong("launches must not grow with n", row="one matrix product, however many matrices")
def a_copy_of_w_for_each(xs, w):
    return torch.bmm(xs, torch.stack([w.clone() for _ in xs]))


@wrong("launches must not grow with n", row="one matrix product, however many matrices")
def copied_together_in_a_loop(xs, w):
    n, a, b = xs.shape
    flat = xs.new_empty(n * a, b)
    for i in range(n):
        flat[i * a : (i + 1) * a] = xs[i]
    return (flat @ w).reshape(n, a, -1)


@wrong("no matrix product was launched on", row="one matrix product, however many matrices")
def broadcast(xs, w):
    return (xs.unsqueeze(-1) * w).sum(-2)


@wrong("the result is torch.float32, not torch.float16", row="what the loop would give, stacked")
def always_in_float32(xs, w):
    return xs.float() @ w.float()


@wrong("is on cpu", row="what the loop would give, stacked")
def on_the_cpu(xs, w):
    return xs.cpu() @ w.cpu()


@wrong("has shape", row="what the loop would give, stacked")
def flat(xs, w):
    return xs.reshape(-1, xs.shape[-1]) @ w


@wrong("not a tensor", row="what the loop would give, stacked")
def a_list(xs, w):
    return list(xs @ w)


@wrong("has shape", row="what the loop would give, stacked")
def joined(xs, w):
    return torch.cat([x @ w for x in xs])


@wrong("is a `return` missing?", row="what the loop would give, stacked")
def forgetful(xs, w):
    xs @ w


@wrong("your code raised RuntimeError", row="views and transposed weights")
def view_of_a_view(xs, w):
    n, a, b = xs.shape
    return (xs.view(n * a, b) @ w).view(n, a, -1)


@wrong("the products have lost their graph", row="what the loop would give, stacked")
def without_a_graph(xs, w):
    return xs.detach() @ w.detach()


@wrong(
    "the product was computed on the CPU: a tensor left {device}",
    row="one matrix product, however many matrices",
)
def on_the_cpu_and_back(xs, w):
    return (xs.cpu() @ w.cpu()).to(xs.device)


@wrong(
    "digits were lost: the result is no more exact than torch.float32",
    row="what the loop would give, stacked",
)
def by_float32(xs, w):
    return (xs.float() @ w.float()).to(xs.dtype)


@wrong("has shape [5,2,3], not [5,3,2]", row="what the loop would give, stacked")
def rows_and_columns_swapped(xs, w):
    return (xs.flatten(0, 1) @ w).reshape(xs.shape[0], w.shape[1], xs.shape[1])


@wrong("no gradient reaches w", row="what the loop would give, stacked")
def weights_detached(xs, w):
    return xs @ w.detach()


@right
def vmap(xs, w):
    return torch.vmap(lambda x: x @ w)(xs)


@right
def transposed_twice(xs, w):
    return (w.mT @ xs.mT).mT


@wrong("the result is torch.float16, not torch.bfloat16", row="what the loop would give, stacked")
def sixteen_bits_are_half(xs, w):
    product = xs @ w
    return product.half() if xs.dtype.itemsize == 2 else product


@wrong("launches must not grow with n", row="one matrix product, however many matrices")
def doubled_again_and_again(xs, w):
    parts, size = [xs[:1].clone()], 1
    while size < len(xs):
        parts.append(xs[size : 2 * size].clone())
        size *= 2
    return torch.cat(parts) @ w


@wrong("no more exact than torch.float32", row="what the loop would give, stacked")
def weights_through_float32(xs, w):
    return xs @ w.float().to(xs.dtype)


@wrong("no more exact than torch.float16", row="what the loop would give, stacked")
def by_float16(xs, w):
    return (xs.half() @ w.half()).to(xs.dtype)


@wrong("the result is on meta", row="what the loop would give, stacked")
def without_memory(xs, w):
    return xs.to("meta") @ w.to("meta")
