"""Answers to fetch_losses."""

import torch
from bank import right, wrong


@right
def stacked(losses):
    return torch.stack(losses).tolist()


@right
def stacked_then_one_by_one_on_the_cpu(losses):
    return [float(value) for value in torch.stack(losses).cpu()]


@right
def joined(losses):
    together = torch.cat([loss.detach().reshape(1) for loss in losses])
    return together.to("cpu").numpy().tolist()


@right
def into_one_tensor(losses):
    values = torch.empty(len(losses), device=losses[0].device, dtype=losses[0].dtype)
    for place, loss in enumerate(losses):
        values[place] = loss.detach()
    return list(map(float, values.cpu()))


@right
def copies_without_waiting(losses):
    copies = [loss.detach().to("cpu", non_blocking=True) for loss in losses]
    if losses[0].device.type != "cpu":
        torch.accelerator.synchronize(losses[0].device)
    return [copy.item() for copy in copies]


@right
def wider_where_they_are_narrow(losses):
    narrow = losses[0].dtype in (torch.float16, torch.bfloat16)
    return torch.stack([loss.detach().float() if narrow else loss.detach() for loss in losses]).tolist()


@wrong(
    "digits were lost: the numbers were torch.float32 on the way",
    row="losses with a graph, or in half precision",
)
def through_float32(losses):
    return torch.stack([loss.detach().float() for loss in losses]).tolist()


@wrong(
    "digits were lost: the numbers were torch.float32 on the way",
    row="losses with a graph, or in half precision",
)
def into_a_tensor_of_float32(losses):
    values = torch.zeros(len(losses), device=losses[0].device)
    for place, loss in enumerate(losses):
        values[place] = loss.detach()
    return values.tolist()


@right
def by_hstack(losses):
    with torch.no_grad():
        return [*torch.hstack(losses).tolist()]


@wrong(
    "the host waited 9 times for 9 losses: .item() each time", row="one synchronization, however many losses"
)
def items(losses):
    return [loss.item() for loss in losses]


@wrong(
    "the host waited 9 times for 9 losses: float() each time", row="one synchronization, however many losses"
)
def floats(losses):
    return [float(loss) for loss in losses]


@wrong(
    "the host waited 9 times for 9 losses: .cpu() each time", row="one synchronization, however many losses"
)
def to_the_cpu_each(losses):
    return [loss.cpu().item() for loss in losses]


@wrong(
    "the host waited 9 times for 9 losses: .tolist() each time",
    row="one synchronization, however many losses",
)
def lists(losses):
    return [loss.tolist() for loss in losses]


@wrong(
    "the host waited 9 times for 9 losses: float() each time", row="one synchronization, however many losses"
)
def a_tensor_of_tensors(losses):
    return torch.tensor(losses).tolist()


@wrong(
    "the host waited 9 times for 9 losses: .item() each time", row="one synchronization, however many losses"
)
def iterates_over_the_stack(losses):
    return [value.item() for value in torch.stack(losses)]


@wrong(
    "the host waited 9 times for 9 losses: .to() each time", row="one synchronization, however many losses"
)
def moves_before_it_stacks(losses):
    return torch.stack([loss.to("cpu") for loss in losses]).tolist()


# On hardware the memory of a copy under way holds what was there before.
EARLY = ("a loss was read before its transfer had arrived", "the values of the list are wrong")


@wrong(EARLY, row="a list of floats, in order")
def does_not_wait(losses):
    return [loss.to("cpu", non_blocking=True).item() for loss in losses]


@wrong(EARLY, row="a list of floats, in order")
def waits_too_late(losses):
    values = [loss.to("cpu", non_blocking=True).item() for loss in losses]
    if losses[0].device.type != "cpu":
        torch.accelerator.synchronize(losses[0].device)
    return values


@wrong("the result is a Tensor, not a list", row="a list of floats, in order")
def a_tensor(losses):
    return torch.stack(losses).cpu()


@wrong("the result is a NumPy array, not a list", row="a list of floats, in order")
def an_array(losses):
    return torch.stack(losses).detach().cpu().numpy()


@wrong("an element of the list is a Tensor, not a float", row="a list of floats, in order")
def tensors_in_a_list(losses):
    return list(torch.stack(losses).detach().cpu())


@wrong("an element of the list is a NumPy float32, not a float", row="a list of floats, in order")
def numpy_numbers(losses):
    return list(torch.stack(losses).float().detach().cpu().numpy())


@wrong("can't convert", row="a list of floats, in order")
def numpy_on_the_device(losses):
    return torch.stack(losses).detach().numpy().tolist()


@wrong("requires grad", row="losses with a graph, or in half precision")
def forgets_detach(losses):
    return torch.stack(losses).cpu().numpy().tolist()


@wrong(
    "the host waited 10 times for 9 losses: bool() and .tolist() each time",
    row="one synchronization, however many losses",
)
def asks_each_whether_it_is_finite(losses):
    finite = [bool(loss.isfinite()) for loss in losses]
    return torch.stack(losses).tolist() if len(finite) else []


@wrong(
    "the host waited 2 times for 9 losses, by synchronize() and .tolist()",
    row="one synchronization, however many losses",
)
def synchronizes_first(losses):
    if losses[0].device.type != "cpu":
        torch.accelerator.synchronize(losses[0].device)
    return torch.stack(losses).tolist()


@wrong("the result is a float, not a list", row="a list of floats, in order")
def their_mean(losses):
    return torch.stack(losses).mean().item()


@wrong("the losses came in another order", row="a list of floats, in order")
def sorted_values(losses):
    return torch.stack(losses).sort().values.tolist()


@wrong("the losses came in another order", row="a list of floats, in order")
def backwards(losses):
    return torch.stack(losses[::-1]).tolist()


@wrong("the losses were rounded to 2 digits", row="a list of floats, in order")
def rounded(losses):
    return [round(value, 2) for value in torch.stack(losses).tolist()]


@wrong("the losses came in another order", row="a list of floats, in order")
def largest_first(losses):
    return torch.stack(losses).sort(descending=True).values.tolist()


@wrong("the losses were rounded to 0 digits", row="a list of floats, in order")
def rounded_to_whole_numbers(losses):
    return torch.stack(losses).round().tolist()


@wrong("the losses were rounded to 1 digit", row="a list of floats, in order")
def rounded_to_one_digit(losses):
    return [round(value, 1) for value in torch.stack(losses).tolist()]


@wrong("the losses were rounded to 3 digits", row="a list of floats, in order")
def rounded_to_three_digits(losses):
    return [float(f"{value:.3f}") for value in torch.stack(losses).tolist()]


@wrong("the numbers are running means of the losses", row="a list of floats, in order")
def running_means(losses):
    sums = torch.stack(losses).cumsum(0).tolist()
    return [total / count for count, total in enumerate(sums, start=1)]


@wrong("digits were lost: the numbers were torch.bfloat16 on the way", row="a list of floats, in order")
def brain_floats(losses):
    return torch.stack(losses).bfloat16().tolist()


@wrong("the input `losses` was changed", row="a list of floats, in order")
def empties_the_list(losses):
    values = torch.stack(losses).tolist()
    losses.clear()
    return values


@wrong("the input `losses[0]` was changed in place", row="losses with a graph, or in half precision")
def cuts_the_graphs(losses):
    for loss in losses:
        loss.detach_()
    return torch.stack(losses).tolist()


@wrong("the result is None: is a `return` missing?", row="a list of floats, in order")
def forgetful(losses):
    torch.stack(losses).tolist()


@wrong("6 numbers came for 7 losses", row="a list of floats, in order")
def all_but_the_last(losses):
    return torch.stack(losses[:-1] or losses).tolist()


@wrong("the host waited 7 times for 70 losses, by .tolist()", row="one synchronization, however many losses")
def by_tens(losses):
    return [value for at in range(0, len(losses), 10) for value in torch.stack(losses[at : at + 10]).tolist()]


@right
def by_cat(losses):
    return torch.cat([loss.reshape(1) for loss in losses]).cpu().tolist()


@right
def by_numpy(losses):
    return [float(v) for v in torch.stack(losses).detach().cpu().numpy()]


@right
def by_stack_no_grad(losses):
    with torch.no_grad():
        return torch.stack(tuple(losses)).tolist()


@right
def through_a_pinned(losses):
    row = torch.stack(losses).detach().to("cpu")
    return [v.item() for v in row]


@right
def items_of_a_cpu_row(losses):
    return list(map(float, torch.hstack(losses).detach().cpu()))


@wrong("1 number came for 7 losses", row="a list of floats, in order")
def sum_first(losses):
    return [torch.stack(losses).sum().item()]


@wrong("the result is a tuple, not a list", row="a list of floats, in order")
def as_tuple(losses):
    return tuple(torch.stack(losses).tolist())


@wrong("an element of the list is a list, not a float", row="a list of floats, in order")
def nested(losses):
    return torch.stack(losses)[:, None].tolist()


@wrong("digits were lost: the numbers were torch.float16 on the way", row="a list of floats, in order")
def halves_widened(losses):
    return torch.stack([l.half() for l in losses]).tolist()


@wrong("the numbers are running sums of the losses", row="a list of floats, in order")
def running(losses):
    return torch.stack(losses).cumsum(0).tolist()


@wrong("backward() of a loss fails after the call", row="losses with a graph, or in half precision")
def backward_all(losses):
    row = torch.stack(losses)
    if row.requires_grad:
        row.sum().backward()
    return row.tolist()


@wrong(
    "the host waited 3 times for 3 losses: .item() each time", row="losses with a graph, or in half precision"
)
def one_by_one_where_there_are_graphs(losses):
    return [loss.item() for loss in losses] if losses[0].requires_grad else torch.stack(losses).tolist()


@wrong(
    "the host waited 5 times for 5 losses: .item() each time", row="losses with a graph, or in half precision"
)
def one_by_one_in_half_precision(losses):
    if losses[0].dtype != torch.float32:
        return [loss.item() for loss in losses]
    return torch.stack(losses).tolist()


@wrong("requires grad", row="losses with a graph, or in half precision")
def asks_the_first_for_its_graph(losses):
    row = torch.stack(losses)
    return (row.detach() if losses[0].requires_grad else row).cpu().numpy().tolist()


@wrong("requires grad", row="losses with a graph, or in half precision")
def asks_whether_all_have_a_graph(losses):
    row = torch.stack(losses)
    return (row.detach() if all(loss.requires_grad for loss in losses) else row).cpu().numpy().tolist()


@wrong("4 numbers came for 7 losses", row="a list of floats, in order")
def finite_ones(losses):
    return [value for value in torch.stack(losses).tolist() if abs(value) < float("inf")]


@wrong("the values of the list are wrong", row="a list of floats, in order")
def zeros_for_nan(losses):
    return torch.stack(losses).nan_to_num().tolist()


@wrong("5 numbers came for 7 losses", row="a list of floats, in order")
def each_value_once(losses):
    return list(dict.fromkeys(torch.stack(losses).tolist()))


@wrong("an element of the list is an int, not a float", row="a list of floats, in order")
def whole_ones_as_ints(losses):
    return [int(value) if value.is_integer() else value for value in torch.stack(losses).tolist()]


@wrong("a loss was sent backward", row="losses with a graph, or in half precision")
def backward_all_with_their_graphs(losses):
    row = torch.stack(losses)
    if row.requires_grad:
        row.sum().backward(retain_graph=True)
    return row.tolist()


@wrong("the input `losses[2]` was changed in place", row="losses with a graph, or in half precision")
def gradients_off(losses):
    for loss in losses:
        if loss.is_leaf:
            loss.requires_grad_(False)
    return torch.stack(losses).tolist()
