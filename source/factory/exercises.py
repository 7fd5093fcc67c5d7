"""Tells nbgrader which cells a learner fills in and which cells judge them, and clears the solutions."""

import copy
import difflib
import re
from collections.abc import Callable

from nbformat import NotebookNode
from nbgrader.nbgraderformat import MetadataValidator
from nbgrader.preprocessors import ClearSolutions
from traitlets.config import Config

from devlab.classroom.handout import revive_programs
from factory.reading import Source

STUB = 'raise NotImplementedError("your code here")'
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"

Points = Callable[[str], int]


def rows_of(name: str) -> int:
    """Count what an exercise's verdict judges: one point a row. Raises LookupError for an unknown name."""
    from devlab.checks.exercise import find, nearest

    if exercise := find(name):
        return exercise.possible
    raise LookupError(f"there is no exercise {name} in it; near: {', '.join(nearest(name)) or 'nothing'}")


def mark(source: Source, points: Points) -> None:
    """Turn `exercise=` and `check=` into nbgrader's metadata, or say what is missing."""
    exercises = _by_name(source, "exercise")
    checks = _by_name(source, "check")
    for name, cell in exercises.items():
        if name not in checks:
            raise source.error(cell, f'{name} is never judged; add a cell `# %% check="{name}"` below it')
        if not all(marker in cell.source for marker in (BEGIN, END)):
            raise source.error(cell, f"{name} has no solution to clear; put it between {BEGIN} and {END}")
        try:
            revive_programs(re.sub(rf"{BEGIN}.*?{END}", STUB, cell.source, flags=re.DOTALL))
        except ValueError as problem:
            raise source.error(cell, f"{name}: {problem}") from problem
        if source.cells.index(checks[name]) < source.cells.index(cell):
            raise source.error(checks[name], f"{name} is judged before it is written; move this below")
        _tell_nbgrader(cell, grade_id=name, solution=True)
    for name, cell in checks.items():
        if name not in exercises:
            raise source.error(cell, f"this cell checks {name}, but {_no_such(name, exercises)}")
        try:
            worth = points(name)
        except LookupError as unknown:
            raise source.error(cell, f"ask src/devlab/lessons: {unknown}") from unknown
        _tell_nbgrader(cell, grade_id=f"check_{name}", grade=True, locked=True, points=worth)
    for cell in source.cells:
        if "nbgrader" not in cell.metadata and (BEGIN in cell.source or END in cell.source):
            raise source.error(cell, 'a solution outside an exercise; write `# %% exercise="…"` above')
    MetadataValidator().validate_nb(source.notebook())


def cleared(notebook: NotebookNode) -> NotebookNode:
    """Copy a solutions notebook as a learner gets it: solutions replaced by the stub, nothing executed.

    A broken program beside a solution takes the stub's place.
    """
    notebook = copy.deepcopy(notebook)
    config = Config({"ClearSolutions": {"code_stub": {"python": STUB}}})
    notebook, _ = ClearSolutions(config=config).preprocess(notebook, {})
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = revive_programs(cell.source)
            cell.outputs, cell.execution_count = [], None
    return notebook


def _by_name(source: Source, kind: str) -> dict[str, NotebookNode]:
    found: dict[str, NotebookNode] = {}
    for cell in source.cells:
        name = cell.metadata.get(kind)
        if name in found:
            raise source.error(cell, f"a second cell with {kind}={name!r}; every exercise has exactly one")
        if name:
            found[name] = cell
    return found


def _tell_nbgrader(cell: NotebookNode, **facts: object) -> None:
    for kind in ("exercise", "check"):
        cell.metadata.pop(kind, None)
    roles = {"grade": False, "solution": False, "locked": False, "task": False}
    cell.metadata["nbgrader"] = {"schema_version": 3, "cell_type": "code"} | roles | facts


def _no_such(name: str, exercises: dict[str, NotebookNode]) -> str:
    close = difflib.get_close_matches(name, exercises, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return f'no cell in this file has `exercise="{name}"`{hint}'
