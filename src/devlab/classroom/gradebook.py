"""Writes marks into nbgrader's gradebook, where formgrader shows them and `nbgrader export` reads them."""

import warnings
from collections.abc import Iterable
from pathlib import Path

from devlab.classroom.record import Record


class GradebookError(Exception):
    """Marks that cannot be written; the message says why and what to do."""


def write(records: Iterable[Record], course: Path) -> int:
    """Write marks into a course's gradebook.db and return how many submissions that were.

    Each check's points become nbgrader's automatic score; a score that a teacher gave by hand stays, and is
    marked for another look, as nbgrader does. Nothing is written where one assignment is unknown to the
    gradebook: `nbgrader generate_assignment` makes it known.
    """
    try:
        from nbgrader.api import Gradebook, MissingEntry
    except ImportError as missing:
        raise GradebookError('The gradebook is nbgrader\'s: pip install "devlab[classroom]"') from missing
    records = list(records)
    database = Path(course).absolute() / "gradebook.db"
    if not database.exists():
        names = " ".join(sorted({record.assignment for record in records})[:1])
        raise GradebookError(f"{course} has no gradebook. There: nbgrader generate_assignment {names}")
    # SQLAlchemy warns of how nbgrader itself adds a submission.
    with warnings.catch_warnings(), Gradebook(f"sqlite:///{database}", "") as book:
        warnings.simplefilter("ignore")
        for assignment in sorted({record.assignment for record in records}):
            try:
                book.find_assignment(assignment)
            except MissingEntry as missing:
                step = f"nbgrader generate_assignment {assignment}"
                raise GradebookError(f"The gradebook has no {assignment}. In {course}: {step}") from missing
        for record in records:
            _write(book, record)
    return len(records)


def _write(book, record: Record) -> None:
    from nbgrader.api import MissingEntry

    book.update_or_create_student(record.student)
    facts = {"timestamp": record.submitted} if record.submitted else {}
    book.update_or_create_submission(record.assignment, record.student, **facts)
    for one in record.exercises:
        where = (record.assignment, record.assignment, record.student)
        try:
            grade = book.find_grade(f"check_{one.name}", *where)
        except MissingEntry as missing:
            raise GradebookError(
                f"The gradebook has no check_{one.name} in {record.assignment}: its source changed since "
                f"`nbgrader generate_assignment {record.assignment}`. Run that again."
            ) from missing
        grade.auto_score = float(one.points)
        grade.needs_manual_grade = grade.manual_score is not None
        comment = book.find_comment(one.name, *where)
        comment.auto_comment = "No response." if one.outcome == "not attempted" else None
    book.db.commit()
