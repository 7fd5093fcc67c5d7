"""Answers to history."""

import numpy as np
import torch
from bank import right, wrong


@right
def stacked(losses):
    return torch.stack(losses).detach().cpu().numpy()


@right
def detached_one_by_one(losses):
    return torch.stack([loss.detach() for loss in losses]).cpu().numpy()


@right
def items(losses):
    return np.array([loss.item() for loss in losses])


@right
def items_in_float32(losses):
    return np.fromiter((loss.item() for loss in losses), dtype=np.float32, count=len(losses))


@right
def without_gradients(losses):
    with torch.no_grad():
        return np.asarray(torch.stack(losses).cpu())


@right
def by_force(losses):
    return torch.stack(tuple(losses)).numpy(force=True)


@right
def without_blocking_and_waited_for(losses):
    together = torch.stack(losses).detach()
    made = together.to("cpu", non_blocking=True)
    if together.device.type != "cpu":
        torch.accelerator.synchronize(together.device)
    return made.numpy()


@right
def a_tensor_of_tensors(losses):
    return torch.tensor(losses).numpy()


@right
def into_an_array(losses):
    made = np.empty(len(losses), dtype=np.float32)
    for place, loss in enumerate(losses):
        made[place] = loss.detach().cpu()
    return made


@right
def concatenated(losses):
    return torch.cat([loss.detach().reshape(1) for loss in losses]).to("cpu").numpy()


@right
def a_list_of_numbers(losses):
    return np.asarray(torch.stack(losses).tolist(), dtype="float64")


@right
def of_home_tensors(losses):
    return np.array([loss.detach().cpu() for loss in losses])


KEPT = []


@wrong("Use tensor.detach().numpy() instead", row="one number for each loss, in order")
def numpy_of_the_list(losses):
    return np.array(losses)


@wrong("Use tensor.detach().numpy() instead", row="one number for each loss, in order")
def without_detach(losses):
    return torch.stack(losses).cpu().numpy()


@wrong("Use Tensor.cpu() to copy the tensor to host memory first", row="one number for each loss, in order")
def without_cpu(losses):
    return torch.stack(losses).detach().numpy()


@wrong("Use Tensor.cpu() to copy the tensor to host memory first", row="one number for each loss, in order")
def numpy_of_detached(losses):
    return np.array([loss.detach() for loss in losses])


@wrong("the array holds tensors, not numbers", row="one number for each loss, in order")
def array_of_objects(losses):
    made = np.empty(len(losses), dtype=object)
    for place, loss in enumerate(losses):
        made[place] = loss
    return made


@wrong(
    "the caller has dropped the losses, and their graphs are still in memory",
    row="no graph stays alive for the array",
)
def keeps_the_list(losses):
    KEPT.append(losses)
    return torch.stack(losses).detach().cpu().numpy()


@wrong(
    "the caller has dropped the losses, and their graphs are still in memory",
    row="no graph stays alive for the array",
)
def keeps_the_stack(losses, seen={}):  # noqa: B006
    seen["all"] = torch.stack(losses)
    return seen["all"].detach().cpu().numpy()


class Noted(np.ndarray):
    pass


@wrong(
    "the caller has dropped the losses, and their graphs are still in memory",
    row="no graph stays alive for the array",
)
def an_array_with_a_note(losses):
    made = torch.stack(losses).detach().cpu().numpy().view(Noted)
    made.losses = losses
    return made


@wrong("the input `losses[0]` was changed in place", row="one number for each loss, in order")
def detaches_in_place(losses):
    for loss in losses:
        loss.detach_()
    return torch.stack(losses).cpu().numpy()


@wrong("the input `losses[0]` was replaced", row="one number for each loss, in order")
def replaces_in_the_list(losses):
    for place, loss in enumerate(losses):
        losses[place] = loss.item()
    return np.array(losses)


@wrong("the input `losses` was changed", row="one number for each loss, in order")
def empties_the_list(losses):
    made = torch.stack(losses).detach().cpu().numpy()
    losses.clear()
    return made


@wrong("does not require grad", row="losses with a graph or without")
def frees_the_graph_by_backward(losses):
    sum(losses).backward()
    return torch.stack(losses).detach().cpu().numpy()


@wrong("backward was called, and left gradients behind", row="the losses keep their graphs")
def backward_where_possible(losses):
    total = torch.stack(losses).sum()
    if total.requires_grad:
        total.backward(retain_graph=True)
    return torch.stack(losses).detach().cpu().numpy()


@wrong("the history is a Tensor, not a NumPy array", row="one number for each loss, in order")
def a_tensor(losses):
    return torch.stack(losses).detach().cpu()


@wrong("the history is a list, not a NumPy array", row="one number for each loss, in order")
def a_list(losses):
    return [loss.item() for loss in losses]


@wrong("the losses were added up to one number", row="one number for each loss, in order")
def the_sum(losses):
    return torch.stack(losses).sum().detach().cpu().numpy()


@wrong("the history has shape [7,1], not [7]", row="one number for each loss, in order")
def a_column(losses):
    return np.array([[loss.item()] for loss in losses])


@wrong("the losses were rounded to 3 digits", row="one number for each loss, in order")
def rounded(losses):
    return np.array([round(loss.item(), 3) for loss in losses])


@wrong("the losses were sorted by size", row="one number for each loss, in order")
def sorted_by_size(losses):
    return np.sort(torch.stack(losses).detach().cpu().numpy())


@wrong("the numbers are running means of the losses", row="one number for each loss, in order")
def running_mean(losses):
    numbers = torch.stack(losses).detach().cpu()
    return (numbers.cumsum(0) / torch.arange(1, len(losses) + 1)).numpy()


@wrong("the array is float16: digits of the losses are lost", row="one number for each loss, in order")
def in_half(losses):
    return torch.stack(losses).detach().half().cpu().numpy()


@wrong("the array is int64, losses are floats", row="one number for each loss, in order")
def whole_numbers(losses):
    return np.array([int(loss) for loss in losses])


@wrong("the array was returned before its numbers had arrived", row="one number for each loss, in order")
def without_waiting(losses):
    return torch.stack(losses).detach().to("cpu", non_blocking=True).numpy()


@wrong("the history is None: is a `return` missing?", row="one number for each loss, in order")
def forgets_to_return(losses):
    torch.stack(losses).detach().cpu().numpy()


@wrong("the history has shape [6], not [7]", row="one number for each loss, in order")
def without_the_last(losses):
    return np.array([loss.item() for loss in losses][: max(len(losses) - 1, 1)])


@wrong("the history has shape [6], not [8]", row="losses with a graph or without")
def each_value_once(losses):
    return np.array(list(dict.fromkeys(torch.stack(losses).detach().cpu().tolist())), dtype="float32")


@wrong("requires grad", row="losses with a graph or without")
def asks_the_first_for_its_graph(losses):
    row = torch.stack(losses)
    return (row.detach() if losses[0].requires_grad else row).cpu().numpy()


@wrong("the array is float128, which is wider than float64", row="one number for each loss, in order")
def in_long_double(losses):
    return torch.stack(losses).detach().cpu().numpy().astype(np.longdouble)


@wrong("the losses came in reverse order", row="one number for each loss, in order")
def the_last_first(losses):
    return torch.stack(losses[::-1]).detach().cpu().numpy()


@wrong("the numbers are running sums of the losses", row="one number for each loss, in order")
def running_sums(losses):
    return torch.stack(losses).detach().cumsum(0).cpu().numpy()


@wrong("the losses were rounded to 2 digits", row="one number for each loss, in order")
def rounded_to_two(losses):
    return torch.stack(losses).detach().cpu().round(decimals=2).numpy()
