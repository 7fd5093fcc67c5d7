"""What a teacher gets of records: pages of feedback, each a single HTML file, and tables.

A page shows its student the marks, each verdict, and the student's own code. It loads and runs nothing,
whatever a submission tried to put into it.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from devlab import carried, panel
from devlab.classroom import course, results
from devlab.classroom.download import printable, reason_of, safe
from devlab.classroom.results import CONTROLS, WORDS, Graded, Record, score
from devlab.panel import Column, Table, escape, prose

LONGEST = 20_000  # characters of an answer or message that a page shows, since a student may hand in anything


def page(record: Record, title: str) -> str:
    """Return a student's feedback on one notebook as a page of HTML; `title` names the assignment.

    All that comes from the student is escaped. Nothing shows how an answer is judged but its verdict.
    """
    who = f"{title}: {record.student}"
    body = [
        f"<h1>{_text(title)}</h1>",
        f'<p class="soft">{_text(record.student)}</p>',
        _total(record),
        _overview(record.exercises),
        *(_section(exercise) for exercise in record.exercises),
        _describe_devices(record),
    ]
    return panel.page(_text(who), STYLE, "\n".join(part for part in body if part))


def _total(record: Record) -> str:
    if record.problem:
        return f'<p class="total">Not marked: {_text(record.problem)}</p>'
    return f'<p class="total">{score(record)} points</p>'


def _overview(exercises: Sequence[Graded]) -> str:
    columns = [
        Column("exercise", "", str, labels=True),
        Column("points", 'class="points"', str, head=""),
        Column("outcome", "", str),
    ]
    rows = [
        (f'<a href="#{_id(one)}">{_text(one.name)}</a>', score(one), _mark(one.outcome)) for one in exercises
    ]
    return _wide(Table(columns, rows))


def _section(one: Graded) -> str:
    return "\n".join(
        part
        for part in (
            f'<section id="{_id(one)}">',
            f"<header><h2>{_text(one.name)}</h2><span>{score(one)} points</span></header>",
            f'<p class="headline">{_mark(one.outcome)}{_headline(one)}</p>',
            _rows(one),
            _details(one.details),
            "<h3>Your code</h3>",
            _code(one.source) if one.source.strip() else '<p class="soft">There is none in this cell.</p>',
            "</section>",
        )
        if part
    )


def _headline(one: Graded) -> str:
    repeats = one.headline in (_words(one.outcome)[1], "passed", "not attempted yet", "")
    return "" if repeats else f": {prose(_printable(one.headline))}"


def _rows(one: Graded) -> str:
    """Return the verdict's table, none where nothing was judged."""
    if one.outcome == "not attempted" or not any(outcomes for _, outcomes in one.rows):
        return ""
    devices = list(dict.fromkeys(device for _, outcomes in one.rows for device in outcomes))
    columns = [Column("what was judged", "", _text, labels=True)]
    columns += [
        Column(_printable(device), 'class="sign"', _sign, head='class="device"') for device in devices
    ]
    return _wide(Table(columns, [(label, *map(outcomes.get, devices)) for label, outcomes in one.rows]))


def _details(details: Iterable[tuple[str, str]]) -> str:
    # The line called `next` names a hint. A page has no hints, but the student may go on in the notebook.
    return _wide(
        Table([Column(look='class="soft"', html=_text, labels=True), Column(look="", html=_code)], details)
    )


def _wide(table: Table) -> str:
    # On a narrow screen the table scrolls, and the page around it does not.
    return f'<div class="wide">{table.html()}</div>' if table.rows else ""


def _describe_devices(record: Record) -> str:
    every = (outcomes for one in record.exercises for _, outcomes in one.rows)
    devices = list(dict.fromkeys(device for outcomes in every for device in outcomes))
    if not devices:
        return ""
    simulated = any(device.startswith("sim") for device in devices)
    words = f"Judged on {', '.join(devices)}."
    words += " A sim device is a simulated accelerator: it follows a real one's rules." if simulated else ""
    return f'<section><p class="soft">{_text(words)}</p></section>'


def _mark(outcome: str) -> str:
    sign, words, name = _words(outcome)
    return f'<span class="mark {name}"><span aria-hidden="true">{sign}</span> {_text(words)}</span>'


def _words(outcome: str) -> tuple[str, str, str]:
    """Return an outcome's sign, its words, and the name of its colour."""
    return (*WORDS[outcome], outcome.replace(" ", "-")) if outcome in WORDS else ("?", outcome, "")


def _sign(outcome: str | None) -> str:
    if outcome is None:
        return ""
    sign, _, name = _words(outcome)
    return f'<span class="mark {name}" role="img" aria-label="{_text(outcome)}">{sign}</span>'


def _code(text: str) -> str:
    return f"<pre><code>{_text(text.strip(chr(10)))}</code></pre>"


def _id(one: Graded) -> str:
    return _text(one.name)


def _text(text: str) -> str:
    """Return text that is harmless in HTML and can be written as UTF-8, cut where it goes on without end."""
    return escape(_printable(text))


def _printable(text: str) -> str:
    text = str(text)
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}\n… ({len(text) - LONGEST:,} more characters)"
    text = CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)
    return text.encode("utf-8", "replace").decode("utf-8")


# Text and signs reach 4.5 to 1 against their background in both themes (WCAG 2.2), as axe measures it.
STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #fff; --soft: #595959; --line: #d0d0d0;
  --code: #f5f5f5; --good: #1e7a46; --bad: #b3261e; --rest: #5f5f5f; --odd: #8a5000; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #191919; --soft: #b0b0b0;
  --line: #4a4a4a; --code: #242424; --good: #7fd6a0; --bad: #ff9a90; --rest: #b8b8b8; --odd: #f0b860; } }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 52rem; margin: 0 auto; padding: 1rem 1.2rem 4rem; }
p, h1, h2, th { overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; margin: 1rem 0 0; } h2 { font-size: 1.15rem; margin: 0; }
h3 { font-size: 1rem; margin: 1rem 0 0.3rem; }
a { color: inherit; } .soft { color: var(--soft); } .points { white-space: nowrap; }
.total { font-size: 1.3rem; font-weight: 600; margin: 0.2rem 0 1rem; }
table { border-collapse: collapse; } th { text-align: left; font-weight: normal; }
td, th { padding: 0.15rem 1rem 0.15rem 0; vertical-align: top; } thead th { color: var(--soft); }
td.sign, th.device { text-align: center; padding: 0.15rem 0.7rem; }
.wide { overflow-x: auto; } .wide + .wide { margin-top: 0.6rem; }
section { border-top: 1px solid var(--line); margin-top: 2rem; padding-top: 1rem; }
section > header { display: flex; justify-content: space-between; gap: 2rem; align-items: baseline; }
.passed { color: var(--good); } .failed, .timeout, .killed, .memory { color: var(--bad); }
.error, .grader-error { color: var(--odd); } .not-attempted, .not-reached, .skipped { color: var(--rest); }
.mark { font-weight: 700; } .headline { margin: 0.3rem 0 0.8rem; }
pre { background: var(--code); padding: 0.7rem 0.9rem; margin: 0.3rem 0; border-radius: 4px;
  white-space: pre-wrap; overflow-wrap: anywhere; font: 0.9rem/1.45 ui-monospace, monospace; tab-size: 4; }
td pre { background: none; padding: 0; margin: 0; }
@media print { section { break-inside: avoid; } }
"""


@dataclass(frozen=True)
class Written:
    """Where `write` put things; `problems` are the pages that could not be written, each with the reason.

    `archives` are the zips of pages that go back to a platform.
    """

    grades: Path
    exercises: Path
    feedback: tuple[Path, ...]
    problems: tuple[str, ...] = ()
    archives: tuple[Path, ...] = ()

    def text(self) -> str:
        """Return what a teacher reads."""
        pages = len(self.feedback)
        return "\n".join(
            (
                f"marks      {self.grades}",
                f"exercises  {self.exercises}",
                f"feedback   {self.grades.parent / 'feedback'} ({pages} page{'s' * (pages != 1)})",
                *(f"to upload  {archive}" for archive in self.archives),
                *(f"no page for {problem}" for problem in self.problems),
            )
        )


def write(records: Sequence[Record], folder: Path) -> Written:
    """Write grades.csv, exercises.csv and feedback/STUDENT/ASSIGNMENT.html into a folder of results.

    Where a platform's download told the students, pages are named as the files there were, and
    feedback/ASSIGNMENT.zip holds them: Moodle and Canvas know by these names whose a page is
    (mod/assign/feedback/file/importziplib.php and app/models/abstract_assignment.rb of their sources).
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    grades, exercises = folder / "grades.csv", folder / "exercises.csv"
    grades.write_text(results.nbgrader_csv(records), encoding="utf-8", newline="")
    # Without the mark in front (utf-8-sig), Excel takes UTF-8 for an old code page.
    exercises.write_text(results.exercises_csv(records), encoding="utf-8-sig", newline="")
    titles = {name: title_of(name) for name in {record.assignment for record in records}}
    pages, problems, taken_back = [], [], defaultdict(dict)
    for record in records:
        name = f"{record.prefix or (safe(record.student) or 'nobody') + '/'}{_name_of(record)}.html"
        try:
            text = page(record, titles[record.assignment])
            course.write_text(folder / "feedback" / name, text)
            pages.append(folder / "feedback" / name)
            if record.prefix:
                taken_back[_name_of(record)][name] = text
        except Exception as problem:  # the other pages do not depend on this one
            problems.append(
                f"{printable(record.student)}, {printable(record.assignment)}: {reason_of(problem)}"
            )
    archives = [folder / "feedback" / f"{assignment}.zip" for assignment in taken_back]
    for archive, named in zip(archives, taken_back.values(), strict=True):
        course.write_zip(archive, named)
    return Written(grades, exercises, tuple(pages), tuple(problems), tuple(archives))


def _name_of(record: Record) -> str:
    return safe(record.assignment) or "nothing"


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
