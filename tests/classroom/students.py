"""A small class of lesson 00: what each student handed in, and the marks it deserves."""

import copy
import json
from pathlib import Path

from devlab.checks.exercise import find
from devlab.checks.judge import judge, not_attempted
from devlab.classroom import course
from devlab.classroom.results import Graded, Record

LESSON = "00_start_here"
POSSIBLE = {"device_of": 3, "same_place": 5}

RIGHT = {
    "device_of": "def device_of(x):\n    return x.device\n",
    "same_place": """\
def same_place(a, b):
    def full(x):
        device = x.device if isinstance(x, torch.Tensor) else torch.device(x)
        return torch.empty(0, device=device.type if device.type == "cpu" else device).device

    return full(a) == full(b)
""",
}
# Each earns what its rows say: sim:0 and sim:1 taken for one place, the class for the CPU.
TYPES_ONLY = """\
def same_place(a, b):
    def kind(x):
        return x.device.type if isinstance(x, torch.Tensor) else torch.device(x).type

    return kind(a) == kind(b)
"""
ALWAYS_CPU = 'def device_of(x):\n    return torch.device("cpu")\n'
RAISES = "def device_of(x):\n    return x.place\n"
NO_PYTHON = "def same_place(a, b):\n    return (\n"
# What each student wrote, by exercise, and the points it deserves.
CLASS = {
    "Right Rita": (RIGHT, {"device_of": 3, "same_place": 5}),
    "Wrong Will": ({"device_of": ALWAYS_CPU, "same_place": TYPES_ONLY}, {"device_of": 1, "same_place": 2}),
    "Half Hélène": ({"device_of": RIGHT["device_of"]}, {"device_of": 3, "same_place": 0}),
    "Clumsy Cleo": (RIGHT, {"device_of": 3, "same_place": 5}),
    "Error Emil": ({"device_of": RAISES, "same_place": NO_PYTHON}, {"device_of": 0, "same_place": 0}),
}


def handed_out(folder: Path, lesson: str) -> tuple[str, dict, dict[str, str]]:
    """Lay out a course of one lesson, or add it; return its name, hand-out and solutions by exercise."""
    (assignment,) = course.choose([lesson], list(course.available()))
    course.lay_out(folder, [lesson])
    source, handout = (
        course.read_notebook(folder / place / assignment / f"{assignment}.ipynb")
        for place in ("source", "handout")
    )
    facts = [(cell["metadata"].get("nbgrader", {}), "".join(cell["source"])) for cell in source["cells"]]
    return assignment, handout, {one["grade_id"]: text for one, text in facts if one.get("solution")}


def fill(notebook: dict, answers: dict[str, str]) -> dict:
    """Return a student's copy of a notebook with their answers in its cells."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook["cells"]:
        answer = answers.get(cell["metadata"].get("nbgrader", {}).get("grade_id"))
        if answer is not None:
            cell["source"] = answer
    return notebook


def own_cell(source: str, number: int = 0) -> dict:
    """Return a cell that a student added."""
    facts = {"cell_type": "code", "id": f"own-{number}", "metadata": {}, "outputs": []}
    return {**facts, "execution_count": None, "source": source}


def clumsy(notebook: dict) -> dict:
    """Do what happens by accident: a cell is copied, a check is deleted, an answer stands below its stub."""
    cells = notebook["cells"]
    marks = [cell["metadata"].get("nbgrader", {}).get("grade_id") for cell in cells]
    cells.append(copy.deepcopy(cells[marks.index("same_place")]))
    del cells[marks.index("check_device_of")]
    stub = cells[marks.index("device_of")]
    cells.insert(marks.index("device_of") + 1, own_cell(stub["source"]))
    stub["source"] = "def device_of(x):\n    raise NotImplementedError\n"
    return notebook


def hand_in(release: Path, downloads: Path, answers=CLASS) -> Path:
    """Write everybody's notebook into a folder, as Moodle exports it."""
    notebook = json.loads(release.read_text(encoding="utf-8"))
    for number, (student, (written, _)) in enumerate(answers.items()):
        folder = downloads / f"{student}_{4700 + number}_assignsubmission_file_"
        folder.mkdir(parents=True)
        filled = fill(notebook, written)
        filled = clumsy(filled) if student.startswith("Clumsy") else filled
        (folder / f"{LESSON}.ipynb").write_text(json.dumps(filled), encoding="utf-8")
    return downloads


def deserved(answers=CLASS) -> dict[str, dict[str, int]]:
    """Return each student's points by exercise."""
    return {student: points for student, (_, points) in answers.items()}


def graded(name: str, source: str | None) -> Graded:
    """Judge one answer here, as a record holds it."""
    exercise = find(name)
    result = not_attempted(exercise)
    if source:
        import torch

        space = {"torch": torch}
        try:
            exec(source, space)
            result = judge(exercise, space[name])
        except SyntaxError as error:
            return Graded(name, "error", 0, exercise.possible, f"SyntaxError: {error.msg}", source=source)
    rows = tuple((row.label, {d: o and str(o) for d, o in row.outcomes.items()}) for row in result.rows)
    facts = (
        name,
        str(result.outcome),
        result.points,
        exercise.possible,
        result.headline,
        rows,
        result.details,
    )
    return Graded(*facts, source or "")


def marked_here(answers=CLASS, **facts) -> list[Record]:
    """Judge everybody's answers in this process; `facts` are the same for all the records."""
    made = []
    for student, (written, _) in answers.items():
        exercises = tuple(graded(name, written.get(name)) for name in POSSIBLE)
        made.append(Record(student, LESSON, f"downloads/{student}.ipynb", exercises, **facts))
    return made
