"""Marks as tables: CSV with nbgrader's columns, and Gradescope's results.json."""

import csv
import json
import re
from collections.abc import Iterable
from io import StringIO

from devlab.classroom.reading import whole
from devlab.classroom.record import Graded, Record

# The columns of `nbgrader export`, in its order, so that whatever reads that file reads this one.
COLUMNS = (
    "assignment",
    "duedate",
    "timestamp",
    "student_id",
    "last_name",
    "first_name",
    "email",
    "raw_score",
    "late_submission_penalty",
    "score",
    "max_score",
)
# A sign and words for each outcome; the words say all that colour says.
WORDS = {
    "passed": ("✓", "passed"),
    "failed": ("✗", "not right yet"),
    "not attempted": ("○", "not attempted"),
    "skipped": ("–", "not judged"),
    "not reached": ("–", "not reached"),  # of a row alone
    "error": ("!", "error"),
    "timeout": ("✗", "took too long and was stopped"),
    "killed": ("✗", "ended the process that it ran in"),
    "memory": ("✗", "needed more memory than there was for it"),
    "grader error": ("?", "the grader failed here, not you: tell your teacher"),
}
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f]")  # signs that no page may hold


def nbgrader_csv(records: Iterable[Record]) -> str:
    """Return marks as `nbgrader export` writes them: a line a student and assignment.

    What only a gradebook knows (the due date, names, email, penalties for lateness) is empty, or 0. A name
    that a spreadsheet would run as a formula gets an apostrophe in front.

    >>> print(nbgrader_csv([Record("anna", "05", "x", (Graded("f", "failed", 1, 3),))]).splitlines()[1])
    05,,,anna,,,,1.0,0.0,1.0,3.0
    """
    stream = StringIO()
    table = csv.DictWriter(stream, COLUMNS, restval="", lineterminator="\n")
    table.writeheader()
    records = sorted(records, key=lambda one: (one.assignment, one.student))
    # A submission that could not be read has no exercises, and was worth what everybody's was.
    worth: dict[str, float] = {}
    for record in records:
        worth[record.assignment] = max(worth.get(record.assignment, 0), record.possible)
    for record in records:
        table.writerow(
            {
                "assignment": record.assignment,
                "timestamp": record.submitted.removesuffix(" UTC"),
                "student_id": plain(record.student),
                "raw_score": float(record.points),
                "late_submission_penalty": 0.0,
                "score": float(record.points),
                "max_score": float(record.possible or worth[record.assignment]),
            }
        )
    return stream.getvalue()


def exercises_csv(records: Iterable[Record]) -> str:
    """Return a line for each exercise of each student: points, outcome and the verdict's headline."""
    stream = StringIO()
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(("assignment", "student_id", "exercise", "points", "possible", "outcome", "headline"))
    for record in sorted(records, key=lambda one: (one.assignment, one.student)):
        for one in record.exercises:
            facts = (one.name, one.points, one.possible, one.outcome, plain(one.headline))
            table.writerow((record.assignment, plain(record.student), *facts))
    return stream.getvalue()


def number(points: float) -> str:
    """Write points without a needless fraction.

    >>> number(3.0), number(2.5)
    ('3', '2.5')
    """
    return f"{points:.2f}".rstrip("0").rstrip(".")


def plain(text: str) -> str:
    """Return text that a spreadsheet shows and does not run: `=1+1` is a formula, `'=1+1` is not.

    >>> plain("=1+1"), plain("anna")
    ("'=1+1", 'anna')
    """
    text = CONTROLS.sub("?", whole(text))
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def gradescope_json(record: Record) -> str:
    """Return one submission's results.json as Gradescope's autograder expects it."""
    notes = [note for note in (record.problem, *record.remarks) if note]
    made = {
        "score": record.points,
        "execution_time": round(record.seconds, 3),
        "output": "\n".join(notes),
        "output_format": "text",
        "visibility": "visible",
        # What a student's code prints on the way is no place to look for hidden numbers.
        "stdout_visibility": "hidden",
        "tests": [_test(position, one) for position, one in enumerate(record.exercises, start=1)],
        "extra_data": {
            "student": record.student,
            "assignment": record.assignment,
            "isolation": record.isolation,
        },
    }
    return json.dumps(made, indent=1)


def _test(position: int, one: Graded) -> dict:
    lines = [f"{WORDS.get(one.outcome, ('', one.outcome))[1]}: {one.headline}".strip(": ")]
    for label, outcomes in one.rows:
        judged = ", ".join(f"{device} {outcome}" for device, outcome in outcomes.items() if outcome)
        lines.append(f"{label}: {judged}" if judged else label)
    lines += [f"{label}: {text}" for label, text in one.details]
    return {
        "name": one.name,
        "number": str(position),
        "score": one.points,
        "max_score": one.possible,
        "status": "passed" if one.outcome == "passed" else "failed",
        "output": "\n".join(lines) if one.outcome != "passed" else f"{number(one.points)} points",
        "output_format": "text",
        "visibility": "visible",
    }
