"""The overview as HTML: a line for each lesson, which opens to a table of its exercises."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from devlab.checks.exercise import Lesson
from devlab.checks.result import ACCENTS, Outcome
from devlab.checks.standing import HOW_TO_SAVE, Line, Standing, heading, simulated
from devlab.panel import escape

CELL = "vertical-align:baseline;font-weight:normal;padding:0.1em 0.4em 0.1em 0;line-height:1.5"
LEFT = f"{CELL};text-align:left"
MIDDLE = f"{CELL};text-align:center;min-width:min(4em,9cqw)"
# Where there is room, wide enough for every name, so that the tables' columns stand under each other.
NAME = f"{LEFT};min-width:min(16em,35cqw);white-space:nowrap"
# JupyterLab's colours where there are any, the page's own otherwise.
LINE = "1px solid var(--jp-border-color1, #8888)"
TRACK = "var(--jp-border-color2, #8885)"
# Said by a screen reader, seen by nobody: the line above a table says the same to the eye.
UNSEEN = "position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap"


def render(standing: Standing, alone: bool = False) -> str:
    """Return the overview as HTML that reads in light and dark themes and needs no style sheet.

    The lesson that is next stands open. In a page that stands `alone` each of them does, as paper needs it,
    and nothing links to the learner's notebooks.
    """
    accent = ACCENTS[Outcome.PASSED if standing.next is None else Outcome.NOT_ATTEMPTED]
    lessons = "".join(_lesson(standing, lesson, alone) for lesson in standing.course)
    notes = [escape(note) for note in (*standing.notes(), *([] if alone else [HOW_TO_SAVE]))]
    notes = "".join(f"<div>{note}</div>" for note in (_legend(standing.outcomes), *notes))
    step = escape(standing.step) if alone else _linked(standing.step)
    return (
        f'<div style="border-left:4px solid {accent};padding:0.3em 0.8em;max-width:60em;font-size:14px;'
        'line-height:1.5;container-type:inline-size">'
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
        f'background:{ACCENTS[Outcome.PASSED]}">'
        "</div></div>"
    )


def _lesson(standing: Standing, lesson: Lesson, alone: bool) -> str:
    lines = standing.of(lesson)
    is_next = standing.next_line is not None and standing.next_line.lesson is lesson
    return (
        f'<details style="border-top:{LINE};padding:0.2em 0"{" open" * (alone or is_next)}>'
        '<summary style="cursor:pointer">'
        f'<strong style="display:inline-block;min-width:19em">{escape(heading(lesson))}</strong> '
        f'<span style="display:inline-block;min-width:8em">{standing.tally(lesson)}</span> '
        f"{_signs(lines)}</summary>{_table(standing, lesson, lines)}</details>"
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


def _table(standing: Standing, lesson: Lesson, lines: list[Line]) -> str:
    rows = "".join(
        f'<tr style="background:none"><th scope="row" style="{NAME}">{line.outcome.html_sign} '
        f"{_breakable(line.name)}</th>{_cells(line.on(device) for device in standing.devices)}"
        f'<td style="{LEFT}">{escape(line.remark)}</td></tr>'
        for line in lines
    )
    return (
        # Where the table is wider than the screen it scrolls by itself, by keyboard too: without the second
        # attribute, JupyterLab takes the arrow keys for its own.
        '<div role="group" tabindex="0" data-lm-suppress-shortcuts="true" style="overflow-x:auto;'
        f'position:relative" aria-label="{escape(heading(lesson))}">'
        '<table style="margin:0.3em 0 0.6em 1.1em;border-collapse:collapse;font-size:inherit">'
        f'<caption style="{UNSEEN}">{escape(heading(lesson))}, with the outcome on each device</caption>'
        f"<thead>{_heads(standing.devices)}</thead><tbody>{rows}</tbody></table></div>"
    )


def _heads(devices: list[str]) -> str:
    """Return the rows of heads: the simulated devices, which come last, stand under a word that says so."""
    simulations = [device for device in devices if simulated(device)]
    down = ' rowspan="2"' * bool(simulations)
    real = "".join(_head(device, MIDDLE, down) for device in devices if device not in simulations)
    first = _head("exercise", NAME, down) + real
    last = _head("remarks", LEFT, down)
    if not simulations:
        return f"<tr>{first}{last}</tr>"
    over = f'<th scope="colgroup" colspan="{len(simulations)}" style="{MIDDLE}">simulated</th>'
    under = "".join(_head(device, MIDDLE) for device in simulations)
    return f"<tr>{first}{over}{last}</tr><tr>{under}</tr>"


def _head(words: str, style: str, more: str = "") -> str:
    # On the bottom line, where the names of the simulated devices stand.
    return f'<th scope="col"{more} style="{style};vertical-align:bottom">{escape(words)}</th>'


def _breakable(name: str) -> str:
    """Return a name that a narrow screen may break after each underscore, and nowhere else."""
    return escape(name).replace("_", '_<wbr style="white-space:normal">')


def _cells(outcomes: Iterable[Outcome | None]) -> str:
    return "".join(
        f'<td style="{MIDDLE}">{outcome.html_sign if outcome else ""}</td>' for outcome in outcomes
    )


def _linked(step: str) -> str:
    """Return the step as HTML, each notebook in it a link where it is found beside this one."""
    words = []
    for word in step.split(" "):
        path = word.rstrip(",")
        found = [place for place in (path, f"../{path}") if path.endswith(".ipynb") and Path(place).is_file()]
        link = (
            f'<a href="{escape(found[0])}">{escape(path)}</a>{word[len(path) :]}' if found else escape(word)
        )
        words.append(link)
    return " ".join(words)
