"""`devlab.progress`: the table of all exercises, in a notebook and as a file."""

import csv
import json
import os
import time
from collections import Counter
from io import StringIO
from pathlib import Path

from devlab import __version__
from devlab.carried import notebook
from devlab.checks.exercise import Lesson, lessons
from devlab.checks.result import CHIPS, PLAIN, Outcome, html_sign_of
from devlab.learner.progress import HOW_TO_SAVE, Line, Standing, heading_of, is_simulated, label, load
from devlab.panel import Column, Note, Panel, Table, escape, page

CELL = "vertical-align:baseline;font-weight:normal;padding:0.1em 0.4em 0.1em 0;line-height:1.5"
LEFT = f"{CELL};text-align:left"
MIDDLE = f"{CELL};text-align:center;min-width:min(4em,9cqw)"
# Where there is room, wide enough for every name, so that the tables' columns stand under each other.
NAME = f"{LEFT};min-width:min(16em,35cqw);white-space:nowrap"
# JupyterLab's colours where there are any, the page's own otherwise.
LINE = "1px solid var(--jp-border-color1, #8888)"
TRACK = "var(--jp-border-color2, #8885)"


def render(standing: Standing, alone: bool = False) -> str:
    """Return the overview as HTML that reads in light and dark themes and needs no style sheet.

    The lesson that is next stands open. A page that stands `alone` has every lesson open, so that all print,
    and has no links to the learner's notebooks.
    """
    lessons = "".join(_lesson(standing, lesson, alone) for lesson in standing.course)
    notes = [escape(note) for note in (*standing.notes(), *([] if alone else [HOW_TO_SAVE]))]
    notes = "".join(f"<div>{note}</div>" for note in (_legend(standing.outcomes), *notes))
    step = escape(standing.step)
    if not alone:
        step = " ".join(_link(word, word) for word in step.replace(",", " ,").split(" ")).replace(" ,", ",")
    return (
        '<div style="container-type:inline-size">'
        f"<div><strong>{standing.passed} of {standing.possible}</strong> exercises passed</div>"
        f"{_bar(standing.passed, standing.possible)}<div>{step}</div>"
        f'<div style="margin:0.6em 0">{lessons}</div>{notes}</div>'
    )


def _bar(done: int, of: int) -> str:
    """Return a bar for the eye alone; the words above it say the same."""
    share = 100 * done / max(of, 1)
    return (
        '<div aria-hidden="true" style="height:6px;margin:0.3em 0 0.5em;border-radius:3px;'
        f'background:{TRACK}"><div style="height:6px;border-radius:3px;width:{share:.1f}%;'
        f'background:{CHIPS[Outcome.PASSED].edge}">'
        "</div></div>"
    )


def _lesson(standing: Standing, lesson: Lesson, alone: bool) -> str:
    lines = standing.of(lesson)
    is_next = standing.next_line is not None and standing.next_line.lesson is lesson
    return (
        f'<details style="border-top:{LINE};padding:0.2em 0"{" open" * (alone or is_next)}>'
        '<summary style="cursor:pointer">'
        f'<strong style="display:inline-block;min-width:19em">{escape(heading_of(lesson))}</strong> '
        f'<span style="display:inline-block;min-width:8em">{standing.tally(lesson)}</span> '
        f"{_signs(lines)}</summary>{_table(standing, lesson, lines, alone)}</details>"
    )


def _signs(lines: list[Line]) -> str:
    """Return a sign for each exercise; a screen reader hears how many there are of each."""
    counts = Counter(line.outcome for line in lines)
    words = ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome if counts[outcome])
    return (
        f'<span role="img" aria-label="{words}" style="display:inline-block">'
        f"{' '.join(line.outcome.html_sign for line in lines)}</span>"
    )


def _legend(outcomes: list[Outcome]) -> str:
    return " ".join(
        '<span style="display:inline-block;margin-right:1em">'
        f'<span aria-hidden="true">{outcome.html_sign}</span> {outcome}</span>'
        for outcome in outcomes
    )


def _table(standing: Standing, lesson: Lesson, lines: list[Line], alone: bool) -> str:
    path = "" if alone else notebook("exercises", lesson.id)
    columns = [Column("exercise", f'style="{NAME}"', str, labels=True)]
    columns += [Column(label(device), f'style="{MIDDLE}"', html_sign_of) for device in standing.devices]
    columns += [Column("remarks", f'style="{LEFT}"')]
    rows = []
    for line in lines:
        name = _link(_breakable(line.name), path, f"#cell-id=task_{line.name}")
        outcomes = (line.on(device) for device in standing.devices)
        rows.append((f"{line.outcome.html_sign} {name}", *outcomes, line.remark))
    look = 'style="margin:0.3em 0 0.6em 1.1em;border-collapse:collapse;font-size:inherit"'
    caption = f"{heading_of(lesson)}, with the outcome on each device"
    return (
        # A screen reader reads the table's caption, so the line above the table is for the eye alone.
        # Where the table is wider than the screen it scrolls by itself, by keyboard too: without the second
        # attribute, JupyterLab takes the arrow keys for its own.
        '<div role="group" tabindex="0" data-lm-suppress-shortcuts="true" style="overflow-x:auto;'
        f'position:relative" aria-label="{escape(heading_of(lesson))}">'
        f"{Table(columns, rows, look=look, row_look=PLAIN, caption=caption).html()}</div>"
    )


def _breakable(name: str) -> str:
    """Return a name that a narrow screen may break after each underscore, and nowhere else."""
    return escape(name).replace("_", '_<wbr style="white-space:normal">')


def _link(words: str, path: str, cell: str = "") -> str:
    """Return HTML as a link to a notebook, if that is found beside the notebook that runs."""
    places = (path, f"../{path}") if path.endswith(".ipynb") else ()
    found = next((place for place in places if Path(place).is_file()), "")
    return f'<a href="{escape(found + cell)}">{words}</a>' if found else words


# The columns of the table before those of the devices.
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
        raise CannotSave(
            "Not saved: the file's ending chooses what is written, .html, .csv or .json, and "
            f'{str(path)!r} has none of those. Try "{where.stem.strip(".") or "me"}.html".'
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
    made = {
        "devlab": __version__,
        "saved": _now(),
        "passed": standing.passed,
        "possible": standing.possible,
        "next": standing.next,
        "devices": [{"name": device, "simulated": is_simulated(device)} for device in standing.devices],
        "lessons": [
            {
                "lesson": lesson.id,
                "title": lesson.title,
                "exercises": [
                    {
                        "exercise": line.name,
                        **_facts(line),
                        "devices": {d: line.on(d) for d in standing.devices},
                    }
                    for line in standing.of(lesson)
                ],
            }
            for lesson in standing.course
        ],
    }
    return json.dumps(made, indent=1) + "\n"


def as_page(standing: Standing) -> str:
    """Return a page of HTML that stands alone, reads in light and dark, and prints with all lessons open."""
    title = f"Progress in devlab: {standing.passed} of {standing.possible}"
    saved = (
        f"Saved {escape(_now())} by devlab {escape(__version__)}, from what the learner's own checks said."
    )
    body = f"<h1>Progress in devlab</h1>\n<p>{saved}</p>\n{render(standing, alone=True)}"
    return page(title, STYLE, body)


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


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M %z")


class Progress(Standing, Panel):
    """The course as lessons and exercises, each with its outcome on each device, and what to do next.

    `save` writes it to a file for a teacher.
    """

    def text(self) -> str:
        """Return the overview as plain text."""
        titles = {lesson.id: f"{heading_of(lesson)} ({self.tally(lesson)})" for lesson in self.course}
        width = max(len(text) for text in [*titles.values(), *(line.name for line in self.lines)]) + 4
        head = "".join(f"  {device}" for device in self.devices)
        parts = [f"{self.passed} of {self.possible} exercises passed"]
        for lesson in self.course:
            parts.append(f"{titles[lesson.id]:<{width}}{head}".rstrip())
            parts += [self._row(line, width) for line in self.of(lesson)]
        parts.append("  ".join(f"{outcome.sign} {outcome}" for outcome in self.outcomes))
        return "\n".join([*parts, *self.notes(), HOW_TO_SAVE, self.step])

    def _row(self, line: Line, width: int) -> str:
        signs = "".join(f"  {getattr(line.on(device), 'sign', ''):^{len(device)}}" for device in self.devices)
        return f"  {line.outcome.sign} {line.name:<{width - 4}}{signs}  {line.remark}".rstrip()

    @property
    def accent(self) -> str:
        """Return the colour of the card: that of a pass once all is passed."""
        return CHIPS[Outcome.PASSED if self.next is None else Outcome.NOT_ATTEMPTED].edge

    def html(self) -> str:
        """Return the overview as HTML: a line for each lesson, which opens to a table of its exercises."""
        return render(self)

    def save(self, path: str | Path) -> "Saved":
        """Write the progress to a file that a teacher can read, and say where it is or why it is not.

        The file's ending chooses: `.html` is a page to read or print, `.csv` a table with a line for each
        exercise, `.json` the same for programs. A file that is there is replaced.
        """
        try:
            where = write(self, path)
            saved = Saved(f"saved: {where}", where)
        except CannotSave as problem:
            saved = Saved(str(problem))
        saved.show()
        return saved


class Saved(Note):
    """What became of saving: `path` is the file, None where nothing was written."""

    def __init__(self, message: str, path: Path | None = None):
        super().__init__(message)
        self.path = path


def standing() -> Progress:
    """Return how far the learner has come, without showing it."""
    return Progress(lessons(), *load())


def progress() -> Progress:
    """Show every lesson and exercise with its outcome on each device, and what to do next.

    `devlab.progress().save("progress.html")` also writes it to a file for a teacher (.html, .csv or .json).
    """
    panel = standing()
    panel.show()
    return panel
