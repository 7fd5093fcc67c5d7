"""Tells whether a submission tampered with what judges it: patched functions, objects that equal anything."""

import builtins
import ctypes
import functools
import inspect
import operator
import struct
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter, is_

import torch

from devlab.checks import pretend
from devlab.checks.exercise import Exercise

# A dict's version number follows the count of its items; the view of a class's dict begins with the dict.
_FIELDS = object.__basicsize__
_NUMBER = _FIELDS + ctypes.sizeof(ctypes.c_ssize_t)


class Versions:
    """The versions of some namespaces, dicts or what `vars` gives of a class.

    >>> place = {"f": len}
    >>> versions = Versions([place])
    >>> versions.same(versions.now())
    True
    >>> before = versions.now()
    >>> place["f"] = print
    >>> versions.same(before), list(versions.differing(before))
    (False, [0])
    """

    def __init__(self, spaces: Iterable[Mapping[str, object]]):
        self.spaces = list(spaces)  # kept, so that their addresses stay theirs
        self._numbers = [_number_of(space) for space in self.spaces] if KEPT else None

    def now(self) -> bytes | None:
        """Return the versions, side by side; None where none are kept."""
        return None if self._numbers is None else b"".join(self._numbers)

    def same(self, before: bytes | None) -> bool:
        """Tell whether nothing has changed since `now` gave `before`."""
        # To join the numbers' bytes is quicker than to read each number.
        return before is not None and before == b"".join(self._numbers)

    def differing(self, before: bytes | None) -> Sequence[int]:
        """Return which namespaces, by place, may have changed since `now` gave `before`; None: all."""
        if before is None:
            return range(len(self.spaces))
        numbers = memoryview(before).cast("Q")
        return [place for place, one in enumerate(self._numbers) if one.value != numbers[place]]


def _number_of(space: Mapping[str, object]) -> ctypes.c_uint64:
    address = id(space)
    if not isinstance(space, dict):
        address = ctypes.c_void_p.from_address(address + _FIELDS).value
    return ctypes.c_uint64.from_address(address + _NUMBER)


def _are_kept() -> bool:
    """Tell whether this Python changes the number at every change, and at nothing else."""
    if sys.implementation.name != "cpython" or sys.version_info >= (3, 13):
        return False
    place, owner = {}, type("Owner", (), {})
    seen = []
    for number, change in (
        (_number_of(place), place.__setitem__),
        (_number_of(vars(owner)), lambda name, value: setattr(owner, name, value)),
    ):
        seen.append(number.value)
        for value in (1, 2):
            change("name", value)
            seen.append(number.value)
        if not (place.get("name") or owner.name) or number.value != seen[-1]:
            return False
    return len(set(seen)) == len(seen)


KEPT = _are_kept()


_PARTS = operator.attrgetter("__code__", "__defaults__", "__kwdefaults__")


class Insides:
    """What was inside some functions, which live as long as this does.

    >>> def shout(text="a"):
    ...     return text
    >>> insides = Insides([shout])
    >>> insides.changed() is None
    True
    >>> shout.__defaults__ = ("b",)
    >>> insides.changed()
    0
    """

    def __init__(self, functions: Sequence[types.FunctionType]):
        self.held = list(map(_PARTS, functions))  # kept, so that their addresses stay theirs
        self._places = list(functions) if OFFSET is None else list(map(_view_of, functions))
        self._before = self._now()

    def changed(self) -> int | None:
        """Return the place of a function that has other code or defaults than before, None for none."""
        now = self._now()
        if now == self._before:
            return None
        size = len(now) // len(self._places)
        return next(place for place in range(len(now)) if now[place] != self._before[place]) // size

    def _now(self) -> Sequence[int]:
        if OFFSET is None:
            return [one for function in self._places for one in _identities(function)]
        return b"".join(self._places)


def _view_of(function: types.FunctionType) -> ctypes.Array:
    return _Three.from_address(id(function) + OFFSET)


def _identities(function: types.FunctionType) -> tuple[int, ...]:
    return tuple(map(id, _PARTS(function)))


def _where() -> int | None:
    """Return how many bytes into a function its code and defaults stand, None where they are not found."""

    def probe(first="first", *, second="second"):
        pass

    try:
        memory = ctypes.string_at(id(probe), object.__sizeof__(probe))
        found = memory.find(struct.pack("PPP", *_identities(probe)))
    except (AttributeError, ValueError):
        return None
    return found if found >= 0 else None


_Three = ctypes.c_char * struct.calcsize("PPP")
OFFSET = _where()


# A student's class that defines one of these methods decides what its objects equal, or their type.
EQUALS = ("__eq__", "__ne__", "__class__", "__instancecheck__", "__torch_function__", "__torch_dispatch__")
EQUALS += ("__array_ufunc__", "__array__", "__getattribute__")
# Rows put counters in the place of these two methods of a tensor; nothing that judges uses them.
COUNTED = frozenset({"apply_", "map_"})
_BUILTIN_NAMES = frozenset(vars(builtins))


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
            functions |= {one: f"{place}.{key}" for key, value in held.items() if (one := function_in(value))}
            if not held:
                continue
            new = _find_shadowing(owner) - space.keys() - COUNTED if closed else frozenset()
            keys = [*(held | dict.fromkeys(space) if closed else held), next(iter(held))]
            take = operator.itemgetter(*keys)  # one key alone would not give a tuple
            self.spaces.append((place, space, take, list(held.values()), keys, len(space), new))
        self.versions = Versions(space for _, space, *_ in self.spaces)
        self.unchanged = self.versions.now()  # the versions at which nothing was changed
        self.places, self.functions = list(functions.values()), list(functions)
        self.insides = Insides(self.functions)

    def changed(self) -> str:
        """Return which name means something else, as `module.name`; "" where none does."""
        if self.versions.same(self.unchanged):
            return ""
        now = self.versions.now()
        found = self._find_changed(self.versions.differing(self.unchanged))
        self.unchanged = None if found else now
        return found

    def _find_changed(self, where: Iterable[int]) -> str:
        # By `is`, since an object that equals everything must not pass; in C, since this runs often.
        for number in where:
            place, space, take, values, keys, size, new = self.spaces[number]
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
        found = self.insides.changed()
        return "" if found is None else self.places[found]


def _find_shadowing(owner: object) -> frozenset[str]:
    if isinstance(owner, type):
        return frozenset(EQUALS).union(*(vars(base) for base in owner.__mro__[1:]))
    return _BUILTIN_NAMES


def function_in(value: object) -> types.FunctionType | None:
    """Return the function that a value is or holds, as a property or a method of a class does."""
    value = value.fget if isinstance(value, property) else value
    value = getattr(value, "__func__", value)
    return value if isinstance(value, types.FunctionType) else None


# The modules that judging calls: a change of other modules does not reach a verdict.
CALLED = ("torch", "torch.nn", "torch.nn.functional", "torch.linalg", "numpy", "builtins", "inspect")
CALLED += ("contextlib", "dis", "json", "os", "io", "random")
# These modules of devlab, and the judged lessons, run between a call and its verdict.
NEAR = ("devlab.checks", "devlab.classroom.engine.transcript", "devlab.classroom.engine.worker")
# These modules of devlab.checks do not: they are compared before and after each exercise alone.
APART = ("check", "help")
# All of devlab that is compared before and after each exercise.
OWN = (
    "devlab.checks",
    "devlab.learner",
    "devlab.devices",
    "devlab.sim",
    "devlab.watching",
    "devlab.explaining",
)
OWN += ("devlab.classroom.engine",)
# torch.Storage follows the default dtype, which is a notebook's to set.
MOVES = frozenset({"Storage"})
PLAIN = (torch.Tensor, torch.nn.Module, torch.nn.Parameter)
CALLABLE = (types.FunctionType, types.BuiltinFunctionType, type, property, classmethod, staticmethod)
VALUES = (torch.Tensor, int, float, complex, str, bytes, tuple, list, dict, set, frozenset)
# By these calls a submission could find the channel of its verdict, or rewrite code in place.
REFUSED = frozenset({"gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys._current_frames"})
REFUSED |= {"sys.settrace", "sys.setprofile", "sys._current_exceptions"}
# The modules whose questions about devices a pretended machine answers.
ASKED = (torch.cuda, torch.backends.cuda, torch.backends.mps, torch.mps, torch.xpu, torch.accelerator)
ROWS = attrgetter("rows")
# The audit events of setting a function's code and defaults, and of deleting defaults.
REWRITES = ("object.__setattr__", "object.__delattr__")


class Tampered(BaseException):
    """A submission changed what judges it; no `except Exception` of the checks hides it."""


class Seal:
    """A record of what a verdict rests on, noted before a submission runs.

    `broken` compares all of it. `patched` compares what runs between a call and its verdict, which is little
    enough to be looked at after every call. `functions` are those that are sealed, by identity.

    >>> seal = Seal(())
    >>> seal.note()
    >>> seal.broken(), seal.patched()
    ('', '')
    """

    def __init__(self, exercises: Iterable[Exercise]):
        self.exercises = list(exercises)

    def note(self) -> None:
        """Take the record, at first or anew, of what is there now."""
        judges = {row.judge.__module__ for one in self.exercises for row in one.rows}
        judged = tuple(".".join(name.split(".")[:3]) for name in judges)  # devlab.lessons.lesson_NN
        called = {name: sys.modules[name] for name in CALLED}
        classes = {f"{one.__module__}.{one.__qualname__}": one for one in PLAIN}
        self.sealed = OWN + judged
        own = _places(self.sealed) | classes
        apart = tuple(f"devlab.checks.{name}" for name in APART)
        runs = {place: one for place, one in _places(NEAR + judged).items() if not _within(place, apart)}
        near = runs | classes
        used = _list_names(near)
        self.near = (
            Names(near, _is_fixed, closed=True),
            Names(_tables(near), lambda key, value: True),
            Names(called, lambda key, value: key in used and isinstance(value, CALLABLE)),
        )
        self.all = (
            Names(own, _is_fixed, closed=True),
            Names(_tables(own), lambda key, value: True),
            Names(called, lambda key, value: key not in MOVES and isinstance(value, CALLABLE), closed=True),
        )
        self.rows = list(map(ROWS, self.exercises))  # tuples of tuples: none of them can change
        # The version numbers of what is compared after every call are kept in a single list, too.
        self.nearest = Versions(space for one in self.near for space in one.versions.spaces)
        self.unchanged = self.nearest.now()
        self.asked = _questions()
        self.functions = frozenset(id(each) for one in (*self.near, *self.all) for each in one.functions)
        self.modules, self.known = set(sys.modules), _all_classes()
        self.imports = Versions([sys.modules])
        self.imported = self.imports.now()

    def renew(self, made: Iterable[object]) -> None:
        """Take the record anew after a cell of the teacher's, as far as that changed anything.

        `made` are the objects that the cell made: a class among them may decide what its objects equal, which
        classes that students made may not.
        """
        known, came = self.known, self.came()
        if self.broken() or any(name.startswith(self.sealed) for name in came):
            self.note()
        elif came:  # the record only lists other modules; taking the whole record anew takes long
            self.modules |= came.keys()
            self.imported = self.imports.now()
        known.update(one for one in made if isinstance(one, type))
        self.known = known

    def came(self) -> dict[str, types.ModuleType]:
        """Return the modules that came since the record was taken, by name."""
        if self.imports.same(self.imported):
            return {}
        now = self.imports.now()
        found = {name: sys.modules[name] for name in sys.modules.keys() - self.modules}
        self.imported = self.imported if found else now
        return found

    def broken(self) -> str:
        """Return what was changed, as `module.name`; "" where all is as it was."""
        if found := self.patched():
            return found
        if found := next(filter(None, (one.changed() for one in self.all)), ""):
            return found
        # `refuse_spying` refuses new code for sealed functions; those nearest to verdicts are compared, too.
        return next(filter(None, (one.rewritten() for one in self.near)), "")

    def patched(self) -> str:
        """Return what was changed of that which runs between a call and its verdict; "" where nothing was."""
        if not self.nearest.same(self.unchanged):
            now = self.nearest.now()
            if found := next(filter(None, (one.changed() for one in self.near)), ""):
                return found
            self.unchanged = now
        if all(map(is_, map(ROWS, self.exercises), self.rows)):
            return ""
        changed = (one for one, rows in zip(self.exercises, self.rows, strict=True) if one.rows is not rows)
        return f"the rows of {next(changed).name}"

    def require_plain(self, value: object, depth: int = 0) -> None:
        """Raise Tampered for a value of a class of the student's that decides for itself what it equals."""
        kind = type(value)
        if kind not in self.known:
            own = [one for one in kind.__mro__ if one not in self.known]
            dishonest = any(key in vars(one) for one in own for key in EQUALS)
            generated = hasattr(kind, "__dataclass_fields__") or hasattr(kind, "_fields")
            if (dishonest and not generated) or (issubclass(kind, VALUES[:4])):
                raise Tampered(f"a result is of the class {kind.__name__}, which decides what it equals")
        if depth < 3 and isinstance(value, (tuple, list)):
            for one in value[:100]:
                self.require_plain(one, depth + 1)
        elif depth < 3 and isinstance(value, dict):
            for one in list(value.values())[:100]:
                self.require_plain(one, depth + 1)


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
    # Cached functions count in devlab alone: a pretended machine replaces torch.get_device_module.
    return isinstance(value, (*CALLABLE, functools._lru_cache_wrapper)) or key.isupper()


def _list_names(places: Mapping[str, object]) -> set[str]:
    """Return every name and attribute that the functions of modules and classes mention."""
    found = (function_in(value) for owner in places.values() for value in vars(owner).values())
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
    rewrites, ours = frozenset(REWRITES), seal.functions
    watched = rewrites | REFUSED
    # A row that pretends another machine has PyTorch's questions about devices answer something else.
    pretending, asked = inspect.unwrap(pretend.exchange_answer).__code__, seal.asked
    frame_of = sys._getframe

    def hook(event: str, facts: tuple) -> None:
        if event == "builtins.id" or event not in watched:  # most events are the first, so it is asked first
            return
        if event not in rewrites:
            raise RuntimeError(f"{event} is switched off while a submission is graded")
        if id(facts[0]) in ours and not (id(facts[0]) in asked and frame_of(1).f_code is pretending):
            raise RuntimeError("what judges a submission stays as it is while it is graded")

    sys.addaudithook(hook)


def _questions() -> frozenset[int]:
    """Return PyTorch's functions about devices, by identity."""
    found = (inspect.unwrap(one) for module in ASKED for one in vars(module).values() if callable(one))
    return frozenset(id(one) for one in found if isinstance(one, types.FunctionType))
