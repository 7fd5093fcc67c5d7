"""Answers to materialize."""

import torch
from bank import right, wrong
from torch import nn

VALUES = "the values of state, on the device"
BUFFERS = "buffers that state lacks, as build() makes them"
TIED = "parameters that build() ties stay tied"
META = "the model is built on the meta device"
ONCE = "the device gets and holds one model, no more"


def on_meta(build):
    with torch.device("meta"):
        return build()


def names_of(model):
    names = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    return names.values()


def tie(model, groups):
    for first, *others in groups:
        for other in others:
            path, _, leaf = other.rpartition(".")
            setattr(model.get_submodule(path), leaf, model.get_parameter(first))


def on_the_device(model, state, device):
    """Return the state's values on the device, in the dtypes of the model."""
    dtypes = {key: value.dtype for key, value in model.state_dict().items()}
    return {key: value.to(device, dtypes[key]) for key, value in state.items()}


def real_and_tied(build, device):
    model = on_meta(build)
    names = names_of(model)
    model.to_empty(device=device)
    tie(model, names)
    return model


def fill_other_buffers(model, state, spare):
    made = dict(spare.named_buffers())
    for name, buffer in model.named_buffers():
        if name not in state:
            buffer.copy_(made[name])
    return model


@right
def memory_then_values(build, state, device):
    with torch.device("meta"):
        model = build()
    names = names_of(model)
    model.to_empty(device=device)
    tie(model, names)
    model.load_state_dict(state)
    made = dict(build().named_buffers())
    for name, buffer in model.named_buffers():
        if name not in state:
            buffer.copy_(made[name])
    return model


@right
def assigned_and_tied_again(build, state, device):
    model = on_meta(build)
    names = names_of(model)
    model.load_state_dict(on_the_device(model, state, device), assign=True)
    tie(model, names)
    for name, buffer in build().named_buffers():
        if name not in state:
            path, _, leaf = name.rpartition(".")
            model.get_submodule(path).register_buffer(leaf, buffer.to(device), persistent=False)
    return model


@wrong("is torch.float16, not torch.float32", row=VALUES)
def in_the_dtype_of_the_state(build, state, device):
    model = on_meta(build)
    names = names_of(model)
    model.load_state_dict({key: value.to(device) for key, value in state.items()}, assign=True)
    tie(model, names)
    for name, buffer in build().named_buffers():
        if name not in state:
            path, _, leaf = name.rpartition(".")
            model.get_submodule(path).register_buffer(leaf, buffer.to(device), persistent=False)
    return model


@wrong("build() was called", row=META)
def a_model_for_each_buffer(build, state, device):
    model = real_and_tied(build, device)
    model.load_state_dict(state)
    for name, buffer in model.named_buffers():
        if name not in state:
            buffer.copy_(dict(build().named_buffers())[name])
    return model


@right
def only_parameters_on_meta(build, state, device):
    def registered(module, name, parameter):
        if parameter is None or parameter.is_meta:
            return parameter
        there = torch.empty_like(parameter, device="meta")
        return nn.Parameter(there, requires_grad=parameter.requires_grad)

    handle = nn.modules.module.register_module_parameter_registration_hook(registered)
    try:
        model = build()
    finally:
        handle.remove()
    names = names_of(model)
    real = {name: buffer.clone() for name, buffer in model.named_buffers() if name not in state}
    model.to_empty(device=device)
    tie(model, names)
    model.load_state_dict(state)
    for name, values in real.items():
        model.get_buffer(name).copy_(values)
    return model


@right
def only_parameters_on_meta_and_the_rest_made_there(build, state, device):
    """The device computes the buffers, and may round their last digits in its own way."""
    with torch.device(device):
        return only_parameters_on_meta(build, state, device)


@right
def parameter_by_parameter(build, state, device):
    model, made, rest = on_meta(build), {}, dict(build().named_buffers())
    for path, module in model.named_modules():
        prefix = f"{path}." if path else ""
        for name, parameter in list(module.named_parameters(recurse=False)):
            if parameter not in made:
                values = state[prefix + name].to(device, parameter.dtype, copy=True)
                made[parameter] = nn.Parameter(values, parameter.requires_grad)
            setattr(module, name, made[parameter])
        for name, buffer in list(module.named_buffers(recurse=False)):
            values = state.get(prefix + name, rest[prefix + name])
            setattr(module, name, values.to(device, buffer.dtype, copy=True))
    return model


@right
def swapped_by_to_empty(build, state, device):
    model = on_meta(build)
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model.to_empty(device=device)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)
    model.load_state_dict(state)
    return fill_other_buffers(model, state, build())


@wrong("are two parameters now", row=TIED)
def untied_by_to_empty(build, state, device):
    model = on_meta(build).to_empty(device=device)
    model.load_state_dict(state)
    return fill_other_buffers(model, state, build())


@wrong("the model was built on cpu", row=META)
def on_the_cpu_first(build, state, device):
    model = build()
    model.to(device)
    model.load_state_dict(state)
    return model


@wrong("the model was built on", row=META)
def on_the_device_at_once(build, state, device):
    with torch.device(device):
        model = build()
    model.load_state_dict(state)
    return model


@wrong("the model was built on cpu", row=META)
def meta_for_show(build, state, device):
    on_meta(build)
    model = build()
    model.load_state_dict(state)
    return model.to(device)


@wrong("is not what `state` holds", row=VALUES)
def nothing_loaded(build, state, device):
    model = on_meta(build).to_empty(device=device)
    return fill_other_buffers(model, state, build())


@wrong("is not what `state` holds", row=VALUES)
def loaded_too_early(build, state, device):
    model = on_meta(build)
    model.load_state_dict(state)
    model.to_empty(device=device)
    return fill_other_buffers(model, state, build())


@wrong("Cannot copy out of meta tensor; no data!", row=VALUES)
def moved_by_to(build, state, device):
    model = on_meta(build)
    model.to(device)
    model.load_state_dict(state)
    return model


@wrong("is still on the meta device", row=VALUES)
def never_given_memory(build, state, device):
    model = on_meta(build)
    model.load_state_dict(state)
    return model


@wrong("lacks the values that build() gives it", row=BUFFERS)
def lost_buffers(build, state, device):
    model = on_meta(build)
    model.to_empty(device=device)
    for buffer in model.buffers():
        buffer.zero_()
    model.load_state_dict(state)
    return model


@wrong("limit is not what `state` holds: is it loaded", row=VALUES)
def all_buffers_as_built(build, state, device):
    model = real_and_tied(build, device)
    model.load_state_dict(state)
    return fill_other_buffers(model, (), build())


@wrong("is still on the meta device: no state_dict brings it", row=BUFFERS)
def assigned_alone(build, state, device):
    model = on_meta(build)
    model.load_state_dict(on_the_device(model, state, device), assign=True)
    return model


@wrong("has become a part of the state_dict", row=BUFFERS)
def saved_from_now_on(build, state, device):
    model = on_meta(build)
    model.to_empty(device=device)
    model.load_state_dict(state)
    for name, buffer in build().named_buffers():
        if name not in state:
            path, _, leaf = name.rpartition(".")
            model.get_submodule(path).register_buffer(leaf, buffer.to(device))
    return model


@wrong("are two parameters now", row=TIED)
def untied(build, state, device):
    model = on_meta(build)
    model.load_state_dict(on_the_device(model, state, device), assign=True)
    for name, buffer in build().named_buffers():
        if name not in state:
            path, _, leaf = name.rpartition(".")
            model.get_submodule(path).register_buffer(leaf, buffer.to(device), persistent=False)
    return model


@wrong("has requires_grad=True, and build() gave it another value", row=VALUES)
def all_trained(build, state, device):
    return memory_then_values(build, state, device).requires_grad_()


@wrong("the device held", row=ONCE)
def state_on_the_device_too(build, state, device):
    model = real_and_tied(build, device)
    model.load_state_dict({key: value.to(device) for key, value in state.items()})
    return fill_other_buffers(model, state, build())


@wrong("the device held", row=ONCE)
def a_spare_model_on_the_device(build, state, device):
    model = real_and_tied(build, device)
    model.load_state_dict(state)
    with torch.device(device):
        spare = build()
    return fill_other_buffers(model, state, spare)


@wrong("bytes were transferred, and the whole model has", row=ONCE)
def a_spare_model_is_moved(build, state, device):
    model = real_and_tied(build, device)
    model.load_state_dict(state)
    return fill_other_buffers(model, state, build().to(device))


@wrong("is a `return` missing?", row=VALUES)
def no_return(build, state, device):
    memory_then_values(build, state, device)


@wrong("`state['limit']` was changed", row=VALUES)
def scales_the_state(build, state, device):
    for value in state.values():
        value.mul_(2)
    return memory_then_values(build, state, device)


@wrong("is torch.float32, and build() makes it torch.bool", row=BUFFERS)
def buffers_as_numbers(build, state, device):
    model = on_meta(build)
    names = names_of(model)
    model.load_state_dict(on_the_device(model, state, device), assign=True)
    tie(model, names)
    for name, buffer in build().named_buffers():
        if name not in state:
            path, _, leaf = name.rpartition(".")
            model.get_submodule(path).register_buffer(leaf, buffer.float().to(device), persistent=False)
    return model


@wrong("encode.bias and decode.bias are one parameter now", row=TIED)
def ties_what_is_equal(build, state, device):
    model = on_meta(build).to_empty(device=device)
    model.load_state_dict(state)
    fill_other_buffers(model, state, build())
    named = dict(model.named_parameters())
    groups = [[one for one in state if torch.equal(state[name], state[one])] for name in named]
    tie(model, [[one for one in group if one in named] for group in groups])
    return model


@wrong("the model was filled with random numbers before it got the values of state", row=META)
def filled_first(build, state, device):
    model = real_and_tied(build, device)
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    model.load_state_dict(state)
    return fill_other_buffers(model, state, build())
