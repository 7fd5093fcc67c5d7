"""Tells whether a submission tampered with what judges it: patched functions, objects that equal anything."""

import builtins
import functools
import operator
import sys
import types
from collections.abc import Callable, Iterable

import torch

from devlab.checks.exercise import Exercise

# What a verdict rests on; of other modules a change would not reach it.
WATCHED = (
    "devlab",
    "torch",
    "numpy",
    "builtins",
    "inspect",
    "contextlib",
    "dis",
    "json",
    "os",
    "io",
    "random",
)
WHOLE = ("devlab.checks", "devlab.devices", "devlab.sim", "devlab.lessons", "devlab.instruments")
WHOLE += ("devlab.classroom.engine",)
PLAIN = (torch.Tensor, torch.nn.Module, torch.nn.Parameter)
CALLABLE = (types.FunctionType, types.BuiltinFunctionType, type, property, classmethod, staticmethod)
# A class of the student's that defines one of these decides what it equals, or what type it is.
EQUALS = ("__eq__", "__ne__", "__class__", "__instancecheck__", "__torch_function__", "__torch_dispatch__")
EQUALS += ("__array_ufunc__", "__array__", "__getattribute__")
VALUES = (torch.Tensor, int, float, complex, str, bytes, tuple, list, dict, set, frozenset)
# By these a submission could find the channel of its verdict, or rewrite code in place.
REFUSED = {"gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys._current_frames", "sys.settrace"}
REFUSED |= {"sys.setprofile", "sys._current_exceptions"}


class Tampered(BaseException):
    """A submission changed what judges it; no `except Exception` of the checks hides it."""


class Seal:
    """A record of what a verdict rests on, taken before a submission runs.

    >>> seal = Seal(())
    >>> seal.broken()
    ''
    """

    def __init__(self, exercises: Iterable[Exercise]):
        self.exercises = list(exercises)
        self.note()

    def note(self) -> None:
        """Take the record anew: what is there now is how it should be."""
        modules = {name: sys.modules[name] for name in WATCHED if name in sys.modules}
        modules |= {name: one for name, one in sys.modules.items() if name.startswith(WHOLE)}
        modules |= {
            "torch.nn": torch.nn,
            "torch.nn.functional": torch.nn.functional,
            "torch.linalg": torch.linalg,
        }
        spaces = {name: vars(module) for name, module in modules.items()}
        classes = [one for name, one in list(spaces.items()) for one in _own_classes(one, name)] + list(PLAIN)
        spaces |= {f"{one.__module__}.{one.__qualname__}": vars(one) for one in classes}
        # A name that was there must mean the same; one that shadows a builtin must not appear.
        names, self.names = [], []
        for place, space in spaces.items():
            held = [(key, value) for key, value in list(space.items()) if isinstance(value, CALLABLE)]
            names += [(place, space, key, value) for key, value in held]
            if held:
                keys, values = zip(*held, strict=True)
                take = operator.itemgetter(*keys, keys[0])  # one key alone would not give a tuple
                self.names.append((place, space, take, (*values, values[0]), keys))
        self.functions = list(_functions(names))
        self.codes = [_insides(function) for _, function in self.functions]
        self.shadows = [
            (place, space, len(space), self._shadowed(space))
            for place, space in spaces.items()
            if place in modules
        ]
        self.methods = [
            (place, vars(one), self._special(one)) for one in classes for place in [one.__qualname__]
        ]
        self.rows = [(one, list(one.rows), [row.judge for row in one.rows]) for one in self.exercises]
        self.known = _all_classes()

    def broken(self) -> str:
        """Return what was changed, as `module.name`; "" where all is as it was."""
        # `is` by operator.is_ and in C: an object that equals everything must not pass, and this runs often.
        for place, space, take, values, keys in self.names:
            try:
                whole = all(map(operator.is_, take(space), values))
            except KeyError:
                whole = False
            if not whole:
                changed = [key for key, one in zip(keys, values, strict=False) if space.get(key) is not one]
                return f"{place}.{changed[0]}"
        for (place, function), before in zip(self.functions, self.codes, strict=True):
            if not all(map(operator.is_, _insides(function), before)):
                return place
        for place, space, size, before in self.shadows:
            if len(space) != size and (new := self._shadowed(space) - before):
                return f"{place}.{min(new)}"
        for place, space, before in self.methods:
            if len(space) != before[0] and (new := {key for key in space if key in EQUALS} - before[1]):
                return f"{place}.{min(new)}"
        for exercise, rows, _ in self.rows:
            if exercise.rows != rows:
                return f"the rows of {exercise.name}"
        return ""

    def require_plain(self, value: object, depth: int = 0) -> None:
        """Raise Tampered for a value of a class of the student's that decides for itself what it equals."""
        kind = type(value)
        if kind not in self.known:
            own = [one for one in kind.__mro__ if one not in self.known]
            dishonest = any(key in vars(one) for one in own for key in EQUALS)
            generated = hasattr(kind, "__dataclass_fields__") or hasattr(kind, "_fields")
            if (dishonest and not generated) or (issubclass(kind, VALUES[:4])):
                raise Tampered(f"a result is of the class {kind.__name__}, which decides what it equals")
        if depth < 3 and isinstance(value, tuple | list):
            for one in value[:100]:
                self.require_plain(one, depth + 1)
        elif depth < 3 and isinstance(value, dict):
            for one in list(value.values())[:100]:
                self.require_plain(one, depth + 1)

    @staticmethod
    def _shadowed(space: dict) -> set[str]:
        return {key for key in space if key in _BUILTIN_NAMES}

    @staticmethod
    def _special(one: type) -> tuple[int, set[str]]:
        return len(vars(one)), {key for key in vars(one) if key in EQUALS}


_BUILTIN_NAMES = frozenset(vars(builtins))


_insides = operator.attrgetter("__code__", "__defaults__", "__kwdefaults__")


def _own_classes(space: dict, name: str) -> list[type]:
    if not name.startswith("devlab"):
        return []
    return [one for one in space.values() if isinstance(one, type) and one.__module__ == name]


def _functions(names: Iterable[tuple]) -> Iterable[tuple[str, types.FunctionType]]:
    for place, _, key, value in names:
        if isinstance(value, property):
            value = value.fget
        value = getattr(value, "__func__", value)
        if isinstance(value, types.FunctionType):
            yield f"{place}.{key}", value


def _all_classes() -> set[type]:
    found, waiting = {object}, [object]
    while waiting:
        for one in type.__subclasses__(waiting.pop()):
            if one not in found:
                found.add(one)
                waiting.append(one)
    return found


def refuse_spying() -> None:
    """Refuse, for good, the calls that look into the interpreter: audit hooks stay."""
    refused = frozenset(REFUSED)

    def hook(event: str, _: tuple) -> None:
        if event in refused:
            raise RuntimeError(f"{event} is switched off while a submission is graded")

    sys.addaudithook(hook)


def guard_calls(seal: Seal) -> None:
    """Make every call of a student's code by a check look afterwards whether something was changed.

    Without this, a patch that takes itself back after its first use would go unseen.
    """
    from devlab.checks.trial import Trial

    def guarded(run: Callable) -> Callable:
        broken, require_plain = seal.broken, seal.require_plain

        @functools.wraps(run)
        def checked(*args: object, **kwargs: object) -> object:
            try:
                result = run(*args, **kwargs)
            finally:
                if what := broken():
                    raise Tampered(f"{what} was changed")
            require_plain(result)
            return result

        return checked

    Trial.run = guarded(Trial.run)
