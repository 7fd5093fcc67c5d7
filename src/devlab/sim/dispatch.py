"""How an operator runs on a simulated device: on the CPU, in the same memory, under the CPU's name.

A kernel is built for an operator the first time it is called, from its schema alone. It finds the operands,
has `rules` decide where they meet, lets the CPU compute, labels what is new as the device's, and charges the
clock. Most calls are of one or two tensors on one device: those have a path of their own, which does no more
than they need.
"""

import torch

from devlab.sim import clock, events, generators, memory, placement, private, rules, work
from devlab.sim.storage import on_device, on_host, resize

_CPU = torch.device("cpu")
_COMPOSITE = rules.COMPOSITE
# A Python number met as an operand stays one.
_NOT_TENSORS = {type(None), bool, int, float, complex}
# A result of fewer elements than this always fits the host's memory; a larger one is checked beforehand.
_MAY_NOT_FIT = 1 << 28
_WAITING = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


# Building a kernel takes some time, and finding one built on its first call a little more on every call.
_USUAL = {
    "aten::abs",
    "aten::add.Tensor",
    "aten::add_.Tensor",
    "aten::addmm",
    "aten::bmm",
    "aten::cat",
    "aten::clone",
    "aten::div.Tensor",
    "aten::exp",
    "aten::fill_.Scalar",
    "aten::gelu",
    "aten::mm",
    "aten::mul.Tensor",
    "aten::mul_.Tensor",
    "aten::neg",
    "aten::relu",
    "aten::sigmoid",
    "aten::sub.Tensor",
    "aten::sum",
    "aten::sum.dim_IntList",
    "aten::tanh",
    "aten::threshold_backward",
    "aten::zero_",
}


def overload(name: str) -> torch._ops.OpOverload:
    """Return the operator of that full name, such as `aten::add.Tensor`."""
    namespace, _, rest = name.partition("::")
    packet, _, suffix = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), suffix or "default")


def kernel(name: str):
    """Return a kernel for the operator of that full name, built at once or when it is first called."""
    if name in _USUAL:
        return _build(name)
    run = None

    def built_on_first_call(*args, **kwargs):
        nonlocal run
        if run is None:
            run = _build(name)
        return run(*args, **kwargs)

    return built_on_first_call


class _Operator:
    """What a kernel needs to know of its operator, read from the schema once."""

    def __init__(self, name: str):
        op = overload(name)
        arguments = op._schema.arguments
        self.name = name
        self.op = op
        self.schema = op._schema
        self.call = op._op
        self.formula = work.formula(op._schema.name)
        self.broadcasts = torch.Tag.pointwise in op.tags or name == "aten::clone"
        self.waits = bool(_WAITING & set(op.tags))
        self.outputs = tuple(a.name for a in arguments if a.is_out)
        self.takes_device = any(a.name == "device" for a in arguments)
        self.generator = next((i for i, a in enumerate(arguments) if a.name == "generator"), None)
        self.draws = torch.Tag.nondeterministic_seeded in op.tags and self.generator is None
        self.returned = tuple(_returned_argument(op._schema, result) for result in op._schema.returns)
        tensors = [a for a in arguments if "Tensor" in str(a.type)]
        self.tensors = [i for i, a in enumerate(arguments) if "Tensor" in str(a.type) and not a.kwarg_only]
        self.keywords = {a.name for a in tensors}
        self.lists = any("List[" in str(a.type) and "Tensor" in str(a.type) for a in arguments)

    @property
    def plain(self) -> bool:
        """Whether only the first one or two arguments can be tensors, and one tensor comes back."""
        special = self.outputs or self.takes_device or self.draws or self.lists or self.waits
        return (
            not special
            and self.generator is None
            and len(self.keywords) == len(self.tensors)
            and len(self.returned) == 1
            and str(self.schema.returns[0].type) == "Tensor"
            and (self.tensors == [0] or (self.tensors == [0, 1] and (self.broadcasts or self.formula)))
        )


def _returned_argument(schema, result) -> int | None:
    """Return the position of the argument that a result is, or None for a result that is new."""
    if result.alias_info is None:
        return None
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info and argument.alias_info.before_set == result.alias_info.before_set:
            return position
    return None


def _build(name: str):
    operator = _Operator(name)
    if operator.outputs:
        return _writing_out(operator)
    general = _general(operator)
    if operator.draws:
        return _drawing(general)
    if not operator.plain:
        return general
    return (_of_one if operator.tensors == [0] else _of_two)(operator, general)


def _of_one(operator: _Operator, general):
    """An operator of one tensor."""
    call, formula, in_place = operator.call, operator.formula, operator.returned[0] is not None
    observers, launch, name = events.observers, clock.launch, operator.name

    def run(x, *rest, **kwargs):
        index = x.get_device()
        if index < 0 or formula:
            return general(x, *rest, **kwargs)
        host = on_host(x)
        if host.numel() > _MAY_NOT_FIT and operator.broadcasts:
            memory.check(index, work.broadcast_bytes((host,)))
        out = call(host, *rest, **kwargs)
        end = launch(index, host.nbytes + out.nbytes)
        if observers:
            events.tell(events.Launch(index, name, end))
        return x if in_place else on_device(out, index)

    return run


def _of_two(operator: _Operator, general):
    """An operator of two tensors, or of a tensor and a number."""
    call, formula, in_place = operator.call, operator.formula, operator.returned[0] is not None
    observers, launch, name = events.observers, clock.launch, operator.name

    def run(x, y, *rest, **kwargs):
        if type(x) in _NOT_TENSORS:
            return general(x, y, *rest, **kwargs)
        index = x.get_device()
        if type(y) in _NOT_TENSORS:
            host = on_host(x)
            out = call(host, y, *rest, **kwargs)
            moved = host.nbytes + out.nbytes
        elif y.get_device() == index:
            host, other = on_host(x), on_host(y)
            if host.numel() * other.numel() > _MAY_NOT_FIT:
                memory.check(index, work.broadcast_bytes((host, other)))
            out = call(host, other, *rest, **kwargs)
            moved = host.nbytes + other.nbytes + out.nbytes
        else:
            return general(x, y, *rest, **kwargs)
        operations = clock.in_float32(index, formula((host, other), out), out.dtype) if formula else 0.0
        end = launch(index, moved, operations)
        if observers:
            events.tell(events.Launch(index, name, end))
        return x if in_place else on_device(out, index)

    return run


def _general(operator: _Operator):
    """Any operator but those that write into `out=`."""
    op, call, returned, places = operator.op, operator.call, operator.returned, operator.tensors
    takes_device, generator, broadcasts = operator.takes_device, operator.generator, operator.broadcasts
    only = returned[0] if len(returned) == 1 else None

    def run(*args, **kwargs):
        host = list(args)
        index, mixed, moved = None, False, 0
        for place in places:
            if place >= len(args):
                break
            value = args[place]
            if type(value) in _NOT_TENSORS:
                continue
            if type(value) is list:
                host[place], index, size, mixed = _unlabel_list(value, index, mixed)
            else:
                own = value.get_device()
                if own != index:
                    mixed = mixed or index is not None
                    index = own
                if own >= 0:
                    host[place] = value = on_host(value)
                size = value.nbytes
            moved += size
        if mixed or (kwargs and not operator.keywords.isdisjoint(kwargs)):
            index = _meet(operator, args, kwargs)
            if index is _COMPOSITE:
                return op._op_dk(private.COMPOSITE_KEY, *args, **kwargs)
        named = {key: _unlabel(value) for key, value in kwargs.items()} if kwargs else kwargs
        if index is None:
            index = placement.current()
        home = _destination(kwargs, index) if takes_device else index
        if index >= 0:
            if generator is not None:
                named = _lend_generator(generator, host, named, index)
            if broadcasts and work.pairs(host) > _MAY_NOT_FIT:
                memory.check(index, work.broadcast_bytes(host))
        out = call(*host, **named)
        if index >= 0:
            _charge(operator, index, moved, host, out)
        if only is not None:
            return args[only]
        if len(returned) == 1:
            return _label(out, home)
        if not returned:
            return None
        return tuple(
            _label(item, home) if place is None else args[place]
            for item, place in zip(out, returned, strict=True)
        )

    return run


def _unlabel_list(values, index, mixed):
    """Return the CPU's names of some tensors, the device met last, their bytes, whether devices differ."""
    host, moved = [], 0
    for value in values:
        if type(value) not in _NOT_TENSORS:
            own = value.get_device()
            if own != index:
                mixed = mixed or index is not None
                index = own
            if own >= 0:
                value = on_host(value)
            moved += value.nbytes
        host.append(value)
    return host, index, moved, mixed


def _meet(operator: _Operator, args, kwargs):
    """Return the index of the device that all operands are on, or what `rules` make of several."""
    first, mixed = None, False
    for value in (*args, *kwargs.values()) if kwargs else args:
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor):
                own = item.get_device()
                if first is None:
                    first = own
                elif own != first:
                    mixed = True
    if mixed:
        return rules.settle(operator.name, operator.schema, args, kwargs)
    if first is None:
        return _destination(kwargs, placement.current())
    return first


def _destination(kwargs, index: int) -> int:
    """Return the index of the device on which a result is wanted; -1 is the host."""
    device = kwargs.get("device")
    if device is None:
        return index
    return placement.index_of(device) if device.type == placement.NAME else -1


def _lend_generator(place: int, host: list, named: dict, index: int) -> dict:
    """Give an operator that draws random numbers the generator of its device."""
    if place < len(host):
        host[place] = generators.of(host[place], index)
        return named
    return named | {"generator": generators.of(named.get("generator"), index)}


def _charge(operator: _Operator, index: int, moved: int, host, out) -> None:
    """Let the clock run for an operator, and tell who listens."""
    operations = 0.0
    if isinstance(out, torch.Tensor):
        moved += out.nbytes
        if operator.formula:
            operations = clock.in_float32(index, operator.formula(host, out), out.dtype)
    elif out is not None:
        moved += work.traffic(out)
    end = clock.launch(index, moved, operations)
    if events.observers:
        events.tell(events.Launch(index, operator.name, end))
    if operator.waits:
        clock.wait_for_stream(index)
        if events.observers:
            events.tell(events.Synchronization(index, operator.name))


def _label(out, index: int):
    """Label what an operator returned as belonging to `sim:index`, and leave what is no tensor."""
    if index < 0:
        return out
    if isinstance(out, torch.Tensor):
        return on_device(out, index)
    if isinstance(out, (list, tuple)):
        return [_label(item, index) for item in out]
    return out


def _unlabel(value):
    """Return the CPU's name for a tensor or a list of them, and anything else as it is."""
    if isinstance(value, torch.Tensor):
        return on_host(value) if value.get_device() >= 0 else value
    if isinstance(value, (list, tuple)):
        return [_unlabel(item) for item in value]
    return _CPU if isinstance(value, torch.device) else value


def _drawing(run):
    """An operator that draws random numbers and takes no generator: lend it the device's state."""

    def draw(*args, **kwargs):
        index = next((a.get_device() for a in args if isinstance(a, torch.Tensor)), placement.current())
        with generators.drawing_from(max(index, 0)):
            return run(*args, **kwargs)

    return draw


def _writing_out(operator: _Operator):
    """An operator that writes into `out=`: compute aside, then copy in, resizing where PyTorch would."""
    outputs = operator.outputs

    def run(*args, **kwargs):
        index = _meet(operator, args, kwargs)
        if index is _COMPOSITE:
            return operator.op._op_dk(private.COMPOSITE_KEY, *args, **kwargs)
        host = [_unlabel(value) for value in args]
        named = {key: _unlabel(value) for key, value in kwargs.items() if key not in outputs}
        aside = {key: _like_on_host(kwargs[key]) for key in outputs}
        operator.call(*host, **named, **aside)
        for key in outputs:
            _fill(kwargs[key], aside[key])
        outputs_of = list(aside.values())
        _charge(operator, index, work.traffic(host), host, outputs_of)
        return kwargs[outputs[0]] if len(outputs) == 1 else tuple(kwargs[key] for key in outputs)

    return run


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
