"""Two copies of a lesson's exercises: the teacher's, which nbgrader starts from, and the students'."""

import copy
import re

from devlab.classroom.broken import revived

STUB = 'raise NotImplementedError("your code here")'
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
LINK = re.compile(r"\[([^\]]+)\]\(\.\./notebooks/(\d\d)_\w+\.ipynb(#[^)\s]*)?\)")

# What a check's cell ends in is the mark that nbgrader reads: a number as the cell's value is part credit.
MARKS = {"rows": "devlab.check({name}).points", "whole": "{points} * devlab.check({name}).passed"}


def teachers(notebook: dict, marks: str = "rows") -> dict:
    """Return a solutions notebook as the source of an assignment: nothing executed, the marks chosen.

    `marks` is "rows", a point for each row that passes, or "whole", all points or none.
    """
    notebook = copy.deepcopy(notebook)
    for cell in notebook["cells"]:
        _set_back(cell)
        if cell["cell_type"] == "markdown":
            cell["source"] = _without_links("".join(cell["source"]))
        elif facts := graded(cell):
            name = facts["grade_id"].removeprefix("check_")
            cell["source"] = MARKS[marks].format(name=name, points=facts["points"])
    return notebook


def students(notebook: dict) -> dict:
    """Return an assignment's source as students get it: solutions cleared, the checks' cells locked."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook["cells"]:
        _set_back(cell)
        facts = cell["metadata"].get("nbgrader", {})
        if facts.get("solution"):
            cell["source"] = cleared("".join(cell["source"]))
            cell["metadata"]["deletable"] = False
        if facts.get("locked"):
            cell["metadata"] |= {"deletable": False, "editable": False}
    return notebook


def graded(cell: dict) -> dict | None:
    """Return nbgrader's facts about a cell that gives points, None for any other."""
    facts = cell["metadata"].get("nbgrader", {})
    return facts if facts.get("grade") else None


def cleared(source: str) -> str:
    """Return code as students get it: the stub, or a broken program, in place of each solution.

    It is what nbgrader's ClearSolutions makes of it, and devlab's step after that one. Raises ValueError
    where a mark is missing its partner: half a solution must never be handed out.

    >>> print(cleared("def f():\\n    ### BEGIN SOLUTION\\n    return 1\\n    ### END SOLUTION"))
    def f():
        raise NotImplementedError("your code here")
    """
    kept, inside = [], False
    for line in source.split("\n"):
        if BEGIN in line or END in line:
            if inside is (BEGIN in line):
                raise ValueError(f"{BEGIN} and {END} do not come in pairs")
            inside = not inside
            if inside:
                kept.append(line[: len(line) - len(line.lstrip())] + STUB)
        elif not inside:
            kept.append(line)
    if inside:
        raise ValueError(f"{BEGIN} has no {END} after it")
    return revived("\n".join(kept))


def _set_back(cell: dict) -> None:
    if cell["cell_type"] == "code":
        cell["outputs"], cell["execution_count"] = [], None


def _without_links(text: str) -> str:
    """Name a lesson's section where the course links to it: a student's folder has no lessons beside it.

    >>> _without_links("[Register it](../notebooks/05_buffers.ipynb#Register-it)")
    'Register it (lesson 05)'
    """

    def named(link: re.Match) -> str:
        words, lesson, anchor = link.groups()
        return f"{words} (lesson {lesson})" if anchor else words

    return LINK.sub(named, text)
