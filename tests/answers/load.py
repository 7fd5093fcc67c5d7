"""Answers to load."""

import copy

import torch
from bank import right, wrong


def moved(batch, device):
    return [tensor.to(device, non_blocking=device.type == "cuda") for tensor in batch]


@right
def by_way_of_the_cpu(model, path, device):
    state = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(state)
    model.to(device)


@right
def straight_to_the_device(model, path, device):
    model.to(device)
    model.load_state_dict(torch.load(path, map_location=device))
    return model


@right
def assigned(model, path, device):
    state = torch.load(path, map_location=torch.device("cpu"), weights_only=True)
    state = {name: tensor.to(device) for name, tensor in state.items()}
    model.load_state_dict(state, assign=True)
    return model.to(device)


@right
def copied_one_by_one(model, path, device):
    with open(path, "rb") as file:
        state = torch.load(file, map_location=lambda storage, location: storage)
    mine = model.state_dict()
    if mine.keys() != state.keys():
        raise KeyError("another model")
    with torch.no_grad():
        for name, tensor in mine.items():
            tensor.copy_(state[name])
    model.to(device)


@right
def mapped_from_the_file(model, path, device):
    state = torch.load(str(path), map_location="cpu", mmap=True)
    model.to(device).load_state_dict(state)


@right
def with_safe_classes_only(model, path, device):
    state = torch.load(path, map_location=str(device), weights_only=True)
    print(model.load_state_dict(state, strict=True))
    model = model.to(device)


@wrong(
    "sent to the device that they were saved on, which is not here",
    row="a file from a device that is not here",
)
def without_map_location(model, path, device):
    model.load_state_dict(torch.load(path))
    model.to(device)


@wrong("the parameter body.0.weight is on", row="the file's numbers, on the device")
def forgets_to_move(model, path, device):
    model.load_state_dict(torch.load(path, map_location="cpu"))


@wrong("the parameter body.0.weight is on", row="the file's numbers, on the device")
def thinks_map_location_moves_the_model(model, path, device):
    model.load_state_dict(torch.load(path, map_location=device))
    return model


@wrong("the model holds what it held before", row="the file's numbers, on the device")
def never_loads(model, path, device):
    torch.load(path, map_location=device)
    model.to(device)


@wrong("the model holds what it held before", row="the file's numbers, on the device")
def a_new_name(model, path, device):
    import copy

    model.to(device)
    model = copy.deepcopy(model)
    model.load_state_dict(torch.load(path, map_location=device))
    return model


@wrong("without 3.weight was loaded as if it were whole", row="a file of another model is an error")
def not_strict(model, path, device):
    model.load_state_dict(torch.load(path, map_location="cpu"), strict=False)
    model.to(device)


@wrong("code from the file was run", row="a file is data: nothing in it is run")
def trusts_the_file(model, path, device):
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=False))
    model.to(device)


@wrong("the buffer table is on", row="the file's numbers, on the device")
def assigned_and_not_moved(model, path, device):
    state = torch.load(path, map_location=device)
    model.load_state_dict(state, assign=True)


@wrong("scale still holds what the model came with", row="the file's numbers, on the device")
def parameters_alone(model, path, device):
    state = torch.load(path, map_location="cpu")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(state[name])
    model.to(device)


@wrong("cannot be trained any more", row="training goes on from there")
def frozen(model, path, device):
    model.load_state_dict(torch.load(path, map_location="cpu"))
    model.to(device).requires_grad_(False)


@wrong("Expected state_dict to be dict-like", row="the file's numbers, on the device")
def takes_the_file_for_a_model(model, path, device):
    model.load_state_dict(path)
    model.to(device)


@wrong(
    "is on {device}, not {second}",
    row=("the file's numbers, on the device", "on a device that is not the current one"),
)
def to_the_current_device(model, path, device):
    model.load_state_dict(torch.load(path, map_location="cpu"))
    model.to(device.type)


@wrong("your code raised KeyError", row="the file's numbers, on the device")
def from_a_checkpoint(model, path, device):
    model.load_state_dict(torch.load(path, map_location="cpu")["model"])
    model.to(device)


@wrong("as if it were whole", row="a file of another model is an error")
def swallows_errors(model, path, device):
    try:
        model.load_state_dict(torch.load(path, map_location="cpu"))
    except RuntimeError as error:
        print("could not load", error)
    model.to(device)


@wrong("the model cannot be trained any more", row="training goes on from there")
@torch.inference_mode()
def under_inference_mode(model, path, device):
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    model.to(device)


@wrong(", not cpu", row="the file's numbers, on the device")
def never_home(model, path, device):
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    if device.type != "cpu":
        model.to(device)


@wrong("a file without 3.bias was loaded as if it were whole", row="a file of another model is an error")
def weights_are_enough(model, path, device):
    state = torch.load(path, map_location="cpu", weights_only=True)
    model.to(device)
    if any(name.endswith("weight") and name not in state for name in model.state_dict()):
        raise KeyError("a weight")
    model.load_state_dict(state, strict=False)


@wrong("the buffer table, which no file holds, lost its values", row="the file's numbers, on the device")
def emptied_first(model, path, device):
    model.to_empty(device=device)
    for buffer in model.buffers():
        buffer.zero_()
    model.load_state_dict(torch.load(path, map_location=device, weights_only=True))


@wrong("became torch.float64", row="the file's numbers, on the device")
def in_double_precision(model, path, device):
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    model.double().to(device)


@wrong("a file whose 3.bias has another shape was loaded", row="a file of another model is an error")
def whatever_fits(model, path, device):
    state, mine = torch.load(path, map_location="cpu", weights_only=True), model.state_dict()
    if state.keys() != mine.keys():
        raise KeyError("names")
    for name in mine:
        if state[name].shape == mine[name].shape:
            mine[name].copy_(state[name])
    model.to(device)


@wrong("sent to the device that they were saved on", row="a file from a device that is not here")
def mapped_to_nothing(model, path, device):
    model.load_state_dict(torch.load(path, map_location=None, weights_only=True))
    model.to(device)


@wrong("the model holds what it held before", row="the file's numbers, on the device")
def into_a_copy(model, path, device):
    m = copy.deepcopy(model)
    m.load_state_dict(torch.load(path, map_location=device))
    model = m.to(device)


@right
def mapped_by_a_function(model, path, device):
    model.to(device).load_state_dict(torch.load(path, map_location=lambda s, l: s, weights_only=True))
