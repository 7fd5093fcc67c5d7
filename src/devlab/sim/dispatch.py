"""How an operator runs on a simulated device: on the CPU, in the same memory, under the CPU's name.

A kernel is built for an operator the first time it is called, from its schema alone. It finds the operands,
has `rules` decide where they meet, lets the CPU compute, and labels what is new as the device's.
"""

import torch

from devlab.sim import events, generators, placement, private, rules
from devlab.sim.storage import on_device, on_host, resize

_CPU = torch.device("cpu")
# A Python number met as an operand stays one.
_NOT_TENSORS = {type(None), bool, int, float, complex}
_WAITING = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


def overload(name: str) -> torch._ops.OpOverload:
    """Return the operator of that full name, such as `aten::add.Tensor`."""
    namespace, _, rest = name.partition("::")
    packet, _, suffix = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), suffix or "default")


def kernel(name: str):
    """Return a kernel for the operator of that full name, built when it is first called."""
    run = None

    def first_build(*args, **kwargs):
        nonlocal run
        if run is None:
            run = _build(name)
        return run(*args, **kwargs)

    return first_build


def _kind(argument) -> str:
    """Return "tensor", "list" (of tensors), or "" for what holds no tensor."""
    text = str(argument.type)
    if "Tensor" not in text:
        return ""
    return "list" if "List" in text else "tensor"


def _build(name: str):
    op = overload(name)
    arguments = op._schema.arguments
    if any(argument.is_out for argument in arguments):
        return _build_out(name, op)
    run = _build_plain(name, op)
    if not any(argument.name == "generator" for argument in arguments):
        return _drawing(run, op) if torch.Tag.nondeterministic_seeded in op.tags else run
    return run


def _drawing(run, op):
    """An operator that draws random numbers and takes no generator: lend it the device's state."""

    def draw(*args, **kwargs):
        with generators.drawing_from(_where(args, kwargs)):
            return run(*args, **kwargs)

    return draw


def _where(args, kwargs) -> int:
    """Return the index of the first simulated device among some arguments."""
    for value in (kwargs.get("device"), *args, *kwargs.values()):
        for item in value if isinstance(value, (list, tuple)) else (value,):
            device = item.device if isinstance(item, torch.Tensor) else item
            if isinstance(device, torch.device) and device.type == placement.NAME:
                return placement.index_of(device)
    return placement.current()


def _build_plain(name: str, op):
    schema = op._schema
    call = op._op
    arguments = schema.arguments
    places = tuple((i, _kind(a)) for i, a in enumerate(arguments) if _kind(a) and not a.kwarg_only)
    named = tuple((a.name, _kind(a)) for a in arguments if _kind(a) and a.kwarg_only)
    takes_device = any(a.name == "device" for a in arguments)
    generator_place = next((i for i, a in enumerate(arguments) if a.name == "generator"), None)
    returned = tuple(_returned_argument(schema, r) for r in schema.returns)
    single = len(returned) == 1
    same = returned[0] if single else None
    waits = bool(_WAITING & set(op.tags))
    observers = events.observers

    def run(*args, **kwargs):
        host = list(args)
        index = -2
        mixed = False
        for place, kind in places:
            if place >= len(host):
                break
            value = host[place]
            if type(value) in _NOT_TENSORS:
                continue
            if kind == "tensor":
                own = value.get_device()
                if own >= 0:
                    host[place] = on_host(value)
                if own != index:
                    mixed = mixed or index != -2
                    index = own
            else:
                host[place], index, mixed = _unlabel_list(value, index, mixed)
        if kwargs:
            kwargs = dict(kwargs)
            original = dict(kwargs) if named else kwargs
            for key, kind in named:
                value = kwargs.get(key)
                if type(value) in _NOT_TENSORS:
                    continue
                values = value if kind == "list" else [value]
                values, index, mixed = _unlabel_list(values, index, mixed)
                kwargs[key] = values if kind == "list" else values[0]
        else:
            original = kwargs
        if mixed:
            index = rules.settle(name, schema, args, original)
            if index is rules.COMPOSITE:
                return op._op_dk(private.COMPOSITE_KEY, *args, **original)
        if takes_device:
            device = kwargs.get("device")
            if device is not None:
                kwargs["device"] = _CPU
                index = placement.index_of(device) if device.type == placement.NAME else -1
            kwargs.pop("pin_memory", None)
        if generator_place is not None and index >= 0:
            if generator_place < len(host):
                host[generator_place] = generators.of(host[generator_place], index)
            else:
                kwargs = kwargs | {"generator": generators.of(kwargs.get("generator"), index)}
        out = call(*host, **kwargs)
        if observers and index >= 0:
            events.tell(events.Launch(index, name))
            if waits:
                events.tell(events.Synchronization(index, name))
        if single:
            if same is not None:
                return args[same]
            return _label(out, index)
        return (
            tuple(
                _label(item, index) if place is None else args[place]
                for item, place in zip(out or (), returned, strict=False)
            )
            or None
        )

    return run


def _returned_argument(schema, result) -> int | None:
    """Return the position of the argument that a result is, or None for a result that is new."""
    if result.alias_info is None:
        return None
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info and argument.alias_info.before_set == result.alias_info.before_set:
            return position
    return None


def _unlabel_list(values, index: int, mixed: bool):
    """Return the CPU's names of some tensors, with the device met last and whether devices differ."""
    host = []
    for value in values:
        if type(value) not in _NOT_TENSORS:
            own = value.get_device()
            if own != index:
                mixed = mixed or index != -2
                index = own
            if own >= 0:
                value = on_host(value)
        host.append(value)
    return host, index, mixed


def _label(out, index: int):
    """Label what an operator returned as belonging to `sim:index`, and leave what is no tensor."""
    if index < 0:
        return out
    if isinstance(out, torch.Tensor):
        return on_device(out, index)
    if isinstance(out, (list, tuple)):
        return [_label(item, index) for item in out]
    return out


def _build_out(name: str, op):
    """An operator that writes into `out=`: compute aside, then copy in, resizing where PyTorch would."""
    schema = op._schema
    outputs = tuple(argument.name for argument in schema.arguments if argument.is_out)

    def run(*args, **kwargs):
        index = _meet(name, schema, args, kwargs)
        if index is rules.COMPOSITE:
            return op._op_dk(private.COMPOSITE_KEY, *args, **kwargs)
        host = [_unlabel(value) for value in args]
        named = {key: _unlabel(value) for key, value in kwargs.items() if key not in outputs}
        aside = {key: _like_on_host(kwargs[key]) for key in outputs}
        op._op(*host, **named, **aside)
        for key in outputs:
            _fill(kwargs[key], aside[key])
        if events.observers:
            events.tell(events.Launch(index, name))
        return kwargs[outputs[0]] if len(outputs) == 1 else tuple(kwargs[key] for key in outputs)

    return run


def _meet(name, schema, args, kwargs):
    """Return the index of the device that all operands are on, or what `rules` make of several."""
    devices = set()
    for value in (*args, *kwargs.values()):
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor):
                devices.add(item.device)
    return devices.pop().index if len(devices) == 1 else rules.settle(name, schema, args, kwargs)


def _unlabel(value):
    """Return the CPU's name for a tensor or a list of them, and anything else as it is."""
    if isinstance(value, torch.Tensor):
        return on_host(value) if value.get_device() >= 0 else value
    if isinstance(value, (list, tuple)):
        return [_unlabel(item) for item in value]
    return _CPU if isinstance(value, torch.device) else value


def _like_on_host(target):
    """Return CPU tensors of the form of `target`, whose storage may grow."""
    if isinstance(target, (list, tuple)):
        return [_like_on_host(item) for item in target]
    return torch.empty_strided(target.size(), target.stride(), dtype=target.dtype)


def _fill(target, value) -> None:
    """Give `target` on the device the shape and the elements of `value`."""
    if isinstance(target, (list, tuple)):
        for item, part in zip(target, value, strict=True):
            _fill(item, part)
    else:
        if target.shape != value.shape:
            resize(target, value.size(), value.stride())
        on_host(target).copy_(value)
