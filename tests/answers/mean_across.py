"""Answers to mean_across."""

import functools
import operator

import torch
from bank import right, wrong


@right
def stacked(tensors, device):
    return torch.stack([tensor.to(device) for tensor in tensors]).mean(dim=0)


@right
def summed(tensors, device):
    return sum(tensor.to(device) for tensor in tensors) / len(tensors)


@right
def in_place_on_a_new_one(tensors, device):
    total = torch.zeros_like(tensors[0], device=device)
    for tensor in tensors:
        total += tensor.to(device)
    return total.div_(len(tensors))


@right
def shares_added_up(tensors, device):
    return functools.reduce(operator.add, [tensor.to(device) / len(tensors) for tensor in tensors])


@wrong("the values of the mean are wrong", row="in the tensors' own dtype")
def in_float32_and_back(tensors, device):
    wide = torch.stack([tensor.to(device, torch.float32) for tensor in tensors])
    return wide.mean(0).to(tensors[0].dtype)


@wrong("your code raised RuntimeError", row="the elementwise mean, on the device")
def nothing_moved(tensors, device):
    return torch.stack(tensors).mean(0).to(device)


@wrong("the mean has shape [], not [3,2]", row="the elementwise mean, on the device")
def over_everything(tensors, device):
    return torch.stack([tensor.to(device) for tensor in tensors]).mean()


@wrong("the mean has shape [2], not [3,2]", row="the elementwise mean, on the device")
def over_the_rows(tensors, device):
    return torch.cat([tensor.to(device) for tensor in tensors]).mean(0)


@wrong(
    "that is the sum of the tensors, and the task asks for their mean",
    row="the elementwise mean, on the device",
)
def not_divided(tensors, device):
    return sum(tensor.to(device) for tensor in tensors)


@wrong("the sum was always divided by 2", row="the elementwise mean, on the device")
def always_by_two(tensors, device):
    return sum(tensor.to(device) for tensor in tensors) / 2


@wrong("the input `tensors[0]` was changed in place", row="the elementwise mean, on the device")
def into_the_first(tensors, device):
    total = tensors[0]
    for tensor in tensors[1:]:
        total += tensor.to(total.device)
    return (total / len(tensors)).to(device)


@wrong("the mean is on", row="the elementwise mean, on the device")
def where_the_first_is(tensors, device):
    return sum(tensor.to(tensors[0].device) for tensor in tensors) / len(tensors)


@wrong("the mean is torch.float32, not torch.bfloat16", row="in the tensors' own dtype")
def left_in_float32(tensors, device):
    return torch.stack([tensor.to(device).float() for tensor in tensors]).mean(0)


@wrong(
    "the mean was halved at each tensor, so that later ones count more",
    row="the elementwise mean, on the device",
)
def mean_of_means(tensors, device):
    total = tensors[0].to(device)
    for tensor in tensors[1:]:
        total = (total + tensor.to(device)) / 2
    return total


@wrong("the mean is a list, not a tensor", row="the elementwise mean, on the device")
def a_list_of_numbers(tensors, device):
    return torch.stack([tensor.to(device) for tensor in tensors]).mean(0).tolist()


@wrong("the mean is None: is a `return` missing?", row="the elementwise mean, on the device")
def no_return(tensors, device):
    stacked(tensors, device)


@wrong(
    "something goes from {device} to cpu, and all is wanted on {device}",
    row="each transferred once, if it is elsewhere",
)
def by_way_of_the_cpu(tensors, device):
    return torch.mean(torch.stack([tensor.cpu() for tensor in tensors]), 0).to(device)


@wrong("view size is not compatible", row="of any number, of any shape")
def flattened_by_view(tensors, device):
    flat = torch.stack([one.to(device).view(-1) for one in tensors])
    return flat.mean(0).view(tensors[0].shape)


@right
def in_float32_or_wider_and_back(tensors, device):
    wide = torch.promote_types(tensors[0].dtype, torch.float32)
    return torch.stack([one.to(device).to(wide) for one in tensors]).mean(0).to(tensors[0].dtype)


@wrong("a tensor that stands twice in the list was counted once", row="of any number, of any shape")
def each_tensor_once(tensors, device):
    different = list({id(one): one for one in tensors}.values())
    return torch.stack([one.to(device) for one in different]).mean(0)


@wrong("the values of the mean are wrong", row="of any number, of any shape")
def without_nan(tensors, device):
    return torch.stack([one.to(device) for one in tensors]).nanmean(0)


@wrong(
    "your code changed the current device of the whole program",
    row=("the elementwise mean, on the device", "each transferred once, if it is elsewhere"),
)
def goes_there_for_good(tensors, device):
    if device.type != "cpu":
        torch.accelerator.set_device_index(device.index)
    return stacked(tensors, device)


@wrong("the sum was divided by one less than there are tensors", row="the elementwise mean, on the device")
def one_too_few(tensors, device):
    return sum(t.to(device) for t in tensors) / (len(tensors) - 1)


@wrong(
    "that is the median of the tensors, and the task asks for their mean",
    row="the elementwise mean, on the device",
)
def the_median(tensors, device):
    return torch.stack([t.to(device) for t in tensors]).median(0).values


@wrong("the mean was rounded to whole numbers", row="the elementwise mean, on the device")
def whole_numbers(tensors, device):
    return sum(t.to(device) for t in tensors) // len(tensors)


@wrong(
    "something goes from {device} to cpu, and all is wanted on {device}",
    row="each transferred once, if it is elsewhere",
)
def where_the_first_is_and_on(tensors, device):
    d = tensors[0].device
    return torch.stack([t.to(d) for t in tensors]).mean(0).to(device)


@wrong("that is the first tensor alone", row="the elementwise mean, on the device")
def the_first_alone(tensors, device):
    return tensors[0].to(device)


@right
def into_zeros(tensors, device):
    m = torch.zeros_like(tensors[0], device=device)
    for t in tensors:
        m += t.to(device) / len(tensors)
    return m


@right
def joined(tensors, device):
    return torch.cat([t.to(device)[None] for t in tensors]).mean(dim=0)


@right
def in_double_on_the_way(tensors, device):
    wide = torch.stack([one.to(device, torch.float64) for one in tensors])
    return wide.mean(0).to(tensors[0].dtype)


@right
def by_copies_into_one_room(tensors, device):
    room = torch.empty(len(tensors), *tensors[0].shape, dtype=tensors[0].dtype, device=device)
    for place, one in zip(room, tensors, strict=True):
        place.copy_(one)
    return room.mean(0)


@wrong("that is the mean of the first two tensors alone", row="the elementwise mean, on the device")
def the_first_two_alone(tensors, device):
    return (tensors[0].to(device) + tensors[1].to(device)) / 2
