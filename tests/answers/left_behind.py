"""Answers to left_behind."""

import torch
from bank import right, wrong
from torch import nn

OWN = ("_parameters", "_buffers", "_modules")


@right
def walks_by_itself(module):
    seen = {id(tensor) for tensor in module.parameters()}
    registered = set(module.modules())
    names = []

    def walk(name, value):
        if isinstance(value, torch.Tensor):
            if id(value) not in seen:
                seen.add(id(value))
                names.append(name)
        elif isinstance(value, nn.Module) and value not in registered:
            for path, tensor in [*value.named_parameters(), *value.named_buffers()]:
                walk(f"{name}.{path}", tensor)
            attributes(value, f"{name}.")
        elif isinstance(value, dict):
            for key, item in value.items():
                walk(f"{name}.{key}", item)
        elif isinstance(value, list | tuple):
            for place, item in enumerate(value):
                walk(f"{name}.{place}", item)

    def attributes(parent, prefix):
        for path, part in parent.named_modules():
            for name, value in vars(part).items():
                if name not in OWN:
                    walk(f"{prefix}{path}.{name}" if path else prefix + name, value)

    attributes(module, "")
    return names


@right
def as_a_generator_inside(module):
    moving = {id(t) for t in module.parameters()}
    registered = set(module.modules())

    def tensors(value, path):
        if isinstance(value, torch.Tensor):
            yield path, value
        elif isinstance(value, nn.Module):
            for table in OWN:
                if table != "_buffers" or value not in registered:
                    yield from tensors(vars(value)[table], path)
            rest = {key: item for key, item in vars(value).items() if key not in OWN}
            yield from tensors(rest, path)
        elif isinstance(value, dict):
            for key, item in value.items():
                yield from tensors(item, (*path, str(key)))
        elif isinstance(value, (list, tuple)):
            yield from tensors(dict(enumerate(value)), path)

    found = {}
    for path, tensor in tensors(module, ()):
        if id(tensor) not in moving:
            found.setdefault(id(tensor), ".".join(path))
    return sorted(found.values())


@right
def with_a_stack(module):
    moves, parts = [*module.parameters()], {*module.modules()}
    todo, found = [("", module)], []
    while todo:
        name, value = todo.pop()
        dot = name + "." if name else ""
        if torch.is_tensor(value):
            if not any(value is other for other in [*moves, *(tensor for _, tensor in found)]):
                found.append((name, value))
        elif isinstance(value, nn.Module):
            inside = value.__dict__.copy()
            for own in OWN:
                table = inside.pop(own)
                inside.update({} if own == "_buffers" and value in parts else table)
            todo += [(dot + key, item) for key, item in inside.items()]
        elif isinstance(value, dict):
            todo += [(f"{dot}{key}", item) for key, item in value.items()]
        elif isinstance(value, (tuple, list)):
            todo += [(f"{dot}{place}", item) for place, item in enumerate(value)]
    return [name for name, _ in found]


class Finder:
    def __init__(self, module):
        self.skip = set(map(id, module.parameters()))
        self.registered = set(map(id, module.modules()))
        self.names = {}
        self.visit(module, [])

    def visit(self, value, path):
        if id(value) in self.skip:
            return
        if isinstance(value, torch.Tensor):
            self.skip.add(id(value))
            self.names[".".join(path)] = value
        for key, item in self.children(value):
            self.visit(item, [*path, str(key)])

    def children(self, value):
        if isinstance(value, nn.Module):
            for key, item in vars(value).items():
                if key != "_buffers" or id(value) not in self.registered:
                    yield from item.items() if key in OWN else [(key, item)]
        elif isinstance(value, dict):
            yield from value.items()
        elif isinstance(value, list | tuple):
            yield from enumerate(value)


@right
def with_a_class(module):
    return list(Finder(module).names)


def walk(name, value, tensors=True, lists=True, dicts=True, tuples=True, modules=True, parts=()):
    """Return what is in a plain attribute; wrong answers leave one kind out."""
    if isinstance(value, torch.Tensor):
        return [(name, value)] if tensors else []
    kinds = {"lists": lists, "dicts": dicts, "tuples": tuples, "modules": modules, "parts": parts}
    if isinstance(value, dict) and dicts:
        items = value.items()
    elif (isinstance(value, list) and lists) or (isinstance(value, tuple) and tuples):
        items = enumerate(value)
    elif isinstance(value, nn.Module) and modules and value not in parts:
        items = [*value.named_parameters(), *value.named_buffers()]
        items += [
            (f"{path}.{key}" if path else key, item)
            for path, part in value.named_modules()
            for key, item in vars(part).items()
            if key not in OWN
        ]
    else:
        return []
    return [found for key, item in items for found in walk(f"{name}.{key}", item, **kinds)]


def plain(module, once=True, buffers=True, **kinds):
    seen = {id(tensor) for tensor in module.parameters()}
    if not buffers:
        seen |= {id(tensor) for tensor in module.buffers()}
    names = []
    for path, part in module.named_modules():
        for key, value in vars(part).items():
            if key in OWN:
                continue
            place = f"{path}.{key}" if path else key
            for name, tensor in walk(place, value, parts=set(module.modules()), **kinds):
                if id(tensor) not in seen:
                    names.append(name)
                if once:
                    seen.add(id(tensor))
    return names


@right
def from_the_shared_walk(module):
    return plain(module)


@right
def in_reverse(module):
    return plain(module)[::-1]


@wrong(
    "`tables.0` is missing: it is in a list in the module, once a buffer's",
    row="a tensor with two names, once",
)
def not_what_a_buffer_was(module):
    return plain(module, buffers=False)


@wrong(
    "`scale` is missing: it is an attribute of the module, not registered",
    row="plain tensor attributes, by name",
)
def always_empty(module):
    return []


@wrong(
    "`pair.0` is missing: it is in a tuple in the module, not registered",
    row="lists, tuples and dicts, nested",
)
def without_tuples(module):
    return plain(module, tuples=False)


@wrong(
    "`tables.0` is missing: it is in a list in the module, not registered",
    row="lists, tuples and dicts, nested",
)
def without_lists(module):
    return plain(module, lists=False)


@wrong(
    "`cache.key` is missing: it is in a dict in the module, not registered",
    row="lists, tuples and dicts, nested",
)
def without_dicts(module):
    return plain(module, dicts=False)


@wrong(
    "`tables.0` is missing: it is in a list in the module, not registered",
    row="lists, tuples and dicts, nested",
)
def attributes_only(module):
    return plain(module, lists=False, dicts=False, tuples=False)


@wrong(
    "`blocks.0.weight` is missing: it is an attribute of a Linear in a list in the module",
    row="modules inside, registered or in a list",
)
def without_modules_in_lists(module):
    return plain(module, modules=False)


@wrong("one tensor is listed twice", row="a tensor with two names, once")
def each_name(module):
    return plain(module, once=False)


@wrong(
    "`encoder.1.positions` is missing: it is an attribute of the module's registered `encoder.1`",
    row="modules inside, registered or in a list",
)
def top_level_only(module):
    seen = {id(tensor) for tensor in [*module.parameters(), *module.buffers()]}
    names = {}
    for key, value in vars(module).items():
        for name, tensor in walk(key, value) if key not in OWN else []:
            if id(tensor) not in seen:
                names.setdefault(id(tensor), name)
    return list(names.values())


@wrong("`trained.weight` is listed, and it is registered", row="plain tensor attributes, by name")
def parameters_too(module):
    return [*plain(module), *(name for name, _ in module.named_parameters())]


@wrong("`norm.mean` is listed, and it is registered", row="what `.to` moves is not listed")
def buffers_too(module):
    return [*plain(module), *(name for name, _ in module.named_buffers())]


@wrong("`norm.steps` is listed, and it is registered", row="what `.to` moves is not listed")
def what_is_not_saved(module):
    saved = module.state_dict()
    return [*plain(module), *(name for name, _ in module.named_buffers() if name not in saved)]


@wrong("it is a registered parameter under another name", row="what `.to` moves is not listed")
def registered_ones_in_a_list(module):
    names = {}
    for path, part in module.named_modules():
        for key, value in vars(part).items():
            for name, tensor in walk(f"{path}.{key}" if path else key, value) if key not in OWN else []:
                names.setdefault(id(tensor), name)
    return list(names.values())


@wrong(
    "`_cache` is missing: it is an attribute of the module, private or not, not registered",
    row="plain tensor attributes, by name",
)
def public_names_only(module):
    return [name for name in plain(module) if not name.startswith("_")]


@wrong(
    "`scale` is missing: it is an attribute of the module, not registered",
    row="plain tensor attributes, by name",
)
def by_comparing_devices(module):
    home = next((tensor.device for tensor in module.parameters()), torch.device("cpu"))
    held = {name: value for name, value in vars(module).items() if isinstance(value, torch.Tensor)}
    return [name for name, tensor in held.items() if tensor.device != home]


@wrong(
    "of the module was changed: left_behind is to look at the module alone",
    row="plain tensor attributes, by name",
)
def by_moving_to_meta(module):
    names = plain(module)
    module.to("meta")
    return names


@wrong(
    "`tables.0` is named `0`: it is in a list in the module, not registered",
    row="lists, tuples and dicts, nested",
)
def last_names(module):
    return [name.rpartition(".")[2] for name in plain(module)]


@wrong("is missing", row="lists, tuples and dicts, nested")
def indexed_names(module):
    return [name.replace(".0", "[0]").replace(".2", "[2]") for name in plain(module)]


@wrong("the answer is a set, not a list", row="plain tensor attributes, by name")
def as_a_set(module):
    return set(plain(module))


@wrong("an item of the list is a Tensor, not a str", row="plain tensor attributes, by name")
def the_tensors(module):
    return [value for value in vars(module).values() if isinstance(value, torch.Tensor)]


@wrong("is None: is a `return` missing?", row="plain tensor attributes, by name")
def prints(module):
    print(*plain(module))


@wrong(
    "`cache.key` is missing: it is in a dict in the module, not registered",
    row="lists, tuples and dicts, nested",
)
def once_by_content(module):
    seen, names = [], []
    for path, part in module.named_modules():
        for key, value in vars(part).items():
            for name, tensor in walk(f"{path}.{key}" if path else key, value) if key not in OWN else []:
                if name in plain(module) and not any(
                    torch.equal(tensor.cpu(), other.cpu()) for other in seen
                ):
                    seen.append(tensor)
                    names.append(name)
    return names


@wrong("`_forward_hooks` is listed, and the module holds no tensor", row="plain tensor attributes, by name")
def whatever_else_it_holds(module):
    return [*plain(module), "_forward_hooks"]


def held(module, path):
    value = module
    for key in path.split("."):
        if isinstance(value, nn.Module):
            value = getattr(value, key)
        else:
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            value = {str(place): item for place, item in pairs}[key]
    return value


@wrong(
    "`weights.0` is missing: it is in a list in the module, a parameter, not registered",
    row="lists, tuples and dicts, nested",
)
def no_parameters_in_containers(module):
    by_modules = ("weight", "bias")
    return [
        name
        for name in plain(module)
        if name.endswith(by_modules) or not isinstance(held(module, name), nn.Parameter)
    ]


@wrong(
    "`ramp` is missing: it is an attribute of the module, no parameter, not registered",
    row="plain tensor attributes, by name",
)
def what_asks_no_gradient(module):
    return [name for name in plain(module) if not held(module, name).requires_grad]


@wrong(
    "`step` is missing: it is an attribute of the module, a single number, not registered",
    row="plain tensor attributes, by name",
)
def arrays_only(module):
    return [name for name in plain(module) if held(module, name).dim()]


@wrong("is missing", row="a tensor with two names, once")
def by_address(module):
    moved = {tensor.data_ptr() for tensor in [*module.parameters(), *module.buffers()]}
    names, done = [], set()

    def walk(value, name):
        if isinstance(value, torch.Tensor):
            if value.data_ptr() not in moved:
                moved.add(value.data_ptr())
                names.append(name[1:])
        elif isinstance(value, nn.Module):
            if id(value) not in done:
                done.add(id(value))
                for key, item in vars(value).items():
                    if key in ("_parameters", "_buffers", "_modules"):
                        for inner, one in item.items():
                            walk(one, f"{name}.{inner}")
                    else:
                        walk(item, f"{name}.{key}")
        elif isinstance(value, dict):
            for key, item in value.items():
                walk(item, f"{name}.{key}")
        elif isinstance(value, list | tuple):
            for key, item in enumerate(value):
                walk(item, f"{name}.{key}")

    walk(module, "")
    return names


@wrong(
    "`state.low` is missing: it is in an OrderedDict in the module, not registered",
    row="lists, tuples and dicts, nested",
)
def of_exact_types(module):
    seen, names = {id(tensor) for tensor in [*module.parameters(), *module.buffers()]}, []

    def look(name, value):
        if isinstance(value, torch.Tensor):
            if id(value) not in seen:
                seen.add(id(value))
                names.append(name)
        elif isinstance(value, nn.Module):
            for key, item in vars(value).items():
                look(name if key in OWN else f"{name}.{key}", item)
        elif type(value) is dict:
            for key, item in value.items():
                look(f"{name}.{key}" if name else key, item)
        elif type(value) in (list, tuple):
            for place, item in enumerate(value):
                look(f"{name}.{place}", item)

    look("", {key: value for key, value in vars(module).items() if key not in OWN})
    for table in OWN:
        look("", dict(vars(module)[table]))
    return names


@wrong(
    "of the module was changed: left_behind is to look at the module alone",
    row="plain tensor attributes, by name",
)
def moved_where_they_stand(module):
    names = plain(module)
    for name in names:
        tensor = held(module, name)
        tensor.data = tensor.data + 1
    return names


@wrong(
    "of the module was changed: left_behind is to look at the module alone",
    row="plain tensor attributes, by name",
)
def leaves_it_in_evaluation_mode(module):
    return plain(module.eval())


@wrong(
    "of the module was changed: left_behind is to look at the module alone",
    row="lists, tuples and dicts, nested",
)
def puts_lists_in_the_place_of_tuples(module):
    names = plain(module)
    for key, value in vars(module).items():
        if isinstance(value, tuple):
            setattr(module, key, list(value))
    return names


@right
def part_by_part(module):
    params = {id(p) for p in module.parameters()}
    mods = {id(m) for m in module.modules()}
    out, seen = ([], set())

    def visit(v, name):
        if torch.is_tensor(v):
            if id(v) not in params and id(v) not in seen:
                seen.add(id(v))
                out.append(name)
        elif isinstance(v, nn.Module):
            if id(v) in mods:
                return
            for k, t in list(v._parameters.items()) + list(v._buffers.items()) + list(v._modules.items()):
                visit(t, f"{name}.{k}")
            for k, t in vars(v).items():
                if k not in OWN:
                    visit(t, f"{name}.{k}")
        elif isinstance(v, dict):
            for k, t in v.items():
                visit(t, f"{name}.{k}")
        elif isinstance(v, (list, tuple)):
            for k, t in enumerate(v):
                visit(t, f"{name}.{k}")

    for p, m in module.named_modules():
        for k, v in m.__dict__.items():
            if k not in OWN:
                visit(v, f"{p}.{k}" if p else k)
    return out


@right
def by_a_queue(module):
    moving = {id(p) for p in module.parameters()}
    registered = list(module.modules())
    names = {}
    stack = []
    for path, part in module.named_modules():
        stack += [((path + "." if path else "") + k, v) for k, v in part.__dict__.items() if k not in OWN]
    while stack:
        name, v = stack.pop(0)
        if isinstance(v, torch.Tensor):
            if id(v) not in moving:
                names.setdefault(id(v), name)
        elif isinstance(v, nn.Module) and (not any(v is r for r in registered)):
            d = dict(v.__dict__)
            for k in OWN:
                d.update(d.pop(k))
            stack += [(f"{name}.{k}", x) for k, x in d.items()]
        elif isinstance(v, dict):
            stack += [(f"{name}.{k}", x) for k, x in v.items()]
        elif isinstance(v, (list, tuple)):
            stack += [(f"{name}.{i}", x) for i, x in enumerate(v)]
    return list(names.values())


@wrong("`own` is listed, and it is registered: `.to` moves it", row="what `.to` moves is not listed")
def w3(module):
    return [n for n in dir(module) if isinstance(getattr(module, n), torch.Tensor)]


@wrong(
    "`scale` is named `.scale`: it is an attribute of the module, not registered",
    row="plain tensor attributes, by name",
)
def with_a_dot_in_front(module):
    out = []
    for p, m in module.named_modules():
        for k, v in vars(m).items():
            if isinstance(v, torch.Tensor):
                out.append(f"{p}.{k}")
            if isinstance(v, (list, tuple)):
                out += [f"{p}.{k}.{i}" for i, t in enumerate(v) if isinstance(t, torch.Tensor)]
    return out


def loose(module, leave):
    """Return what `.to` leaves behind, but for what `leave` says of a name and a value."""
    parts, seen = set(module.modules()), {id(parameter) for parameter in module.parameters()}

    def walk(path, value):
        if leave(path, value):
            return
        if isinstance(value, torch.Tensor) and id(value) not in seen:
            seen.add(id(value))
            yield ".".join(path)
        elif isinstance(value, nn.Module) and value not in parts:
            yield from walk(path, {key: item for key, item in vars(value).items() if key not in OWN})
            for table in OWN:
                yield from walk(path, vars(value)[table])
        elif isinstance(value, list | tuple):
            yield from walk(path, dict(enumerate(value)))
        elif isinstance(value, dict):
            for key, item in value.items():
                yield from walk([*path, str(key)], item)

    for path, part in module.named_modules():
        own = {key: item for key, item in vars(part).items() if key not in OWN}
        yield from walk(path.split(".") if path else [], own)


@right
def by_paths_in_lists(module):
    return list(loose(module, lambda path, value: False))


@wrong(
    "`_kept.0` is missing: it is in a list in the module, private or not, not registered",
    row="lists, tuples and dicts, nested",
)
def not_in_private_containers(module):
    def leave(path, value):
        return bool(path) and path[-1].startswith("_") and not isinstance(value, torch.Tensor)

    return list(loose(module, leave))


@wrong(
    "`encoder.1._window` is missing: it is an attribute of the module's registered `encoder.1`",
    row="modules inside, registered or in a list",
)
def private_names_of_the_module_alone(module):
    registered = module._modules
    return list(
        loose(module, lambda path, value: bool(path) and path[0] in registered and path[-1].startswith("_"))
    )


@wrong(
    "`encoder.1.branches.deep.0.weight` is missing: it is an attribute of a Linear in a list in a d",
    row="modules inside, registered or in a list",
)
def lists_of_the_module_alone(module):
    return list(
        loose(module, lambda path, value: isinstance(value, nn.Module) and path[0] not in vars(module))
    )


@wrong(
    "`scale` is missing: it is an attribute of the module, not registered",
    row="plain tensor attributes, by name",
)
def what_is_elsewhere_now(module):
    here = next(module.parameters(), torch.ones(1)).device

    def leave(path, value):
        return isinstance(value, torch.Tensor) and value.device == here and here.type != "cpu"

    return list(loose(module, leave))


@wrong("it is a registered parameter under another name", row="what `.to` moves is not listed")
def frozen_ones_too(module):
    names = list(loose(module, lambda path, value: False))
    frozen = {id(one) for one in module.parameters() if not one.requires_grad}
    for name, value in vars(module).items():
        if isinstance(value, dict) and name not in OWN:
            names += [f"{name}.{key}" for key, item in value.items() if id(item) in frozen]
    return names


@wrong("it is a registered buffer under another name", row="what `.to` moves is not listed")
def buffers_of_registered_modules_in_lists(module):
    names = list(loose(module, lambda path, value: False))
    for name, value in vars(module).items():
        if isinstance(value, list) and name not in OWN:
            parts = [(place, one) for place, one in enumerate(value) if one in set(module.modules())]
            names += [f"{name}.{place}.{key}" for place, one in parts for key, _ in one.named_buffers()]
    return names


@wrong(
    "`_modules.encoder.1.positions` is one more name of a tensor that is in the list already",
    row="modules inside, registered or in a list",
)
def by_way_of_the_dict_of_modules_as_well(module):
    names = list(loose(module, lambda path, value: False))
    return names + [f"_modules.{name}" for name in names if name.partition(".")[0] in module._modules]
