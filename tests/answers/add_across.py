"""Answers to add_across."""

import torch
from bank import right, wrong


@right
def both_moved(x, y, out_device):
    return x.to(out_device) + y.to(out_device)


@right
def added_where_x_is(x, y, out_device):
    return (x + y.to(x.device)).to(out_device)


@right
def added_where_y_is(x, y, out_device):
    return torch.add(x.to(device=y.device), y).to(device=out_device)


@right
def in_a_loop(x, y, out_device):
    x, y = (tensor.to(out_device, copy=True) for tensor in (x, y))
    return x.add(y)


@wrong("the sum of x on cpu and y on cpu is on cpu", row="the sum, on out_device")
def nothing_moved(x, y, out_device):
    return x + y


@wrong("raised RuntimeError", row="the sum, on out_device")
def moved_too_late(x, y, out_device):
    return (x + y).to(out_device)


@wrong("the sum of x on cpu and y on cpu is on cpu", row="the sum, on out_device")
def result_of_to_thrown_away(x, y, out_device):
    x.to(out_device)
    y.to(out_device)
    return x + y


@wrong("raised RuntimeError", row="the sum, on out_device")
def only_y_moved(x, y, out_device):
    return x + y.to(out_device)


@wrong("the sum of x on cpu and y on cpu is on cpu", row="the sum, on out_device")
def left_where_x_is(x, y, out_device):
    return x + y.to(x.device)


@wrong("the sum has lost its graph", row="gradients flow back to both")
def detached(x, y, out_device):
    return x.detach().to(out_device) + y.detach().to(out_device)


@wrong("no gradient came back to y", row="gradients flow back to both")
def y_from_its_data(x, y, out_device):
    return x.to(out_device) + y.data.to(out_device)


@wrong("the input `x` was changed in place", row="the sum, on out_device")
def in_place(x, y, out_device):
    x += y.to(x.device)
    return x.to(out_device)


@wrong("the sum of x on cpu and y on cpu is None: is a `return` missing?", row="the sum, on out_device")
def no_return(x, y, out_device):
    total = x.to(out_device) + y.to(out_device)  # noqa: F841


@wrong("the sum is torch.float32, not torch.float16", row="shapes and dtypes as + gives them")
def always_float32(x, y, out_device):
    return x.to(out_device, torch.float32) + y.to(out_device, torch.float32)


@wrong("that is x twice, and y is missing", row="the sum, on out_device")
def x_twice(x, y, out_device):
    return x.to(out_device) + x.to(out_device) if x.shape == y.shape else x.to(out_device) + y.to(out_device)


@wrong("3 transfers, and none is needed", row="two transfers at most, none if all are together")
def by_way_of_the_cpu(x, y, out_device):
    return (x.cpu() + y.cpu()).to(out_device)


@wrong("the sum is torch.int64, not torch.bool", row="shapes and dtypes as + gives them")
def summed(x, y, out_device):
    return sum([x.to(out_device), y.to(out_device)])


@wrong("the sum has lost its graph", row="gradients flow back to both")
def single_numbers_read(x, y, out_device):
    if x.ndim == 0:
        return y.to(out_device) + x.detach().to(out_device)
    return x.to(out_device) + y.to(out_device)


@wrong("the sum has lost its graph", row="gradients flow back to both")
def numbers_by_item(x, y, out_device):
    if y.dim() == 0:
        return x.to(out_device) + y.item()
    return x.to(out_device) + y.to(out_device)


@wrong(
    "y was read before it had arrived: its copy to the CPU is made with non_blocking=True",
    row="the sum, on out_device",
)
def read_before_it_arrives(x, y, out_device):
    return x.to(out_device, non_blocking=True) + y.to(out_device, non_blocking=True)


@wrong("the sum holds y alone: x was left out", row="the sum, on out_device")
def the_second_alone(x, y, out_device):
    return y.to(out_device).clone()


@wrong("the values of the sum are wrong", row="shapes and dtypes as + gives them")
def by_way_of_float32(x, y, out_device):
    return (x.float().to(out_device) + y.float().to(out_device)).to(torch.result_type(x, y))


@wrong(
    "your code changed the current device of the whole program",
    row=("the sum, on out_device", "two transfers at most, none if all are together"),
)
def goes_there_for_good(x, y, out_device):
    if out_device.type != "cpu":
        torch.accelerator.set_device_index(out_device.index)
    return both_moved(x, y, out_device)


@wrong("the sum holds x alone: y was left out", row="the sum, on out_device")
def the_first_alone(x, y, out_device):
    return x.to(out_device).clone()


@wrong("the sum holds zeros: neither x nor y is in it", row="the sum, on out_device")
def zeros_of_its_shape(x, y, out_device):
    return torch.zeros_like(x, device=out_device)


@wrong("that is x times y, and the task asks for x + y", row="the sum, on out_device")
def multiplied(x, y, out_device):
    return x.to(out_device) * y.to(out_device)


@wrong(
    "x was read before it had arrived: its copy to the CPU is made with non_blocking=True",
    row="the sum, on out_device",
)
def x_read_before_it_arrives(x, y, out_device):
    return x.to(out_device, non_blocking=True) + y.to(out_device)


@wrong("that is x - y, and the task asks for x + y", row="the sum, on out_device")
def subtracted(x, y, out_device):
    return x.to(out_device) - y.to(out_device)


@wrong(
    "the sum of x on cpu and y on cpu is on {device}, not {second}",
    row=("the sum, on out_device", "two transfers at most, none if all are together"),
)
def without_the_index(x, y, out_device):
    return x.to(str(out_device).split(":")[0]) + y.to(str(out_device).split(":")[0])


@wrong("the sum has lost its graph", row="gradients flow back to both")
def made_anew(x, y, out_device):
    return torch.tensor(x + y.to(x.device), device=out_device)


@right
def together_first(x, y, out_device):
    if x.device == y.device:
        return (x + y).to(out_device)
    return x.to(out_device) + y.to(out_device)


@wrong("the sum was returned before the copy had arrived", row="the sum, on out_device")
def given_before_it_has_arrived(x, y, out_device):
    return (x + y.to(x.device)).to(out_device, non_blocking=True)


@wrong(
    "something goes to cpu, which has no part in the sum",
    row=("two transfers at most, none if all are together"),
)
def two_that_are_together_by_way_of_the_cpu(x, y, out_device):
    if x.device == y.device and out_device != x.device:
        return (x + y).cpu().to(out_device)
    return both_moved(x, y, out_device)


@right
def waited_for_in_the_end(x, y, out_device):
    moved = [one.to(out_device, non_blocking=True) for one in (x, y)]
    for one in (x, y):
        if one.device.type != "cpu":
            torch.accelerator.synchronize(one.device)
    return moved[0] + moved[1]


@wrong("the sum of x on cpu and y on cpu is on meta, not cpu", row="the sum, on out_device")
def without_numbers(x, y, out_device):
    return x.to("meta") + y.to("meta")
