"""The learner's progress as a file for a teacher: a page, a table, or JSON, by the file's ending."""

import csv
import json
import os
import time
from io import StringIO
from pathlib import Path

from devlab.checks.overview_html import render
from devlab.checks.standing import Line, Standing, label, simulated
from devlab.panel import escape

# The columns of the table; one for each device follows them.
COLUMNS = (
    "lesson", "title", "exercise", "outcome", "points", "possible", "tries", "last_try", "hints", "time",
)  # fmt: skip
# Light and dark by the reader's system. Printers leave backgrounds out, so signs get a frame and black ink.
STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #fff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #191919; } }
body { margin: 0; background: var(--paper); color: var(--ink); font: 14px/1.5 system-ui, sans-serif; }
main { max-width: 60em; margin: 0 auto; padding: 1rem 1.2rem 3rem; }
h1 { font-size: 1.5rem; margin: 0.5rem 0; } details { break-inside: avoid; }
@media print {
  :root { color-scheme: light; --ink: #000; --paper: #fff; }
  [role=img][style*=background] { background: none !important; color: #000 !important;
    outline: 1px solid #000; }
}
"""
# The page loads nothing and runs nothing.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


class CannotSave(ValueError):
    """The progress was not written; the message says why and what to do."""


def write(standing: Standing, path: str | Path) -> Path:
    """Write the progress to a file and return its full path; the ending .html, .csv or .json chooses.

    Raises CannotSave for another ending, a folder that is not there, or a file that cannot be written.
    """
    if not isinstance(path, str | Path):
        raise CannotSave(f'Not saved: give the file a name in quotes, such as "me.html", not {path!r}.')
    where = Path(os.path.expanduser(path)).absolute()
    made = FORMATS.get(where.suffix.lower())
    if made is None:
        given = (
            f"the ending {where.suffix!r} is none of those"
            if where.suffix
            else f"{str(path)!r} has no ending"
        )
        raise CannotSave(
            f"Not saved: the file's ending chooses what is written, .html, .csv or .json, and {given}. "
            f'Try "{where.stem.strip(".") or "me"}.html".'
        )
    if not where.parent.is_dir():
        raise CannotSave(f"Not saved: there is no folder {where.parent}. Make it first, or name another.")
    try:
        where.write_text(made(standing), encoding="utf-8", newline="")
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise CannotSave(
            f"Not saved: {str(where)!r} cannot be written ({reason}). Name a file that you may write."
        ) from problem
    return where


def as_csv(standing: Standing) -> str:
    """Return a line for each exercise, with a column for each device; empty: nothing was judged there."""
    stream = StringIO()
    table = csv.writer(stream, lineterminator="\n")
    table.writerow((*COLUMNS, *map(label, standing.devices)))
    for line in standing.lines:
        facts = _facts(line)
        outcomes = [line.on(device) or "" for device in standing.devices]
        table.writerow((line.lesson.id, line.lesson.title, line.name, *facts.values(), *outcomes))
    return stream.getvalue()


def as_json(standing: Standing) -> str:
    """Return the same as JSON: lessons, their exercises, and the outcome of each on each device."""
    from devlab import __version__

    made = {
        "devlab": __version__,
        "saved": _now(),
        "passed": standing.passed,
        "possible": standing.possible,
        "next": standing.next,
        "devices": [{"name": device, "simulated": simulated(device)} for device in standing.devices],
        "lessons": [
            {
                "lesson": lesson.id,
                "title": lesson.title,
                "exercises": [
                    {"exercise": line.name, **_facts(line), "devices": _outcomes(line, standing.devices)}
                    for line in standing.of(lesson)
                ],
            }
            for lesson in standing.course
        ],
    }
    return json.dumps(made, indent=1) + "\n"


def as_page(standing: Standing) -> str:
    """Return a page of HTML that stands alone, reads in light and dark, and prints with all lessons open."""
    from devlab import __version__

    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>Progress in devlab: {standing.passed} of {standing.possible}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>Progress in devlab</h1>
<p>Saved {escape(_now())} by devlab {escape(__version__)}, from what the learner's own checks said.</p>
{render(standing, alone=True)}
</main>
</body>
</html>
"""


FORMATS = {".html": as_page, ".csv": as_csv, ".json": as_json}


def _facts(line: Line) -> dict[str, str | int]:
    """Return what is known of an exercise everywhere, under the names of the table's columns."""
    record = line.record
    return {
        "outcome": str(line.outcome),
        "points": line.points,
        "possible": line.exercise.possible,
        "tries": record.attempts,
        "last_try": record.last if record.attempts else "",
        "hints": record.hints,
        "time": record.time,
    }


def _outcomes(line: Line, devices: list[str]) -> dict[str, str | None]:
    outcomes = {device: line.on(device) for device in devices}
    return {device: str(outcome) if outcome else None for device, outcome in outcomes.items()}


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M %z")
