"""Cells that a student added or changed, as helpers and imports are: which of them the answers need.

nbgrader runs every cell. A trial that no answer needs is left out here: it could only cost time, or fail.
"""

import builtins
import re
import symtable
from collections.abc import Collection, Sequence

from devlab.classroom.engine.cells import notebook, python_of

_EVERYTHING = re.compile(r"^from\s+\S+\s+import\s+\*", re.MULTILINE)
_GIVEN = {*dir(builtins), *vars(notebook())}


def chosen(steps: Sequence[Sequence[str]], skip: Collection[str] = ()) -> list[Sequence[str]]:
    """Return steps of a notebook without the exercises in `skip`, and with those own cells that are needed.

    A step is (kind, exercise, source). Of kind "own" a cell is needed where it sets the name of an exercise,
    or one that a solution uses and no other cell sets, or one that such a cell needs. It is charged to the
    exercise that it is needed for.

    >>> cells = [("own", "", "import math"), ("own", "", "1 / 0"), ("solution", "f", "def f(): math.pi")]
    >>> chosen(cells)
    [('own', 'f', 'import math'), ('solution', 'f', 'def f(): math.pi')]
    """
    steps = [step for step in steps if not step[1] or step[1] not in skip]
    if all(kind != "own" for kind, _, _ in steps):
        return steps
    names = [used_and_set(source) for _, _, source in steps]
    others = [made for (kind, _, _), (_, made) in zip(steps, names, strict=True) if kind != "own"]
    given = _GIVEN.union(*others)
    wanted = [(name, {name}) for kind, name, _ in steps if kind == "check"]
    wanted += [
        (name, used - given)
        for (kind, name, _), (used, _) in zip(steps, names, strict=True)
        if kind == "solution"
    ]
    charged = {}
    while wanted:
        exercise, missing = wanted.pop()
        for place, (kind, _, _) in enumerate(steps):
            used, made = names[place]
            if kind == "own" and place not in charged and missing and not made.isdisjoint({"*", *missing}):
                charged[place] = exercise
                wanted.append((exercise, used - given))
    return [
        (kind, charged[place], source) if kind == "own" else (kind, name, source)
        for place, (kind, name, source) in enumerate(steps)
        if kind != "own" or place in charged
    ]


def used_and_set(source: str) -> tuple[set[str], set[str]]:
    """Return which names of its notebook a cell uses, and which it sets: "*" for whatever a module has.

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
