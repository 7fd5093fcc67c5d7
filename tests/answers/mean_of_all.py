"""Answers to mean_of_all."""

import torch
import torch.distributed as dist
from bank import right, wrong

MEAN = "every rank has the mean, and its input as it was"
THREE = "of as many ranks as there are"
WHOLE = "integers are refused by all, with a TypeError"


def refuse(tensor):
    if not tensor.is_floating_point():
        raise TypeError(f"the mean of {tensor.dtype} is not {tensor.dtype}: give a floating tensor")


@right
def sum_of_a_copy(tensor):
    if not tensor.is_floating_point():
        raise TypeError("a floating tensor is needed")
    total = tensor.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total / dist.get_world_size()


@right
def gathered(tensor):
    refuse(tensor)
    own = tensor.detach().contiguous()
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, own)
    return torch.stack(parts).mean(0)


@right
def divided_first(tensor):
    refuse(tensor)
    with torch.no_grad():
        share = tensor.contiguous() / dist.get_world_size()
        dist.all_reduce(share, op=dist.ReduceOp.SUM)
    return share


@right
def reduced_and_sent_back(tensor):
    refuse(tensor)
    total = tensor.detach().clone(memory_format=torch.contiguous_format)
    dist.reduce(total, dst=0)
    total /= dist.get_world_size()
    dist.broadcast(total, src=0)
    return total


@right
def by_the_average_that_gloo_has_in_2_13(tensor):
    refuse(tensor)
    mean = tensor.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    return mean


@right
def asynchronously(tensor):
    refuse(tensor)
    total = tensor.detach().clone(memory_format=torch.contiguous_format)
    work = dist.all_reduce(total, async_op=True)
    work.wait()
    return total.div_(dist.get_world_size())


@wrong(
    "rank 0 has sums of numbers that belong to other places: the ranks' strides differ, and what is sent "
    "goes in the order of memory",
    row=MEAN,
)
def a_clone_that_keeps_strides(tensor):
    refuse(tensor)
    total = tensor.detach().clone()
    dist.all_reduce(total)
    return total / dist.get_world_size()


@wrong("the input of rank 0 was changed", row=MEAN)
def in_place(tensor):
    refuse(tensor)
    tensor = tensor.detach()
    dist.all_reduce(tensor)
    return tensor / dist.get_world_size()


@wrong("the input of rank 0 was changed", row=MEAN)
def the_input_itself(tensor):
    refuse(tensor)
    tensor = tensor.detach()
    dist.all_reduce(tensor)
    tensor /= dist.get_world_size()
    return tensor


@wrong("rank 0 has the sum of the 2 tensors, and their mean is asked", row=MEAN)
def the_sum(tensor):
    refuse(tensor)
    total = tensor.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total


@wrong("the sum is divided by 2, and there are 3 ranks", row=THREE)
def by_two(tensor):
    refuse(tensor)
    total = tensor.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total / 2


@wrong("rank 0 has its own tensor, and not the mean over all", row=MEAN)
def nothing_sent(tensor):
    refuse(tensor)
    return tensor.detach().clone(memory_format=torch.contiguous_format)


@wrong("rank 1 has its own tensor, and not the mean over all", row=MEAN)
def only_rank_zero_has_it(tensor):
    refuse(tensor)
    total = tensor.detach().clone(memory_format=torch.contiguous_format)
    dist.reduce(total, dst=0)
    if dist.get_rank() == 0:
        return total / dist.get_world_size()
    return tensor.detach().clone(memory_format=torch.contiguous_format)


@wrong("rank 1 has zeros, and every rank should have the mean", row=MEAN)
def zeros_elsewhere(tensor):
    mean = sum_of_a_copy(tensor)
    return mean if dist.get_rank() == 0 else torch.zeros_like(mean)


@wrong("waited for rank 1", row=MEAN)
def only_rank_zero_takes_part(tensor):
    refuse(tensor)
    total = tensor.detach().clone(memory_format=torch.contiguous_format)
    if dist.get_rank() == 0:
        dist.all_reduce(total)
    return total / dist.get_world_size()


@wrong("took an integer tensor", row=WHOLE)
def integers_too(tensor):
    total = tensor.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total / dist.get_world_size()


@wrong("ValueError", row=WHOLE)
def another_error(tensor):
    if not tensor.is_floating_point():
        raise ValueError("a floating tensor is needed")
    return sum_of_a_copy(tensor)


@wrong("asks for a gradient", row=MEAN)
def with_a_graph(tensor):
    refuse(tensor)
    total = tensor.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total / dist.get_world_size()


@wrong("not torch.float16", row=MEAN)
def in_float32(tensor):
    refuse(tensor)
    total = tensor.detach().float().clone()
    dist.all_reduce(total)
    return total / dist.get_world_size()


@wrong("rank 0 returned None: is a `return` missing?", row=MEAN)
def no_return(tensor):
    sum_of_a_copy(tensor)


@wrong("rank 0 returned a float", row=MEAN)
def one_number(tensor):
    return sum_of_a_copy(tensor).sum().item()


@wrong("rank 0 has the mean divided once more", row=MEAN)
def divided_twice(tensor):
    refuse(tensor)
    share = tensor.detach() / dist.get_world_size()
    dist.all_reduce(share)
    return share / dist.get_world_size()


@wrong("rank 0 took an integer tensor", row=WHOLE)
def refuses_long_integers_alone(tensor):
    if tensor.dtype in (torch.int64, torch.int32):
        raise TypeError("a floating tensor is needed")
    total = tensor.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total / dist.get_world_size()


@wrong("refused an integer tensor after something had been sent", row=WHOLE)
def looks_at_the_mean(tensor):
    total = tensor.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    mean = total / dist.get_world_size()
    if mean.dtype != tensor.dtype:
        raise TypeError(f"the mean of {tensor.dtype} is {mean.dtype}")
    return mean


@wrong("the input of rank 0 came back with requires_grad=False", row=MEAN)
def unmarks_its_input(tensor):
    refuse(tensor)
    total = tensor.requires_grad_(False).clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total / dist.get_world_size()


@wrong("the values of rank 0's mean are wrong", row=MEAN)
def through_float32(tensor):
    refuse(tensor)
    total = tensor.detach().float()
    total = (
        total.clone(memory_format=torch.contiguous_format) if total.data_ptr() == tensor.data_ptr() else total
    )
    dist.all_reduce(total)
    return (total / dist.get_world_size()).to(tensor.dtype)


@wrong("rank 0 returned its input", row=MEAN)
def an_empty_one_as_it_is(tensor):
    return sum_of_a_copy(tensor) if tensor.numel() else tensor


@right
def gathered_as_objects(tensor):
    refuse(tensor)
    parts = [None] * dist.get_world_size()
    dist.all_gather_object(parts, tensor.detach())
    return sum(parts) / len(parts)


@wrong("TypeError: a floating tensor is needed", row=MEAN)
def knows_three_dtypes(tensor):
    if tensor.dtype not in (torch.float16, torch.float32, torch.float64):
        raise TypeError("a floating tensor is needed")
    return sum_of_a_copy(tensor)


@wrong("the input of rank 0 was changed", row=MEAN)
def divided_in_place(tensor):
    refuse(tensor)
    with torch.no_grad():
        tensor /= dist.get_world_size()
    total = tensor.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total


@wrong("a TypeError in every rank, before anything is sent", row=WHOLE)
def by_an_assertion(tensor):
    assert tensor.is_floating_point(), "a floating tensor is needed"
    return sum_of_a_copy(tensor)
