"""What is run for a submission: the teacher's notebook, with the student's solution cells and own cells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from devlab.classroom.copies import graded


@dataclass(frozen=True)
class Task:
    """One exercise as the teacher's notebook has it: its points, and whether rows earn them one by one."""

    name: str
    possible: float
    by_rows: bool = True


@dataclass(frozen=True)
class Step:
    """One cell to run: the teacher's (`kind` "setup"), a student's answer ("solution"), or a check ("check").

    What a student added or changed is of kind "own". `name` is the exercise that a failure of the cell is
    charged to, "" for none.
    """

    kind: str
    name: str
    source: str


def tasks(source: dict) -> list[Task]:
    """Return the exercises of a teacher's notebook in its order."""
    return [
        Task(_exercise(cell), facts["points"], ".points" in _text(cell))
        for cell in source["cells"]
        if (facts := graded(cell)) and facts["grade_id"].startswith("check_")
    ]


def merged(source: dict, submission: dict | None) -> list[Step]:
    """Return the steps to run for a submission; `None` takes the teacher's own solutions.

    Solution cells come from the submission by grade id; of several with one id, the last. One that is not
    there gives no step, so that its exercise is not attempted. What else a student added or changed comes
    after the teacher's cell that it follows.
    """
    written = None if submission is None else _solutions(submission)
    own = {} if submission is None else _own(source, submission)
    checked = {task.name for task in tasks(source)}
    steps = []
    for place, cell in enumerate(source["cells"]):
        if cell["cell_type"] == "code":
            steps += _steps_of(cell, checked, written)
        steps += [Step("own", "", text) for text in own.get(place, ())]
    return steps


def _steps_of(cell: dict, checked: set[str], written: dict[str, str] | None) -> list[Step]:
    """Return the step for a code cell of the teacher's, none where the student's copy lacks it."""
    facts = cell["metadata"].get("nbgrader", {})
    if graded(cell):
        return [Step("check", _exercise(cell), "")] if facts["grade_id"].startswith("check_") else []
    if not facts.get("solution"):
        return [Step("setup", "", _text(cell))]
    name = facts["grade_id"]
    text = _text(cell) if written is None else written.get(name)
    return [] if text is None else [Step("solution", name if name in checked else "", text)]


def answers(steps: Sequence[Step], needs: Mapping[str, Sequence[int]]) -> dict[str, str]:
    """Return what a student wrote for each exercise, with the own cells that it needs, in their order.

    `needs` is what a submission's own process says of that: the places of steps by exercise. What is no such
    place is passed over.
    """
    found: dict[str, list[str]] = {}
    for place, step in enumerate(steps):
        if step.kind == "solution" and step.name:
            found.setdefault(step.name, []).append(step.source)
        elif step.kind == "own":
            for name in [name for name, places in needs.items() if place in places]:
                found.setdefault(name, []).append(step.source)
    return {name: "\n\n".join(texts) for name, texts in found.items()}


def _solutions(submission: dict) -> dict[str, str]:
    """Return what code cells hold, by grade id: the teacher's copy says which of them are a student's."""
    return {
        name: cell["source"]
        for cell in submission["cells"]
        if cell["cell_type"] == "code" and (name := _grade_id(cell))
    }


def _own(source: dict, submission: dict) -> dict[int, list[str]]:
    """Return the code that a student added or changed, by the place of the teacher's cell before it.

    None comes before the first task: the cells above it are run, and noted, before any of a student's.
    """
    places, theirs = {}, set()
    for place, cell in enumerate(source["cells"]):
        theirs.add(_text(cell).strip())
        places |= dict.fromkeys(_marks(cell), place)
    named = {_grade_id(cell) for cell in source["cells"]} - {""}
    last = first = next((place - 1 for place, cell in enumerate(source["cells"]) if _grade_id(cell)), 0)
    own = {}
    for cell in submission["cells"]:
        last = max(first, next((places[mark] for mark in _marks(cell) if mark in places), last))
        if cell["cell_type"] == "code" and _grade_id(cell) not in named:
            text = _text(cell)
            if text.strip() and text.strip() not in theirs:
                own.setdefault(last, []).append(text)
    return own


def _marks(cell: dict) -> list[tuple[str, object]]:
    """Return by what a cell is known again: its grade id, or else its own id and what it holds."""
    if name := _grade_id(cell):
        return [("grade", name)]
    marks = [("id", cell.get("id")), ("text", _text(cell).strip())]
    return [one for one in marks if one[1] and isinstance(one[1], str)]


def _exercise(cell: dict) -> str:
    return _grade_id(cell).removeprefix("check_")


def _grade_id(cell: dict) -> str:
    return cell["metadata"].get("nbgrader", {}).get("grade_id", "")


def _text(cell: dict) -> str:
    return "".join(cell["source"])
