"""`devlab collect`: puts what was handed in where nbgrader looks for it, and notes what came of each file."""

import csv
import json
import time
from dataclasses import replace
from pathlib import Path

from devlab.classroom.collect import Collection, Submission
from devlab.classroom.reading import without_doubles
from devlab.classroom.tables import plain
from devlab.classroom.unpack import said

COLUMNS = ("student", "assignment", "path", "problem", "remarks")


def put(collection: Collection, course: Path) -> Path:
    """Write each gradable notebook to `submitted/STUDENT/ASSIGNMENT/` of a course, and a list of everything.

    Each is written as UTF-8, with the time it was changed last beside it, as nbgrader reads it. What cannot
    be written is a problem of that submission, which `collection` then holds too. Returns the list,
    `collected.csv`: a row for each file found, those that nobody can grade included.
    """
    collection.submissions[:] = [one if one.problem else _put(one, course) for one in collection.submissions]
    listed = course / "collected.csv"
    with listed.open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(COLUMNS)
        rows = [
            (one.student, one.assignment, one.path, one.problem, "; ".join(one.remarks))
            for one in collection.submissions
        ]
        rows += [("", "", path, why, "") for path, why in collection.ignored]
        table.writerows(map(plain, row) for row in rows)
    return listed


def _put(one: Submission, course: Path) -> Submission:
    folder = course / "submitted" / one.student / one.assignment
    try:
        text = json.dumps(without_doubles(one.notebook()), indent=1)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{one.assignment}.ipynb").write_text(text + "\n", encoding="utf-8", newline="\n")
        (folder / "timestamp.txt").write_text(_time(one) + "\n", encoding="utf-8")
    except Exception as problem:
        return replace(one, problem=f"it cannot be put into {folder.name} ({said(problem)})")
    return one


def _time(submission: Submission) -> str:
    changed = submission.file.changed if submission.file else 0.0
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(changed or time.time()))
