"""Records of what came of submissions, and the tables, gradebooks and files that are made of records.

A record is one line of JSON in results.jsonl.
"""

import csv
import itertools
import json
import math
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from devlab.checks.result import Outcome
from devlab.classroom.download import printable, whole
from devlab.classroom.owners import split_at_assignment

OF_ROWS = frozenset(map(str, Outcome))
# The outcomes of an exercise: devlab's verdicts, and the ways in which its process may end.
OUTCOMES = OF_ROWS | {"timeout", "killed", "memory", "grader error"}
# Outcomes that tell nothing of an answer: the grader failed, or the machine could not judge it.
UNJUDGED = ("grader error", "skipped")


@dataclass(frozen=True)
class Graded:
    """What came of one exercise.

    `outcome` is one of OUTCOMES. `rows` holds for each thing judged its label and its outcome on each device
    (None: not judged there), `details` the labelled lines of the verdict, `source` what the student wrote.
    `confirmed` says how many rows passed a second time, by results alone, in a process that never ran the
    student's code.
    """

    name: str
    outcome: str
    points: float
    possible: float
    headline: str = ""
    rows: tuple[tuple[str, dict[str, str | None]], ...] = ()
    details: tuple[tuple[str, str], ...] = ()
    source: str = ""
    confirmed: str = ""


@dataclass(frozen=True)
class Record:
    """What came of one submission: the student, the assignment, and each exercise.

    `problem` says why nothing could be graded, `remarks` what was noticed, for the teacher alone. `submitted`
    is a time as nbgrader writes it, `isolation` the level that the submission ran at (3 is the strongest),
    `seconds` the wall time, and `digest` changes with what was handed in and with what judges it. `number` is
    the learning platform's for the student, and `prefix` what it put before the name of the student's file.
    """

    student: str
    assignment: str
    path: str
    exercises: tuple[Graded, ...] = ()
    problem: str = ""
    remarks: tuple[str, ...] = ()
    late: bool = False
    submitted: str = ""
    isolation: int | None = None
    seconds: float = 0.0
    digest: str = ""
    number: str = ""
    prefix: str = ""

    @property
    def unjudged(self) -> bool:
        """Tell whether an exercise could not be judged: its zero says nothing about the student's answer."""
        return any(exercise.outcome in UNJUDGED for exercise in self.exercises)

    @property
    def points(self) -> float:
        """Return the points earned."""
        return sum(exercise.points for exercise in self.exercises)

    @property
    def possible(self) -> float:
        """Return the points of a submission without a mistake."""
        return sum(exercise.possible for exercise in self.exercises)

    def line(self) -> str:
        """Return the record as one line of JSON, less the line's end.

        >>> record = Record("anna", "05_buffers", "anna.ipynb", (Graded("f", "failed", 1, 3),))
        >>> Record.from_line(record.line()) == record
        True
        """
        return json.dumps(vars(self) | {"exercises": [vars(one) for one in self.exercises]})

    @classmethod
    def from_line(cls, line: str) -> "Record":
        """Read a record from a line of JSON; raises ValueError for anything else."""
        try:
            facts = json.loads(line)
            exercises = tuple(_read_graded(one) for one in facts.pop("exercises"))
            record = cls(exercises=exercises, remarks=tuple(facts.pop("remarks")), **facts)
            _require_sound(record)
        except (KeyError, TypeError, AttributeError, RecursionError) as problem:
            raise ValueError(f"no record of devlab's: {line[:80]}") from problem
        return record


def row_passed(marks: dict[str, str | None]) -> bool:
    """Tell whether a row was judged somewhere, and passed wherever it was.

    >>> row_passed({"cpu": "passed", "sim:0": None}), row_passed({"cpu": None})
    (True, False)
    """
    judged = [one for one in marks.values() if one]
    return bool(judged) and all(one == "passed" for one in judged)


def _read_graded(facts: dict) -> Graded:
    pairs = {name: tuple((label, value) for label, value in facts.pop(name)) for name in ("rows", "details")}
    return Graded(**pairs, **facts)


def _require_sound(record: Record) -> None:
    """Raise TypeError where a field has another type or an outcome is unknown: reports rely on these."""
    texts = [record.student, record.assignment, record.path, record.problem, record.submitted, record.digest]
    texts += [record.number, record.prefix, *record.remarks]
    numbers, marks = [record.seconds, record.isolation or 0], {None}
    for one in record.exercises:
        texts += [one.name, one.headline, one.source, one.confirmed, *itertools.chain(*one.details)]
        texts += itertools.chain(*((label, *row) for label, row in one.rows))
        numbers += [one.points, one.possible]
        marks.update(*(row.values() for _, row in one.rows))
    if not (
        all(isinstance(text, str) for text in texts)
        and all(isinstance(number, int | float) and math.isfinite(number) for number in numbers)
        and {one.outcome for one in record.exercises} <= OUTCOMES
        and marks <= {None, *OF_ROWS}
    ):
        raise TypeError("it has something in it that is none of devlab's")


def read_all(paths: Iterable[Path]) -> Iterator[Record]:
    """Read records from files of JSON lines: for each student and assignment the last record.

    A line that was cut off, as an interrupted run leaves it, is skipped. A file that could not be graded does
    not take the place of one that was.
    """
    latest: dict[tuple[str, str], Record] = {}
    for path in paths:
        for line in Path(path).read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                record = Record.from_line(line)
            except ValueError:
                continue
            who = record.student, record.assignment
            if not (record.problem and who in latest and not latest[who].problem):
                latest[who] = record
    yield from latest.values()


# The columns of `nbgrader export`, in its order: a program that reads nbgrader's file can read ours. Two of
# our own follow: Moodle's worksheet says "Participant" and the id, and Canvas's gradebook has the id as ID.
COLUMNS = ("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email")
COLUMNS += ("raw_score", "late_submission_penalty", "score", "max_score", "late", "platform_id")
# A sign and words for each outcome. The words alone say all that the colours say.
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
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f]")  # control characters, which no page or table may hold


def nbgrader_csv(records: Iterable[Record]) -> str:
    """Return marks as `nbgrader export` writes them: a line for each student and assignment.

    What only a gradebook knows (the due date, names, email, penalties for lateness) is empty, or 0. A name
    that a spreadsheet would run as a formula gets an apostrophe in front.

    >>> print(nbgrader_csv([Record("anna", "05", "x", (Graded("f", "failed", 1, 3),))]).splitlines()[1])
    05,,,anna,,,,1.0,0.0,1.0,3.0,,
    """
    stream = StringIO()
    table = csv.DictWriter(stream, COLUMNS, restval="", lineterminator="\n")
    table.writeheader()
    records = sorted(records, key=lambda one: (one.assignment, one.student))
    # A submission that could not be read has no exercises: its points are out of those of the other students.
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
                "late": "late" if record.late else "",
                "platform_id": plain(record.number),
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


def score(of: Record | Graded) -> str:
    """Write the points of a submission or of an exercise.

    >>> score(Graded("f", "failed", 1, 3))
    '1 of 3'
    """
    return f"{number(of.points)} of {number(of.possible)}"


def by_device(outcomes: dict[str, str | None]) -> str:
    """Write a row's outcomes in words, where it was judged.

    >>> by_device({"cpu": "passed", "sim:0": "failed", "sim:1": None})
    'cpu passed, sim:0 failed'
    """
    return ", ".join(f"{device} {outcome}" for device, outcome in outcomes.items() if outcome)


def plain(text: str) -> str:
    """Return text that a spreadsheet shows and does not run: `=1+1` is a formula, `'=1+1` is not.

    >>> plain("=1+1"), plain("anna")
    ("'=1+1", 'anna')
    """
    text = CONTROLS.sub("?", whole(text))
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


class GradebookError(Exception):
    """Marks that cannot be written; the message says why and what to do."""


def fill_table(records: Iterable[Record], table: Path, column: str, folder: Path) -> str:
    """Write marks into a copy of a platform's table, in a folder, and return what a teacher reads of it.

    Moodle's grading worksheet has its number for a student at the end of the first column, Canvas's gradebook
    under "ID" (mod/assign/gradingtable.php and lib/gradebook_exporter.rb of their sources). All else stays as
    it is. Where the column names an assignment, the marks are those of that assignment.
    """
    text = table.read_bytes().decode("utf-8", "surrogateescape")
    mark = "\ufeff" * text.startswith("\ufeff")
    # Canvas has semicolons for those who want them.
    separator = max(",;\t", key=text.partition("\n")[0].count)
    try:
        rows = list(csv.reader(StringIO(text.removeprefix(mark), newline=""), delimiter=separator))
    except csv.Error as problem:
        raise GradebookError(f"{table} is no table that Moodle or Canvas made: {problem}") from problem
    head = rows[0] if rows else []
    if column not in head:
        raise GradebookError(f"{table} has no column {column}. It has: {', '.join(head)}")
    records = [record for record in records if record.exercises]
    _, _, named = split_at_assignment(column, sorted({record.assignment for record in records}))
    records = [record for record in records if named in ("", record.assignment)]
    marks = {record.number: record for record in records if record.number}
    several = sorted({record.assignment for record in records})
    if len(marks) < sum(bool(record.number) for record in records) and len(several) > 1:
        raise GradebookError(
            f"Whose marks belong under {column} is not clear, for there are {', '.join(several)}. Rename the "
            "assignment on the platform so that the column names one of these, or grade each for itself."
        )
    where, at, filled = head.index("ID") if "ID" in head else 0, head.index(column), set()
    for row in rows[1:]:
        told = re.search(r"\d+$", row[where].strip()) if len(row) == len(head) else None
        if told and told[0] in marks:
            row[at] = number(marks[told[0]].points)
            filled.add(told[0])
    made = StringIO()
    csv.writer(made, delimiter=separator, lineterminator="\n").writerows(rows)
    path = folder / table.name
    path.write_text(mark + made.getvalue(), encoding="utf-8", errors="surrogateescape", newline="")
    lines = [f"filled in  {path} ({len(filled)} of {len(records)} marks)"]
    missing = [one for one in records if one.number not in filled]
    lines += [f"not in it: {printable(one.student)}, {one.assignment}" for one in missing]
    return "\n".join(lines)


def write_gradebook(records: Iterable[Record], course: Path) -> int:
    """Write marks into a course's gradebook.db and return how many submissions that were.

    What could not be read has no marks, and is left out.
    Each check's points become nbgrader's automatic score; a score that a teacher gave by hand stays, and is
    marked for another look, as nbgrader does. Nothing is written where the gradebook does not know one of the
    assignments: `nbgrader generate_assignment` enters it.
    """
    try:
        from nbgrader.api import Gradebook, MissingEntry
    except ImportError as missing:
        raise GradebookError('The gradebook is nbgrader\'s: pip install "devlab[classroom]"') from missing
    records = [record for record in records if record.exercises]
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
