"""Feedback as Markdown: one submission's verdicts, for a comment on GitHub."""

import re

from devlab.classroom.results import WORDS, Graded, Record, by_device, score


def page(record: Record) -> str:
    """Return the feedback for a submission: the points, and why each exercise that failed has failed.

    >>> print(page(Record("", "05_buffers", "", (Graded("f", "passed", 3, 3),))))
    ## 05_buffers: 3 of 3 points
    <BLANKLINE>
    | exercise | points | |
    |---|---|---|
    | `f` | 3 of 3 | ✓ passed |
    <BLANKLINE>
    """
    if record.problem:
        return f"## {record.assignment}: not graded\n\n{_fence(record.problem)}\n"
    title = f"## {record.assignment}: {score(record)} points"
    lines = [title, "", "| exercise | points | |", "|---|---|---|"]
    for one in record.exercises:
        lines.append(f"| `{one.name}` | {score(one)} | {' '.join(WORDS[one.outcome])} |")
    return "\n".join([*lines, "", *(_section(one) for one in record.exercises if _tells(one))])


def _tells(one: Graded) -> bool:
    return one.outcome not in ("passed", "not attempted")


def _section(one: Graded) -> str:
    rows = [
        f"{label}: {by_device(outcomes)}"
        for label, outcomes in one.rows
        if any(outcome not in (None, "passed") for outcome in outcomes.values())
    ]
    told = "\n".join([one.headline, "", *rows, "", *(f"{label}: {text}" for label, text in one.details)])
    return f"### `{one.name}`\n\n{_fence(told)}\n"


def _fence(text: str) -> str:
    """Return text as a block of code, which nothing in the text can end.

    >>> print(_fence("a ``` b"))
    ````text
    a ``` b
    ````
    """
    longest = max((len(found) for found in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text.strip()}\n{fence}"
