"""Answers to activation_bytes."""

import torch
from bank import right, wrong
from torch import nn
from torch.nn import functional as F

FUSED = "fused attention keeps no table"
WRITTEN = "written-out attention: a table for each head"
DTYPES = "each number at the size of its dtype"


def rest(shape, hidden):
    """Return the numbers that are kept besides attention's table."""
    batch, length, width = shape
    return batch * length * (8 * width + 4 * hidden)


def table(shape, heads):
    """Return the numbers of attention's table."""
    batch, length, _ = shape
    return batch * heads * length**2


@right
def in_one_formula(shape, hidden, heads, dtype, fused):
    batch, length, width = shape
    numbers = batch * length * (8 * width + 4 * hidden + (0 if fused else heads * length))
    return numbers * dtype.itemsize


@right
def tensor_by_tensor(shape, hidden, heads, dtype, fused):
    batch, length, width = shape
    wide, gated = (batch, length, width), (batch, length, hidden)
    kept = {"x": wide, "norm_1": wide, "q": wide, "k": wide, "v": wide, "attended": wide}
    kept |= {"sum": wide, "norm_2": wide, "gate": gated, "silu": gated, "up": gated, "product": gated}
    if not fused:
        kept["softmax"] = batch, heads, length, length
    return sum(torch.Size(one).numel() for one in kept.values()) * torch.finfo(dtype).bits // 8


@right
def with_the_norms_statistics(shape, hidden, heads, dtype, fused):
    statistics = 4 * shape[0] * shape[1] * 4  # a mean and a deviation for each token of two norms
    return dtype.itemsize * (rest(shape, hidden) + (not fused) * table(shape, heads)) + statistics


@right
def measured_on_the_cpu(shape, hidden, heads, dtype, fused):
    width, kept = shape[-1], {}
    norms = nn.LayerNorm(width), nn.LayerNorm(width)
    sizes = (width, 3 * width), (width, width), (width, hidden), (width, hidden), (hidden, width)
    qkv, out, gate, up, down = layers = [nn.Linear(*size) for size in sizes]
    for layer in (*norms, *layers):
        layer.to("cpu", dtype)

    def note(tensor):
        if not isinstance(tensor, nn.Parameter) and not isinstance(tensor._base, nn.Parameter):
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        x = torch.ones(shape, dtype=dtype, device="cpu")
        q, k, v = (one.unflatten(2, (heads, -1)).transpose(1, 2) for one in qkv(norms[0](x)).chunk(3, 2))
        if fused:
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            attended = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
        x = x + out(attended.transpose(1, 2).flatten(2))
        normed = norms[1](x)
        result = x + down(F.silu(gate(normed)) * up(normed))
    del result
    return sum(kept.values())


@wrong("the table of attention that is written out is missing", row=WRITTEN)
def never_a_table(shape, hidden, heads, dtype, fused):
    return dtype.itemsize * rest(shape, hidden)


@wrong("fused attention keeps no table of length × length", row=FUSED)
def always_a_table(shape, hidden, heads, dtype, fused):
    return dtype.itemsize * (rest(shape, hidden) + table(shape, heads))


@wrong("each head has a table of its own", row=WRITTEN)
def one_table_for_all_heads(shape, hidden, heads, dtype, fused):
    return dtype.itemsize * (rest(shape, hidden) + (not fused) * table(shape, 1))


@wrong("each text of the batch has tables of its own", row=WRITTEN)
def tables_of_one_text(shape, hidden, heads, dtype, fused):
    return dtype.itemsize * (rest(shape, hidden) + (not fused) * table((1, *shape[1:]), heads))


@wrong("attention keeps one table: what goes into `softmax` its backward does not need", row=WRITTEN)
def scores_and_softmax(shape, hidden, heads, dtype, fused):
    return dtype.itemsize * (rest(shape, hidden) + (not fused) * 2 * table(shape, heads))


@wrong("not every number takes 4 bytes", row=DTYPES)
def four_bytes_each(shape, hidden, heads, dtype, fused):
    return 4 * (rest(shape, hidden) + (not fused) * table(shape, heads))


@wrong("that is how many numbers, and the task asks for bytes", row=FUSED)
def numbers_not_bytes(shape, hidden, heads, dtype, fused):
    return rest(shape, hidden) + (not fused) * table(shape, heads)


@wrong(
    "that is the lesson's block: in this one the width of `hidden` is given, and four tensors have it",
    row=FUSED,
)
def sixteen_times_the_width(shape, hidden, heads, dtype, fused):
    return dtype.itemsize * (16 * torch.Size(shape).numel() + (not fused) * table(shape, heads))


@wrong("two tensors as wide as `hidden` are missing: a product needs both of its factors", row=FUSED)
def as_a_gelu(shape, hidden, heads, dtype, fused):
    batch, length, width = shape
    numbers = batch * length * (8 * width + 2 * hidden) + (not fused) * table(shape, heads)
    return dtype.itemsize * numbers


@wrong("the product of `silu` and `up` is missing: the last Linear needs its input", row=FUSED)
def without_the_product(shape, hidden, heads, dtype, fused):
    batch, length, width = shape
    numbers = batch * length * (8 * width + 3 * hidden) + (not fused) * table(shape, heads)
    return dtype.itemsize * numbers


@wrong("q, k and v are three tensors, and all three are kept", row=FUSED)
def one_for_q_k_and_v(shape, hidden, heads, dtype, fused):
    batch, length, width = shape
    numbers = batch * length * (6 * width + 4 * hidden) + (not fused) * table(shape, heads)
    return dtype.itemsize * numbers


@wrong(
    "one tensor too many: a sum keeps nothing for its backward, and the block's result is not its own",
    row=FUSED,
)
def with_the_result(shape, hidden, heads, dtype, fused):
    numbers = rest(shape, hidden) + torch.Size(shape).numel() + (not fused) * table(shape, heads)
    return dtype.itemsize * numbers


@wrong("the parameters are counted, and the task asks for what is kept besides them", row=FUSED)
def with_the_parameters(shape, hidden, heads, dtype, fused):
    width = shape[-1]
    sizes = 4 * width, 4 * width**2 + 4 * width, 3 * width * hidden + 2 * hidden + width
    return dtype.itemsize * (rest(shape, hidden) + sum(sizes) + (not fused) * table(shape, heads))


@wrong("the batch is missing: each text keeps its own", row=FUSED)
def of_one_text(shape, hidden, heads, dtype, fused):
    shape = (1, *shape[1:])
    return dtype.itemsize * (rest(shape, hidden) + (not fused) * table(shape, heads))


@wrong("the number of bytes is a float, not an int", row=FUSED)
def in_gigabytes(shape, hidden, heads, dtype, fused):
    return dtype.itemsize * (rest(shape, hidden) + (not fused) * table(shape, heads)) / 1e9


@wrong("is a `return` missing?", row=FUSED)
def forgot_to_return(shape, hidden, heads, dtype, fused):
    rest(shape, hidden) + (not fused) * table(shape, heads)
