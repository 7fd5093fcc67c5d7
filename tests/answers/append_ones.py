"""Answers to append_ones."""

import torch
from bank import right, wrong


@right
def new_ones(x):
    return torch.cat([x, x.new_ones(*x.shape[:-1], 1)], dim=-1)


@right
def ones_with_device_and_dtype(x):
    ones = torch.ones((*x.shape[:-1], 1), device=x.device, dtype=x.dtype)
    return torch.cat((x, ones), -1)


@right
def ones_like_a_column(x):
    return torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)


@right
def padded(x):
    return torch.nn.functional.pad(x, (0, 1), value=1)


@right
def filled_in(x):
    result = x.new_empty(*x.shape[:-1], x.shape[-1] + 1)
    result[..., :-1] = x
    result[..., -1] = 1
    return result


@right
def an_expanded_one(x):
    one = torch.tensor(1, device=x.device, dtype=x.dtype)
    return torch.cat([x, one.expand(*x.shape[:-1], 1)], dim=-1)


@right
def by_stacking_columns(x):
    return torch.stack([*x.unbind(-1), torch.ones_like(x.select(-1, 0))], dim=-1)


@wrong("Expected all tensors to be on the same device", row="a column of ones at the end")
def ones_on_the_cpu(x):
    return torch.cat([x, torch.ones(*x.shape[:-1], 1, dtype=x.dtype)], dim=-1)


@wrong("the result is torch.float32, not torch.float16", row="x's own dtype, integers too")
def ones_in_float32(x):
    return torch.cat([x, torch.ones(*x.shape[:-1], 1, device=x.device)], dim=-1)


@wrong("the result is on cpu, not {device}", row="a column of ones at the end")
def all_on_the_cpu(x):
    return torch.cat([x.cpu(), torch.ones(*x.shape[:-1], 1, dtype=x.dtype)], dim=-1)


@wrong("the result is torch.float32, not torch.float64", row="x's own dtype, integers too")
def always_float32(x):
    x = x.float() if x.dtype.itemsize != 2 else x
    return torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)


@wrong("digits were lost: the numbers were torch.float32 on the way", row="x's own dtype, integers too")
def through_float32_and_back(x):
    ones = torch.ones(*x.shape[:-1], 1, device=x.device)
    return torch.cat([x.float(), ones], dim=-1).to(x.dtype)


@wrong("digits were lost: the numbers were torch.float32 on the way", row="x's own dtype, integers too")
def promoted_and_back(x):
    return torch.cat([x, torch.ones(*x.shape[:-1], 1, device=x.device)], dim=-1).to(x.dtype)


@wrong("digits were lost: the numbers were torch.float32 on the way", row="x's own dtype, integers too")
def doubles_through_float32(x):
    y = x.float() if x.dtype is torch.float64 else x
    return torch.cat([y, torch.ones_like(y[..., :1])], dim=-1).to(x.dtype)


@wrong("the ones were added along dimension 0, and not along the last", row="a column of ones at the end")
def one_more_row(x):
    return torch.cat([x, torch.ones_like(x[:1])])


@wrong("the ones stand in front of x's columns, and not after them", row="a column of ones at the end")
def at_the_front(x):
    return torch.cat([torch.ones_like(x[..., :1]), x], dim=-1)


@wrong("the new column holds zeros", row="a column of ones at the end")
def zeros(x):
    return torch.cat([x, x.new_zeros(*x.shape[:-1], 1)], dim=-1)


@wrong("must have same number of dimensions", row="any number of dimensions, and views")
def two_dimensions_only(x):
    return torch.cat([x, x.new_ones(x.shape[0], 1)], dim=1)


@wrong(
    "the ones were added along dimension 1, and not along the last", row="any number of dimensions, and views"
)
def second_dimension(x):
    if x.dim() == 1:
        return torch.cat([x, x.new_ones(1)])
    return torch.cat([x, x.new_ones(x.shape[0], 1, *x.shape[2:])], dim=1)


@wrong("the new column holds nan, and not ones alone", row="ones beside inf and nan, too")
def computed_from_a_column(x):
    return torch.cat([x, x[..., :1] * 0 + 1], dim=-1)


@wrong("the new column holds 0, and not ones alone", row="x's own dtype, integers too")
def computed_by_division(x):
    return torch.cat([x, (x[..., :1] / x[..., :1]).to(x.dtype)], dim=-1)


@wrong("as many columns of ones were added as x has: it is to be one", row="a column of ones at the end")
def as_many_ones_as_columns(x):
    return torch.cat([x, torch.ones_like(x)], dim=-1)


@wrong("the input `x` was changed in place", row="a column of ones at the end")
def overwrites_the_last_column(x):
    x[..., -1] = 1
    return torch.cat([x, x[..., -1:]], dim=-1)


@wrong("the new column holds 0.526479, and not ones alone", row="a column of ones at the end")
def a_column_of_any_numbers(x):
    return torch.cat([x, x[..., -1:]], dim=-1)


@wrong("the result is None: is a `return` missing?", row="a column of ones at the end")
def forgetful(x):
    torch.cat([x, x.new_ones(*x.shape[:-1], 1)], dim=-1)


@wrong("expected Tensor as element 1", row="a column of ones at the end")
def python_ones(x):
    return torch.cat([x, [[1.0]] * len(x)], dim=-1)


@wrong("one was added to each element: no column was added", row="a column of ones at the end")
def adds_instead(x):
    return x + torch.ones_like(x)


@wrong("the new column holds 0, and not ones alone", row="ones beside inf and nan, too")
def ones_by_comparison(x):
    return torch.cat([x, (x[..., :1] == x[..., :1]).to(x.dtype)], -1)


@wrong("the result is torch.float64, not torch.complex128", row="x's own dtype, integers too")
def real_parts_alone(x):
    if x.is_complex():
        x = x.real
    return torch.cat([x, torch.ones_like(x[..., :1])], -1)


@wrong("digits were lost: the numbers were torch.float64 on the way", row="x's own dtype, integers too")
def by_float64(x):
    ones = torch.ones(*x.shape[:-1], 1, dtype=torch.float64, device=x.device)
    return (torch.cat([x, ones], -1) if not x.is_complex() else torch.cat([x, ones.to(x.dtype)], -1)).to(
        x.dtype
    )


@wrong("must have same number of dimensions", row="a column of ones at the end")
def squeezes_a_row(x):
    return torch.cat([x.squeeze(0), x.new_ones(*x.shape[:-1], 1)], dim=-1)


@right
def full_like_a_column(x):
    return torch.cat([x, torch.full_like(x[..., :1], 1)], -1)


@right
def padded_by_name(x):
    return torch.nn.functional.pad(x, (0, 1), "constant", 1)


@right
def into_ones(x):
    out = torch.ones(*x.shape[:-1], x.shape[-1] + 1, dtype=x.dtype, device=x.device)
    out[..., : x.shape[-1]] = x
    return out


@right
def by_dimensions(x):
    return (
        torch.hstack([x, x.new_ones(1)])
        if x.dim() == 1
        else torch.cat((x, x.new_ones((*x.shape[:-1], 1))), dim=x.dim() - 1)
    )


@right
def moved_to_x(x):
    return torch.cat([x, torch.ones((*x.shape[:-1], 1)).to(x)], -1)


@wrong("as many rows of ones were added as x has: it is to be one column", row="a column of ones at the end")
def rows_of_ones(x):
    return torch.cat([x, torch.ones_like(x)], 0)


@wrong("the new column holds 2, and not ones alone", row="a column of ones at the end")
def twos(x):
    return torch.cat([x, torch.ones_like(x[..., :1]) * 2], -1)


@wrong("the result is torch.float32, not torch.int32", row="x's own dtype, integers too")
def w13(x):
    return torch.cat([x, x[..., :1] / x[..., :1]], -1)


@wrong("a column of ones was added on both sides of x", row="a column of ones at the end")
def on_both_sides(x):
    return torch.nn.functional.pad(x, (1, 1), value=1)


@wrong("the result has shape [0,5], not [0,6]", row="any number of dimensions, and views")
def an_empty_batch_as_it_is(x):
    if x.dim() == 2 and not len(x):
        return x
    return torch.cat([x, x.new_ones(*x.shape[:-1], 1)], dim=-1)


@wrong("the result has shape [2,0,5], not [2,0,6]", row="any number of dimensions, and views")
def of_the_last_but_one(x):
    if x.dim() > 1 and not x.shape[-2]:
        return x
    return torch.cat([x, x.new_ones(*x.shape[:-1], 1)], dim=-1)


@wrong("KeyError: 5", row="any number of dimensions, and views")
def up_to_four_dimensions(x):
    shape = dict.fromkeys(range(1, 5), (*x.shape[:-1], 1))[x.dim()]
    return torch.cat([x, x.new_ones(shape)], dim=-1)


@wrong("KeyError: torch.int8", row="x's own dtype, integers too")
def of_the_usual_dtypes(x):
    bits = {torch.uint8: 8, torch.int32: 32, torch.int64: 64} if not x.is_floating_point() else {x.dtype: 0}
    bits |= {torch.complex64: 64, torch.complex128: 128}
    assert bits[x.dtype] >= 0
    return torch.cat([x, x.new_ones(*x.shape[:-1], 1)], dim=-1)
