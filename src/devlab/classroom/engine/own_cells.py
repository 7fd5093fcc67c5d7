"""Which cells of a student's are run for each answer, and in which order.

nbgrader runs every cell. A trial that no answer needs is left out here: it could only cost time, or fail.
What was handed out never replaces what was filled in, and a check waits for what its answer needs.
"""

import ast
import builtins
import re
import symtable
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from devlab.classroom.engine.cells import notebook, python_of

# What may be the reason that a name is there, or is not asked for, though the cell sets none of this name.
_EVERYTHING = re.compile(
    r"^\s*from\s+(?:\S+\s+import\s+\*|__future__\s)|\b(?:exec|globals|vars|locals)\(", re.MULTILINE
)
_DEFINED = re.compile(r"^[ \t>.]*(?:async +)?(?:def|class)\s+(\w+)", re.MULTILINE)
_GIVEN = frozenset({*dir(builtins), *vars(notebook())})
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


@dataclass(eq=False)
class Cell:
    """A step as far as its text tells: the names that it uses, sets and imports, and those of its stubs."""

    place: int
    kind: str
    name: str
    source: str
    used: frozenset[str] = frozenset()
    made: frozenset[str] = frozenset()
    imported: frozenset[str] = frozenset()
    stubs: frozenset[str] = frozenset()

    @property
    def own(self) -> bool:
        """Tell whether it is run only where an answer needs it."""
        return self.kind in ("own", "spare")

    def fills(self, name: str) -> bool:
        """Tell whether it sets a name to something other than a stub."""
        return name in self.made and name not in self.stubs


@dataclass
class Plan:
    """The steps in the order of their run, the own cells that exercises need, and the exercises worked on."""

    steps: list[tuple[str, str, str]]
    needs: dict[str, list[int]]
    written: set[str]


def planned(steps: Sequence[Sequence[str]], skip: Collection[str] = (), everything: bool = False) -> Plan:
    """Return what is run of the steps, each (kind, exercise, source), without the exercises in `skip`.

    An own cell is needed where it sets or changes a name that the exercise's answer, or a cell that this one
    needs, uses; a spare one where nothing else sets such a name. A check comes at the end where something
    that its answer needs comes after its place. What goes wrong in an own cell is charged to the first
    exercise that needs it. With `everything` all cells of code are run, and of `skip` no check.

    >>> planned([("own", "", "import math"), ("own", "", "1 / 0"), ("solution", "f", "def f(): math.pi"),
    ...          ("check", "f", "")]).steps
    [('own', 'f', 'import math'), ('solution', 'f', 'def f(): math.pi'), ('check', 'f', '')]
    """
    exercises = [name for kind, name, _ in steps if kind == "check"]
    read = [_read(place, step, exercises) for place, step in enumerate(steps)]
    cells = _blanks_first(read, exercises)
    needs: dict[str, list[Cell]] = {}
    late: list[Cell] = []
    for position, cell in enumerate(cells):
        if cell.kind == "check" and cell.name not in skip:
            needs[cell.name], complete = _needed(cell.name, cells, position)
            if not complete:
                needs[cell.name], _ = _needed(cell.name, cells, len(cells))
                late.append(cell)
            if everything:
                own = [one for one in cells[: None if cell in late else position] if one.kind == "own"]
                needs[cell.name] = [*needs[cell.name], *own]
    charged = {}
    for name, several in needs.items():
        charged = {cell.place: name for cell in several} | charged
    left_out = () if everything else skip
    chosen = [cell for cell in cells if _is_run(cell, charged, left_out) and cell not in late] + late
    chosen = [cell for cell in chosen if cell.kind != "check" or cell.name not in skip]
    return Plan(
        [(cell.kind, charged.get(cell.place, cell.name), cell.source) for cell in chosen],
        {name: sorted({cell.place for cell in several}) for name, several in needs.items() if several},
        {name for name in needs if any(_is_work(cell, name, needs[name]) for cell in chosen)},
    )


def _is_run(cell: Cell, charged: Mapping[int, str], skip: Collection[str]) -> bool:
    return cell.place in charged if cell.own else not (cell.name and cell.name in skip)


def _is_work(cell: Cell, name: str, needed: Sequence[Cell]) -> bool:
    """Tell whether a cell is an answer's, or a part of it, and holds more than comments and stubs."""
    its = (cell.kind == "solution" and cell.name == name) or (cell in needed and cell.fills(name))
    return its and bool((cell.used | cell.made) - {name} or cell.fills(name))


def _blanks_first(cells: list[Cell], exercises: Sequence[str]) -> list[Cell]:
    """Put what was handed out of each exercise above the first cell that fills it in."""
    for name in exercises:
        filling = [cell for cell in cells if cell.fills(name) and cell.kind != "blank"]
        if filling:
            filled = min(filling, key=lambda cell: cell.kind == "spare")
            below = cells[cells.index(filled) :]
            blank = ("blank", name)
            blanks = [cell for cell in below if name in cell.stubs or (cell.kind, cell.name) == blank]
            cells = [cell for cell in cells if cell not in blanks]
            at = cells.index(filled)
            cells[at:at] = blanks
    return cells


def _needed(name: str, cells: Sequence[Cell], position: int) -> tuple[list[Cell], bool]:
    """Return which own cells above a position an exercise needs, and whether nothing that it needs is below.

    All cells that set a name are taken, so that the last of them counts, as in the student's notebook.
    """
    above, below = cells[:position], cells[position:]
    given = {one for cell in cells if cell.kind == "setup" for one in cell.made}
    parts = [cell for cell in above if cell.name == name and not cell.own]
    wanted = {name}.union(*(cell.used for cell in parts))
    code = [cell for cell in above if cell.kind in ("own", "solution", "blank")]
    taken: dict[int, Cell] = {}

    def take(candidates: Sequence[Cell], names: Collection[str]) -> None:
        while found := [
            one for one in candidates if one.place not in taken and not names.isdisjoint(_sets(one, given))
        ]:
            taken.update({one.place: one for one in found})
            wanted.update(*(one.used for one in found))

    take(code, wanted)

    def lacking() -> set[str]:
        there = _GIVEN | given
        return {
            one
            for one in wanted - there
            if not any(cell.fills(one) for cell in above if cell.kind != "spare" or cell.place in taken)
        }

    if missing := lacking():
        take([cell for cell in code if "*" in cell.made], {"*"})
        take([cell for cell in above if cell.kind == "spare"], missing)
        take(code, wanted)
    left = lacking()
    complete = not any(cell.fills(one) for cell in below for one in left)
    return [cell for cell in taken.values() if cell.own], complete


def _sets(cell: Cell, given: Collection[str]) -> frozenset[str]:
    """Return the names that a cell sets; what the teacher's cell imports, an own cell only imports again."""
    return cell.made - (cell.imported & given) if cell.own else cell.made


def _read(place: int, step: Sequence[str], exercises: Sequence[str]) -> Cell:
    """Read a cell's names; "*" among those that it sets means that this cannot be told."""
    kind, name, source = step
    for text in (source, python_of(source)):
        try:
            table, tree = symtable.symtable(text, "<cell>", "exec"), ast.parse(text)
            break
        except UNREADABLE:
            continue
    else:  # it raises when it is run, and the answer that it was meant to be is told so
        return Cell(place, kind, name, source, made=frozenset(_DEFINED.findall(source)))
    used, made, imported = set(), set(), set()
    waiting = [table]
    while waiting:
        scope = waiting.pop()
        waiting += scope.get_children()
        for symbol in scope.get_symbols():
            if scope.get_type() != "module" and not symbol.is_global():
                continue
            used |= {symbol.get_name()} if symbol.is_referenced() else set()
            made |= {symbol.get_name()} if symbol.is_assigned() or symbol.is_imported() else set()
            imported |= {symbol.get_name()} if symbol.is_imported() else set()
    made |= _changed(tree) - imported
    made |= {"*"} if _EVERYTHING.search(source) else set()
    stubs = {name} if kind == "blank" and name in made else _stubs(tree) & {*exercises}
    return Cell(place, kind, name, source, *map(frozenset, (used, made, imported, stubs)))


def _changed(tree: ast.Module) -> set[str]:
    """Return the names of what a cell changes without setting them: an attribute, an item, a list."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            found.add(_root(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
            found.update(map(_root, node.args[:1]))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            found.add(_root(node.value.func) if isinstance(node.value.func, ast.Attribute) else "")
    return found - {""}


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _stubs(tree: ast.Module) -> set[str]:
    """Return the functions and classes of a cell in whose bodies nothing was written yet."""
    last = {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    return {name for name, node in last.items() if _is_stub(node)}


def _is_stub(node: ast.AST) -> bool:
    if isinstance(node, ast.Raise):
        return isinstance(node.exc, ast.Name | ast.Call) and _root(node.exc) == "NotImplementedError"
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or _begins_as_module(node.value)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return all(map(_is_stub, node.body))
    return isinstance(node, ast.Pass)


def _begins_as_module(node: ast.AST) -> bool:
    """Tell whether it is `super().__init__()`, which a class is handed out with."""
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args
    return called and node.func.attr == "__init__" and _root(node.func) == "super"
