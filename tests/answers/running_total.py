"""Answers to running_total."""

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


@wrong("the result is a float")
def items(losses):
    return sum(loss.item() for loss in losses)


@wrong("the host waited for the device")
def items_made_a_tensor(losses):
    return torch.tensor(sum(loss.item() for loss in losses), device=losses[0].device)


@wrong("the host waited for the device")
def over_the_cpu(losses):
    return sum(loss.detach().cpu() for loss in losses).to(losses[0].device)


@wrong("the total still holds its graph")
def keeps_graph(losses):
    return torch.stack(losses).sum()


@wrong("the result is on cpu")
def on_the_cpu(losses):
    return sum(loss.detach() for loss in losses).cpu()


@wrong("the host waited for the device")
def synchronizes(losses):
    if losses[0].device.type != "cpu":
        torch.accelerator.synchronize(losses[0].device)
    return torch.stack(losses).detach().sum()


@wrong("the values of the result are wrong")
def mean(losses):
    return torch.stack(losses).detach().mean()


@wrong("in place")
def into_the_first(losses):
    total = losses[0].detach()
    for loss in losses[1:]:
        total += loss.detach()
    return total


@wrong("has shape [1], not []")
def one_dimensional(losses):
    return torch.stack(losses).detach().sum().reshape(1)


@wrong("the host waited for the device")
def skips_nan(losses):
    return sum(loss.detach() for loss in losses if not loss.isnan())


@wrong("from ordinary memory")
def begins_with_a_number_from_the_host(losses):
    total = torch.tensor(0.0, device=losses[0].device)
    for loss in losses:
        total += loss.detach()
    return total


@wrong("from ordinary memory")
def begins_on_the_cpu_and_moves(losses):
    total = torch.tensor(0.0).to(losses[0].device)
    for loss in losses:
        total += loss.detach()
    return total


@wrong("the total of losses with a graph and without still holds one")
def asks_the_first(losses):
    total = sum(losses)
    return total.detach() if losses[0].requires_grad else total


@wrong("the values of the result are wrong")
def each_loss_once(losses):
    return sum(set(losses)).detach()
