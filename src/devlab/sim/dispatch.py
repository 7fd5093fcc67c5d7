"""How an operator runs on a simulated device: on the CPU, in the same memory, under the CPU's name.

The kernel of an operator is built from its schema alone, mostly on the first call. A kernel finds the
operands, lets `rule` decide where operands of several devices meet, lets the CPU compute, labels new tensors
as the device's, and charges the clock. Most calls are of one or two tensors on one device: their kernels are
shorter, because every operator pays for each line.
"""

import contextlib

import torch

from devlab.sim import assertions, clock, data, kernels, operators, racing, random_numbers, rule, workspaces
from devlab.sim.allocator import allocators
from devlab.sim.data import new_on_device, on_device, on_host, resize
from devlab.sim.operators import QUICK, Operator
from devlab.sim.racing import visible
from devlab.sim.rule import WHOLE, guard

# A result that may have more bytes than `_MAY_NOT_FIT` is checked before it is computed: it may be too large
# for the device, and for the host. Two operands whose bytes multiply to less than `_PAIRS_MAY_NOT_FIT` have
# no result of more than 1 GiB.
_MAY_NOT_FIT = 1 << 28
_PAIRS_MAY_NOT_FIT = 1 << 30

# These common kernels are built at once: a kernel that was built on its first call takes a little longer on
# every call. To build all kernels at once would take too long.
_AT_ONCE = QUICK | operators.split_names(
    "gelu threshold_backward equal arange.start_out zeros_like ones_like randn_like new_ones new_zeros"
)


def kernel(name: str):
    """Return a kernel for the operator of that full name, built at once or when it is first called."""
    if name.removeprefix("aten::") in _AT_ONCE:
        return _build(name)
    run = None
    refusals = assertions.REFUSALS if operators.short(name) in assertions.ASSERTIONS else ()

    def build_on_first_call(*args, **kwargs):
        nonlocal run
        if run is None:
            run = _build(name)
        try:
            return run(*args, **kwargs)
        except refusals as refusal:
            reason = str(refusal)
            index = _device_that_asserts(name, args, kwargs, reason)
            if index is None:
                raise
        result = _harmless(name)(*args, **kwargs)
        assertions.note(name, index, reason, args)
        return result

    return build_on_first_call


def _build(name: str):
    operator = Operator(name)
    return workspaces.reserve_workspaces(name, _kernel_of(operator))


def _kernel_of(operator: Operator):
    name = operator.name
    if operator.outputs:
        return guard(name, _writing_out(operator))
    general = guard(name, _general(operator))
    if operator.draws:
        return _draw_from_device(general)
    if not operator.plain:
        return general
    if operator.tensors == [0]:
        return guard(name, _of_one(operator, general))
    return _product(operator, general) if operator.formula else guard(name, _of_two(operator, general))


def _device_that_asserts(name: str, args, kwargs, reason: str) -> int | None:
    """Return the index of the device that would notice what the CPU refused, None where the host would."""
    return _home(Operator(name), args, kwargs) if assertions.is_of_values(name, reason) else None


def _home(operator: Operator, args, kwargs) -> int | None:
    """Return the index of the simulated device on which an operator runs, None where it runs on none."""
    index = meet(operator, args, kwargs)
    return None if index is rule.COMPOSITE or index < 0 else index


def _harmless(name: str):
    """Return a kernel that launches an operator whose values are out of range, or may be, to no effect."""
    operator = assertions.Harmless(name)
    return _writing_out(operator) if operator.outputs else _general(operator)


def _ask(operator: Operator, args, kwargs):
    """Raise what MPS's rules or a kernel that has failed have to say before an operator is launched.

    Returns the kernel to launch in the operator's place, None for its own.
    """
    rule.refuse(operator.name)
    if not clock.failures or (index := _home(operator, args, kwargs)) is None:
        return None
    clock.notice(index)
    trusting = operators.short(operator.name) in assertions.TRUSTING
    return _harmless(operator.name) if trusting and not isinstance(operator, assertions.Harmless) else None


def _of_one(operator: Operator, general):
    """An operator of one tensor."""
    call, in_place = operator.quick, operator.returned[0] is not None
    launch, name, limited = clock.launch, operator.name, rule.active
    broadcasts, fresh = operator.broadcasts, operator.broadcasts and not in_place

    def run(x, *rest, **kwargs):
        index = x.get_device()
        if index < 0 or limited or visible:
            return general(x, *rest, **kwargs)
        host = on_host(x)
        moved = host.nbytes
        if moved > _MAY_NOT_FIT and broadcasts:
            allocators[index].check(moved)
        try:
            out = call(host, *rest, **kwargs) if rest or kwargs else call(host)
        except NotImplementedError:  # the CPU lacks the dtype
            return general(x, *rest, **kwargs)
        size = out.nbytes
        launch(index, moved + size, 0.0, name)
        if in_place:
            return x
        return new_on_device(out, index, size) if fresh else on_device(out, index)

    return run


def _of_two(operator: Operator, general):
    """An elementwise operator of two tensors, or of a tensor and a number."""
    call, in_place = operator.quick, operator.returned[0] is not None
    launch, name, limited = clock.launch, operator.name, rule.active
    numbers_mix = False  # whether a zero-dimensional CPU tensor, as Python numbers are, was seen to mix

    def run(x, y, *rest, **kwargs):
        nonlocal numbers_mix
        try:
            index = x.get_device()
        except AttributeError:  # a number
            index = -1
        if index < 0 or limited or visible:
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
                    rule.settle(name, operator.schema, (x, y), kwargs)
                    numbers_mix = True
                other = y
            else:
                return general(x, y, *rest, **kwargs)
            size = other.nbytes
            if moved * size > _PAIRS_MAY_NOT_FIT and host.shape != other.shape:
                allocators[index].check(operators.broadcast_bytes((host, other)))
            moved += size
        try:
            out = call(host, other, *rest, **kwargs) if rest or kwargs else call(host, other)
        except NotImplementedError:  # the CPU lacks the dtype
            return general(x, y, *rest, **kwargs)
        size = out.nbytes
        launch(index, moved + size, 0.0, name)
        return x if in_place else new_on_device(out, index, size)

    return run


def _product(operator: Operator, general):
    """A product of two matrices, or of stacks of them, or of a matrix and a vector."""
    call, formula = operator.quick, operator.formula
    launch, name, limited = clock.launch, operator.name, rule.active

    def run(x, y, *rest):
        index = x.get_device()
        if rest or limited or visible or index < 0 or y.get_device() != index or x.dtype in WHOLE:
            return general(x, y, *rest)
        host, other = on_host(x), on_host(y)
        moved, size = host.nbytes, other.nbytes
        if moved * size > _PAIRS_MAY_NOT_FIT:
            allocators[index].check(operators.product_bytes(host, other))
        try:
            out = call(host, other)
        except NotImplementedError:  # the CPU lacks the dtype
            return general(x, y)
        made = out.nbytes
        operations = clock.in_float32(index, formula((host, other), out), out.dtype)
        launch(index, moved + size + made, operations, name)
        return new_on_device(out, index, made)

    return run


def _general(operator: Operator):
    """Any operator but those that write into `out=`."""
    call, returned, places = operator.call, operator.returned, operator.tensors
    takes_device, generator, broadcasts = operator.takes_device, operator.generator, operator.broadcasts
    name, several = operator.name, len(returned) > 1
    itself = returned[0] if len(returned) == 1 else None  # the argument that is the result
    limited = rule.active
    again = call if generator is None and not operator.draws else None  # random numbers are drawn once

    def run(*args, **kwargs):
        if limited:
            instead = _ask(operator, args, kwargs)
            if instead is not None:
                return instead(*args, **kwargs)
        if visible and not racing.runs_on_found():
            return racing.show(run, args, kwargs, again)
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
            if index is rule.COMPOSITE:
                return operator.as_composite(*args, **kwargs)
        named = {key: unlabel(value) for key, value in kwargs.items()} if kwargs else kwargs
        if index is None:
            index = data.current_index()
        home = destination(kwargs, index) if takes_device else index
        if index >= 0:
            if generator is not None:
                named = random_numbers.lend(generator, host, named, index)
            if broadcasts and operators.pairs(host) > _MAY_NOT_FIT:
                allocators[index].check(operators.broadcast_bytes(host))
        try:
            out = call(*host, **named) if named else call(*host)
        except NotImplementedError as lack:
            if index < 0:
                raise
            raise rule.in_cudas_words(name, lack) from None
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
    """Let the clock run for an operator, and tell observers."""
    operations = 0.0
    if type(out) is torch.Tensor:
        try:
            moved += out.nbytes
        except RuntimeError:  # the tensor is sparse
            kernels.refuse("sparse", args, kwargs)
        if operator.formula:
            operations = clock.in_float32(index, operator.formula(host, out), out.dtype)
    elif out is not None:
        moved += operators.traffic(out)
    clock.launch(index, moved, operations, operator.name)
    if operator.waits is not None and operator.waits(args, kwargs):
        clock.synchronize(index, clock.current.queues[index].free_at, operator.name)


def _draw_from_device(run):
    """An operator that draws random numbers and takes no generator: it draws from the device's generator."""

    def draw(*args, **kwargs):
        index = next((a.get_device() for a in args if isinstance(a, torch.Tensor)), data.current_index())
        with random_numbers.drawing_from(max(index, 0)):
            return run(*args, **kwargs)

    return draw


# Operands of these types stay as they are.
NOT_TENSORS = frozenset({type(None), bool, int, float, complex})
_CPU = torch.device("cpu")

# For operands of this dtype the tensors of numbers are kept, at most `_MANY` of them.
SCALARS = torch.float32
_MANY = 256
_LARGE = 1 << 53  # larger integers would be rounded twice
_REAL = frozenset({int, float})
_scalars: dict[float, torch.Tensor] = {}
_scalar_of = _scalars.get


def as_scalar(number):
    """Return a Python number in the form that an operator in 32-bit floats takes most quickly.

    PyTorch makes a tensor of each number that an operator meets, which takes longer than the arithmetic. For
    32-bit floats the result is the same either way, so those tensors are kept.
    """
    if type(number) not in _REAL:
        return number
    scalar = _scalar_of(number)
    if scalar is not None:
        return scalar
    # 0.0 and -0.0 are the same key, and NaN does not equal itself.
    if number == 0 or number != number or abs(number) > _LARGE:
        return number
    if len(_scalars) >= _MANY:
        _scalars.clear()
    scalar = _scalars[number] = torch.tensor(number, dtype=SCALARS, device="cpu")
    return scalar


def unlabel_list(values, index, mixed):
    """Return the CPU's names of some tensors, the device met last, their bytes, whether devices differ."""
    host, moved = [], 0
    for value in values:
        if type(value) not in NOT_TENSORS:
            own = value.get_device()
            if own != index:
                mixed = mixed or index is not None
                index = own
            if own >= 0:
                value = on_host(value)
            moved += value.nbytes
        host.append(value)
    return host, index, moved, mixed


def meet(operator: Operator, args, kwargs):
    """Return the index of the device that all operands are on, or what `rule.settle` makes of several."""
    first, mixed = None, False
    for value in (*args, *kwargs.values()):
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor):
                own = item.get_device()
                mixed = mixed or (own != first and first is not None)
                first = own
    if mixed:
        return rule.settle(operator.name, operator.schema, args, kwargs)
    return destination(kwargs, data.current_index()) if first is None else first


def destination(kwargs, index: int) -> int:
    """Return the index of the device on which a result is wanted; -1 is the host."""
    device = kwargs.get("device")
    if device is None:
        return index
    return data.index_of(device) if device.type == data.NAME else -1


def label(out, index: int):
    """Label what an operator returned as belonging to `sim:index`, and leave what is no tensor."""
    if index < 0:
        return out
    if type(out) is torch.Tensor:
        return on_device(out, index)
    return [label(item, index) for item in out] if isinstance(out, (list, tuple)) else out


def unlabel(value):
    """Return the CPU's name for a tensor or a list of them, and anything else as it is."""
    if isinstance(value, torch.Tensor):
        return on_host(value) if value.get_device() >= 0 else value
    if isinstance(value, (list, tuple)):
        return [unlabel(item) for item in value]
    return _CPU if isinstance(value, torch.device) and value.type == data.NAME else value


_AS_IT_IS = contextlib.nullcontext()


def _writing_out(operator: Operator):
    """Return the kernel of an operator that writes into `out=`."""
    outputs = operator.outputs

    def run(*args, **kwargs):
        if rule.active:
            instead = _ask(operator, args, kwargs)
            if instead is not None:
                return instead(*args, **kwargs)
        if visible and not racing.runs_on_found():
            return racing.show(run, args, kwargs)
        index = meet(operator, args, kwargs)
        if index is rule.COMPOSITE:
            return operator.as_composite(*args, **kwargs)
        host = [unlabel(value) for value in args]
        named = {key: unlabel(value) for key, value in kwargs.items() if key not in outputs}
        aside = {key: _like_on_host(kwargs[key]) for key in outputs}
        if index >= 0 and operator.generator is not None:
            named = random_numbers.lend(operator.generator, host, named, index)
        with random_numbers.drawing_from(index) if operator.draws and index >= 0 else _AS_IT_IS:
            operator.call(*host, **named, **aside)
        targets, made = [kwargs[key] for key in outputs], list(aside.values())
        if index >= 0 and _read_and_written([*host, *named.values()], targets, made):
            # What the CPU refuses, or does to an operand on the way, is then the same here.
            operator.call(*host, **named, **{key: unlabel(kwargs[key]) for key in outputs})
        else:
            _fill(targets, made)
        _charge(operator, index, operators.traffic(host), host, made, args, kwargs)
        if not operator.returned:
            return None
        return targets[0] if len(targets) == 1 else tuple(targets)

    return run


def _read_and_written(operands: list, targets: list, made: list) -> bool:
    """Return whether all outputs keep their sizes, and one of them shares its memory with an operand."""
    read = {value.untyped_storage().data_ptr() for value in data.tensors(operands)}
    written = list(data.tensors(targets))
    sizes = zip(written, data.tensors(made), strict=True)
    kept = all(target.shape == new.shape for target, new in sizes)
    return kept and any(target.untyped_storage().data_ptr() in read for target in written)


def _like_on_host(target):
    """Return CPU tensors of the form of `target`, whose storage may grow."""
    if isinstance(target, (list, tuple)):
        return [_like_on_host(item) for item in target]
    return torch.empty_strided(target.size(), target.stride(), dtype=target.dtype, device="cpu")


def _fill(target, value) -> None:
    """Give `target` on the device the shape and the elements of `value`."""
    if isinstance(target, (list, tuple)):
        for item, part in zip(target, value, strict=True):
            _fill(item, part)
    else:
        if target.shape != value.shape:
            resize(target, value.size(), value.stride())
        on_host(target).copy_(value)
