"""Answers to mean_of_all."""

import torch
import torch.distributed as dist
from bank import right, wrong

MEAN = "every rank has the mean, and its input as it was"
THREE = "of as many ranks as there are"
LARGE = "a mean in float16 whose sum would be inf"
WHOLE = "integers are refused by all, with a TypeError"


def refuse(tensor):
    if not tensor.is_floating_point():
        raise TypeError(f"the mean of {tensor.dtype} is not {tensor.dtype}: give a floating tensor")


@right
def divided_first(tensor):
    refuse(tensor)
    with torch.no_grad():
        share = tensor / dist.get_world_size()
        dist.all_reduce(share, op=dist.ReduceOp.SUM)
    return share


@right
def summed_in_float64(tensor):
    refuse(tensor)
    total = tensor.detach().double().clone()
    dist.all_reduce(total)
    return (total / dist.get_world_size()).to(tensor.dtype)


@right
def halves_summed_in_float32(tensor):
    refuse(tensor)
    wide = torch.promote_types(tensor.dtype, torch.float32)
    total = tensor.detach().to(wide, copy=True)
    dist.all_reduce(total)
    return total.div_(dist.get_world_size()).to(tensor.dtype)


@right
def gathered(tensor):
    refuse(tensor)
    own = tensor.detach().contiguous()
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, own)
    return torch.stack(parts).mean(0)  # PyTorch adds up halves in float32


@right
def reduced_and_sent_back(tensor):
    refuse(tensor)
    share = tensor.detach().clone(memory_format=torch.contiguous_format) / dist.get_world_size()
    dist.reduce(share, dst=0)
    dist.broadcast(share, src=0)
    return share


@right
def by_the_average_that_gloo_has_in_2_13(tensor):
    refuse(tensor)
    mean = tensor.detach().double().clone()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    return mean.to(tensor.dtype)


@right
def asynchronously(tensor):
    refuse(tensor)
    total = tensor.detach().double().clone()
    work = dist.all_reduce(total, async_op=True)
    work.wait()
    return total.div_(dist.get_world_size()).to(tensor.dtype)


@wrong("has inf: the sum left the range of torch.float16", row=LARGE)
def sum_of_a_copy(tensor):
    refuse(tensor)
    total = tensor.detach().clone()
    dist.all_reduce(total)
    return total / dist.get_world_size()


@wrong("has inf: the sum left the range of torch.float16", row=LARGE)
def gathered_and_summed(tensor):
    refuse(tensor)
    own = tensor.detach().contiguous()
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, own)
    return torch.stack(parts).sum(0) / len(parts)


@wrong("has inf: the sum left the range of torch.float16", row=LARGE)
def summed_in_halves_and_divided_in_float32(tensor):
    refuse(tensor)
    total = tensor.detach().clone()
    dist.all_reduce(total)
    return (total.float() / dist.get_world_size()).to(tensor.dtype)


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


@wrong("has the sum of the 2 tensors", row=MEAN)
def the_sum(tensor):
    refuse(tensor)
    total = tensor.detach().clone()
    dist.all_reduce(total)
    return total


@wrong("the sum is divided by 2, and there are 3 ranks", row=THREE)
def by_two(tensor):
    refuse(tensor)
    total = tensor.detach().clone()
    dist.all_reduce(total)
    return total / 2


@wrong("rank 0 has its own tensor", row=MEAN)
def nothing_sent(tensor):
    refuse(tensor)
    return tensor.detach().clone()


@wrong("rank 1 has", row=MEAN)
def only_rank_zero_has_it(tensor):
    refuse(tensor)
    total = tensor.detach().clone()
    dist.reduce(total, dst=0)
    if dist.get_rank() == 0:
        return total / dist.get_world_size()
    return tensor.detach().clone()


@wrong("waited for rank 1", row=MEAN)
def only_rank_zero_takes_part(tensor):
    refuse(tensor)
    total = tensor.detach().clone()
    if dist.get_rank() == 0:
        dist.all_reduce(total)
    return total / dist.get_world_size()


@wrong("took an integer tensor", row=WHOLE)
def integers_too(tensor):
    share = tensor.detach() / dist.get_world_size()
    dist.all_reduce(share)
    return share


@wrong("ValueError", row=WHOLE)
def another_error(tensor):
    if not tensor.is_floating_point():
        raise ValueError("a floating tensor is needed")
    return divided_first(tensor)


@wrong("asks for a gradient", row=MEAN)
def with_a_graph(tensor):
    refuse(tensor)
    total = tensor.clone()
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
    divided_first(tensor)


@wrong("rank 0 returned a float", row=MEAN)
def one_number(tensor):
    return divided_first(tensor).sum().item()


@wrong("rank 0 has the mean divided once more", row=MEAN)
def divided_twice(tensor):
    refuse(tensor)
    share = tensor.detach() / dist.get_world_size()
    dist.all_reduce(share)
    return share / dist.get_world_size()
