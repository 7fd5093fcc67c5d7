"""Puts back what a submission exchanged of all that judges it, before a row is judged by that."""

import builtins
import ctypes
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from operator import is_

import torch

from devlab.checks.exercise import Exercise
from devlab.checks.expect import Mismatch

# The modules whose functions judge: what a submission exchanges in other modules does not reach a verdict.
CALLED = ("torch", "torch.nn", "torch.nn.functional", "torch.linalg", "numpy", "builtins", "inspect")
CALLED += ("contextlib", "dis", "json", "os", "io", "random")
# These modules of devlab, and the judged lessons, run between a call and its verdict.
NEAR = ("devlab.checks", "devlab.classroom.engine.transcript", "devlab.classroom.engine.worker")
# What devlab has of these is put back before each exercise alone.
OWN = ("devlab.learner", "devlab.devices", "devlab.sim", "devlab.watching", "devlab.explaining")
OWN += ("devlab.classroom.engine", "devlab.shell")
# Rows put counters in the place of these two methods of a tensor; torch.Storage follows the default dtype.
COUNTED, MOVES = frozenset({"apply_", "map_"}), frozenset({"Storage"})
PLAIN = (torch.Tensor, torch.nn.Module, torch.nn.Parameter)
CALLABLE = (types.FunctionType, types.BuiltinFunctionType, type, property, classmethod, staticmethod)
# A student's class that defines one of these methods decides what its objects equal, or their type.
EQUALS = ("__eq__", "__ne__", "__class__", "__instancecheck__", "__torch_function__", "__torch_dispatch__")
EQUALS += ("__array_ufunc__", "__array__", "__getattribute__")
VALUES = (torch.Tensor, int, float, complex)
# The modules whose questions about devices a pretended machine answers.
ASKED = (torch.cuda, torch.backends.cuda, torch.backends.mps, torch.mps, torch.xpu, torch.accelerator)
GONE = object()  # stands for a name that was not there
# The audit events of setting a function's code and defaults, and of deleting defaults.
REWRITES = frozenset({"object.__setattr__", "object.__delattr__"})

Exchanged = tuple[str, object, str, object]  # a place, its owner, a name in it, and what that stood for

# A dict's version number follows the count of its items; the view of a class's dict begins with the dict.
_FIELDS = object.__basicsize__
_NUMBER = _FIELDS + ctypes.sizeof(ctypes.c_ssize_t)


def _number_of(space: types.MappingProxyType | dict) -> ctypes.c_uint64:
    """Return the version number of a namespace, which the interpreter changes with every change."""
    address = id(space)
    if not isinstance(space, dict):
        address = ctypes.c_void_p.from_address(address + _FIELDS).value
    return ctypes.c_uint64.from_address(address + _NUMBER)


# Later versions of CPython keep no such numbers, and other interpreters never did.
KEPT = sys.implementation.name == "cpython" and sys.version_info < (3, 13)


class Names:
    """What names in some places stand for; a place is a module, a class or a dict.

    No name may come that would stand before another: a builtin, or what a class inherits.

    >>> place = {"f": len}
    >>> names = Names([("here", place, place.copy())])
    >>> place["f"] = print
    >>> [name for _, _, name, _ in names.find_exchanged()]
    ['f']
    """

    def __init__(self, places: Iterable[tuple[str, object, dict]]):
        self.places = []
        for place, owner, held in places:
            space = owner if isinstance(owner, dict) else vars(owner)
            self.places.append((place, owner, space, held, _find_shadowing(owner) - space.keys() - COUNTED))
        # The views of classes are kept with their numbers, so that their addresses stay theirs.
        self._numbers = [_number_of(space) for _, _, space, _, _ in self.places] if KEPT else None
        self._settled = self._read_numbers()

    def find_exchanged(self) -> list[Exchanged]:
        """Return the names that stand for something else than they did."""
        now = self._read_numbers()
        if now is not None and now == self._settled:  # nothing has changed, as nearly always
            return []
        found = [one for place in self.places for one in _compare(*place)]
        self._settled = None if found else now  # what was found is looked for until it is put back
        return found

    def _read_numbers(self) -> bytes | None:
        return None if self._numbers is None else b"".join(self._numbers)


def _compare(place: str, owner: object, space, held: dict, new: frozenset) -> Iterator[Exchanged]:
    """Yield what was exchanged in a place: by `is`, since an object that equals everything must not pass."""
    if all(map(is_, map(space.get, held), held.values())) and new.isdisjoint(space):  # quick, in C
        return
    for name, value in held.items():
        if space.get(name, GONE) is not value:
            yield place, owner, name, value
    for name in new.intersection(space):
        yield place, owner, name, GONE


def _find_shadowing(owner: object) -> frozenset[str]:
    if isinstance(owner, type):
        return frozenset(EQUALS).union(*(vars(base) for base in owner.__mro__[1:]))
    return frozenset() if isinstance(owner, dict) else frozenset(vars(builtins))


class Seal:
    """What a verdict rests on, noted before a submission runs, and put back where that was exchanged.

    >>> seal = Seal(())
    >>> kept, torch.equal = torch.equal, len
    >>> seal.put_back(), torch.equal is kept
    (['torch.equal'], True)
    """

    def __init__(self, exercises: Iterable[Exercise]):
        self.exercises = list(exercises)
        self.note()

    def note(self) -> None:
        """Take the record, at first or anew, of what is there now."""
        lessons = {row.judge.__module__ for one in self.exercises for row in one.rows}
        near = NEAR + tuple(".".join(name.split(".")[:3]) for name in lessons)  # devlab.lessons.lesson_NN
        modules = {name: one for name, one in sys.modules.items() if name.startswith("devlab.")}
        runs = {name: one for name, one in modules.items() if name.startswith(near)}
        rest = {name: one for name, one in modules.items() if name.startswith(OWN) and name not in runs}
        near = [*_places(runs), *((one.__qualname__, one, _fixed(one)) for one in PLAIN)]
        near += ((name, sys.modules[name], _fixed(sys.modules[name], CALLABLE)) for name in CALLED)
        self.near, self.rest = Names(near), Names(_places(rest))
        places = self.near.places + self.rest.places
        held = [function_in(value) for _, _, _, held, _ in places for value in held.values()]
        self.functions = [one for one in held if one]
        self.rows = [one.rows for one in self.exercises]  # tuples of tuples: none of them can change
        self.known = _all_classes()

    def find_exchanged(self) -> list[Exchanged]:
        """Return all that was exchanged."""
        return self.near.find_exchanged() + self.rest.find_exchanged()

    def put_back(self) -> list[str]:
        """Put back what was exchanged before an exercise is judged; return its names."""
        for one, rows in zip(self.exercises, self.rows, strict=True):
            one.rows = rows
        return self.put_back_after_call() + _put_back(self.rest.find_exchanged())

    def put_back_after_call(self) -> list[str]:
        """Put back what runs between a call and its verdict: little enough to be compared each time."""
        sys.settrace(None)
        sys.setprofile(None)
        return _put_back(self.near.find_exchanged())

    def require_plain(self, value: object, depth: int = 0) -> None:
        """Raise Mismatch for a value of a class of the student's that decides for itself what it equals."""
        kind = type(value)
        if kind not in self.known:
            own = [one for one in kind.__mro__ if one not in self.known]
            if issubclass(kind, VALUES) or any(key in vars(one) for one in own for key in EQUALS):
                headline = f"the result is of {kind.__name__}, a class that decides for itself what it equals"
                raise Mismatch(headline, "a value of one of Python's or PyTorch's classes", kind.__name__)
        if depth < 3 and isinstance(value, tuple | list | dict):
            for one in list(value.values() if isinstance(value, dict) else value)[:100]:
                self.require_plain(one, depth + 1)


def _put_back(exchanged: Iterable[Exchanged]) -> list[str]:
    names = []
    for place, owner, name, value in exchanged:
        names.append(f"{place}.{name}")
        if isinstance(owner, type):
            type.__delattr__(owner, name) if value is GONE else type.__setattr__(owner, name, value)
        else:
            space = owner if isinstance(owner, dict) else vars(owner)
            space.pop(name) if value is GONE else space.__setitem__(name, value)
    return names


def _places(modules: dict[str, types.ModuleType]) -> Iterator[tuple[str, object, dict]]:
    """Yield modules, the classes that are made in them, and the dicts among the constants of both."""
    classes = {
        f"{name}.{one.__qualname__}": one
        for name, module in modules.items()
        for one in list(vars(module).values())
        if isinstance(one, type) and one.__module__ == name
    }
    for place, owner in (modules | classes).items():
        held = _fixed(owner)
        yield place, owner, held
        for name, value in held.items():
            if name.isupper() and type(value) is dict:
                yield f"{place}.{name}", value, value.copy()


# Cached functions count in devlab alone: a pretended machine replaces torch.get_device_module.
OURS = (*CALLABLE, functools._lru_cache_wrapper)


def _fixed(owner: object, kinds: tuple = OURS) -> dict[str, object]:
    """Return what stands for the same all the time in a module or a class: functions, and constants."""
    names = vars(owner).copy()
    return {
        name: one
        for name, one in names.items()
        if name not in MOVES and (isinstance(one, kinds) or (name.isupper() and kinds is OURS))
    }


def function_in(value: object) -> types.FunctionType | None:
    """Return the function that a value is or holds, as a property or a method of a class does."""
    value = value.fget if isinstance(value, property) else value
    value = getattr(value, "__func__", value)
    return value if isinstance(value, types.FunctionType) else None


def _all_classes() -> set[type]:
    found, waiting = {object}, [object]
    while waiting:
        for one in type.__subclasses__(waiting.pop()):
            if one not in found:
                found.add(one)
                waiting.append(one)
    return found


def refuse_rewriting(functions: Iterable[Callable]) -> None:
    """Refuse, for good, new code and new defaults for functions; audit hooks stay until the process ends.

    Functions about devices are left out: a row that pretends another machine has them answer something else.
    """
    asked = (inspect.unwrap(one) for module in ASKED for one in vars(module).values() if callable(one))
    kept = frozenset(map(id, functions)).difference(map(id, asked))

    def hook(event: str, facts: tuple, watched=REWRITES) -> None:
        if event in watched and id(facts[0]) in kept:
            raise RuntimeError("what judges a submission stays as it is while it is graded")

    sys.addaudithook(hook)
