"""Answers to find_strays."""

import torch
from bank import right, wrong
from torch import nn

OWN = ("_parameters", "_buffers", "_modules")


def pairs(value, path, seen):
    """Yield each tensor below value once, with its path."""
    if isinstance(value, torch.Tensor):
        if id(value) not in seen:
            seen.add(id(value))
            yield path, value
    elif isinstance(value, nn.Module):
        for key, item in vars(value).items():
            yield from pairs(item, path if key in OWN else f"{path}.{key}", seen)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from pairs(item, f"{path}.{key}", seen)
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            yield from pairs(item, f"{path}.{place}", seen)


def everything(model, batch):
    seen = set()
    return [*pairs(model, "model", seen), *pairs(batch, "batch", seen)]


@right
def generators(model, batch):
    home = next(model.parameters()).device
    return [name for name, tensor in everything(model, batch) if tensor.device != home]


@right
def one_walk(model, batch):
    home = next(model.parameters()).device
    seen, names = set(), []

    def walk(name, value):
        if isinstance(value, torch.Tensor):
            if id(value) not in seen and value.device != home:
                names.append(name)
            seen.add(id(value))
            return
        if isinstance(value, nn.Module):
            items = [*vars(value).items()]
            items = [pair for key, item in items for pair in (item.items() if key in OWN else [(key, item)])]
        elif isinstance(value, dict):
            items = value.items()
        elif isinstance(value, (list, tuple)):
            items = enumerate(value)
        else:
            return
        for key, item in items:
            walk(f"{name}.{key}", item)

    walk("model", model)
    walk("batch", batch)
    return names


@right
def registered_then_left_behind(model, batch):
    home = next(model.parameters()).device
    found = [*model.named_parameters(prefix="model"), *model.named_buffers(prefix="model")]
    seen = {id(tensor) for _, tensor in found}
    for path, part in model.named_modules(prefix="model"):
        for key, value in vars(part).items():
            if key not in OWN:
                found += pairs(value, f"{path}.{key}", seen)
    found += pairs(batch, "batch", seen)
    return [name for name, tensor in found if tensor.device != home]


@right
def with_a_stack(model, batch):
    home, seen, names = None, set(), []
    for parameter in model.parameters():
        home = parameter.device
        break
    todo = [("batch", batch), ("model", model)]
    while todo:
        name, value = todo.pop()
        if isinstance(value, nn.Module):
            value = {key: item for key, item in vars(value).items() if key not in OWN} | {
                key: item for table in OWN for key, item in vars(value)[table].items()
            }
        if isinstance(value, (list, tuple)):
            value = dict(enumerate(value))
        if isinstance(value, dict):
            todo += [(f"{name}.{key}", item) for key, item in value.items()]
        elif torch.is_tensor(value) and id(value) not in seen:
            seen.add(id(value))
            if str(value.device) != str(home):
                names.append(name)
    return names


@right
def backwards(model, batch):
    return generators(model, batch)[::-1]


@wrong(
    "`model.encoder.1.center` is missing: it is an attribute of a BatchNorm1d in a Sequential in the model",
    row="attributes, lists and dicts elsewhere",
)
def registered_only(model, batch):
    home = next(model.parameters()).device
    found = [*model.named_parameters(prefix="model"), *model.named_buffers(prefix="model")]
    found += pairs(batch, "batch", set())
    return [name for name, tensor in found if tensor.device != home]


@wrong("`model.steps` is missing", row="parameters and buffers elsewhere")
def what_is_saved(model, batch):
    home = next(model.parameters()).device
    found = [(f"model.{name}", tensor) for name, tensor in model.state_dict().items()]
    found += [(name, t) for name, t in pairs(batch, "batch", set())]
    return [name for name, tensor in found if tensor.device != home]


@wrong("`model.steps` is missing: it is an attribute of the model", row="parameters and buffers elsewhere")
def parameters_only(model, batch):
    home = next(model.parameters()).device
    buffers = {f"model.{name}" for name, _ in model.named_buffers()}
    return [n for n, tensor in everything(model, batch) if tensor.device != home and n not in buffers]


@wrong("is missing: it is in the batch", row="the batch, however deep")
def model_only(model, batch):
    return [name for name in generators(model, batch) if name.startswith("model")]


@wrong("`model.steps` is missing: it is an attribute of the model", row="parameters and buffers elsewhere")
def batch_only(model, batch):
    return [name for name in generators(model, batch) if name.startswith("batch")]


@wrong("`batch.extra.mask` is missing: it is in a dict in the batch", row="the batch, however deep")
def flat_batch(model, batch):
    home = next(model.parameters()).device
    found = [*pairs(model, "model", set())]
    found += [(f"batch.{key}", value) for key, value in batch.items() if isinstance(value, torch.Tensor)]
    return [name for name, tensor in found if tensor.device != home]


@wrong("is missing", row=("parameters and buffers elsewhere", "the first parameter's device decides"))
def by_type_of_device(model, batch):
    home = next(model.parameters()).device
    return [name for name, tensor in everything(model, batch) if tensor.device.type != home.type]


@wrong("is missing", row="parameters and buffers elsewhere")
def compared_with_the_cpu(model, batch):
    return [name for name, tensor in everything(model, batch) if tensor.device.type == "cpu"]


@wrong("is named, but no tensor of this name is away", row="attributes, lists and dicts elsewhere")
def left_behind_wherever(model, batch):
    home = next(model.parameters()).device
    moving = {id(tensor) for tensor in [*model.parameters(), *model.buffers()]}
    return [
        name
        for name, tensor in everything(model, batch)
        if tensor.device != home or (name.startswith("model") and id(tensor) not in moving)
    ]


@wrong(
    "`model.steps` is named `steps`: it is an attribute of the model", row="parameters and buffers elsewhere"
)
def without_the_prefix(model, batch):
    return [name.partition(".")[2] for name in generators(model, batch)]


@wrong(
    "one tensor is listed twice: `model.late.weight` or `model.last.weight` or `model.late_too.0`",
    row="what is in place is not named; each once",
)
def each_name(model, batch):
    home = next(model.parameters()).device
    found = [*pairs(batch, "batch", set())]
    found += [*model.named_parameters(prefix="model"), *model.named_buffers(prefix="model")]
    for path, part in model.named_modules(prefix="model"):
        for key, value in vars(part).items():
            if key not in OWN:
                found += pairs(value, f"{path}.{key}", set())
    return [name for name, tensor in found if tensor.device != home]


@wrong("the model was changed", row="parameters and buffers elsewhere")
def moves_the_model(model, batch):
    names = generators(model, batch)
    model.to(next(model.parameters()).device)
    for part in model.modules():
        for key, value in list(vars(part).items()):
            if isinstance(value, torch.Tensor):
                setattr(part, key, value.to(next(model.parameters()).device))
    return names


@wrong("was replaced", row="the batch, however deep")
def moves_the_batch(model, batch):
    names = generators(model, batch)
    home = next(model.parameters()).device
    for key, value in batch.items():
        if isinstance(value, torch.Tensor):
            batch[key] = value.to(home)
    return names


@wrong(
    "`model.encoder.positions` is missing: it is an attribute of a Sequential in the model, a single number",
    row="attributes, lists and dicts elsewhere",
)
def not_the_single_numbers(model, batch):
    home = next(model.parameters()).device
    return [name for name, tensor in everything(model, batch) if tensor.device != home and tensor.dim()]


@wrong("`model.blocks.0.weight` is missing", row="attributes, lists and dicts elsewhere")
def no_modules_in_lists(model, batch):
    return [name for name in generators(model, batch) if not name.startswith("model.blocks")]


@wrong(
    "`model.1.weight` is missing: it is an attribute of a Linear in the model, a parameter",
    row="the first parameter's device decides",
)
def most_of_them_decide(model, batch):
    found = everything(model, batch)
    devices = [parameter.device for parameter in model.parameters()]
    home = max(set(devices), key=devices.count)
    return [name for name, tensor in found if tensor.device != home]


@wrong(
    "`model.1.weight` is missing: it is an attribute of a Linear in the model, a parameter",
    row="the first parameter's device decides",
)
def the_batch_decides(model, batch):
    found = everything(model, batch)
    home = next((t.device for n, t in found if n == "batch.x"), next(model.parameters()).device)
    return [name for name, tensor in found if tensor.device != home]


@wrong("model.scale", row="the first parameter's device decides")
def a_trained_one_decides(model, batch):
    home = next((p.device for p in model.parameters() if p.requires_grad), torch.device("cpu"))
    return [name for name, tensor in everything(model, batch) if tensor.device != home]


@wrong("the answer is a set, not a list", row="parameters and buffers elsewhere")
def as_a_set(model, batch):
    return set(generators(model, batch))


@wrong("the answer is a dict, not a list", row="parameters and buffers elsewhere")
def as_a_report(model, batch):
    return {name: tensor.device for name, tensor in everything(model, batch)}


@wrong("is None: is a `return` missing?", row="parameters and buffers elsewhere")
def prints(model, batch):
    print(*generators(model, batch))


@wrong("one tensor is listed twice", row="what is in place is not named; each once")
def model_and_batch_by_themselves(model, batch):
    home = next(model.parameters()).device
    found = [*pairs(model, "model", set()), *pairs(batch, "batch", set())]
    return [name for name, tensor in found if tensor.device != home]


@wrong(
    "one tensor is listed twice: `batch.one` or `batch.two`", row="what is in place is not named; each once"
)
def names_in_the_batch_twice(model, batch):
    home, seen = next(model.parameters()).device, set()
    found = [*pairs(model, "model", seen)]
    for key, value in batch.items():
        found += pairs(value, f"batch.{key}", set(seen))
    return [name for name, tensor in found if tensor.device != home]


@wrong("is missing", row="attributes, lists and dicts elsewhere")
def not_inside_lists(model, batch):
    home = next(model.parameters()).device
    found = {}

    def walk(value, path):
        if isinstance(value, torch.Tensor):
            if value.device != home:
                found.setdefault(id(value), path)
        elif isinstance(value, nn.Module):
            for name, item in vars(value).items():
                items = item.items() if name in ("_parameters", "_buffers", "_modules") else [(name, item)]
                for key, one in items:
                    walk(one, f"{path}.{key}")
        elif isinstance(value, dict):
            for key, item in value.items():
                walk(item, f"{path}.{key}")
        elif isinstance(value, list | tuple):
            for place, item in enumerate(value):
                if isinstance(item, torch.Tensor | nn.Module):
                    walk(item, f"{path}.{place}")

    walk(model, "model")
    walk(batch, "batch")
    return list(found.values())


@wrong("the model was changed: looking must change nothing", row="attributes, lists and dicts elsewhere")
def brings_home_what_is_not_registered(model, batch):
    names, home = generators(model, batch), next(model.parameters()).device
    registered = {id(tensor) for tensor in [*model.parameters(), *model.buffers()]}
    for _, tensor in pairs(model, "model", set()):
        if id(tensor) not in registered:
            tensor.data = tensor.data.to(home)
    return names


@wrong("the model was changed: looking must change nothing", row="parameters and buffers elsewhere")
def leaves_a_gradient(model, batch):
    next(model.parameters()).grad = torch.zeros_like(next(model.parameters()))
    return generators(model, batch)


@wrong(
    "`model.pair.1` is missing: it is in a tuple in the model", row="attributes, lists and dicts elsewhere"
)
def exact_types(model, batch):
    home = next(model.parameters()).device
    out, seen = ([], set())

    def walk(n, v):
        if isinstance(v, torch.Tensor):
            if v.device != home and id(v) not in seen:
                out.append(n)
            seen.add(id(v))
        elif isinstance(v, nn.Module):
            for k, i in vars(v).items():
                walk(n if k in ("_parameters", "_buffers", "_modules") else f"{n}.{k}", i)
        elif type(v) is dict:
            for k, i in v.items():
                walk(f"{n}.{k}", i)
        elif type(v) is list:
            for k, i in enumerate(v):
                walk(f"{n}.{k}", i)

    walk("model", model)
    walk("batch", batch)
    return out


@wrong("is missing", row="attributes, lists and dicts elsewhere")
def by_address(model, batch):
    home = next(model.parameters()).device
    out, seen = ([], set())

    def walk(n, v):
        if isinstance(v, torch.Tensor):
            if v.device != home and v.data_ptr() not in seen:
                out.append(n)
                seen.add(v.data_ptr())
        elif isinstance(v, nn.Module):
            for k, i in vars(v).items():
                walk(n if k in ("_parameters", "_buffers", "_modules") else f"{n}.{k}", i)
        elif isinstance(v, dict):
            for k, i in v.items():
                walk(f"{n}.{k}", i)
        elif isinstance(v, (list, tuple)):
            for k, i in enumerate(v):
                walk(f"{n}.{k}", i)

    walk("model", model)
    walk("batch", batch)
    return out


def left_behind(module):
    """An answer to lesson 05, as a learner brings it along."""
    moving = {id(parameter) for parameter in module.parameters()}
    parts, found = set(module.modules()), {}

    def walk(name, value):
        if isinstance(value, torch.Tensor) and id(value) not in moving:
            found.setdefault(id(value), name)
        elif isinstance(value, nn.Module) and value not in parts:
            walk(name, attributes(value) | value._parameters | value._buffers | value._modules)
        elif isinstance(value, (list, tuple)):
            walk(name, dict(enumerate(value)))
        elif isinstance(value, dict):
            for key, item in value.items():
                walk(f"{name}.{key}" if name else str(key), item)

    def attributes(part):
        return {key: value for key, value in vars(part).items() if key not in OWN}

    for path, part in module.named_modules():
        walk(path, attributes(part))
    return list(found.values())


def followed(value, path):
    """Return what a dotted path leads to."""
    for key in path.split("."):
        if isinstance(value, nn.Module):
            value = getattr(value, key)
        elif isinstance(value, dict):
            value = next(item for name, item in value.items() if str(name) == key)
        else:
            value = value[int(key)]
    return value


@right
def with_the_tool_of_lesson_05(model, batch):
    home = next(model.parameters()).device
    found = [*model.named_parameters(), *model.named_buffers()]
    found += [(name, followed(model, name)) for name in left_behind(model)]
    found = [(f"model.{name}", tensor) for name, tensor in found]
    seen = {id(tensor) for _, tensor in found}
    found += pairs(batch, "batch", seen)
    return [name for name, tensor in found if tensor.device != home]


@wrong("`model.encoder.1.center` is missing", row="attributes, lists and dicts elsewhere")
def attributes_of_children_alone(model, batch):
    home = next(model.parameters()).device
    found = [*model.named_parameters(prefix="model"), *model.named_buffers(prefix="model")]
    seen = {id(tensor) for _, tensor in found}
    parts = [("model", model), *((f"model.{name}", part) for name, part in model.named_children())]
    for path, part in parts:
        for key, value in vars(part).items():
            if key not in OWN:
                found += pairs(value, f"{path}.{key}", seen)
    found += pairs(batch, "batch", seen)
    return [name for name, tensor in found if tensor.device != home]


@wrong(
    "`model.scales.0` is missing: it is in a list in the model, a parameter",
    row="attributes, lists and dicts elsewhere",
)
def takes_parameters_for_registered(model, batch):
    home = next(model.parameters()).device
    found = [*model.named_parameters(prefix="model")]
    seen = {id(tensor) for _, tensor in found}
    found += [one for one in pairs(model, "model", seen) if not isinstance(one[1], nn.Parameter)]
    found += [(name, one) for name, one in pairs(model.__dict__, "model", set()) if "blocks" in name]
    found += pairs(batch, "batch", seen)
    return list({name: None for name, tensor in found if tensor.device != home})


@wrong(
    "`batch.state` is missing: it is in the batch, no parameter, a result in a graph",
    row="the batch, however deep",
)
def leaves_alone(model, batch):
    home = next(model.parameters()).device
    return [name for name, one in everything(model, batch) if one.is_leaf and one.device != home]


@wrong("`model.steps` is missing: it is an attribute of the model", row="parameters and buffers elsewhere")
def the_first_in_the_state_dict_decides(model, batch):
    home = next(iter(model.state_dict().values())).device
    return [name for name, tensor in everything(model, batch) if tensor.device != home]


@wrong("one tensor is listed twice", row="what is in place is not named; each once")
def every_name_of_a_parameter(model, batch):
    home = next(model.parameters()).device
    found = [*model.named_parameters(prefix="model", remove_duplicate=False)]
    seen = {id(tensor) for _, tensor in found}
    found += [*pairs(model, "model", seen), *pairs(batch, "batch", seen)]
    return [name for name, tensor in found if tensor.device != home]
