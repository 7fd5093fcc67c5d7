"""Answers to running_total."""

import functools

import torch
from bank import right, wrong


@right
def stacked(losses):
    return torch.stack([loss.detach() for loss in losses]).sum()


@right
def from_a_start_that_is_staged(losses):
    total = torch.zeros(()).to(losses[0].device, non_blocking=True)
    for loss in losses:
        total = total + loss.detach()
    return total


@right
def without_grad(losses):
    with torch.no_grad():
        return torch.stack(losses).sum()


@right
def loop(losses):
    total = torch.zeros((), device=losses[0].device)
    for loss in losses:
        total += loss.detach()
    return total


@right
def python_sum(losses):
    return sum(loss.detach() for loss in losses)


@right
def detached_at_the_end(losses):
    return sum(losses).detach()


@right
def begins_with_a_zero_of_the_cpu(losses):
    total = torch.tensor(0.0)
    for loss in losses:
        total = total + loss.detach()
    return total


@right
def new_zeros(losses):
    total = losses[0].new_zeros(())
    with torch.no_grad():
        for loss in losses:
            total += loss
    return total


@wrong("the sum is a float, not a tensor", row="the sum, on the losses' device")
def items(losses):
    return sum(loss.item() for loss in losses)


@wrong("the host waited for the device 6 times: .item()", row="the host never waits")
def items_made_a_tensor(losses):
    return torch.tensor(sum(loss.item() for loss in losses), device=losses[0].device)


@wrong("the host waited for the device 6 times: .cpu()", row="the host never waits")
def over_the_cpu(losses):
    return sum(loss.detach().cpu() for loss in losses).to(losses[0].device)


@wrong("the total still holds a graph", row="without a graph")
def keeps_graph(losses):
    return torch.stack(losses).sum()


@wrong("the sum is on cpu, not {device}", row="the sum, on the losses' device")
def on_the_cpu(losses):
    return sum(loss.detach() for loss in losses).cpu()


@wrong("the host waited for the device once: synchronize()", row="the host never waits")
def synchronizes(losses):
    if losses[0].device.type != "cpu":
        torch.accelerator.synchronize(losses[0].device)
    return torch.stack(losses).detach().sum()


@wrong("that is the mean of the losses, and their sum is asked", row="the sum, on the losses' device")
def mean(losses):
    return torch.stack(losses).detach().mean()


@wrong("the input `losses[0]` was changed in place", row="the sum, on the losses' device")
def into_the_first(losses):
    total = losses[0].detach()
    for loss in losses[1:]:
        total += loss.detach()
    return total


@wrong("the sum has shape [1], not []", row="the sum, on the losses' device")
def one_dimensional(losses):
    return torch.stack(losses).detach().sum().reshape(1)


@wrong("a loss that is nan was left out, and the sum of all is nan", row="the sum, on the losses' device")
def skips_nan(losses):
    return sum(loss.detach() for loss in losses if not loss.isnan())


@wrong(
    "the host waited for a copy from pageable memory: `torch.zeros((), device=...)` is filled on the device",
    row="the host never waits",
)
def begins_with_a_number_from_the_host(losses):
    total = torch.tensor(0.0, device=losses[0].device)
    for loss in losses:
        total += loss.detach()
    return total


@wrong(
    "the host waited for a copy from pageable memory: `torch.zeros((), device=...)` is filled on the device",
    row="the host never waits",
)
def begins_on_the_cpu_and_moves(losses):
    total = torch.tensor(0.0).to(losses[0].device)
    for loss in losses:
        total += loss.detach()
    return total


@wrong("the total of losses with a graph and without still holds a graph", row="without a graph")
def asks_the_first(losses):
    total = sum(losses)
    return total.detach() if losses[0].requires_grad else total


@wrong("a loss that stands twice in the list was counted once", row="the sum, on the losses' device")
def each_loss_once(losses):
    return sum(set(losses)).detach()


@wrong(
    "the host waited for a copy from pageable memory: `torch.zeros((), device=...)` is filled on the device",
    row="the host never waits",
)
def from_a_start_that_the_host_waits_for(losses):
    total = torch.zeros(()).to(losses[0].device)
    for loss in losses:
        total = total + loss.detach()
    return total


@wrong("the sum is torch.float64, not torch.float32", row="the sum, on the losses' device")
def in_double_precision(losses):
    return torch.stack([l.detach().double() for l in losses]).sum()


@wrong("the first loss was left out of the sum", row="the sum, on the losses' device")
def start_without_first(losses):
    t = torch.zeros_like(losses[0])
    for l in losses[1:]:
        t = t + l.detach()
    return t


@wrong("the sum is on cpu, not {device}", row="the sum, on the losses' device")
def tensor_of_list(losses):
    return torch.tensor(losses).sum()


@wrong("the input `losses[0]` was changed in place", row="the sum, on the losses' device")
def detach_(losses):
    t = 0
    for l in losses:
        t = t + l.detach_()
    return t


@wrong("the host waited for the device once: print", row="the host never waits")
def printing(losses):
    t = torch.stack([l.detach() for l in losses]).sum()
    print(t)
    return t


@right
def in_inference_mode(losses):
    with torch.inference_mode():
        return torch.stack(losses).sum()


@right
def joined(losses):
    return torch.cat([l.detach().reshape(1) for l in losses]).sum()


@wrong("the total still holds a graph", row="without a graph")
def reduced_without_grad(losses):
    with torch.no_grad():
        return functools.reduce(torch.add, losses)


@wrong("the total still holds a graph", row="without a graph")
def detached_as_they_are_added(losses):
    return functools.reduce(lambda total, loss: total.detach() + loss.detach(), losses)


@wrong("a loss that is nan was left out, and the sum of all is nan", row="the sum, on the losses' device")
def skips_nan_on_the_device(losses):
    return torch.stack(losses).detach().nansum()


@wrong("the last loss was left out of the sum", row="the sum, on the losses' device")
def stops_before_the_last(losses):
    return torch.stack([torch.zeros_like(losses[0]), *losses[:-1]]).detach().sum()


@wrong("the first loss was counted twice", row="the sum, on the losses' device")
def begins_with_the_first(losses):
    total = losses[0].detach().clone()
    for loss in losses:
        total += loss.detach()
    return total


@wrong("that is the last loss alone, and the sum of all is asked", row="the sum, on the losses' device")
def keeps_the_last(losses):
    for loss in losses:
        total = loss.detach().clone()
    return total
