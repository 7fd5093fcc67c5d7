"""Attributes and elements read without running anyone's code."""

import inspect
import types

import torch

MISSING = type("Missing", (), {"__repr__": lambda self: "MISSING"})()
_SAME_PLACE = frozenset({"T", "mT", "H", "mH", "data", "real", "imag"})
_CONTAINERS = (
    list,
    tuple,
    dict,
    torch.nn.ModuleList,
    torch.nn.ModuleDict,
    torch.nn.Sequential,
    torch.nn.ParameterList,
    torch.nn.ParameterDict,
)

# Anything else might run a hash of the learner's own.
_KEYS = (str, int, float, slice, torch.Tensor, torch.device, torch.dtype)


def attribute(owner: object, name: str) -> object:
    """Return an attribute that can be read without running code, or MISSING.

    >>> attribute(torch.nn.Linear(2, 1), "bias").shape
    torch.Size([1])
    """
    if isinstance(owner, torch.Tensor):
        if name in _SAME_PLACE:
            return owner
        return getattr(owner, name) if name in ("device", "dtype", "shape", "grad", "is_cuda") else MISSING
    if isinstance(owner, torch.nn.Module):
        for table in registered(owner):
            if name in table:
                return table[name]
    if isinstance(owner, types.ModuleType):
        return vars(owner).get(name, MISSING)
    if isinstance(owner, torch.device):
        return getattr(owner, name, MISSING)
    found = inspect.getattr_static(owner, name, MISSING)
    if found is MISSING:
        return MISSING
    if isinstance(found, types.FunctionType) and not isinstance(owner, type):
        return types.MethodType(found, owner)
    if isinstance(found, staticmethod):
        return found.__func__
    if isinstance(found, types.MemberDescriptorType) or type(found).__name__ == "_tuplegetter":
        return getattr(owner, name, MISSING)
    if isinstance(found, property | classmethod) or hasattr(type(found), "__get__"):
        return MISSING if name not in getattr(owner, "__dict__", {}) else owner.__dict__[name]
    return found


def registered(module: torch.nn.Module) -> tuple[dict, dict, dict]:
    """Return what a module registered itself: its parameters, buffers and submodules, by name."""
    try:
        return (
            dict(module.named_parameters(recurse=False, remove_duplicate=False)),
            dict(module.named_buffers(recurse=False, remove_duplicate=False)),
            dict(module.named_children()),
        )
    except Exception:  # a module whose own __init__ has not run to its end
        return {}, {}, {}


def element(container: object, key: object) -> object:
    """Return an element of a list, tuple, mapping or module list, or MISSING.

    >>> element({"x": 3}, "x")
    3
    """
    if not isinstance(key, _KEYS) or not isinstance(container, _CONTAINERS):
        return MISSING
    try:
        if isinstance(container, dict):
            return dict.get(container, key, MISSING)  # a defaultdict would make what is not there
        if isinstance(container, list | tuple):
            return (list if isinstance(container, list) else tuple).__getitem__(container, key)
        return container[key]
    except Exception:  # the key may be what was wrong
        return MISSING
