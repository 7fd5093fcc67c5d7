"""All that a module holds, however deep, to see whether a call that was to look alone changed any of it."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import chain

import torch
from torch import nn

from devlab.checks.expect import IN_NUMPY
from devlab.checks.reading import on_cpu

# In a module's own dict these hold what is registered; `module.weight` stands in the first of them.
REGISTERED = ("_parameters", "_buffers", "_modules")
# What holds nothing, or nothing yet, is not walked: a module has twenty such attributes.
SIMPLE = frozenset({bool, int, float, str, type(None)})
CONTAINERS = frozenset({list, tuple, set, dict, OrderedDict})

# One thing that is held: itself, a tensor's gradient, and what can change of a tensor in its place.
Held = tuple[object, object, tuple]


def holdings(value: object) -> dict[str, Held]:
    """Return what a module, list, tuple or dict holds, by dotted path; registered or not, tensor or not.

    >>> sorted(path for path in holdings(nn.Linear(2, 1)) if not path.startswith("_"))
    ['bias', 'in_features', 'out_features', 'training', 'weight']
    """
    found: dict[str, Held] = {}
    _gather(value, "", found, {id(value)})
    return found


def changed(before: Mapping[str, Held], value: object) -> str:
    """Return the path of the first thing that `value` no longer holds as `holdings` saw it; "" for none.

    >>> module = nn.Linear(2, 1)
    >>> before = holdings(module)
    >>> _ = module.eval()
    >>> changed(before, module)
    'training'
    """
    now = holdings(value)
    for path, (item, grad, facts) in before.items():
        held = now.get(path)
        if held is None or held[0] is not item or held[1] is not grad or held[2] != facts:
            return path
    return next((path for path in now if path not in before), "")


def _gather(value: object, path: str, found: dict[str, Held], walked: set[int]) -> None:
    for key, item in _items(value):
        place = f"{path}{key}"
        if isinstance(item, torch.Tensor):
            grad = item.grad if item.is_leaf else None
            found[place] = item, grad, (item.device, item.requires_grad, item.dtype, _bytes(item))
            continue
        found[place] = item, None, ()
        kind = type(item)
        if kind in SIMPLE or (kind in CONTAINERS and not item) or id(item) in walked:
            continue
        walked.add(id(item))  # what is held twice, or holds itself, is walked once
        _gather(item, f"{place}.", found, walked)


def _items(value: object) -> Iterable[tuple[object, object]]:
    if isinstance(value, nn.Module):
        own = vars(value)
        registered = (item for key in REGISTERED for item in own.get(key, {}).items())
        return chain(registered, (item for item in own.items() if item[0] not in REGISTERED))
    if isinstance(value, (list, tuple)):
        return enumerate(value)
    return value.items() if isinstance(value, (dict, Mapping)) else ()


def _bytes(tensor: torch.Tensor) -> bytes:
    if tensor.is_meta:
        return b""
    whole = on_cpu(tensor)
    if whole.dtype in IN_NUMPY and not whole.is_neg():
        return whole.numpy().tobytes()
    return whole.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
