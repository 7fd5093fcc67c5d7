"""How an operator runs on a simulated device: on the CPU, in the same memory, under the CPU's name.

A kernel is built for an operator the first time it is called, from its schema alone. It finds the operands,
has `mixing` decide where they meet, lets the CPU compute, labels what is new as the device's, and charges the
clock. Most calls are of one or two tensors on one device: those have a path of their own, which does no more
than they need.
"""

import torch

from devlab.sim import clock, events, generators, limits, memory, mixing, outputs, placement, work
from devlab.sim.operands import (
    NOT_TENSORS,
    SCALARS,
    as_scalar,
    destination,
    label,
    meet,
    unlabel,
    unlabel_list,
)
from devlab.sim.schema import QUICK, Operator
from devlab.sim.storage import new_on_device, on_device, on_host

_COMPOSITE = mixing.COMPOSITE
# A result that may have more bytes than this is checked first: it may be too large for the device, and for
# the host. Two operands whose bytes multiply to less than the second figure have none of more than 1 GiB.
_MAY_NOT_FIT = 1 << 28
_PAIRS_MAY_NOT_FIT = 1 << 30

# Building a kernel takes some time, and finding one built on its first call a little more on every call.
_AT_ONCE = QUICK | {
    f"aten::{name}"
    for name in (
        *("gelu", "threshold_backward", "equal", "arange.start_out"),
        *("zeros_like", "ones_like", "randn_like", "new_ones", "new_zeros"),
    )
}


def kernel(name: str):
    """Return a kernel for the operator of that full name, built at once or when it is first called."""
    if name in _AT_ONCE:
        return _build(name)
    run = None

    def built_on_first_call(*args, **kwargs):
        nonlocal run
        if run is None:
            run = _build(name)
        return run(*args, **kwargs)

    return built_on_first_call


def _build(name: str):
    operator = Operator(name)
    if operator.outputs:
        return outputs.writing_out(operator, _charge)
    general = _general(operator)
    if operator.draws:
        return _drawing(general)
    if not operator.plain:
        return general
    if operator.tensors == [0]:
        return _of_one(operator, general)
    return (_product if operator.formula else _of_two)(operator, general)


def _of_one(operator: Operator, general):
    """An operator of one tensor."""
    call, in_place = operator.quick, operator.returned[0] is not None
    observers, launch, name, limited = events.observers, clock.launch, operator.name, limits.active
    broadcasts, fresh = operator.broadcasts, operator.broadcasts and not in_place

    def run(x, *rest, **kwargs):
        index = x.get_device()
        if index < 0 or limited:
            return general(x, *rest, **kwargs)
        host = on_host(x)
        moved = host.nbytes
        if moved > _MAY_NOT_FIT and broadcasts:
            memory.check(index, moved)
        out = call(host, *rest, **kwargs) if rest or kwargs else call(host)
        size = out.nbytes
        end = launch(index, moved + size)
        if observers:
            events.tell(events.Launch(index, name, end))
        if in_place:
            return x
        return new_on_device(out, index, size) if fresh else on_device(out, index)

    return run


def _of_two(operator: Operator, general):
    """An elementwise operator of two tensors, or of a tensor and a number."""
    call, in_place = operator.quick, operator.returned[0] is not None
    observers, launch, name, limited = events.observers, clock.launch, operator.name, limits.active
    numbers_mix = False  # whether a zero-dimensional CPU tensor, as Python numbers are, was seen to mix

    def run(x, y, *rest, **kwargs):
        nonlocal numbers_mix
        try:
            index = x.get_device()
        except AttributeError:  # a number
            index = -1
        if index < 0 or limited:
            return general(x, y, *rest, **kwargs)
        host = on_host(x)
        moved = host.nbytes
        if type(y) in NOT_TENSORS:
            other = as_scalar(y) if host.dtype is SCALARS else y
        else:
            place = y.get_device()
            if place == index:
                other = on_host(y)
            elif place < 0 and not y.dim():
                if not numbers_mix:
                    mixing.settle(name, operator.schema, (x, y), kwargs)
                    numbers_mix = True
                other = y
            else:
                return general(x, y, *rest, **kwargs)
            size = other.nbytes
            if moved * size > _PAIRS_MAY_NOT_FIT and host.shape != other.shape:
                memory.check(index, work.broadcast_bytes((host, other)))
            moved += size
        out = call(host, other, *rest, **kwargs) if rest or kwargs else call(host, other)
        size = out.nbytes
        end = launch(index, moved + size)
        if observers:
            events.tell(events.Launch(index, name, end))
        return x if in_place else new_on_device(out, index, size)

    return run


def _product(operator: Operator, general):
    """A product of two matrices, or of stacks of them, or of a matrix and a vector."""
    call, formula = operator.quick, operator.formula
    observers, launch, name, limited = events.observers, clock.launch, operator.name, limits.active

    def run(x, y, *rest):
        index = x.get_device()
        if rest or limited or index < 0 or y.get_device() != index:
            return general(x, y, *rest)
        host, other = on_host(x), on_host(y)
        moved, size = host.nbytes, other.nbytes
        if moved * size > _PAIRS_MAY_NOT_FIT:
            memory.check(index, work.product_bytes(host, other))
        out = call(host, other)
        made = out.nbytes
        operations = clock.in_float32(index, formula((host, other), out), out.dtype)
        end = launch(index, moved + size + made, operations)
        if observers:
            events.tell(events.Launch(index, name, end))
        return new_on_device(out, index, made)

    return run


def _general(operator: Operator):
    """Any operator but those that write into `out=`."""
    call, returned, places = operator.call, operator.returned, operator.tensors
    takes_device, generator, broadcasts = operator.takes_device, operator.generator, operator.broadcasts
    several = len(returned) > 1
    itself = returned[0] if len(returned) == 1 else None  # the argument that is the result
    limited, name = limits.active, operator.name

    def run(*args, **kwargs):
        if limited:
            limits.refuse(name)
        host = list(args)
        index, mixed, moved = None, False, 0
        for place in places:
            if place >= len(args):
                break
            value = args[place]
            if type(value) in NOT_TENSORS:
                continue
            if type(value) is list:
                host[place], index, size, mixed = unlabel_list(value, index, mixed)
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
            index = meet(operator, args, kwargs)
            if index is _COMPOSITE:
                return operator.as_composite(*args, **kwargs)
        named = {key: unlabel(value) for key, value in kwargs.items()} if kwargs else kwargs
        if index is None:
            index = placement.current()
        home = destination(kwargs, index) if takes_device else index
        if index >= 0:
            if generator is not None:
                named = generators.lend(generator, host, named, index)
            if broadcasts and work.pairs(host) > _MAY_NOT_FIT:
                memory.check(index, work.broadcast_bytes(host))
        out = call(*host, **named) if named else call(*host)
        if index >= 0:
            _charge(operator, index, moved, host, out, args, kwargs)
        if itself is not None:
            return args[itself]
        if not several:
            return label(out, home) if returned else None
        return tuple(
            [
                label(item, home) if place is None else args[place]
                for item, place in zip(out, returned, strict=True)
            ]
        )

    return run


def _charge(operator: Operator, index: int, moved: int, host, out, args, kwargs) -> None:
    """Let the clock run for an operator, and tell who listens."""
    operations = 0.0
    if type(out) is torch.Tensor:
        moved += out.nbytes
        if operator.formula:
            operations = clock.in_float32(index, operator.formula(host, out), out.dtype)
    elif out is not None:
        moved += work.traffic(out)
    end = clock.launch(index, moved, operations)
    if events.observers:
        events.tell(events.Launch(index, operator.name, end))
    if operator.waits is not None and operator.waits(args, kwargs):
        clock.wait_for_stream(index)
        if events.observers:
            events.tell(events.Synchronization(index, operator.name))


def _drawing(run):
    """An operator that draws random numbers and takes no generator: lend it the device's state."""

    def draw(*args, **kwargs):
        index = next((a.get_device() for a in args if isinstance(a, torch.Tensor)), placement.current())
        with generators.drawing_from(max(index, 0)):
            return run(*args, **kwargs)

    return draw
