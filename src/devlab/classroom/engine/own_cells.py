"""Cells that a student added or changed, as helpers and imports are: which of them the answers need.

nbgrader runs every cell. A trial that no answer needs is left out here: it could only cost time, or fail.
"""

import builtins
import re
import symtable
from collections.abc import Collection, Mapping, Sequence

from devlab.classroom.engine.cells import notebook, python_of

# What may be the reason that a name is there, or is not asked for, though the cell sets none of this name.
_EVERYTHING = re.compile(r"^from\s+(?:\S+\s+import\s+\*|__future__\s)", re.MULTILINE)
_GIVEN = frozenset({*dir(builtins), *vars(notebook())})


def needed(steps: Sequence[Sequence[str]], skip: Collection[str] = ()) -> dict[str, list[int]]:
    """Return for each exercise that is not in `skip` the places of the own cells that it needs.

    A step is (kind, exercise, source). Of kind "own" a cell is needed where it sets the name of the exercise,
    or one that the solution uses and no other cell sets, or one that such a cell needs.

    >>> needed([("own", "", "import math"), ("own", "", "1 / 0"), ("solution", "f", "def f(): math.pi")])
    {'f': [0]}
    """
    own = [place for place, (kind, _, _) in enumerate(steps) if kind == "own"]
    if not own:
        return {}
    names = [used_and_set(source) for _, _, source in steps]
    others = [made for (kind, _, _), (_, made) in zip(steps, names, strict=True) if kind != "own"]
    given = _GIVEN.union(*others)
    wanted: dict[str, set[str]] = {}
    for (kind, name, _), (used, _) in zip(steps, names, strict=True):
        if name and name not in skip:
            wanted.setdefault(name, set()).update({name} if kind == "check" else used - given)
    found = {name: _closure(missing, own, names, given) for name, missing in wanted.items()}
    return {name: places for name, places in found.items() if places}


def _closure(missing: set[str], own: Sequence[int], names: Sequence[tuple], given: set[str]) -> list[int]:
    """Return which own cells set names that are missing, or that are missing to such a cell."""
    found, waiting = set(), [missing]
    while waiting:
        missing = waiting.pop()
        for place in own:
            used, made = names[place]
            if place not in found and missing and not made.isdisjoint({"*", *missing}):
                found.add(place)
                waiting.append(used - given)
    return sorted(found)


def chosen(
    steps: Sequence[Sequence[str]], needs: Mapping[str, Sequence[int]], skip: Collection[str] = ()
) -> list[Sequence[str]]:
    """Return steps without the exercises in `skip`, and with those own cells that others need.

    What goes wrong in an own cell is charged to the first exercise that needs it.

    >>> chosen([("own", "", "import math"), ("own", "", "1 / 0"), ("check", "f", "")], {"f": [0]})
    [('own', 'f', 'import math'), ('check', 'f', '')]
    """
    charged: dict[int, str] = {}
    for name, places in needs.items():
        charged = dict.fromkeys(places, name) | charged
    return [
        (kind, charged.get(place, name), source)
        for place, (kind, name, source) in enumerate(steps)
        if (kind != "own" or place in charged) and not (name and name in skip)
    ]


def used_and_set(source: str) -> tuple[set[str], set[str]]:
    """Return which names of its notebook a cell uses, and which it sets: "*" where that cannot be told.

    >>> used, made = used_and_set("import torch as t\\ndef f(x):\\n    y = x + z\\n    return t.sum(y)")
    >>> sorted(used), sorted(made)
    (['t', 'z'], ['f', 't'])
    """
    used, made = set(), set()
    for text in (source, python_of(source)):
        try:
            waiting = [symtable.symtable(text, "<cell>", "exec")]
            break
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            waiting = []
    while waiting:
        scope = waiting.pop()
        waiting += scope.get_children()
        for symbol in scope.get_symbols():
            if scope.get_type() != "module" and not symbol.is_global():
                continue
            used |= {symbol.get_name()} if symbol.is_referenced() else set()
            made |= {symbol.get_name()} if symbol.is_assigned() or symbol.is_imported() else set()
    return used, made | ({"*"} if _EVERYTHING.search(source) else set())
