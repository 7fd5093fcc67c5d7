"""Answers to fix_hidden_state."""

import torch
from bank import right, wrong


@right
def from_x(cell, x, state):
    if state is None:
        state = x.new_zeros(x.shape[0], cell.hidden_size)
    return cell(x, state.to(x.device))


@right
def pytorchs_own_zeros(cell, x, state):
    return cell(x, None if state is None else state.to(x.device))


@right
def told_everything(cell, x, state):
    if state is None:
        return cell(x, torch.zeros(len(x), cell.hidden_size, device=x.device, dtype=x.dtype))
    return cell(x, state.to(x))


@wrong(
    "the zeros were made on the CPU and brought to {device} at each call", row="a first step, without a state"
)
def zeros_then_moved(cell, x, state):
    if state is None:
        state = torch.zeros(x.shape[0], cell.hidden_size)
    return cell(x, state.to(x.device, x.dtype))


@right
def without_the_argument(cell, x, state):
    if state is None:
        return cell(x)
    if state.device != x.device:
        state = state.to(x.device)
    return cell(x, state)


@right
def from_the_weights(cell, x, state):
    state = cell.weight_hh.new_zeros(x.size(0), cell.hidden_size) if state is None else state
    return cell.forward(x, hx=state.to(cell.weight_hh.device))


@wrong("Expected all tensors to be on the same device", row="a first step, without a state")
def zeros_on_the_cpu_for_a_first_step(cell, x, state):
    state = torch.zeros(x.shape[0], cell.hidden_size) if state is None else state.to(x.device)
    return cell(x, state)


@wrong("your code raised RuntimeError", row="a first step, without a state")
def the_broken_program(cell, x, state):
    if state is None:
        state = torch.zeros(x.shape[0], cell.hidden_size)
    return cell(x, state)


@wrong("your code raised RuntimeError", row="a state from any device")
def only_the_zeros(cell, x, state):
    if state is None:
        state = x.new_zeros(x.shape[0], cell.hidden_size)
    return cell(x, state)


@wrong("your code raised RuntimeError", row="a state from any device")
def thrown_away(cell, x, state):
    if state is None:
        state = x.new_zeros(x.shape[0], cell.hidden_size)
    state.to(x.device)
    return cell(x, state)


@wrong("your code raised RuntimeError on cpu", row="the zeros take x's dtype, too")
def zeros_of_the_default_dtype(cell, x, state):
    if state is None:
        state = torch.zeros(x.shape[0], cell.hidden_size, device=x.device)
    return cell(x, state.to(x.device))


@wrong("the result has left the graph", row="gradients flow back, into x and the state")
def cut_off_everything(cell, x, state):
    with torch.no_grad():
        return from_x(cell, x, state)


@wrong("no gradient reaches the state", row="gradients flow back, into x and the state")
def detached(cell, x, state):
    if state is not None:
        state = state.detach()
    return from_x(cell, x, state)


@wrong("something left {device} for cpu", row="a state from any device")
def made_anew(cell, x, state):
    if state is not None:
        state = torch.tensor(state.tolist(), device=x.device, dtype=x.dtype)
    return from_x(cell, x, state)


@wrong("the state that came in was not used: the step began from zeros", row="a state from any device")
def forgets_the_past(cell, x, state):
    return cell(x, x.new_zeros(x.shape[0], cell.hidden_size))


@wrong("the step began from ones, and zeros are asked", row="a first step, without a state")
def begins_with_ones(cell, x, state):
    return cell(x, x.new_ones(len(x), cell.hidden_size) if state is None else state.to(x.device))


@wrong("the values of the new state are wrong", row="a first step, without a state")
def begins_with_noise(cell, x, state):
    if state is None:
        state = torch.randn(len(x), cell.hidden_size, device=x.device, dtype=x.dtype)
    return cell(x, state.to(x.device))


@wrong("something left {device} for cpu", row="a first step, without a state")
def all_to_the_cpu(cell, x, state):
    return cell.cpu()(x.cpu(), None if state is None else state.cpu())


@wrong("something left {device} for cpu", row="a state from any device")
def all_to_the_state(cell, x, state):
    if state is None:
        return cell(x)
    return cell.to(state.device)(x.to(state.device), state)


@wrong("your code raised AttributeError", row="a first step, without a state")
def never_none(cell, x, state):
    return cell(x, state.to(x.device))


@wrong("your code raised RuntimeError", row="a state from any device")
def asks_for_its_truth(cell, x, state):
    state = state or x.new_zeros(x.shape[0], cell.hidden_size)
    return cell(x, state.to(x.device))


@wrong("your code raised", row="a first step, without a state")
def always_cuda(cell, x, state):
    if state is None:
        state = x.new_zeros(x.shape[0], cell.hidden_size)
    return cell(x, state.cuda())


@wrong("the new state is None: is a `return` missing?", row="a first step, without a state")
def forgets_to_return(cell, x, state):
    from_x(cell, x, state)


@wrong("must have the same dtype", row="the zeros take x's dtype, too")
def state_in_float32(cell, x, state):
    if state is None:
        return cell(x)
    return cell(x, state.float().to(x.device))


@wrong("your code raised RuntimeError", row="a first step, without a state")
def five_by_heart(cell, x, state):
    if state is None:
        state = x.new_zeros(x.shape[0], 5)
    return cell(x, state.to(x.device))


@wrong("of the cell was changed", row="a first step, without a state")
def goes_on_by_itself(cell, x, state):
    if state is None:
        state = getattr(cell, "last", None)
        state = x.new_zeros(x.shape[0], cell.hidden_size) if state is None else state
    cell.last = cell(x, state.to(x.device)).detach()
    return cell(x, state.to(x.device))


@wrong("of the cell was changed", row="a first step, without a state")
def in_double_precision(cell, x, state):
    state = x.new_zeros(len(x), cell.hidden_size) if state is None else state.to(x.device)
    if x.device.type == "mps":
        return cell(x, state)
    return cell.double()(x.double(), state.double()).to(x.dtype)


@wrong("no gradient reaches x", row="gradients flow back, into x and the state")
def cuts_off_x(cell, x, state):
    state = x.new_zeros(x.shape[0], cell.hidden_size) if state is None else state.to(x.device)
    return cell(x.detach(), state)


@wrong(
    "the zeros were made on the CPU and brought to {device} at each call", row="a first step, without a state"
)
def zeros_brought(cell, x, state):
    if state is None:
        state = torch.zeros(x.shape[0], cell.hidden_size, dtype=x.dtype)
    return cell(x, state.to(x.device))


@wrong("something left {device} for cpu", row="a first step, without a state")
def state_by_the_cpu(cell, x, state):
    if state is None:
        state = x.new_zeros(x.shape[0], cell.hidden_size)
    return cell(x, state.cpu().to(x.device))


@right
def zeros_like_the_weights(cell, x, state):
    h = cell.weight_hh.new_zeros(x.size(0), cell.hidden_size) if state is None else state
    return cell.forward(x, h.to(x.device))


@wrong("of the cell was changed", row="a first step, without a state")
def in_evaluation_mode(cell, x, state):
    cell.eval()
    return from_x(cell, x, state)


@wrong("of the cell was changed", row="a first step, without a state")
def in_training_mode(cell, x, state):
    cell.train()
    return from_x(cell, x, state)


@wrong("of the cell was changed", row="a first step, without a state")
def wipes_gradients(cell, x, state):
    cell.zero_grad(set_to_none=False)
    return from_x(cell, x, state)


@wrong("no gradient reaches x", row="gradients flow back, into x and the state")
def cuts_off_x_where_a_state_comes(cell, x, state):
    return from_x(cell, x if state is None else x.detach(), state)


@wrong("your code raised AttributeError", row="a first step, without a state")
def zeros_from_the_bias(cell, x, state):
    if state is None:
        state = cell.bias_hh.new_zeros(x.shape[0], cell.hidden_size)
    return cell(x, state.to(x.device))


@right
def zeros_brought_to_the_dtype_there(cell, x, state):
    if state is None:
        state = torch.zeros(len(x), cell.hidden_size, device=x.device)
    return cell(x, state.to(x.device, x.dtype))


@wrong("the cell was called twice, and one step is asked", row="a first step, without a state")
def calls_the_cell_twice(cell, x, state):
    return cell(x, from_x(cell, x, state))
