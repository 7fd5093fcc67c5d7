"""What rows found, set in order: a fault is told once, and rows that it kept from judging are not reached."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from devlab.checks.describe import shorten
from devlab.checks.result import Outcome

# What differs between two rows that met one fault: the device, and numbers.
VARIES = re.compile(r"\b(cpu|cuda|mps|sim|xpu|meta)(:\d+)?\b|\d+")
STOPPED = (Outcome.FAILED, Outcome.ERROR)
LONGEST = 160


@dataclass
class Finding:
    """What one row said on one device.

    `cause` tells one fault from another, None where that is not known; `assumed` says that the row stopped at
    something that it takes for granted, which is no finding about its own question. `step` is what to do
    next, where a hint is not the thing; `endless` says that the learner's code did not end.
    """

    outcome: Outcome
    headline: str = ""
    details: tuple[tuple[str, str], ...] = ()
    cause: tuple | None = None
    assumed: bool = False
    step: str = ""
    endless: bool = False


Table = Sequence[Sequence[Finding | None]]


def same_words(headline: str) -> str:
    """Return a headline without the devices and numbers in it, to compare it with another one's.

    >>> same_words("the sum is on sim:1, not cpu") == same_words("the sum is on cpu, not sim:0")
    True
    """
    return VARIES.sub("#", headline)


def outcomes(table: Table) -> list[list[Outcome | None]]:
    """Return the outcome of each row on each device.

    A row that stopped at a fault that a row above it reports on that device, or at what it takes for
    granted, was not reached.
    """
    told: list[set[tuple]] = [set() for _ in max(table, key=len, default=())]
    found = []
    for row in table:
        found.append([one and _outcome(one, known) for one, known in zip(row, told, strict=True)])
    return found


def _outcome(finding: Finding, told: set[tuple]) -> Outcome:
    if finding.outcome in STOPPED:
        if finding.assumed or finding.cause in told:
            return Outcome.NOT_REACHED
        if finding.cause:
            told.add(finding.cause)
    return finding.outcome


def first(table: Table) -> Finding | None:
    """Return the finding that a verdict tells in full: the first of a row's own question, else the first."""
    stopped = [one for row in table for one in row if one and one.outcome in STOPPED]
    return next((one for one in stopped if not one.assumed), stopped[0] if stopped else None)


def others(labels: Sequence[str], table: Table) -> str:
    """Return a line for each row that failed for another reason than the verdict's own: "" where none did."""
    main, lines = first(table), []
    for label, row, reached in zip(labels, table, outcomes(table), strict=True):
        own = [one for one, outcome in zip(row, reached, strict=True) if outcome in STOPPED]
        if own and not any(one is main for one in own):
            at = dict(own[0].details).get("at", "")
            lines.append(shorten(f"{label}: {own[0].headline}{', at ' * bool(at)}{at}", LONGEST))
    return "\n".join(lines)
