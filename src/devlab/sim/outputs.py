"""Operators that write into `out=`: compute aside, then copy in, resizing where PyTorch would."""

import contextlib

import torch

from devlab.sim import generators, limits, mixing, work
from devlab.sim.operands import meet, unlabel
from devlab.sim.schema import Operator
from devlab.sim.storage import on_host, resize

_AS_IT_IS = contextlib.nullcontext()


def writing_out(operator: Operator, charge):
    """Return the kernel of an operator that writes into `out=`; `charge` lets the clock run for it."""
    outputs = operator.outputs

    def run(*args, **kwargs):
        if limits.active:
            limits.refuse(operator.name)
        index = meet(operator, args, kwargs)
        if index is mixing.COMPOSITE:
            return operator.as_composite(*args, **kwargs)
        host = [unlabel(value) for value in args]
        named = {key: unlabel(value) for key, value in kwargs.items() if key not in outputs}
        aside = {key: _like_on_host(kwargs[key]) for key in outputs}
        if index >= 0 and operator.generator is not None:
            named = generators.lend(operator.generator, host, named, index)
        with generators.drawing_from(index) if operator.draws and index >= 0 else _AS_IT_IS:
            operator.call(*host, **named, **aside)
        if index >= 0 and _read_and_written([*host, *named.values()], kwargs, aside):
            # What the CPU refuses, or does to an operand on the way, is then the same here.
            operator.call(*host, **named, **{key: unlabel(kwargs[key]) for key in outputs})
        else:
            for key in outputs:
                _fill(kwargs[key], aside[key])
        charge(operator, index, work.traffic(host), host, list(aside.values()), args, kwargs)
        if not operator.returned:
            return None
        return kwargs[outputs[0]] if len(outputs) == 1 else tuple(kwargs[key] for key in outputs)

    return run


def _read_and_written(operands, targets, aside) -> bool:
    """Return whether an output that keeps its size shares its memory with an operand."""
    read = {value.untyped_storage().data_ptr() for value in _tensors(operands)}
    written = list(_tensors([targets[key] for key in aside]))
    kept = all(to.shape == made.shape for to, made in zip(written, _tensors(aside.values()), strict=True))
    return kept and any(to.untyped_storage().data_ptr() in read for to in written)


def _tensors(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


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
