"""What is run for a submission: the teacher's notebook, with the student's solution cells and own cells."""

import re
from dataclasses import dataclass
from functools import partial

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


def merged(source: dict, submission: dict | None) -> tuple[list[Step], dict[str, str]]:
    """Return the steps to run, and what the student wrote for each solution cell.

    Solution cells come from the submission by grade id; of several with one id, the last. One that is not
    there gives no step, so that its exercise is not attempted. What else a student added or changed comes
    after the teacher's cell that it follows. `None` for the submission takes the teacher's own solutions.
    """
    written = {} if submission is None else _solutions(submission)
    own = {} if submission is None else _own(source, submission)
    checked = {task.name for task in tasks(source)}
    steps, answers = [], {}
    for place, cell in enumerate(source["cells"]):
        facts = cell["metadata"].get("nbgrader", {})
        if cell["cell_type"] != "code":
            pass
        elif graded(cell):
            if facts["grade_id"].startswith("check_"):
                steps.append(Step("check", _exercise(cell), ""))
        elif facts.get("solution"):
            name = facts["grade_id"]
            text = _text(cell) if submission is None else written.get(name)
            if text is not None:
                steps.append(Step("solution", name if name in checked else "", text))
                answers[name] = text
        else:
            steps.append(Step("setup", "", _text(cell)))
        for text in own.get(place, ()):
            steps.append(Step("own", "", text))
            for name in filter(partial(_sets, text), checked):
                answers[name] = "\n\n".join(filter(None, (answers.get(name), text)))
    return steps, answers


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


def _sets(text: str, name: str) -> bool:
    """Tell whether a cell looks as if it sets a name: what it really does, its own process finds out."""
    return bool(re.search(rf"^(?:(?:def|class) +{name}\b|{name} *=)", text, re.MULTILINE))


def _exercise(cell: dict) -> str:
    return _grade_id(cell).removeprefix("check_")


def _grade_id(cell: dict) -> str:
    return cell["metadata"].get("nbgrader", {}).get("grade_id", "")


def _text(cell: dict) -> str:
    return "".join(cell["source"])
