"""All that a teacher gets from marked submissions: tables, and a page of feedback for each student."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devlab import carried
from devlab.classroom import feedback, tables
from devlab.classroom.names import printable, safe
from devlab.classroom.record import Record
from devlab.classroom.unpack import said


@dataclass(frozen=True)
class Written:
    """Where `write` put things; `problems` are the pages that could not be written, each with the reason."""

    grades: Path
    exercises: Path
    feedback: tuple[Path, ...]
    problems: tuple[str, ...] = ()

    def text(self) -> str:
        """Return what a teacher reads."""
        pages = len(self.feedback)
        return "\n".join(
            (
                f"marks      {self.grades}",
                f"exercises  {self.exercises}",
                f"feedback   {self.grades.parent / 'feedback'} ({pages} page{'s' * (pages != 1)})",
                *(f"no page for {problem}" for problem in self.problems),
            )
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
    pages, problems = [], []
    for record in records:
        try:
            pages.append(_page(record, titles[record.assignment], folder))
        except Exception as problem:  # nobody else's page depends on it
            problems.append(f"{printable(record.student)}, {printable(record.assignment)}: {said(problem)}")
    return Written(grades, exercises, tuple(pages), tuple(problems))


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
