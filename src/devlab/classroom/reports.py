"""All that a teacher gets from marked submissions: tables, and a page of feedback for each student."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devlab import carried
from devlab.classroom import feedback, tables
from devlab.classroom.names import safe
from devlab.classroom.record import Record


@dataclass(frozen=True)
class Written:
    """Where `write` put things."""

    grades: Path
    exercises: Path
    feedback: tuple[Path, ...]

    def text(self) -> str:
        """Return what a teacher reads."""
        pages = len(self.feedback)
        return (
            f"marks      {self.grades}\nexercises  {self.exercises}\n"
            f"feedback   {self.grades.parent / 'feedback'} ({pages} page{'s' * (pages != 1)})"
        )


def write(records: Sequence[Record], folder: Path) -> Written:
    """Write grades.csv, exercises.csv and feedback/STUDENT/ASSIGNMENT.html into a folder of results."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    grades, exercises = folder / "grades.csv", folder / "exercises.csv"
    grades.write_text(tables.nbgrader_csv(records), encoding="utf-8", newline="")
    # For reading: without the mark in front, Excel takes UTF-8 for an old code page.
    exercises.write_text(tables.exercises_csv(records), encoding="utf-8-sig", newline="")
    titles = {name: title_of(name) for name in {record.assignment for record in records}}
    pages = tuple(_page(record, titles[record.assignment], folder) for record in records)
    return Written(grades, exercises, pages)


def _page(record: Record, title: str, folder: Path) -> Path:
    path = (
        folder
        / "feedback"
        / (safe(record.student) or "nobody")
        / f"{safe(record.assignment) or 'nothing'}.html"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(feedback.page(record, title), encoding="utf-8", newline="\n")
    return path


def title_of(assignment: str) -> str:
    """Return a lesson's number and title for an assignment that is one, else its name in words.

    >>> title_of("05_buffers"), title_of("my_own")
    ('05 Models and buffers', 'my own')
    """
    lesson = next((path for path in carried.files("lessons") if path.stem == assignment), None)
    if lesson is None:
        return assignment.replace("_", " ").strip()
    first = json.loads(lesson.read_text(encoding="utf-8"))["cells"][0]
    return "".join(first["source"]).partition("\n")[0].removeprefix("# ")
