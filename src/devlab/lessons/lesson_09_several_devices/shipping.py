"""A learner's function, sent to another process: its code, and whatever of its notebook it uses.

`pickle` sends functions by name, and a name in a notebook is unknown elsewhere. So code is sent as code, with
the globals that it names; whatever can be imported is sent by name. Both sides run the same Python.
"""

import builtins
import importlib
import importlib.util
import io
import marshal
import pickle
import sys
import types
from collections.abc import Callable, Iterator


class CannotShip(Exception):
    """A value that the function uses cannot go to another process; the message names it."""


def ship(function: Callable) -> bytes:
    """Return a function as bytes that `pickle.loads` turns into the function again, in another process.

    Raises CannotShip where it uses something that cannot leave this process.

    >>> def double(x):
    ...     return 2 * x
    >>> pickle.loads(ship(double))(21)
    42
    """
    buffer = io.BytesIO()
    try:
        _Shipper(buffer, protocol=5).dump(function)
    except (pickle.PicklingError, TypeError, ValueError, AttributeError) as problem:
        raise CannotShip(str(problem)) from problem
    return buffer.getvalue()


class _Shipper(pickle.Pickler):
    """Pickles functions and classes that no import finds, by what they are made of."""

    def reducer_override(self, value: object):
        if isinstance(value, types.ModuleType):
            return importlib.import_module, (value.__name__,)
        if isinstance(value, types.FunctionType) and not _importable(value):
            made = marshal.dumps(value.__code__), value.__name__, len(value.__closure__ or ())
            return _function, made, _inside(value), None, None, _fill
        if isinstance(value, type) and not _importable(value):
            return (
                _class,
                (type(value), value.__name__, value.__bases__),
                _members(value),
                None,
                None,
                _furnish,
            )
        # What decorators, data classes and named tuples leave in a class.
        if isinstance(value, staticmethod | classmethod):
            return type(value), (value.__func__,)
        if isinstance(value, property):
            return property, (value.fget, value.fset, value.fdel)
        if isinstance(value, types.MappingProxyType):
            return _proxy, (dict(value),)
        return NotImplemented


def _importable(value: Callable) -> bool:
    """Tell whether another process finds the value by its module and name."""
    module = getattr(value, "__module__", None)
    if module in (None, "__main__", "__mp_main__") or "<locals>" in value.__qualname__:
        return False
    found = sys.modules.get(module)
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value and importlib.util.find_spec(module) is not None


def _inside(function: types.FunctionType) -> dict:
    """Return what a function is made of besides its code."""
    used = set(_names(function.__code__)) & function.__globals__.keys()
    return {
        "globals": {name: function.__globals__[name] for name in used},
        "cells": [_content(cell) for cell in function.__closure__ or ()],
        "attributes": {"__defaults__": function.__defaults__, "__kwdefaults__": function.__kwdefaults__},
    }


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _content(cell: types.CellType) -> tuple:
    try:
        return (cell.cell_contents,)
    except ValueError:  # a name that the function around it has not bound yet
        return ()


def _members(made: type) -> dict:
    left_out = ("__dict__", "__weakref__", "__doc__")
    return {name: value for name, value in vars(made).items() if name not in left_out}


def _function(code: bytes, name: str, cells: int) -> types.FunctionType:
    closure = tuple(types.CellType() for _ in range(cells))
    # The name of the module is not "__main__": what a script does only when it is run stays undone.
    return types.FunctionType(
        marshal.loads(code), {"__builtins__": builtins, "__name__": "shipped"}, name, None, closure
    )


def _fill(function: types.FunctionType, inside: dict) -> None:
    function.__globals__.update(inside["globals"])
    for cell, content in zip(function.__closure__ or (), inside["cells"], strict=True):
        if content:
            (cell.cell_contents,) = content
    for name, value in inside["attributes"].items():
        setattr(function, name, value)


def _proxy(content: dict) -> types.MappingProxyType:
    return types.MappingProxyType(content)  # whose own name no import finds


def _class(meta: type, name: str, bases: tuple) -> type:
    return types.new_class(name, bases, {"metaclass": meta})


def _furnish(made: type, members: dict) -> None:
    for name, value in members.items():
        setattr(made, name, value)
