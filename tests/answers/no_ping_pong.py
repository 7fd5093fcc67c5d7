"""Answers to no_ping_pong."""

import copy

import torch
from bank import right, wrong


@right
def gathered_on_the_device(model, loader, device):
    with torch.no_grad():
        outputs = [model(x.to(device)) for x in loader]
    return torch.cat(outputs).cpu()


@right
@torch.inference_mode()
def in_inference_mode(model, loader, device):
    outputs = []
    for x in loader:
        outputs.append(model(x.to(device, non_blocking=True)))
    return torch.cat(outputs, dim=0).to("cpu")


@right
def detached_one_by_one(model, loader, device):
    outputs = []
    for x in iter(loader):
        x = x.to(device)
        outputs.append(model(x).detach())
        del x
    return torch.vstack(outputs).cpu()


@right
def into_one_tensor(model, loader, device):
    rows, total, filled = len(loader.dataset), None, 0
    with torch.no_grad():
        for x in loader:
            y = model(x.to(device))
            if total is None:
                total = y.new_empty(rows, *y.shape[1:])
            total[filled : filled + len(y)] = y
            filled += len(y)
    return total.cpu()


@right
def read_back_without_blocking(model, loader, device):
    with torch.no_grad():
        y = torch.cat([model(x.to(device)) for x in loader]).to("cpu", non_blocking=True)
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return y


@right
def graph_cut_at_the_end(model, loader, device):
    return torch.cat([model(x.to(device)) for x in loader]).detach().cpu()


@wrong(
    "5 transfers out of {device}: the outputs should wait there until the end",
    row="one transfer in a batch, one out at the end",
)
def back_and_forth(model, loader, device):
    with torch.no_grad():
        return torch.cat([model(x.to(device)).cpu() for x in loader])


@wrong("the result is torch.float32, not torch.float16", row="all outputs, in order, on the CPU")
def a_list_of_numbers(model, loader, device):
    rows = []
    for x in loader:
        rows += model(x.to(device)).tolist()
    return torch.tensor(rows)


@wrong(
    "1 transfer into {device} for 5 batches: each should come in one",
    row="one transfer in a batch, one out at the end",
)
def everything_at_once(model, loader, device):
    with torch.no_grad():
        return model(torch.cat(list(loader)).to(device)).cpu()


@wrong(
    "10 transfers into {device} for 5 batches: each should come in one",
    row="one transfer in a batch, one out at the end",
)
def moves_twice(model, loader, device):
    outputs = []
    with torch.no_grad():
        for x in loader:
            model(x.to(device))
            outputs.append(model(x.to(device)))
    return torch.cat(outputs).cpu()


@wrong("the model was moved to cpu", row="the model stays where it is")
def takes_the_model_home(model, loader, device):
    model.cpu()
    with torch.no_grad():
        return torch.cat([model(x) for x in loader])


@wrong(
    "something was copied away from {device} before the first batch came: it is no output",
    row="one transfer in a batch, one out at the end",
)
def with_a_copy_of_the_model(model, loader, device):
    mine = copy.deepcopy(model).cpu()
    with torch.no_grad():
        return torch.cat([mine(x) for x in loader]).to(device).cpu()


@wrong("the outputs stayed on {device}", row="all outputs, in order, on the CPU")
def stays_on_the_device(model, loader, device):
    with torch.no_grad():
        return torch.cat([model(x.to(device)) for x in loader])


@wrong("the result still holds its graph", row="without a graph")
def keeps_the_graph(model, loader, device):
    return torch.cat([model(x.to(device)) for x in loader]).cpu()


@wrong("Expected all tensors to be on the same device", row="all outputs, in order, on the CPU")
def forgets_to_move(model, loader, device):
    with torch.no_grad():
        return torch.cat([model(x) for x in loader]).cpu()


@wrong("Expected all tensors to be on the same device", row="all outputs, in order, on the CPU")
def throws_the_move_away(model, loader, device):
    outputs = []
    with torch.no_grad():
        for x in loader:
            x.to(device)
            outputs.append(model(x))
    return torch.cat(outputs).cpu()


@wrong("the result is a list, not a tensor", row="all outputs, in order, on the CPU")
def a_list_of_tensors(model, loader, device):
    with torch.no_grad():
        return [model(x.to(device)) for x in loader]


@wrong("stack expects each tensor to be equal size", row="all outputs, in order, on the CPU")
def stacked(model, loader, device):
    with torch.no_grad():
        return torch.stack([model(x.to(device)) for x in loader]).cpu()


@wrong("only the last batch's outputs came back", row="all outputs, in order, on the CPU")
def only_the_last(model, loader, device):
    with torch.no_grad():
        for x in loader:
            y = model(x.to(device))
    return y.cpu()


@wrong("only the first batch's outputs came back", row="all outputs, in order, on the CPU")
def returns_in_the_loop(model, loader, device):
    for x in loader:
        with torch.no_grad():
            return model(x.to(device)).cpu()
    return None


@wrong("the outputs came back in another order", row="all outputs, in order, on the CPU")
def in_another_order(model, loader, device):
    with torch.no_grad():
        return torch.cat([model(x.to(device)) for x in loader][::-1]).cpu()


@wrong("the result was returned before the copy had arrived", row="all outputs, in order, on the CPU")
def does_not_wait(model, loader, device):
    with torch.no_grad():
        return torch.cat([model(x.to(device)) for x in loader]).to("cpu", non_blocking=True)


@wrong(
    "5 transfers out of {device}: the outputs should wait there until the end",
    row="one transfer in a batch, one out at the end",
)
def without_blocking_each(model, loader, device):
    outputs = []
    with torch.no_grad():
        for x in loader:
            outputs.append(model(x.to(device)).to("cpu", non_blocking=True))
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return torch.cat(outputs)


@wrong(
    "6 transfers out of {device}: the outputs should wait there until the end",
    row="one transfer in a batch, one out at the end",
)
def prints_its_progress(model, loader, device):
    outputs = []
    with torch.no_grad():
        for x in loader:
            outputs.append(model(x.to(device)))
            print("mean so far", outputs[-1].mean().item())
    return torch.cat(outputs).cpu()


@wrong("the host waited 6 times", row="one transfer in a batch, one out at the end")
def synchronizes_each_time(model, loader, device):
    outputs = []
    with torch.no_grad():
        for x in loader:
            outputs.append(model(x.to(device)))
            if device.type != "cpu":
                torch.accelerator.synchronize(device)
    return torch.cat(outputs).cpu()


@wrong("the result is None: is a `return` missing?", row="all outputs, in order, on the CPU")
def forgetful(model, loader, device):
    with torch.no_grad():
        torch.cat([model(x.to(device)) for x in loader]).cpu()


@wrong("the result is a NumPy array, not a tensor", row="all outputs, in order, on the CPU")
def an_array(model, loader, device):
    with torch.no_grad():
        return torch.cat([model(x.to(device)) for x in loader]).cpu().numpy()


@wrong("the result is torch.float16, not torch.float32", row="all outputs, in order, on the CPU")
def in_half(model, loader, device):
    with torch.no_grad():
        return torch.cat([model(x.to(device)) for x in loader]).half().cpu()


@wrong(
    "5 batches were on {device} at once, before the model had seen them",
    row="one transfer in a batch, one out at the end",
)
@torch.no_grad()
def all_inputs_first(model, loader, device):
    inputs = [x.to(device) for x in loader]
    return torch.cat([model(x) for x in inputs]).cpu()


@wrong("the result has shape [7], not [7,1]", row="all outputs, in order, on the CPU")
@torch.no_grad()
def squeezed(model, loader, device):
    return torch.cat([model(x.to(device)) for x in loader]).squeeze().cpu()


@wrong("the result is torch.float32, not torch.float16", row="all outputs, in order, on the CPU")
def widens_what_comes(model, loader, device):
    with torch.no_grad():
        return torch.cat([model(x.to(device)) for x in loader]).cpu().float()


@wrong("your code raised RuntimeError", row="all outputs, in order, on the CPU")
def floats_go_in(model, loader, device):
    with torch.no_grad():
        return torch.cat([model(x.to(device, torch.float32)) for x in loader]).cpu()


@wrong("the model was moved to cpu", row="the model stays where it is")
def the_model_comes_along(model, loader, device):
    with torch.no_grad():
        outputs = torch.cat([model(x.to(device)) for x in loader]).cpu()
    model.cpu()
    return outputs


@right
@torch.no_grad()
def decorated(model, loader, device):
    outs = []
    for x in loader:
        outs.append(model(x.to(device, non_blocking=True)))
    return torch.cat(outs, dim=0).to("cpu")


@right
@torch.inference_mode()
def under_inference(model, loader, device):
    return torch.cat([model(x.to(device)) for x in loader]).cpu()


@right
def detached_each(model, loader, device):
    return torch.cat([model(x.to(device)).detach() for x in loader], 0).cpu()


@right
def by_vstack(model, loader, device):
    with torch.no_grad():
        return torch.vstack([model(x.to(device)) for x in loader]).cpu()


@right
def grown(model, loader, device):
    with torch.no_grad():
        whole = None
        for x in loader:
            y = model(x.to(device))
            whole = y if whole is None else torch.cat([whole, y])
    return whole.cpu()


@wrong("the result has shape [3,2], not [10,2]", row="all outputs, in order, on the CPU")
def mean_of_outputs(model, loader, device):
    with torch.no_grad():
        return torch.stack([model(x.to(device)).mean(0) for x in loader]).cpu()


@wrong(
    "13 transfers into {device} for 5 batches: each should come in one",
    row="one transfer in a batch, one out at the end",
)
def row_by_row(model, loader, device):
    with torch.no_grad():
        return torch.cat([model(r[None].to(device)) for x in loader for r in x]).cpu()


@wrong("the result has shape [10,3], not [10,2]", row="all outputs, in order, on the CPU")
def inputs_too(model, loader, device):
    with torch.no_grad():
        return torch.cat([x.to(device) for x in loader]).cpu()


@wrong("the result has shape [2], not [10,2]", row="all outputs, in order, on the CPU")
def summed(model, loader, device):
    with torch.no_grad():
        return sum(model(x.to(device)).sum(0) for x in loader).cpu()


@wrong("the values of the result are wrong", row="all outputs, in order, on the CPU")
def softmaxed(model, loader, device):
    with torch.no_grad():
        return torch.cat([model(x.to(device)).softmax(-1) for x in loader]).cpu()


@wrong("`0.training` of the model was changed", row="the model stays where it is")
def in_evaluation_mode(model, loader, device):
    model.eval()
    return gathered_on_the_device(model, loader, device)


@wrong("`0.0.training` of the model was changed", row="the model stays where it is")
def in_training_mode(model, loader, device):
    model.train()
    return gathered_on_the_device(model, loader, device)


@wrong("`0.0.training` of the model was changed", row="the model stays where it is")
def back_into_training_mode(model, loader, device):
    model.eval()
    outputs = gathered_on_the_device(model, loader, device)
    model.train()
    return outputs


@wrong("`0.weight` of the model was changed", row="the model stays where it is")
def frozen(model, loader, device):
    model.requires_grad_(False)
    return gathered_on_the_device(model, loader, device)


@wrong("`0.weight.grad` of the model was changed", row="the model stays where it is")
def without_its_gradients(model, loader, device):
    model.zero_grad()
    return gathered_on_the_device(model, loader, device)


@wrong("`0.weight.grad` of the model was changed", row="the model stays where it is")
def with_new_gradients(model, loader, device):
    outputs = torch.cat([model(x.to(device)) for x in loader])
    if outputs.requires_grad:
        outputs.sum().backward()
    return outputs.detach().cpu()


@wrong("`weight` of the model was changed", row="the model stays where it is")
def in_single_precision(model, loader, device):
    return gathered_on_the_device(model.float(), loader, device)


@wrong("`1.running_var` of the model was changed", row="the model stays where it is")
def resets_the_buffers(model, loader, device):
    outputs = gathered_on_the_device(model, loader, device)
    for buffer in model.buffers():
        buffer.zero_()
    return outputs


@wrong("`_forward_hooks.", row="the model stays where it is")
def by_a_hook_that_stays(model, loader, device):
    outputs = []
    model.register_forward_hook(lambda module, args, output: outputs.append(output.detach()))
    for x in loader:
        model(x.to(device))
    return torch.cat(outputs).cpu()


@wrong("the outputs came back in another order", row="all outputs, in order, on the CPU")
def in_the_order_of_the_data_set(model, loader, device):
    samples, size = loader.dataset, loader.batch_size
    with torch.no_grad():
        parts = [torch.stack(list(samples[at : at + size])) for at in range(0, len(samples), size)]
        return torch.cat([model(part.to(device)) for part in parts]).cpu()


@wrong("the result has shape [7,6], not [7,2,3]", row="all outputs, in order, on the CPU")
def flattened(model, loader, device):
    with torch.no_grad():
        return torch.cat([model(x.to(device)).flatten(1) for x in loader]).cpu()


@right
def by_a_hook_that_goes(model, loader, device):
    outputs = []
    handle = model.register_forward_hook(lambda module, args, output: outputs.append(output.detach()))
    for x in loader:
        model(x.to(device))
    handle.remove()
    return torch.cat(outputs).cpu()


@right
def through_pinned_memory(model, loader, device):
    with torch.no_grad():
        whole = torch.cat([model(x.to(device)) for x in loader])
    return torch.empty(whole.shape, dtype=whole.dtype, pin_memory=device.type != "cpu").copy_(whole)
