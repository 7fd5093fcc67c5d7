"""All that a module holds, however deep, to see whether a call that was to look alone changed any of it."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import nn

# In a module's own dict these hold what is registered; `module.weight` stands in the first of them.
REGISTERED = ("_parameters", "_buffers", "_modules")


class Held(NamedTuple):
    """One thing that is held: itself, a tensor's gradient, and what can change of a tensor in its place."""

    value: object
    grad: object = None
    facts: tuple = ()


def holdings(value: object) -> dict[str, Held]:
    """Return what a module, list, tuple or dict holds, by dotted path; registered or not, tensor or not.

    >>> sorted(path for path in holdings(nn.Linear(2, 1)) if not path.startswith("_"))
    ['bias', 'in_features', 'out_features', 'training', 'weight']
    """
    return dict(_walk(value, ""))


def changed(before: Mapping[str, Held], value: object) -> str:
    """Return the path of the first thing that `value` no longer holds as `holdings` saw it; "" for none.

    >>> module = nn.Linear(2, 1)
    >>> before = holdings(module)
    >>> _ = module.eval()
    >>> changed(before, module)
    'training'
    """
    now = holdings(value)
    for path, held in before.items():
        if path not in now or not _same(held, now[path]):
            return path
    return next((path for path in now if path not in before), "")


def _same(one: Held, other: Held) -> bool:
    return one.value is other.value and one.grad is other.grad and one.facts == other.facts


def _walk(value: object, path: str) -> Iterator[tuple[str, Held]]:
    for key, item in _items(value):
        place = f"{path}.{key}" if path else str(key)
        if isinstance(item, torch.Tensor):
            grad = item.grad if item.is_leaf else None
            yield place, Held(item, grad, (item.device, item.requires_grad, item.dtype, _bytes(item)))
        else:
            yield place, Held(item)
            yield from _walk(item, place)


def _items(value: object) -> Iterator[tuple[object, object]]:
    if isinstance(value, nn.Module):
        for key, item in vars(value).items():
            yield from item.items() if key in REGISTERED else [(key, item)]
    elif isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from enumerate(value)


def _bytes(tensor: torch.Tensor) -> bytes:
    if tensor.is_meta:
        return b""
    whole = tensor.detach().cpu().contiguous().reshape(-1)
    return whole.view(torch.uint8).numpy().tobytes()
