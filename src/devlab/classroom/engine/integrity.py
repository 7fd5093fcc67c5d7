"""Tells whether a submission tampered with what judges it: patched functions, objects that equal anything."""

import builtins
import functools
import operator
import sys
import types
from collections.abc import Callable, Iterable, Mapping

import torch

from devlab.checks.exercise import Exercise

# What a verdict calls; of other modules a change would not reach it.
CALLED = ("torch", "torch.nn", "torch.nn.functional", "torch.linalg", "numpy", "builtins", "inspect")
CALLED += ("contextlib", "dis", "json", "os", "io", "random")
# devlab's own, with its constants; of the lessons, the one that is judged.
OWN = ("devlab.checks", "devlab.devices", "devlab.sim", "devlab.instruments", "devlab.classroom.engine")
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


class Names:
    """What names in some namespaces stood for, and what was inside the functions among them.

    `wanted` chooses by name and value; with `all_stay`, no other name may go either.

    >>> space = {"f": len, "g": print}
    >>> names = Names({"here": space}, lambda key, value: True)
    >>> space["g"] = len
    >>> names.changed()
    'here.g'
    """

    def __init__(self, spaces: Mapping[str, Mapping], wanted: Callable[[str, object], bool], all_stay=False):
        self.spaces, functions = [], {}
        for place, space in spaces.items():
            held = {key: value for key, value in list(space.items()) if wanted(key, value)}
            functions |= {one: f"{place}.{key}" for key, value in held.items() if (one := _function(value))}
            if held:
                # Where all must stay, all keys are looked up, and the wanted values compared.
                keys = [*(held | dict.fromkeys(space) if all_stay else held), next(iter(held))]
                take = operator.itemgetter(*keys)  # one key alone would not give a tuple
                self.spaces.append((place, space, take, list(held.values()), list(held)))
        self.places, self.functions = list(functions.values()), list(functions)
        self.insides = [(part, list(map(part, functions))) for part in INSIDES]

    def changed(self) -> str:
        """Return which name means something else, as `module.name`; "" where none does."""
        # `is` by operator.is_ and in C: an object that equals everything must not pass, and this runs often.
        for place, space, take, values, keys in self.spaces:
            try:
                whole = all(map(operator.is_, take(space), values))
            except KeyError as gone:
                return f"{place}.{gone.args[0]}"
            if not whole:
                return f"{place}.{keys[list(map(operator.is_, take(space), values)).index(False)]}"
        return ""

    def rewritten(self) -> str:
        """Return which function has other code or defaults than before; "" where none has."""
        for part, before in self.insides:
            if not all(map(operator.is_, map(part, self.functions), before)):
                return self.places[list(map(operator.is_, map(part, self.functions), before)).index(False)]
        return ""


class Seal:
    """A record of what a verdict rests on, taken before a submission runs.

    `broken` compares all of it. `patched` compares what devlab's own code names, which is little enough to
    be looked at after every call.

    >>> seal = Seal(())
    >>> seal.broken(), seal.patched()
    ('', '')
    """

    def __init__(self, exercises: Iterable[Exercise]):
        self.exercises = list(exercises)
        self.note()

    def note(self) -> None:
        """Take the record anew: what is there now is how it should be."""
        judged = tuple(
            {row.judge.__module__.rpartition(".")[0] for one in self.exercises for row in one.rows}
        )
        own = {name: vars(one) for name, one in list(sys.modules.items()) if name.startswith(OWN + judged)}
        called = {name: vars(sys.modules[name]) for name in CALLED}
        classes = [one for name, space in own.items() for one in _own_classes(space, name)] + list(PLAIN)
        modules = [*own.items(), *called.items()]
        own |= {f"{one.__module__}.{one.__qualname__}": vars(one) for one in classes}
        tables = {
            f"{place}.{key}": value
            for place, space in own.items()
            for key, value in space.items()
            if key.isupper() and type(value) is dict
        }
        used = _named_in(own)
        self.own = Names(own, lambda key, value: isinstance(value, CALLABLE) or key.isupper(), True)
        self.tables = Names(tables, lambda key, value: True)
        self.used = Names(called, lambda key, value: key in used and isinstance(value, CALLABLE))
        self.called = Names(called, lambda key, value: isinstance(value, CALLABLE))
        # A name that is new there must not stand before one that devlab's code means.
        self.new = [(place, space, len(space), _BUILTIN_NAMES - space.keys()) for place, space in modules]
        self.new += [
            (one.__qualname__, vars(one), len(vars(one)), _inherited(one) - vars(one).keys())
            for one in classes
        ]
        self.rows = [(one, list(one.rows)) for one in self.exercises]
        self.known = _all_classes()

    def broken(self) -> str:
        """Return what was changed, as `module.name`; "" where all is as it was."""
        return self.patched() or self.called.changed() or self.called.rewritten() or self.own.rewritten()

    def patched(self) -> str:
        """Return which of the names that devlab's code uses was changed; "" where none was."""
        for names in (self.own, self.tables, self.used):
            if found := names.changed():
                return found
        if found := self.used.rewritten():
            return found
        for place, space, size, shadowing in self.new:
            if len(space) != size and not shadowing.isdisjoint(space):
                return f"{place}.{min(shadowing.intersection(space))}"
        for exercise, rows in self.rows:
            if not (len(exercise.rows) == len(rows) and all(map(operator.is_, exercise.rows, rows))):
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


INSIDES = tuple(map(operator.attrgetter, ("__code__", "__defaults__", "__kwdefaults__")))
_BUILTIN_NAMES = frozenset(vars(builtins))


def _own_classes(space: Mapping, name: str) -> list[type]:
    return [one for one in space.values() if isinstance(one, type) and one.__module__ == name]


def _inherited(one: type) -> set[str]:
    return set().union(EQUALS, *(vars(base) for base in one.__mro__[1:]))


def _function(value: object) -> types.FunctionType | None:
    value = value.fget if isinstance(value, property) else value
    value = getattr(value, "__func__", value)
    return value if isinstance(value, types.FunctionType) else None


def _named_in(spaces: Mapping[str, Mapping]) -> set[str]:
    """Return every name and attribute that the functions in some namespaces mention."""
    found = (_function(value) for space in spaces.values() for value in space.values())
    waiting, names = {one.__code__ for one in found if one}, set()
    while waiting:
        code = waiting.pop()
        names.update(code.co_names)
        waiting |= {one for one in code.co_consts if isinstance(one, types.CodeType)}
    return names


def _all_classes() -> set[type]:
    found, waiting = {object}, [object]
    while waiting:
        for one in type.__subclasses__(waiting.pop()):
            if one not in found:
                found.add(one)
                waiting.append(one)
    return found


def refuse_spying(seal: Seal) -> None:
    """Refuse, for good, calls that look into the interpreter, and new code for devlab's own functions.

    Audit hooks stay until the process ends.
    """
    refused, ours = frozenset(REFUSED), frozenset(map(id, seal.own.functions))

    def hook(event: str, facts: tuple) -> None:
        if event == "object.__setattr__" and id(facts[0]) in ours:
            raise RuntimeError("devlab's own functions stay as they are while a submission is graded")
        if event in refused:
            raise RuntimeError(f"{event} is switched off while a submission is graded")

    sys.addaudithook(hook)


def guard_calls(seal: Seal) -> None:
    """Make every call of a student's code by a check look afterwards whether something was changed.

    Without this, a patch that takes itself back after its first use would go unseen.
    """
    from devlab.checks.trial import Trial

    def guarded(run: Callable) -> Callable:
        patched, require_plain = seal.patched, seal.require_plain

        @functools.wraps(run)
        def checked(*args: object, **kwargs: object) -> object:
            try:
                result = run(*args, **kwargs)
            finally:
                if what := patched():
                    raise Tampered(f"{what} was changed")
            require_plain(result)
            return result

        return checked

    Trial.run = guarded(Trial.run)
