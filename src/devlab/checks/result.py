"""How an outcome reads: a verdict as aligned plain text, and the same as HTML."""

import enum
import re
from dataclasses import dataclass
from difflib import SequenceMatcher

from devlab.panel import Column, Panel, Table, escape, prose


class Outcome(enum.StrEnum):
    """The outcome of an answer, or of a row on a device."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_ATTEMPTED = "not attempted"
    SKIPPED = "skipped"
    ERROR = "error"
    NOT_REACHED = "not reached"  # for rows only: another fault stopped the row before its own question

    @property
    def sign(self) -> str:
        """Return the sign that stands for it in a table."""
        return SIGNS[self]

    @property
    def html_sign(self) -> str:
        """Return the sign as HTML that a screen reader says as a word."""
        chip = CHIPS[self]
        look = (
            f"background:{chip.paper};color:{chip.ink};border:2px solid {chip.edge};"
            f"border-radius:{chip.corners};display:inline-block;min-width:1.2em;line-height:1.15;"
            "text-align:center;font-weight:700"
        )
        return f'<span role="img" aria-label="{self}" style="{look}">{self.sign}</span>'


SIGNS = {
    Outcome.PASSED: "✓",
    Outcome.FAILED: "✗",
    Outcome.NOT_ATTEMPTED: "○",
    Outcome.SKIPPED: "–",
    Outcome.ERROR: "!",
    Outcome.NOT_REACHED: "–",
}


@dataclass(frozen=True)
class Chip:
    """How an outcome looks: the colours of the paper, of the sign on it and of the edge, and the corners."""

    paper: str
    ink: str
    edge: str
    corners: str


# The outcomes differ in lightness and in shape, so that no reader needs to tell red from green: passed is
# round and of middle lightness, failed is square and dark, an error is light and has two round corners.
# tests/test_palette.py computes contrast and lightness, to eyes without red or green cones as well.
_REST = Chip("#ffffff", "#4a4a4a", "#767676", "0.4em")
CHIPS = {
    Outcome.PASSED: Chip("#3aa56a", "#000000", "#1e7a46", "1em"),
    Outcome.FAILED: Chip("#7a0d0d", "#ffffff", "#d4574a", "0"),
    Outcome.NOT_ATTEMPTED: _REST,
    Outcome.SKIPPED: _REST,
    Outcome.ERROR: Chip("#ffd24d", "#000000", "#9a5b00", "0.7em 0.7em 0 0"),
    Outcome.NOT_REACHED: _REST,
}
INDENT = 2
LABEL_WIDTH = 12
TABLE = 'style="margin:0.3em 0 0;border-collapse:collapse;font-size:inherit"'
PLAIN = 'style="background:none"'
MARK = "background:#ffd24d66;color:inherit;font-weight:700;border-radius:2px"  # read in either theme
CENTRED = 'style="text-align:center"'
DEVICE = 'style="text-align:center;font-weight:normal;padding:0 0.8em"'
ROW = 'style="text-align:left;font-weight:normal;padding:0 0.8em 0 0"'
DETAIL = (
    'style="text-align:left;vertical-align:baseline;font-weight:normal;padding:0 1em 0 0;white-space:nowrap"'
)


class CheckFailed(AssertionError):
    """Raised in strict mode (DEVLAB_STRICT=1) for every outcome but a pass."""


@dataclass(frozen=True)
class RowResult:
    """One thing that was judged: its label, and its outcome on each device (None: not judged there)."""

    label: str
    outcomes: dict[str, Outcome | None]

    @property
    def passed(self) -> bool:
        """Tell whether it was judged somewhere and passed wherever it was."""
        judged = [outcome for outcome in self.outcomes.values() if outcome]
        return bool(judged) and all(outcome is Outcome.PASSED for outcome in judged)


@dataclass(repr=False, eq=False)
class Result(Panel):
    """The verdict on an answer.

    `rows` holds a RowResult for each row; `points` counts the rows that passed on every device, out of
    `possible`. `details` are labelled lines: called with, expected, got, next. After a pass `onward` names
    the next exercise, with its address in the course. A `warning` comes before all else.
    """

    name: str
    outcome: Outcome
    headline: str
    rows: tuple[RowResult, ...] = ()
    details: tuple[tuple[str, str], ...] = ()
    possible: int = 0
    onward: tuple[str, str] = ("", "")
    warning: str = ""

    @property
    def passed(self) -> bool:
        """Tell whether the answer passed everywhere; a skip is no pass."""
        return self.outcome is Outcome.PASSED

    @property
    def points(self) -> int:
        """Return how many rows passed."""
        return sum(row.passed for row in self.rows)

    @property
    def devices(self) -> list[str]:
        """Return the names of the devices it was judged on, in the order of the columns."""
        return list(self.rows[0].outcomes) if self.rows else []

    @property
    def accent(self) -> str:
        """Return the colour of the card."""
        return CHIPS[self.outcome].edge

    def on(self, device: str) -> Outcome:
        """Return the answer's outcome on a device: that of the first row that a fault stopped, if any."""
        found = [row.outcomes[device] for row in self.rows if row.outcomes[device]]
        last = (Outcome.NOT_REACHED, Outcome.PASSED)
        return min(found, key=lambda one: last.index(one) + 1 if one in last else 0, default=Outcome.PASSED)

    @property
    def score(self) -> str:
        """Return the points in words, "" where there was nothing to judge."""
        noun = "point" if self.possible == 1 else "points"
        return f"{self.points} of {self.possible} {noun}" if self.possible else ""

    @property
    def _table(self) -> tuple[RowResult, ...]:
        # Of an answer not attempted every sign would be a circle.
        return () if self.outcome is Outcome.NOT_ATTEMPTED else self.rows

    def text(self) -> str:
        """Return the whole verdict as plain text."""
        title = f"{self.outcome.sign} {self.name}: {self.headline}"
        left = max([len(row.label) for row in self._table], default=0) + INDENT + 2
        width = max(left + sum(len(device) + 3 for device in self.devices), 56)
        lines = [f"{Outcome.ERROR.sign} {self.warning}"] if self.warning else []
        lines.append(f"{title:<{width - len(self.score) - 2}}  {self.score}".rstrip())
        if self._table:
            lines.append(" " * left + "".join(f"   {device}" for device in self.devices))
        for row in self._table:
            signs = "".join(
                f"   {outcome.sign if outcome else ' ':^{len(device)}}"
                for device, outcome in row.outcomes.items()
            )
            lines.append(f"{' ' * INDENT}{row.label:<{left - INDENT}}{signs}".rstrip())
        for label, text in self.details:
            first, *rest = text.splitlines() or [""]
            lines.append(f"{' ' * INDENT}{label:<{LABEL_WIDTH}}  {first}".rstrip())
            lines += [f"{' ' * (INDENT + LABEL_WIDTH + 2)}{line}".rstrip() for line in rest]
        if self.onward[0]:
            lines.append(f"{' ' * INDENT}{self.onward[0]}")
        return "\n".join(lines)

    def html(self) -> str:
        """Return the verdict as HTML that reads in light and dark themes and needs no style sheet."""
        title = (
            f'<div style="display:flex;justify-content:space-between;gap:2em">'
            f"<span>{self.outcome.html_sign} <strong>{escape(self.name)}</strong>: "
            f"{prose(self.headline)}</span>"
            f'<span style="white-space:nowrap">{self.score}</span></div>'
        )
        warning = f"<div>{Outcome.ERROR.html_sign} {escape(self.warning)}</div>" if self.warning else ""
        return f"{warning}{title}{self._html_table()}{self._html_details()}{self._html_onward()}"

    def _html_table(self) -> str:
        columns = [Column(look=ROW, html=prose, labels=True, head='style="padding:0"')]
        columns += [Column(device, CENTRED, html_sign_of, head=DEVICE) for device in self.devices]
        rows = [(row.label, *row.outcomes.values()) for row in self._table]
        return Table(columns, rows, look=TABLE, row_look=PLAIN).html()

    def _html_onward(self) -> str:
        words, address = self.onward
        linked = f'<a href="{escape(address)}">{prose(words)}</a>' if address else prose(words)
        return f'<div style="margin-top:0.3em">{linked}</div>' if words else ""

    def _html_details(self) -> str:
        columns = [
            Column(look=DETAIL, labels=True),
            Column(look='style="text-align:left;vertical-align:baseline;padding:0"', html=_code),
        ]
        told = dict(self.details)
        sides = ("expected", "got")
        marked = dict(zip(sides, mark_difference(*(told.get(side, "") for side in sides)), strict=True))
        rows = [(label, marked.get(label, escape(text))) for label, text in self.details]
        return Table(columns, rows, look=TABLE, row_look=PLAIN).html()


def html_sign_of(outcome: Outcome | None) -> str:
    """Return the sign of an outcome as HTML, nothing for None."""
    return outcome.html_sign if outcome else ""


def _code(content: str) -> str:
    look = "white-space:pre-wrap;background:none;color:inherit;padding:0"
    return f'<code style="{look}">{content}</code>'


def mark_difference(one: str, other: str) -> tuple[str, str]:
    """Return two texts as HTML, with marks at the words that differ; without, where no word is the same.

    Of words that stand in the place of fewer, the last are marked: a value comes after the words for it.

    >>> mark_difference("f32[3] cpu", "f32[2] cpu")[1].count("<mark"), mark_difference("None", "3")
    (1, ('None', '3'))
    """
    words, others = (re.findall(r"[\w.:+-]+|\s+|.", text, re.S) for text in (one, other))
    shown = [], []
    steps = SequenceMatcher(None, words, others, autojunk=False).get_opcodes()
    alike = any(kind == "equal" and any(map(str.isalnum, words[a:b])) for kind, a, b, _, _ in steps)
    for kind, a, b, c, d in steps:
        marked = 0 if kind == "equal" or not alike else min(b - a, d - c) or max(b - a, d - c)
        for side, part in zip(shown, (words[a:b], others[c:d]), strict=True):
            last = "".join(part[-marked:]) if marked else ""
            side.append(escape("".join(part).removesuffix(last)))
            side.append(f'<mark style="{MARK}">{escape(last)}</mark>' if last.strip() else escape(last))
    return "".join(shown[0]), "".join(shown[1])
