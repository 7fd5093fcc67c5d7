"""What is run for a submission: which cells, in which order."""

import ast
import builtins
import re
import symtable
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from devlab.classroom.handout import CHECKED, Handout, grade_facts, grade_id_of, without_checks
from devlab.shell import Shell, python_of

# Code that may set any name, without the name in its text.
_EVERYTHING = re.compile(
    r"^\s*from\s+(?:\S+\s+import\s+\*|__future__\s)|\b(?:exec|globals|vars|locals)\(", re.MULTILINE
)
_DEFINED = re.compile(r"^[ \t>.]*(?:async +)?(?:def|class)\s+(\w+)", re.MULTILINE)
_GIVEN = frozenset({*dir(builtins), *vars(Shell().notebook)})
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
MOST_SOURCE = 50_000  # characters of what a student wrote that the record of an exercise keeps


@dataclass(eq=False)
class Cell:
    """A step, with the names that its text uses, sets and imports, and the names of its stubs."""

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
        """Tell whether the cell is run only where an answer needs it."""
        return self.kind in ("own", "spare")

    def fills(self, name: str) -> bool:
        """Tell whether the cell sets a name to something other than a stub."""
        return name in self.made and name not in self.stubs


@dataclass
class Plan:
    """The steps in the order of their run, the own cells that exercises need, and the exercises worked on."""

    steps: list[tuple[str, str, str]]
    needs: dict[str, list[int]]
    written: set[str]


def plan_run(steps: Sequence[Sequence[str]], skip: Collection[str] = (), everything: bool = False) -> Plan:
    """Return what is run of the steps, each (kind, exercise, source), without the exercises in `skip`.

    An own cell is needed where it sets or changes a name that the exercise's answer, or a cell that this one
    needs, uses; a spare one where nothing else sets such a name. A check comes at the end where something
    that its answer needs comes after its place. What goes wrong in an own cell is charged to the first
    exercise that needs it. With `everything` all cells of code are run, and of `skip` no check.

    >>> plan_run([("own", "", "import math"), ("own", "", "1 / 0"), ("solution", "f", "def f(): math.pi"),
    ...          ("check", "f", "")]).steps
    [('own', 'f', 'import math'), ('solution', 'f', 'def f(): math.pi'), ('check', 'f', '')]
    """
    exercises = [name for kind, name, _ in steps if kind == "check"]
    read = [_read_names(place, step, exercises) for place, step in enumerate(steps)]
    cells = _blanks_first(read, exercises)
    needs: dict[str, list[Cell]] = {}
    late: list[Cell] = []
    for position, cell in enumerate(cells):
        if cell.kind == "check" and cell.name not in skip:
            needs[cell.name], complete = _find_needed(cell.name, cells, position)
            if not complete:
                needs[cell.name], _ = _find_needed(cell.name, cells, len(cells))
                late.append(cell)
            if everything:
                own = [one for one in cells[: None if cell in late else position] if one.kind == "own"]
                needs[cell.name] = [*needs[cell.name], *own]
    charged = {}
    for name, several in needs.items():
        charged = {cell.place: name for cell in several} | charged
    left_out = () if everything else skip
    chosen = [cell for cell in cells if cell not in late] + late
    chosen = [one for one in chosen if one.place in charged or not (one.own or one.name in left_out)]
    chosen = [cell for cell in chosen if cell.kind != "check" or cell.name not in skip]
    return Plan(
        [(cell.kind, charged.get(cell.place, cell.name), cell.source) for cell in chosen],
        {name: sorted({cell.place for cell in several}) for name, several in needs.items() if several},
        {name for name in needs if any(_is_work(cell, name, needs[name]) for cell in chosen)},
    )


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


def _find_needed(name: str, cells: Sequence[Cell], position: int) -> tuple[list[Cell], bool]:
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


def _read_names(place: int, step: Sequence[str], exercises: Sequence[str]) -> Cell:
    """Read a cell's names; "*" among the names that it sets stands for any name."""
    kind, name, source = step
    # A magic of a cell mostly runs the cell, whose names count.
    rest = source.lstrip().partition("\n")[2] if source.lstrip().startswith("%%") else source
    for read in (str, python_of):
        try:
            text = read(rest)
            table, tree = symtable.symtable(text, "<cell>", "exec"), ast.parse(text)
            break
        except UNREADABLE:
            continue
    else:  # the cell raises when it is run, and the verdict on its answer says so
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
    made |= _find_changed_names(tree) - imported
    made |= {"*"} if _EVERYTHING.search(source) else set()
    stubs = {name} if kind == "blank" and name in made else _stubs(tree) & {*exercises}
    return Cell(place, kind, name, source, *map(frozenset, (used, made, imported, stubs)))


def _find_changed_names(tree: ast.Module) -> set[str]:
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


@dataclass(frozen=True)
class Task:
    """One exercise as the teacher's notebook has it: its points, and the cell that says what is earned."""

    name: str
    possible: float
    worth: str

    def points(self, rows: int, passed: bool) -> float:
        """Return the points for so many rows that passed, as the check's own cell works them out.

        >>> Task("f", 8, "2 * devlab.check(f).points").points(3, False)
        6.0
        """
        earned = {".points": rows, ".passed": int(passed), "": self.possible * passed}
        made = CHECKED.sub(lambda found: str(earned[found[1] or ""]), self.worth)
        return max(0.0, min(float(eval(made, {"__builtins__": {}})), float(self.possible)))


class Step(NamedTuple):
    """One cell to run; `name` is the exercise that it belongs to, and that a failure is charged to, or "".

    `kind` says what it is: "setup" of the teacher's, a part of an answer ("solution"), one that is as it was
    handed out ("blank"), what a student added or changed ("own"), text in a cell that is none of code and may
    be part of an answer ("spare"), or a "check".
    """

    kind: str
    name: str
    source: str


def tasks(source: dict) -> list[Task]:
    """Return the exercises of a teacher's notebook in its order."""
    return [
        Task(_exercise(cell), facts["points"], "".join(cell["source"]).strip().rstrip(";"))
        for cell in source["cells"]
        if (facts := grade_facts(cell)) and facts["grade_id"].startswith("check_")
    ]


def reference(handout: Handout) -> list[Step]:
    """Return the steps to run for the teacher's own solutions."""
    found = []
    for place, cell in enumerate(handout.source["cells"]):
        kind, name = _role(handout, place)
        if kind:
            found.append(Step(kind, name, "" if kind == "check" else "".join(cell["source"])))
    return found


def merge_cells(handout: Handout, submission: dict) -> list[Step]:
    """Return the steps to run for a submission: its cells in its order, as nbgrader runs them.

    The teacher's cells that are no tasks come from the teacher: those above the first task before anything
    else, each other one before all that it precedes in the teacher's notebook. Of each check the last cell
    tells the place, and a check that was deleted comes at the end.
    """
    cells = submission["cells"]
    # A trial of a check, or a copy without nbgrader's mark, does not take the place of the marked cell.
    by_mark = sorted(range(len(cells)), key=lambda number: bool(grade_id_of(cells[number])))
    last = {handout.place_of(cells[number]): number for number in by_mark}
    setups = [place for place in range(len(handout.blank)) if _role(handout, place)[0] == "setup"]
    steps: list[Step] = []

    def set_up(until: float) -> None:
        while setups and setups[0] < until:
            steps.append(Step("setup", "", "".join(handout.source["cells"][setups.pop(0)]["source"])))

    set_up(min(handout.tasks, default=0))
    for number, cell in enumerate(cells):
        place = handout.place_of(cell)
        if place is None:
            steps += _own(handout, cell)
            continue
        kind, name = _role(handout, place)
        set_up(place + (kind == "setup"))
        if kind == "check":
            if not handout.untouched(cell, place):
                steps += _own(handout, {**cell, "source": without_checks(cell["source"])})
            steps += [Step("check", name, "")] if last[place] == number else []
        elif kind == "solution":
            steps.append(Step(_part(handout, cell, place), name, cell["source"]))
        elif not handout.untouched(cell, place):
            steps += _own(handout, cell)
    set_up(float("inf"))
    there = {step.name for step in steps if step.kind == "check"}
    every = (_role(handout, place) for place in sorted(handout.tasks))
    return steps + [Step("check", name, "") for kind, name in every if kind == "check" and name not in there]


def _role(handout: Handout, place: int) -> tuple[str, str]:
    """Return the kind and the exercise of a teacher's cell; the kind is "" where it is not run."""
    cell = handout.source["cells"][place]
    if cell["cell_type"] != "code":
        return "", ""
    if grade_facts(cell):
        return ("check", _exercise(cell)) if grade_id_of(cell).startswith("check_") else ("", "")
    if place not in handout.tasks:
        return "setup", ""
    return "solution", grade_id_of(cell) if grade_id_of(cell) in handout.names else ""


def _part(handout: Handout, cell: dict, place: int) -> str:
    if handout.untouched(cell, place):
        return "blank"
    return "solution" if cell["cell_type"] == "code" else "spare"


def _own(handout: Handout, cell: dict) -> Iterator[Step]:
    """Yield the step for what a student added or changed; prose is none."""
    if cell["source"].strip():
        if cell["cell_type"] == "code":
            yield Step("own", "", cell["source"])
        elif handout.defined_in(cell):
            yield Step("spare", "", cell["source"])


def answers(steps: Sequence[Step], needs: Mapping[str, Sequence[int]]) -> dict[str, str]:
    """Return what a student wrote for each exercise, with the own cells that it needs, in their order.

    `needs` is what a submission's own process says of that: the places of steps by exercise. What is no such
    place is passed over. Where nothing was written, it is what was handed out.
    """
    found: dict[str, list[str]] = {}
    for place, step in enumerate(steps):
        if step.kind == "solution" and step.name:
            found.setdefault(step.name, []).append(step.source)
        elif step.kind in ("own", "spare"):
            for name in [name for name, places in needs.items() if place in places]:
                found.setdefault(name, []).append(step.source)
    blank = {step.name: [step.source] for step in steps if step.kind == "blank" and step.name}
    return {name: _shorten("\n\n".join(texts)) for name, texts in (blank | found).items()}


def _shorten(text: str) -> str:
    """Return a text, or its beginning: what every exercise needs is in all their records."""
    rest = len(text) - MOST_SOURCE
    return text if rest <= 0 else f"{text[:MOST_SOURCE]}\n\n# … and {rest:,} more characters, in the notebook"


def _exercise(cell: dict) -> str:
    return grade_id_of(cell).removeprefix("check_")
