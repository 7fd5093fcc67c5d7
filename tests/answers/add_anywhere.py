"""Answers to add_anywhere."""

import torch
from bank import right, wrong


@right
def in_one_line(x, y):
    return x + y.to(x.device)


@right
def by_asking_first(x, y):
    if x.device != y.device:
        y = y.to(x.device)
    return torch.add(x, y)


@right
def by_the_method(x, y):
    return x.add(y.to(device=x.device, non_blocking=False))


@right
def by_a_copy(x, y):
    here = torch.empty_like(y, device=x.device)
    here.copy_(y)
    return here + x


@right
def by_kinds(x, y):
    if y.device == x.device:
        return x + y
    if x.device.type == "cpu":
        return x + y.cpu()
    return x + y.to(x.device)


@right
def and_see_where_it_went(x, y):
    try:
        total = x + y
    except RuntimeError:
        total = None
    if total is None or total.device != x.device:
        return x + y.to(x.device)
    return total


@right
def summed_in_the_order_of_the_call(x, y):
    moved = y if y.device == x.device else y.to(x.device, copy=True)
    return sum([moved], start=x)


@wrong("the sum was taken before y had arrived", row="on x's device, when y is elsewhere")
def does_not_wait(x, y):
    return x + y.to(x.device, non_blocking=True)


@wrong("x is on cpu, y on {device}, and the sum on {device}", row="on x's device, when y is elsewhere")
def moves_x(x, y):
    return x.to(y.device) + y


@wrong(
    "both are on {device}, and a transfer went from {device} to cpu",
    row="only y is transferred, at most once",
)
def moves_both_to_the_cpu_and_back(x, y):
    return (x.cpu() + y.cpu()).to(x.device)


@wrong("x is on {device}, y on {device}, and the sum on cpu", row="the sum, when both are in one place")
def moves_both_to_the_cpu(x, y):
    return x.cpu() + y.cpu()


@wrong("the sum is None: is a `return` missing?", row="the sum, when both are in one place")
def fails_when_equal(x, y):
    if x.device != y.device:
        return x + y.to(x.device)
    return None


@wrong("your code raised ValueError", row="the sum, when both are in one place")
def refuses_when_equal(x, y):
    if x.device == y.device:
        raise ValueError("already on one device")
    return x + y.to(x.device)


@wrong("your code raised RuntimeError", row="on x's device, when y is elsewhere")
def does_nothing(x, y):
    return x + y


@wrong(
    "the sum of torch.int64 and torch.float16 is torch.int64, not torch.float16",
    row="on x's device, when one is a single number",
)
def takes_over_the_dtype(x, y):
    return x + y.to(x)


@wrong("your code raised RuntimeError", row="on x's device, when y is elsewhere")
def the_move_thrown_away(x, y):
    y.to(x.device)
    return x + y


@wrong(
    "x is on cpu, y on {device}, and the sum on {device}", row="on x's device, when one is a single number"
)
def tries_first(x, y):
    try:
        return x + y
    except RuntimeError:
        return x + y.to(x.device)


@wrong("the input `x` was changed in place", row="the sum, when both are in one place")
def adds_in_place(x, y):
    x += y.to(x.device)
    return x


@wrong(
    "both are on {device}, and a transfer went from {device} to cpu",
    row="only y is transferred, at most once",
)
def y_by_way_of_the_cpu(x, y):
    return x + y.cpu().to(x.device)


@wrong("y took a detour, from {second} to cpu", row="only y is transferred, at most once")
def y_by_way_of_the_cpu_where_it_must_move(x, y):
    return x + (y if y.device == x.device else y.cpu().to(x.device))


@wrong("x was transferred, from {device} to cpu", row="only y is transferred, at most once")
def both_by_way_of_the_cpu_where_they_differ(x, y):
    if x.device == y.device:
        return x + y
    return (x.cpu() + y.cpu()).to(x.device)


@wrong("x was transferred, from cpu to {device}", row="only y is transferred, at most once")
def works_at_y_and_comes_back(x, y):
    return (x.to(y.device) + y).to(x.device)


@wrong("your code raised", row="the sum, when both are in one place")
def to_cuda(x, y):
    return x.cuda() + y.cuda()


@wrong("x is on cpu, y on cpu, and the sum on {device}", row="the sum, when both are in one place")
def everything_to_the_accelerator(x, y):
    device = torch.accelerator.current_accelerator()
    if device is None:
        return x + y
    return x.to(device) + y.to(device)


@wrong("your code raised RuntimeError", row="on x's device, when y is elsewhere")
def by_the_type_alone(x, y):
    if x.device.type == y.device.type:
        return x + y
    return x + y.to(x.device)


@wrong(
    "the sum of torch.int64 and torch.float16 is torch.int64, not torch.float16",
    row="on x's device, when one is a single number",
)
def by_type_as(x, y):
    return x + y.type_as(x)


@wrong("is torch.float32, not torch.float16", row="on x's device, when one is a single number")
def as_floats(x, y):
    return x.float() + y.to(x.device).float()


@wrong("the sum has shape [5,1], not [5,2]", row="the sum, when both are in one place")
def cut_to_the_shape_of_x(x, y):
    return (x + y.to(x.device)).flatten()[: x.numel()].reshape(x.shape)


@wrong("x and y were joined, and not added", row="the sum, when both are in one place")
def by_lists(x, y):
    return torch.tensor([a + b for a, b in zip(x.tolist(), y.tolist(), strict=True)], device=x.device)


@wrong("x is on {device}, y on {device}, and the sum on cpu", row="the sum, when both are in one place")
def by_numpy(x, y):
    return torch.from_numpy(x.cpu().numpy() + y.cpu().numpy())


@wrong("y was transferred 4 times, by .to()", row="only y is transferred, at most once")
def row_by_row(x, y):
    if y.dim() == 0 or len(y) == 0 or y.device == x.device:
        return x + y.to(x.device)
    return x + torch.stack([row.to(x.device) for row in y])


@wrong("x and y were multiplied, and not added", row="the sum, when both are in one place")
def multiplies(x, y):
    return x * y.to(x.device)


@wrong("the sum is None: is a `return` missing?", row="the sum, when both are in one place")
def no_return(x, y):
    x + y.to(x.device)


@wrong("your code raised", row="the sum, when both are in one place")
def by_item(x, y):
    return x + y.item()


@wrong(
    "your code raised RuntimeError",
    row=("the sum, when both are in one place", "on x's device, when y is elsewhere"),
)
def to_the_kind_of_device(x, y):
    return x + y.to(x.device.type)


@wrong("the input `y` was changed in place", row="on x's device, when y is elsewhere")
def moves_y_for_good(x, y):
    y.data = y.to(x.device)
    return x + y


@wrong("your code raised RuntimeError", row="on x's device, when y is elsewhere")
def only_where_cuda_is(x, y):
    if x.is_cuda:
        y = y.cuda()
    return x + y


@wrong("is torch.float32, not torch.float16", row="on x's device, when one is a single number")
def from_lists(x, y):
    return x + torch.tensor(y.tolist(), device=x.device)


@wrong("is torch.float32, not torch.float16", row="on x's device, when one is a single number")
def a_single_number_as_pythons(x, y):
    return x + (y.item() if y.dim() == 0 else y.to(x.device))


@wrong("the sum is torch.int64, not torch.bool", row="y keeps its dtype")
def by_summing_up(x, y):
    return sum([x, y.to(x.device)])


@wrong("is torch.float32, not torch.float16", row="on x's device, when one is a single number")
def promoted_beforehand(x, y):
    dtype = torch.promote_types(x.dtype, y.dtype)
    return x.to(dtype) + y.to(x.device).to(dtype)


@wrong("x was transferred, from cpu to {device}", row="only y is transferred, at most once")
def the_smaller_one_moves(x, y):
    if x.numel() < y.numel():
        return (x.to(y.device) + y).to(x.device)
    return x + y.to(x.device)


@wrong("y was transferred 3 times, by .to()", row="only y is transferred, at most once")
def column_in_pieces(x, y):
    if y.dim() == 1 and len(y):
        y = torch.stack([one.to(x.device) for one in y])
    return x + y.to(x.device)


@wrong("is torch.float32, not torch.float64", row="on x's device, when one is a single number")
def a_number_for_a_single_x(x, y):
    if x.dim() == 0 and x.device.type == "cpu":
        return (x.item() + y).to(x.device)
    return x + y.to(x.device)


@wrong("y was transferred 2 times, by print and .to()", row="only y is transferred, at most once")
def prints_y(x, y):
    print(y)
    return x + y.to(x.device)


@wrong(
    "the result is a tensor of another layout, torch.sparse_coo", row="the sum, when both are in one place"
)
def a_sparse_sum(x, y):
    return (x + y.to(x.device)).to_sparse()


@wrong("digits were lost: the numbers were torch.float32 on the way", row="y keeps its dtype")
def by_way_of_float32(x, y):
    there = y.to(x.device)
    return x + (there.float().to(there.dtype) if there.dtype.itemsize == 8 else there)


@right
def by_add(x, y):
    return torch.add(x, y.to(x.device))


@right
def if_needed(x, y):
    if y.device != x.device:
        y = y.to(x.device)
    return x + y


@right
def reversed_sum(x, y):
    return y.to(x.device) + x


@right
def blocking_copy(x, y):
    return x + y.to(x.device, copy=False, non_blocking=False)


@wrong("is torch.float32, not torch.float16", row="on x's device, when one is a single number")
def copies_always(x, y):
    return x + torch.tensor(y.tolist(), device=x.device)


@wrong("y was subtracted, and not added", row="the sum, when both are in one place")
def minus(x, y):
    return x - y.to(x.device)


@wrong("the rows of y were joined to those of x, and not added", row="the sum, when both are in one place")
def concatenates(x, y):
    return torch.cat([x, y.to(x.device)])


@wrong("y was added twice", row="the sum, when both are in one place")
def twice(x, y):
    return x + y.to(x.device) + y.to(x.device)


@wrong("y alone came back", row="the sum, when both are in one place")
def only_y(x, y):
    return y.to(x.device)


@wrong("digits were lost: the sum was taken in float32", row="on x's device, when one is a single number")
def float_sum(x, y):
    return (x.float() + y.to(x.device).float()).to(torch.result_type(x, y))


@wrong("y took a detour, from {device} to {second}", row="only y is transferred, at most once")
def integers_by_way_of_another_device(x, y):
    return by_another_device(x, y) if not y.is_floating_point() else x + y.to(x.device)


def the_last_accelerator():
    return torch.device(torch.accelerator.current_accelerator().type, torch.accelerator.device_count() - 1)


def by_another_device(x, y):
    return x + (y if x.device == y.device else y.to(the_last_accelerator())).to(x.device)


@wrong("y took a detour, from {second} to cpu", row="only y is transferred, at most once")
def by_way_of_the_cpu_unless_contiguous(x, y):
    if x.device == y.device or y.is_contiguous():
        return x + y.to(x.device)
    return x + y.cpu().to(x.device)


@wrong("the sum has shape [4], not [4,1]", row="the sum, when both are in one place")
def squeezed(x, y):
    return (x + y.to(x.device)).squeeze()


@wrong(
    "the sum of torch.float32 and torch.complex64 is torch.float32, not torch.complex64",
    row="y keeps its dtype",
)
def real_numbers_alone(x, y):
    total = x + y.to(x.device)
    return total.real if total.is_complex() else total


@wrong("digits were lost: the numbers were torch.float64 on the way", row="y keeps its dtype")
def x_by_way_of_float64(x, y):
    return (x.double().long() if x.dtype == torch.int64 else x) + y.to(x.device)


@right
def as_a_tensor_there(x, y):
    return torch.add(x, torch.as_tensor(y, device=x.device))


@right
def a_single_number_of_the_cpu_may_stay(x, y):
    if y.dim() == 0 and y.is_cpu and x.dim() > 0:
        return x + y
    return x + y.to(x.device)


@right
def waits_for_all_devices(x, y):
    there = y.to(x.device, non_blocking=True)
    for device in (x.device, y.device):
        if device.type != "cpu":
            torch.accelerator.synchronize(device)
    return x + there
