"""What names in modules, classes and dicts stood for, and whether they still do."""

import builtins
import operator
import types
from collections.abc import Callable, Iterable, Mapping

from devlab.classroom.engine.insides import Insides
from devlab.classroom.engine.versions import Versions

# A class of the student's that defines one of these decides what it equals, or what type it is.
EQUALS = ("__eq__", "__ne__", "__class__", "__instancecheck__", "__torch_function__", "__torch_dispatch__")
EQUALS += ("__array_ufunc__", "__array__", "__getattribute__")
# Of a tensor's methods a row counts the calls, in their place; nothing that judges uses these two.
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
            new = _shadowing(owner) - space.keys() - COUNTED if closed else frozenset()
            keys = [*(held | dict.fromkeys(space) if closed else held), next(iter(held))]
            take = operator.itemgetter(*keys)  # one key alone would not give a tuple
            self.spaces.append((place, space, take, list(held.values()), keys, len(space), new))
        self.versions = Versions(space for _, space, *_ in self.spaces)
        self.unchanged = self.versions.now()  # those at which all was last seen to be as it should be
        self.places, self.functions = list(functions.values()), list(functions)
        self.insides = Insides(self.functions)

    def changed(self) -> str:
        """Return which name means something else, as `module.name`; "" where none does."""
        if self.versions.same(self.unchanged):
            return ""
        now = self.versions.now()
        found = self._compared(self.versions.differing(self.unchanged))
        self.unchanged = None if found else now
        return found

    def _compared(self, where: Iterable[int]) -> str:
        # `is` by operator.is_ and in C: an object that equals everything must not pass, and this runs often.
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


def _shadowing(owner: object) -> frozenset[str]:
    if isinstance(owner, type):
        return frozenset(EQUALS).union(*(vars(base) for base in owner.__mro__[1:]))
    return _BUILTIN_NAMES


def function_in(value: object) -> types.FunctionType | None:
    """Return the function that a value is or holds, as a property or a method of a class does."""
    value = value.fget if isinstance(value, property) else value
    value = getattr(value, "__func__", value)
    return value if isinstance(value, types.FunctionType) else None
