"""Tells whether a submission tampered with what judges it: patched functions, objects that equal anything."""

import inspect
import sys
import types
from collections.abc import Iterable, Mapping
from operator import attrgetter, is_

import torch

from devlab.checks import pretend
from devlab.checks.exercise import Exercise
from devlab.classroom.engine.namespaces import EQUALS, Names, function_in
from devlab.classroom.engine.versions import Versions

# What a verdict calls; of other modules a change would not reach it.
CALLED = ("torch", "torch.nn", "torch.nn.functional", "torch.linalg", "numpy", "builtins", "inspect")
CALLED += ("contextlib", "dis", "json", "os", "io", "random")
# devlab's own, with its constants; near is what runs between a call and its verdict, and the judged lessons.
NEAR = ("devlab.checks", "devlab.classroom.engine.recorder", "devlab.classroom.engine.worker")
# Of these nothing runs between a call and its verdict: they are compared before and after the judgement.
APART = ("answer", "check", "export", "help", "overview", "overview_html", "progress", "standing")
OWN = (
    "devlab.checks",
    "devlab.devices",
    "devlab.sim",
    "devlab.watching",
    "devlab.explaining",
    "devlab.classroom.engine",
)
# torch.Storage follows the default dtype, which is a notebook's to set.
MOVES = frozenset({"Storage"})
PLAIN = (torch.Tensor, torch.nn.Module, torch.nn.Parameter)
CALLABLE = (types.FunctionType, types.BuiltinFunctionType, type, property, classmethod, staticmethod)
VALUES = (torch.Tensor, int, float, complex, str, bytes, tuple, list, dict, set, frozenset)
# By these a submission could find the channel of its verdict, or rewrite code in place.
REFUSED = frozenset({"gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys._current_frames"})
REFUSED |= {"sys.settrace", "sys.setprofile", "sys._current_exceptions"}
# Where a pretended machine answers.
ASKED = (torch.cuda, torch.backends.cuda, torch.backends.mps, torch.mps, torch.xpu, torch.accelerator)
ROWS = attrgetter("rows")
# A function's code and defaults are set by the one, and by the other where they become None.
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
        """Take the record, at first or anew: what is there now is how it should be."""
        judges = {row.judge.__module__ for one in self.exercises for row in one.rows}
        judged = tuple(".".join(name.split(".")[:3]) for name in judges)  # devlab.lessons.lesson_NN
        called = {name: sys.modules[name] for name in CALLED}
        classes = {f"{one.__module__}.{one.__qualname__}": one for one in PLAIN}
        self.sealed = OWN + judged
        own = _places(self.sealed) | classes
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
            Names(called, lambda key, value: key not in MOVES and isinstance(value, CALLABLE), closed=True),
        )
        self.rows = list(map(ROWS, self.exercises))  # tuples of tuples: none of them can change
        # What is compared after every call has its numbers in one list too.
        self.nearest = Versions(space for one in self.near for space in one.versions.spaces)
        self.unchanged = self.nearest.now()
        self.asked = _questions()
        self.functions = frozenset(id(each) for one in (*self.near, *self.all) for each in one.functions)
        self.modules, self.known = set(sys.modules), _all_classes()
        self.imports = Versions([sys.modules])
        self.imported = self.imports.now()

    def renew(self, made: Iterable[object]) -> None:
        """Take the record anew after a cell of the teacher's, as far as that changed anything.

        `made` is what the cell has made: a class among it may decide for itself what it equals, those that
        students made before it may not.
        """
        known, came = self.known, self.came()
        if self.broken() or any(name.startswith(self.sealed) for name in came):
            self.note()
        elif came:  # of others nothing is in the record but that they are there: to take it anew takes long
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
        # `refuse_spying` keeps all code; of what runs between a call and its verdict it is read again.
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
    return isinstance(value, CALLABLE) or key.isupper()


def _named_in(places: Mapping[str, object]) -> set[str]:
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
    pretending, asked = inspect.unwrap(pretend.answered_by).__code__, seal.asked
    frame_of = sys._getframe

    def hook(event: str, facts: tuple) -> None:
        if event == "builtins.id" or event not in watched:  # the first is most of them, and told the quickest
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
