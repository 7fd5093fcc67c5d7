"""Tells whether a submission tampered with what judges it: patched functions, objects that equal anything."""

import builtins
import functools
import itertools
import operator
import sys
import types
from collections.abc import Callable, Iterable, Mapping

import torch

from devlab.checks.exercise import Exercise
from devlab.classroom.engine.versions import Versions

# What a verdict calls; of other modules a change would not reach it.
CALLED = ("torch", "torch.nn", "torch.nn.functional", "torch.linalg", "numpy", "builtins", "inspect")
CALLED += ("contextlib", "dis", "json", "os", "io", "random")
# devlab's own, with its constants; near is what runs between a call and its verdict, and the judged lessons.
NEAR = ("devlab.checks",)
# Of these nothing runs between a call and its verdict: they are compared before and after the judgement.
APART = ("answer", "check", "export", "help", "overview", "overview_html", "progress", "registry", "standing")
OWN = (*NEAR, "devlab.devices", "devlab.sim", "devlab.instruments", "devlab.classroom.engine")
PLAIN = (torch.Tensor, torch.nn.Module, torch.nn.Parameter)
CALLABLE = (types.FunctionType, types.BuiltinFunctionType, type, property, classmethod, staticmethod)
# A class of the student's that defines one of these decides what it equals, or what type it is.
EQUALS = ("__eq__", "__ne__", "__class__", "__instancecheck__", "__torch_function__", "__torch_dispatch__")
EQUALS += ("__array_ufunc__", "__array__", "__getattribute__")
VALUES = (torch.Tensor, int, float, complex, str, bytes, tuple, list, dict, set, frozenset)
# By these a submission could find the channel of its verdict, or rewrite code in place.
REFUSED = {"gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys._current_frames", "sys.settrace"}
REFUSED |= {"sys.setprofile", "sys._current_exceptions"}
# A function's code and defaults are set by the one, and by the other where they become None.
REWRITES = ("object.__setattr__", "object.__delattr__")


class Tampered(BaseException):
    """A submission changed what judges it; no `except Exception` of the checks hides it."""


class Names:
    """What names in some namespaces stood for, and what was inside the functions among them.

    A place is a module, a class or a dict; `wanted` chooses by name and value. In closed places no name may
    go, and none may come that would stand before another: a builtin, or what a class inherits.

    >>> place = {"f": len, "g": print}
    >>> names = Names({"here": place}, lambda key, value: True)
    >>> place["g"] = len
    >>> names.changed()
    'here.g'
    """

    def __init__(
        self,
        places: Mapping[str, object],
        wanted: Callable[[str, object], bool],
        closed: bool = False,
    ):
        self.spaces, functions = [], {}
        for place, owner in places.items():
            space = owner if isinstance(owner, dict) else vars(owner)
            held = {key: value for key, value in list(space.items()) if wanted(key, value)}
            functions |= {one: f"{place}.{key}" for key, value in held.items() if (one := _function(value))}
            if not held:
                continue
            new = _shadowing(owner) - space.keys() if closed else frozenset()
            keys = [*(held | dict.fromkeys(space) if closed else held), next(iter(held))]
            take = operator.itemgetter(*keys)  # one key alone would not give a tuple
            self.spaces.append((place, space, take, list(held.values()), keys, len(space), new))
        self.versions = Versions(space for _, space, *_ in self.spaces)
        self.unchanged = None  # the versions at which all was last seen to be as it should be
        self.places, self.functions = list(functions.values()), list(functions)
        self.insides = [(part, list(map(part, functions))) for part in INSIDES]

    def changed(self) -> str:
        """Return which name means something else, as `module.name`; "" where none does."""
        if self.versions.same(self.unchanged):
            return ""
        now = self.versions.now()
        found = self._compared()
        self.unchanged = None if found else now
        return found

    def _compared(self) -> str:
        # `is` by operator.is_ and in C: an object that equals everything must not pass, and this runs often.
        for place, space, take, values, keys, size, new in self.spaces:
            try:
                whole = all(map(operator.is_, take(space), values))
            except KeyError as gone:
                return f"{place}.{gone.args[0]}"
            if not whole:
                return f"{place}.{keys[list(map(operator.is_, take(space), values)).index(False)]}"
            if len(space) != size and not new.isdisjoint(space):
                return f"{place}.{min(new.intersection(space))}"
        return ""

    def rewritten(self) -> str:
        """Return which function has other code or defaults than before; "" where none has."""
        for part, before in self.insides:
            if not all(map(operator.is_, map(part, self.functions), before)):
                return self.places[list(map(operator.is_, map(part, self.functions), before)).index(False)]
        return ""


class Seal:
    """A record of what a verdict rests on, noted before a submission runs.

    `broken` compares all of it. `patched` compares what runs between a call and its verdict, which is little
    enough to be looked at after every call.

    >>> seal = Seal(())
    >>> seal.note()
    >>> seal.broken(), seal.patched()
    ('', '')
    """

    def __init__(self, exercises: Iterable[Exercise]):
        self.exercises = list(exercises)

    def note(self) -> None:
        """Take the record, at first or anew: what is there now is how it should be."""
        judges = {row.judge.__module__ for one in self.exercises for row in one.rows}
        judged = tuple(".".join(name.split(".")[:3]) for name in judges)  # devlab.lessons.lesson_NN
        called = {name: sys.modules[name] for name in CALLED}
        classes = {f"{one.__module__}.{one.__qualname__}": one for one in PLAIN}
        own = _places(OWN + judged) | classes
        apart = tuple(f"devlab.checks.{name}" for name in APART)
        runs = {place: one for place, one in _places(NEAR + judged).items() if not _within(place, apart)}
        near = runs | classes
        used = _named_in(near)
        self.near = (
            Names(near, _is_fixed, closed=True),
            Names(_tables(near), lambda key, value: True),
            Names(called, lambda key, value: key in used and isinstance(value, CALLABLE)),
        )
        self.all = (
            Names(own, _is_fixed, closed=True),
            Names(_tables(own), lambda key, value: True),
            Names(called, lambda key, value: isinstance(value, CALLABLE), closed=True),
        )
        self.rows_of = [(one, list(one.rows)) for one in self.exercises]
        self.rows = [*itertools.chain(*map(_rows, self.exercises)), _END]
        self.modules, self.known = set(sys.modules), _all_classes()
        self.imports = Versions([sys.modules])
        self.imported = self.imports.now()

    def renew(self, made: Iterable[object]) -> None:
        """Take the record anew after a cell of the teacher's, as far as that changed anything.

        `made` is what the cell has made: a class among it may decide for itself what it equals, those that
        students made before it may not.
        """
        known = self.known
        if self.broken() or self.came():
            self.note()
        known.update(one for one in made if isinstance(one, type))
        self.known = known

    def came(self) -> list[types.ModuleType]:
        """Return the modules that came since the record was taken."""
        if self.imports.same(self.imported):
            return []
        return [sys.modules[name] for name in sys.modules.keys() - self.modules]

    def functions(self) -> set[types.FunctionType]:
        """Return the functions that are sealed."""
        return {function for one in (*self.near, *self.all) for function in one.functions}

    def broken(self) -> str:
        """Return what was changed, as `module.name`; "" where all is as it was."""
        if found := self.patched():
            return found
        if found := next(filter(None, (one.changed() for one in self.all)), ""):
            return found
        # To read a function's code is an audited event, and slow. `refuse_spying` keeps all of it, so
        # only what runs between a call and its verdict is read again.
        return next(filter(None, (one.rewritten() for one in self.near)), "")

    def patched(self) -> str:
        """Return what was changed of that which runs between a call and its verdict; "" where nothing was."""
        for one in self.near:
            if found := one.changed():
                return found
        if not all(map(operator.is_, itertools.chain(*map(_rows, self.exercises), (_END,)), self.rows)):
            fewer = (one.name for one, rows in self.rows_of if list(map(id, one.rows)) != list(map(id, rows)))
            return f"the rows of {next(fewer)}"
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


_rows = operator.attrgetter("rows")
_END = object()  # after the last row: one more would stand in its place
INSIDES = tuple(map(operator.attrgetter, ("__code__", "__defaults__", "__kwdefaults__")))
_BUILTIN_NAMES = frozenset(vars(builtins))


def _places(beginnings: tuple[str, ...]) -> dict[str, object]:
    """Return modules by the beginnings of their names, and the classes that are made in them."""
    modules = {name: one for name, one in list(sys.modules.items()) if name.startswith(beginnings)}
    return modules | {
        f"{name}.{one.__qualname__}": one
        for name, module in modules.items()
        for one in vars(module).values()
        if isinstance(one, type) and one.__module__ == name
    }


def _within(place: str, modules: tuple[str, ...]) -> bool:
    return place in modules or place.startswith(tuple(f"{name}." for name in modules))


def _tables(places: Mapping[str, object]) -> dict[str, dict]:
    """Return the dicts among the constants of modules and classes."""
    return {
        f"{place}.{key}": value
        for place, owner in places.items()
        for key, value in vars(owner).items()
        if key.isupper() and type(value) is dict
    }


def _is_fixed(key: str, value: object) -> bool:
    return isinstance(value, CALLABLE) or key.isupper()


def _shadowing(owner: object) -> frozenset[str]:
    if isinstance(owner, type):
        return frozenset(EQUALS).union(*(vars(base) for base in owner.__mro__[1:]))
    return _BUILTIN_NAMES


def _function(value: object) -> types.FunctionType | None:
    value = value.fget if isinstance(value, property) else value
    value = getattr(value, "__func__", value)
    return value if isinstance(value, types.FunctionType) else None


def _named_in(places: Mapping[str, object]) -> set[str]:
    """Return every name and attribute that the functions of modules and classes mention."""
    found = (_function(value) for owner in places.values() for value in vars(owner).values())
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
    """Refuse, for good, calls that look into the interpreter, and new code for functions that are sealed.

    Audit hooks stay until the process ends.
    """
    refused, rewrites, ours = frozenset(REFUSED), REWRITES, frozenset(map(id, seal.functions()))

    def hook(event: str, facts: tuple) -> None:
        if event in rewrites and id(facts[0]) in ours:
            raise RuntimeError("what judges a submission stays as it is while it is graded")
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
