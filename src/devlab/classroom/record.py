"""What came of one submission: a line of JSON in results.jsonl, which every report is made from."""

import itertools
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from devlab.checks.result import Outcome

OF_ROWS = frozenset(map(str, Outcome))
# What may come of an exercise: a verdict of devlab's, or an end that its process came to.
OUTCOMES = OF_ROWS | {"timeout", "killed", "memory", "grader error"}
# Outcomes that tell nothing of an answer: the grader failed, or the machine could not judge it.
UNJUDGED = ("grader error", "skipped")


@dataclass(frozen=True)
class Graded:
    """What came of one exercise.

    `outcome` is one of OUTCOMES.
    `rows` holds for each thing judged its label and its outcome on each device (None: not judged there),
    `details` the labelled lines of the verdict, `source` what the student wrote. `confirmed` says how many
    rows passed a second time, by results alone, in a process that never ran the student's code.
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
    """What came of one submission: who, what, and each exercise.

    `problem` says why nothing could be graded, `remarks` what was noticed; `submitted` is a time as nbgrader
    writes it, `isolation` the level that the submission ran at (3 is the strongest), `seconds` the wall time,
    `digest` the SHA-256 of what was handed in.
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

    @property
    def unjudged(self) -> bool:
        """Tell whether an exercise is left that nobody has judged: its zero is not the student's."""
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
            exercises = tuple(_graded(one) for one in facts.pop("exercises"))
            record = cls(exercises=exercises, remarks=tuple(facts.pop("remarks")), **facts)
        except (KeyError, TypeError, AttributeError, RecursionError) as problem:
            raise ValueError(f"no record of devlab's: {line[:80]}") from problem
        if not _is_sound(record):
            raise ValueError(f"a record with something in it that is none of devlab's: {line[:80]}")
        return record


def _graded(facts: dict) -> Graded:
    pairs = {name: tuple((label, value) for label, value in facts.pop(name)) for name in ("rows", "details")}
    return Graded(**pairs, **facts)


def _is_sound(record: Record) -> bool:
    """Tell whether each field is of its kind and each outcome known: every report is made from them."""
    texts = [record.student, record.assignment, record.path, record.problem, record.submitted, record.digest]
    texts += record.remarks
    numbers, marks = [record.seconds, record.isolation or 0], []
    for one in record.exercises:
        texts += [one.name, one.headline, one.source, one.confirmed, *itertools.chain(*one.details)]
        numbers += [one.points, one.possible]
        if not (isinstance(one.outcome, str) and one.outcome in OUTCOMES):
            return False
        for label, outcomes in one.rows:
            if not isinstance(outcomes, dict):
                return False
            texts += [label, *outcomes]
            marks += outcomes.values()
    return (
        all(isinstance(text, str) for text in texts)
        and all(isinstance(number, int | float) and math.isfinite(number) for number in numbers)
        and all(mark is None or (isinstance(mark, str) and mark in OF_ROWS) for mark in marks)
    )


def read(paths: Iterable[Path]) -> Iterator[Record]:
    """Read the records of files of JSON lines, the last one of each student and assignment.

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
