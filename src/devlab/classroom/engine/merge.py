"""What is run for a submission: the teacher's notebook, with the student's solution cells."""

from dataclasses import dataclass

from devlab.classroom.copies import graded
from devlab.classroom.reading import doubles


@dataclass(frozen=True)
class Task:
    """One exercise as the teacher's notebook has it: its points, and whether rows earn them one by one."""

    name: str
    possible: float
    by_rows: bool = True


@dataclass(frozen=True)
class Step:
    """One cell to run: the teacher's (`kind` "setup"), the student's ("solution"), or a check ("check").

    `name` is the exercise that a failure of this cell is charged to; "" for the teacher's own cells.
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


def merged(source: dict, submission: dict | None) -> tuple[list[Step], dict[str, str], list[str]]:
    """Return the steps to run, what the student wrote for each solution cell, and remarks.

    Of the submission only solution cells count, by grade id; of several with one id, the last. A cell
    that is not there gives no step, so that its exercise is not attempted. `None` for the submission takes
    the teacher's own solutions.
    """
    written, remarks = {}, []
    if submission is not None:
        for cell in submission["cells"]:
            # Whatever the student's copy says of a cell, the teacher's says which cells are theirs.
            if cell["cell_type"] == "code" and (name := _grade_id(cell)):
                written[name] = cell["source"]
        twice = doubles(submission)
        remarks = [f"several cells are {', '.join(twice)}: the last one counts"] if twice else []
    checked = {task.name for task in tasks(source)}
    steps, answers = [], {}
    for cell in source["cells"]:
        if cell["cell_type"] != "code":
            continue
        facts = cell["metadata"].get("nbgrader", {})
        if graded(cell):
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
    return steps, answers, remarks


def _exercise(cell: dict) -> str:
    return _grade_id(cell).removeprefix("check_")


def _grade_id(cell: dict) -> str:
    return cell["metadata"].get("nbgrader", {}).get("grade_id", "")


def _text(cell: dict) -> str:
    return "".join(cell["source"])
