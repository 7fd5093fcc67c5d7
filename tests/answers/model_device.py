"""Answers to model_device."""

import itertools

import torch
from bank import right, wrong


@right
def compares_with_the_first(model):
    tensors = list(model.named_parameters()) or list(model.named_buffers())
    if not tensors:
        return torch.device("cpu")
    first, home = tensors[0]
    for name, tensor in tensors:
        if tensor.device != home.device:
            raise ValueError(f"{first} is on {home.device}, {name} on {tensor.device}")
    return home.device


@right
def groups_by_device(model):
    groups = {}
    for name, tensor in dict(model.named_parameters() or ()).items():
        groups.setdefault(tensor.device, []).append(name)
    if not groups:
        for name, tensor in model.named_buffers():
            groups.setdefault(tensor.device, []).append(name)
    if len(groups) > 1:
        raise ValueError(
            "mixed: " + "; ".join(f"{device}: {', '.join(names)}" for device, names in groups.items())
        )
    return next(iter(groups), torch.device("cpu"))


@right
def neighbours(model):
    for named in (model.named_parameters, model.named_buffers):
        tensors = list(named())
        for (a, x), (b, y) in itertools.pairwise(tensors):
            if x.device != y.device:
                raise ValueError(
                    f"The model is on two devices: {a!r} on {x.device!r} and {b!r} on {y.device!r}"
                )
        if tensors:
            return tensors[0][1].device
    return torch.zeros(0, device="cpu").device


@right
def a_dictionary_of_places(model):
    def places(named):
        return {tensor.device: name for name, tensor in named}

    found = places(model.named_parameters())
    if not found:
        found = places(model.named_buffers())
    match list(found):
        case []:
            return torch.device("cpu")
        case [device]:
            return device
        case _:
            raise ValueError(f"mixed devices: {found}")


class MixedDevices(ValueError):
    pass


@right
def with_an_error_of_its_own(model):
    home, first = None, None
    for name, tensor in list(model.named_parameters()) or model.named_buffers():
        home, first = home or tensor.device, first or name
        if tensor.device != home:
            raise MixedDevices(first, str(home), name, str(tensor.device))
    return home or torch.device("cpu")


@wrong("and nothing was raised", row="a mixed model: ValueError names both")
def of_the_first(model):
    tensors = [*model.parameters(), *model.buffers()]
    return tensors[0].device if tensors else torch.device("cpu")


@wrong("StopIteration", row="a mixed model: ValueError names both")
def of_the_first_or_fails(model):
    tensors = list(model.named_parameters())
    if len({t.device for _, t in tensors}) > 1:
        compares_with_the_first(model)
    return next(model.parameters()).device


@wrong("and nothing was raised", row="a mixed model: ValueError names both")
def compares_types(model):
    tensors = list(model.named_parameters()) or list(model.named_buffers())
    for name, tensor in tensors:
        if tensor.device.type != tensors[0][1].device.type:
            raise ValueError(f"{tensors[0][0]} on {tensors[0][1].device}, {name} on {tensor.device}")
    return tensors[0][1].device if tensors else torch.device("cpu")


@wrong("and nothing was raised", row="a mixed model: ValueError names both")
def compares_first_and_last(model):
    tensors = list(model.named_parameters()) or list(model.named_buffers())
    if not tensors:
        return torch.device("cpu")
    (a, x), (b, y) = tensors[0], tensors[-1]
    if x.device != y.device:
        raise ValueError(f"{a} on {x.device}, {b} on {y.device}")
    return x.device


@wrong("the error does not name a tensor on each device", row="a mixed model: ValueError names both")
def names_devices_only(model):
    tensors = list(model.parameters()) or list(model.buffers())
    devices = {tensor.device for tensor in tensors}
    if len(devices) > 1:
        raise ValueError(f"mixed: {devices}")
    return devices.pop() if devices else torch.device("cpu")


@wrong("the error does not name the two devices", row="a mixed model: ValueError names both")
def names_tensors_only(model):
    tensors = list(model.named_parameters()) or list(model.named_buffers())
    for name, tensor in tensors:
        if tensor.device != tensors[0][1].device:
            raise ValueError(f"{tensors[0][0]} and {name} are apart")
    return tensors[0][1].device if tensors else torch.device("cpu")


@wrong("the error does not name a tensor on each device", row="a mixed model: ValueError names both")
def names_one_side(model):
    tensors = list(model.named_parameters()) or list(model.named_buffers())
    home = tensors[0][1].device if tensors else torch.device("cpu")
    for name, tensor in tensors:
        if tensor.device != home:
            raise ValueError(f"{name} is on {tensor.device}, the model is on {home}")
    return home


@wrong("the error puts `encoder.weight` on ", row="a mixed model: ValueError names both")
def names_the_wrong_way_round(model):
    tensors = list(model.named_parameters()) or list(model.named_buffers())
    for name, tensor in tensors:
        home = tensors[0][1].device
        if tensor.device != home:
            raise ValueError(f"{name} is on {home}, {tensors[0][0]} is on {tensor.device}")
    return tensors[0][1].device if tensors else torch.device("cpu")


@wrong("a RuntimeError was raised, not a ValueError", row="a mixed model: ValueError names both")
def another_error(model):
    try:
        return compares_with_the_first(model)
    except ValueError as error:
        raise RuntimeError(str(error)) from error


@wrong("an AssertionError was raised, not a ValueError", row="a mixed model: ValueError names both")
def asserts(model):
    tensors = list(model.parameters()) or list(model.buffers())
    assert len({tensor.device for tensor in tensors}) <= 1, "mixed"
    return tensors[0].device if tensors else torch.device("cpu")


@wrong("and nothing was raised", row="a mixed model: ValueError names both")
def returns_the_error(model):
    try:
        return compares_with_the_first(model)
    except ValueError as error:
        return error


@wrong("the answer is a str, not a torch.device", row="the device of the parameters")
def as_text(model):
    return str(compares_with_the_first(model))


@wrong("the answer is a str, not a torch.device", row="the device of the parameters")
def as_a_type(model):
    return compares_with_the_first(model).type


@wrong("the answer is {kind}, without its index", row="the device of the parameters")
def without_the_index(model):
    return torch.device(compares_with_the_first(model).type)


@wrong("the model has moved to {device}", row="the device of the parameters")
def the_cpu_always(model):
    return torch.device("cpu")


@wrong("buffers count only where there is none", row="without parameters, the buffers' device")
def buffers_count_too(model):
    tensors = [*model.named_parameters(), *model.named_buffers()]
    for name, tensor in tensors:
        if tensor.device != tensors[0][1].device:
            raise ValueError(f"{tensors[0][0]} on {tensors[0][1].device}, {name} on {tensor.device}")
    return tensors[0][1].device if tensors else torch.device("cpu")


@wrong("and nothing was raised", row="a mixed model: ValueError names both")
def parameters_only(model):
    return compares_with_the_first(model) if list(model.parameters()) else torch.device("cpu")


@wrong("the answer is None", row="with neither, the CPU")
def nothing_for_nothing(model):
    tensors = [*model.parameters(), *model.buffers()]
    return compares_with_the_first(model) if tensors else None


@wrong("has no attribute 'device'", row="the device of the parameters")
def asks_the_model(model):
    return model.device


@wrong("frozen ones", row="the device of the parameters")
def trainable_only(model):
    for parameter in model.parameters():
        if parameter.requires_grad:
            return compares_with_the_first(model)
    return torch.device("meta")


@wrong("the model has moved to", row="the device of the parameters")
def remembers(model, known={}):  # noqa: B006
    if id(model) not in known:
        known[id(model)] = (model, compares_with_the_first(model))
    return known[id(model)][1]


@wrong("there is no parameter and no buffer", row="with neither, the CPU")
def the_accelerator_for_nothing(model):
    if [*model.parameters(), *model.buffers()]:
        return compares_with_the_first(model)
    return torch.device(torch.accelerator.current_accelerator().type, 0)


@wrong(
    "the model's parameters are on cpu and {device}, and nothing was raised",
    row="a mixed model: ValueError names both",
)
def moves_it_home(model):
    device = next((tensor.device for tensor in [*model.parameters(), *model.buffers()]), "cpu")
    model.to(device)
    return torch.device(device)


@wrong(
    "the model's buffers are on cpu and",
    row="without parameters, the buffers' device",
)
def from_the_state_dict(model):
    named = list(model.named_parameters()) or list(model.state_dict().items())
    homes = {}
    for name, tensor in named:
        homes.setdefault(tensor.device, name)
    if len(homes) > 1:
        raise ValueError(", ".join(f"{name} is on {device}" for device, name in homes.items()))
    return next(iter(homes), torch.device("cpu"))


@right
def one_name_for_each_device(model):
    named = dict(model.named_parameters()) or dict(model.named_buffers())
    seen = {}
    for name, t in named.items():
        seen.setdefault(t.device, name)
    if len(seen) > 1:
        raise ValueError(", ".join((f"{n} is on {d}" for d, n in seen.items())))
    return next(iter(seen), torch.device("cpu"))


@right
def one_after_another(model):
    items = [(n, p.device) for n, p in model.named_parameters()]
    if not items:
        items = [(n, b.device) for n, b in model.named_buffers()]
    if not items:
        return torch.device("cpu")
    n0, d0 = items[0]
    for n, d in items[1:]:
        if d != d0:
            raise ValueError(f"parameter {n} lives on {d} but {n0} lives on {d0}")
    return d0


@right
def an_error_of_its_own_kind(model):

    class Mixed(ValueError):
        pass

    for source in (model.named_parameters, model.named_buffers):
        found = {str(t.device): n for n, t in source()}
        if len(found) == 1:
            return torch.device(next(iter(found)))
        if found:
            raise Mixed(str(found))
    return torch.device("cpu")


@right
def all_lines(model):
    ps = list(model.named_parameters()) or list(model.named_buffers())
    if not ps:
        return torch.device("cpu")
    devices = list(dict.fromkeys((t.device for _, t in ps)))
    if len(devices) == 1:
        return devices[0]
    lines = "\n".join((f"{n}: {t.device}" for n, t in ps))
    raise ValueError(f"mixed:\n{lines}")


@wrong("all parameters are on {device}, the answer is cpu", row="the device of the parameters")
def direct_ones_only(model):
    named = list(model.named_parameters(recurse=False)) or list(model.named_buffers(recurse=False))
    return named[0][1].device if named else torch.device("cpu")


@wrong(
    "all parameters, frozen ones too, are on {device}, the answer is cpu", row="the device of the parameters"
)
def w10(model):
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad] or list(model.named_buffers())
    if not named:
        return torch.device("cpu")
    for n, t in named:
        if t.device != named[0][1].device:
            raise ValueError(f"{named[0][0]} is on {named[0][1].device}, {n} is on {t.device}")
    return named[0][1].device


def the_one_place(tensors):
    """Return the device of named tensors, or raise."""
    for name, tensor in tensors:
        if tensor.device != tensors[0][1].device:
            raise ValueError(f"{tensors[0][0]} is on {tensors[0][1].device}, {name} is on {tensor.device}")
    return tensors[0][1].device if tensors else torch.device("cpu")


@wrong("nothing was raised", row="a mixed model: ValueError names both")
def of_what_learns(model):
    parameters = list(model.named_parameters())
    learning = [(name, one) for name, one in parameters if one.requires_grad]
    return the_one_place(learning or parameters or list(model.named_buffers()))


@wrong("buffers count only where there is none", row="without parameters, the buffers' device")
def buffers_may_not_be_mixed(model):
    buffers, parameters = list(model.named_buffers()), list(model.named_parameters())
    where = the_one_place(buffers)
    return the_one_place(parameters) if parameters else where


@wrong("nothing was raised", row="without parameters, the buffers' device")
def of_saved_buffers_first(model):
    saved, buffers = model.state_dict(), list(model.named_buffers())
    kept = [(name, one) for name, one in buffers if name in saved]
    return the_one_place(list(model.named_parameters()) or kept or buffers)


@wrong(
    "the model's buffers are on cpu and",
    row="without parameters, the buffers' device",
)
def of_floating_buffers(model):
    buffers = [(name, one) for name, one in model.named_buffers() if one.is_floating_point()]
    return the_one_place(list(model.named_parameters()) or buffers)


@right
def by_the_first_name_of_each_device(model):
    named = dict(model.named_parameters()) or dict(model.named_buffers())
    first = {}
    for name, one in named.items():
        first.setdefault(one.device, name)
    if len(first) > 1:
        raise ValueError("; ".join(f"{name} is on {device}" for device, name in first.items()))
    return next(iter(first), torch.device("cpu"))
