"""Answers to total_loss."""

import functools

import torch
from bank import right, wrong


@right
def detached_sum(step, n):
    total = 0
    for _ in range(n):
        total = total + step().detach()
    return total


@right
def in_place_on_a_copy(step, n):
    total = step().detach().clone()
    for _ in range(n - 1):
        total += step().detach()
    return total


@right
def by_the_builtin_sum(step, n):
    return sum(step().detach() for _ in range(n))


@right
def added_without_gradients(step, n):
    total = None
    for _ in range(n):
        loss = step()
        with torch.no_grad():
            total = loss.clone() if total is None else total.add_(loss)
    return total.detach()


@right
def by_reduce(step, n):
    return functools.reduce(torch.add, (step().detach() for _ in range(n)))


@right
def zeros_like_the_first(step, n):
    total = None
    for _ in range(n):
        loss = step()
        if total is None:
            total = torch.zeros_like(loss, requires_grad=False)
        total += loss.detach()
        del loss
    return total


@right
def all_without_gradients(step, n):
    with torch.no_grad():
        return sum(step() for _ in range(n))


@wrong("6 graphs of earlier steps were still alive as the last of 7 began", row="no graph outlives its step")
def keeps_the_graphs(step, n):
    total = 0
    for _ in range(n):
        total = total + step()
    return total


@wrong("6 graphs of earlier steps were still alive as the last of 7 began", row="no graph outlives its step")
def detaches_at_the_end(step, n):
    total = 0
    for _ in range(n):
        total += step()
    return total.detach()


@wrong("6 graphs of earlier steps were still alive as the last of 7 began", row="no graph outlives its step")
def stacks_the_losses(step, n):
    return torch.stack([step() for _ in range(n)]).sum().detach()


@wrong("6 graphs of earlier steps were still alive as the last of 7 began", row="no graph outlives its step")
def through_data_at_the_end(step, n):
    losses = []
    for _ in range(n):
        losses.append(step())
    return sum(loss.data for loss in losses)


@wrong("memory grows with every step: something of each is kept", row="memory does not grow with n")
def stacks_detached(step, n):
    return torch.stack([step().detach() for _ in range(n)]).sum()


@wrong("the program waited for {device} 6 times: .item()", row="no wait at each step")
def item_each_step(step, n):
    total, device = 0.0, None
    for _ in range(n):
        loss = step()
        device = loss.device
        total += loss.item()
    return torch.tensor(total, device=device)


@wrong("the program waited for {device} 6 times: .cpu()", row="no wait at each step")
def through_the_cpu(step, n):
    total, device = 0, None
    for _ in range(n):
        loss = step().detach()
        device = loss.device
        total = total + loss.cpu()
    return total.to(device)


@wrong("the result is a float, not a tensor", row="the sum of n losses, where they are")
def a_python_number(step, n):
    return sum(step().item() for _ in range(n))


@wrong(
    "loss 0 was changed: `detach` shares its memory, and something was added in place",
    row="the losses stay as they are",
)
def in_place_on_the_first(step, n):
    total = step().detach()
    for _ in range(n - 1):
        total += step().detach()
    return total


@wrong(
    "loss 0 was changed: `detach` shares its memory, and something was added in place",
    row="the losses stay as they are",
)
def in_place_on_its_data(step, n):
    total = step().data
    for _ in range(n - 1):
        total.add_(step().data)
    return total


@wrong("the result is not zero-dimensional", row="the sum of n losses, where they are")
def one_element(step, n):
    total = step().detach().reshape(1)
    for _ in range(n - 1):
        total = total + step().detach()
    return total


@wrong("the result is on cpu, not {device}", row="the sum of n losses, where they are")
def on_the_cpu(step, n):
    total = torch.zeros(())
    for _ in range(n):
        total += step().detach().cpu()
    return total


@wrong(
    "that is the mean of the losses, and the task asks for their sum",
    row="the sum of n losses, where they are",
)
def the_mean(step, n):
    total = 0
    for _ in range(n):
        total = total + step().detach()
    return total / n


@wrong("step was called 6 times, not 5 times", row="the sum of n losses, where they are")
def one_too_many(step, n):
    total = step().detach().clone()
    for _ in range(n):
        total += step().detach()
    return total


@wrong("step was called once, not 5 times", row="the sum of n losses, where they are")
def one_loss_n_times(step, n):
    return step().detach() * n


@wrong("your code raised RuntimeError", row="the sum of n losses, where they are")
def backward_for_nothing(step, n):
    total = torch.zeros((), requires_grad=True)
    for _ in range(n):
        total += step()
    return total.detach()


@wrong("memory grows with n", row="memory does not grow with n")
def room_for_all(step, n):
    first = step().detach()
    losses = torch.zeros(n, dtype=first.dtype, device=first.device)
    losses[0] = first
    del first
    for place in range(1, n):
        losses[place] = step().detach()
    return losses.sum()


@right
def by_pairs(step, n):
    total = None
    for start in range(0, n, 2):
        part = sum(step().detach() for _ in range(min(2, n - start)))
        total = part if total is None else total + part
    return total


@right
def by_a_buffer_of_eight(step, n):
    total, few = 0, []
    for _ in range(n):
        few.append(step().detach())
        if len(few) == 8:
            total, few = total + torch.stack(few).sum(), []
    return total + torch.stack(few).sum() if few else total


@wrong(
    "after the call the graph of a step is still alive: something holds a loss",
    row="no graph outlives its step",
)
def keeps_the_last_loss(step, n):
    total = 0
    for _ in range(n):
        loss = step()
        total = total + loss.detach()
    keeps_the_last_loss.last = loss
    return total


@wrong("the parameters of step were given gradients", row="the sum of n losses, where they are")
def with_a_backward(step, n):
    total = 0
    for _ in range(n):
        loss = step()
        loss.backward()
        total = total + loss.detach()
    return total


@wrong("the values of the sum are wrong", row="the sum of n losses, where they are")
def added_up_in_half(step, n):
    total = 0
    for _ in range(n):
        total = total + step().detach().half()
    return total.float()


@wrong("the sum is torch.float16, the losses are torch.float32", row="the sum of n losses, where they are")
def in_half(step, n):
    total = 0
    for _ in range(n):
        total = total + step().detach()
    return total.half()


@wrong("6 graphs of earlier steps were still alive as the last of 7 began", row="no graph outlives its step")
def sum_of_a_list(step, n):
    return sum([step() for _ in range(n)]).detach()


@wrong("step was called 6 times, not 5 times", row="the sum of n losses, where they are")
def a_step_for_its_form(step, n):
    t = torch.zeros_like(step())
    for _ in range(n):
        t = t + step().detach()
    return t


@wrong("2 graphs of earlier steps were still alive as the last of 7 began", row="no graph outlives its step")
def keeps_the_last_two(step, n):
    total, last, before = 0, None, None
    for _ in range(n):
        before, last = last, step()  # noqa: F841
        total = total + last.detach()
    return total
