"""A page for a student: the marks, each verdict, their own code; one HTML file that needs nothing else."""

from collections.abc import Iterable, Sequence

from devlab.checks.result import SIGNS
from devlab.classroom.record import Graded, Record
from devlab.classroom.style import STYLE
from devlab.classroom.tables import CONTROLS, WORDS, number
from devlab.panel import escape, prose

# What a page shows of one answer or message: a student may hand in anything.
LONGEST = 20_000
# A page loads nothing and runs nothing, whatever a submission tried to put into it.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(record: Record, title: str) -> str:
    """Return a student's feedback on one notebook as a page of HTML; `title` names the assignment.

    All that comes from the student is escaped. Nothing shows how an answer is judged but its verdict.
    """
    who = f"{title}: {record.student}"
    body = [
        f"<h1>{_text(title)}</h1>",
        f'<p class="soft">{_text(record.student)}</p>',
        _total(record),
        *(f'<p class="note">{_text(note)}</p>' for note in record.remarks),
        _overview(record.exercises),
        *(_section(exercise) for exercise in record.exercises),
        _closing(record),
    ]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{_text(who)}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
{chr(10).join(part for part in body if part)}
</main>
</body>
</html>
"""


def _total(record: Record) -> str:
    if record.problem:
        return f'<p class="total">Not marked: {_text(record.problem)}</p>'
    return f'<p class="total">{number(record.points)} of {number(record.possible)} points</p>'


def _overview(exercises: Sequence[Graded]) -> str:
    rows = "".join(
        f'<tr><th scope="row"><a href="#{_id(one)}">{_text(one.name)}</a></th>'
        f'<td class="points">{_score(one)}</td><td>{_mark(one.outcome)}</td></tr>'
        for one in exercises
    )
    head = '<tr><th scope="col">exercise</th><th scope="col">points</th><th scope="col">outcome</th></tr>'
    return (
        f'<div class="wide"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>' if rows else ""
    )


def _section(one: Graded) -> str:
    return "\n".join(
        part
        for part in (
            f'<section id="{_id(one)}">',
            f"<header><h2>{_text(one.name)}</h2><span>{_score(one)} points</span></header>",
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
    words = WORDS.get(one.outcome, ("", one.outcome))[1]
    repeats = one.headline in (words, "passed", "not attempted yet", "")
    return "" if repeats else f": {prose(_printable(one.headline))}"


def _rows(one: Graded) -> str:
    """Return the verdict's table; a table full of circles tells nobody anything."""
    if one.outcome == "not attempted" or not any(outcomes for _, outcomes in one.rows):
        return ""
    devices = list(dict.fromkeys(device for _, outcomes in one.rows for device in outcomes))
    head = "".join(f'<th scope="col" class="device">{_text(device)}</th>' for device in devices)
    body = "".join(
        f'<tr><th scope="row">{_text(label)}</th>'
        + "".join(f'<td class="sign">{_sign(outcomes.get(device))}</td>' for device in devices)
        + "</tr>"
        for label, outcomes in one.rows
    )
    return _table(body, f'<tr><th scope="col">what was judged</th>{head}</tr>')


def _details(details: Iterable[tuple[str, str]]) -> str:
    # `next` names a hint, which only helps in the notebook; it stays, for whoever goes on there.
    rows = "".join(
        f'<tr><th scope="row" class="soft">{_text(label)}</th><td>{_code(text)}</td></tr>'
        for label, text in details
    )
    return _table(rows)


def _table(rows: str, head: str = "") -> str:
    """Return a table that a narrow screen may scroll by itself; nothing where it has no rows."""
    head = f"<thead>{head}</thead>" if head else ""
    return f'<div class="wide"><table>{head}<tbody>{rows}</tbody></table></div>' if rows else ""


def _closing(record: Record) -> str:
    every = (outcomes for one in record.exercises for _, outcomes in one.rows)
    devices = list(dict.fromkeys(device for outcomes in every for device in outcomes))
    if not devices:
        return ""
    simulated = any(device.startswith("sim") for device in devices)
    words = f"Judged on {', '.join(devices)}."
    words += " A sim device is a simulated accelerator: it follows a real one's rules." if simulated else ""
    return f'<section><p class="soft">{_text(words)}</p></section>'


def _mark(outcome: str) -> str:
    sign, words = _words(outcome)
    name = outcome.replace(" ", "-") if outcome in WORDS else ""
    return f'<span class="mark {name}"><span aria-hidden="true">{sign}</span> {_text(words)}</span>'


def _words(outcome: str) -> tuple[str, str]:
    """Return an outcome's sign and words; a row may have outcomes of its own, which a verdict shows alike."""
    return WORDS.get(outcome) or (SIGNS.get(outcome, "?"), outcome)


def _sign(outcome: str | None) -> str:
    if outcome is None:
        return ""
    sign, _ = _words(outcome)
    name = outcome.replace(" ", "-") if outcome in WORDS else ""
    return f'<span class="mark {name}" role="img" aria-label="{_text(outcome)}">{sign}</span>'


def _score(one: Graded) -> str:
    return f"{number(one.points)} of {number(one.possible)}"


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
