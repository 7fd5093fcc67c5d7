"""`devlab collect`: puts what was handed in where nbgrader looks for it, and notes what came of each file."""

import csv
import json
import time
from pathlib import Path

from devlab.classroom.collect import Collection, Submission
from devlab.classroom.reading import without_doubles

COLUMNS = ("student", "assignment", "path", "problem", "remarks")


def put(collection: Collection, course: Path) -> Path:
    """Write each gradable notebook to `submitted/STUDENT/ASSIGNMENT/` of a course, and a list of everything.

    Each is written as UTF-8, with the time it was changed last beside it, as nbgrader reads it. Returns the
    list, `collected.csv`: a row for each file found, those that nobody can grade included.
    """
    for one in collection.gradable:
        folder = course / "submitted" / one.student / one.assignment
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(without_doubles(one.notebook()), indent=1)
        (folder / f"{one.assignment}.ipynb").write_text(text + "\n", encoding="utf-8", newline="\n")
        (folder / "timestamp.txt").write_text(_time(one) + "\n", encoding="utf-8")
    listed = course / "collected.csv"
    with listed.open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(COLUMNS)
        for one in collection.submissions:
            table.writerow((one.student, one.assignment, one.path, one.problem, "; ".join(one.remarks)))
        table.writerows(("", "", path, why, "") for path, why in collection.ignored)
    return listed


def _time(submission: Submission) -> str:
    changed = submission.file.changed if submission.file else 0.0
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(changed or time.time()))
