"""Operands and results: the CPU's names for the ones, the device's labels for the others, where they meet."""

import torch

from devlab.sim import mixing, placement
from devlab.sim.schema import Operator
from devlab.sim.storage import on_device, on_host

# A Python number met as an operand stays one.
NOT_TENSORS = frozenset({type(None), bool, int, float, complex})
_CPU = torch.device("cpu")


# Operands of this dtype meet numbers as tensors that are kept, for at most so many numbers.
SCALARS = torch.float32
_MANY = 256
_LARGE = 1 << 53  # larger integers would be rounded twice
_REAL = frozenset({int, float})
_scalars: dict[float, torch.Tensor] = {}
_scalar_of = _scalars.get


def as_scalar(number):
    """Return a Python number as what an operand in 32-bit floats meets it as most quickly.

    PyTorch makes a tensor of a number each time it meets one, which takes longer than the arithmetic. For
    32-bit floats, whose result is the same either way, those tensors are kept.
    """
    if type(number) not in _REAL:
        return number
    scalar = _scalar_of(number)
    if scalar is not None:
        return scalar
    # Zero has two signs under one key, and what is no number equals not even itself.
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
    """Return the index of the device that all operands are on, or what `mixing` makes of several."""
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
        return mixing.settle(operator.name, operator.schema, args, kwargs)
    if first is None:
        return destination(kwargs, placement.current())
    return first


def destination(kwargs, index: int) -> int:
    """Return the index of the device on which a result is wanted; -1 is the host."""
    device = kwargs.get("device")
    if device is None:
        return index
    return placement.index_of(device) if device.type == placement.NAME else -1


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
    return _CPU if isinstance(value, torch.device) else value
