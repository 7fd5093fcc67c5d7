"""Verdicts from the pipe: which are devlab's, which is better, and what a replay makes of them."""

from devlab.checks import registry
from devlab.classroom.results import OF_ROWS, OUTCOMES
from devlab.devices import bench


def is_verdict(name: str, said: dict) -> bool:
    """Tell whether a message is a verdict of devlab's on an exercise: every report is made from it.

    Its outcome is known, each row bears the exercise's own label, and each mark a device of this machine.

    >>> is_verdict("device_of", {"outcome": "error", "headline": "no cell defines device_of"})
    True
    >>> is_verdict("device_of", {"outcome": "passed", "rows": [["mine", {"cpu": "passed"}]]})
    False
    """
    rows, details = said.get("rows", []), said.get("details", [])
    outcome, exercise = said.get("outcome"), registry.find(name)
    devices, marks = {str(device) for device in bench()}, {None, *OF_ROWS}
    try:
        return (
            isinstance(said.get("headline", ""), str)
            and isinstance(outcome, str)
            and outcome in OUTCOMES
            and all(isinstance(label, str) and isinstance(text, str) for label, text in details)
            and all(devices.issuperset(row.keys()) and marks.issuperset(row.values()) for _, row in rows)
            and (not rows or [label for label, _ in rows] == [row.label for row in exercise.rows])
        )
    except (TypeError, ValueError, AttributeError):
        return False


def rank(verdict: dict) -> tuple[bool, int]:
    """Return what makes one verdict better than another: a pass, and how many rows passed."""
    marks = ([one for one in row.values() if one] for _, row in verdict.get("rows", ()))
    passed = [bool(judged) and all(one == "passed" for one in judged) for judged in marks]
    return verdict.get("outcome") == "passed", sum(passed)


def early(outcome: str, headline: str, **facts: object) -> dict:
    """Return the verdict on an exercise that came to no verdict of its own."""
    return {"outcome": outcome, "headline": headline, **facts}


FORGED = early("error", "tampered with what judges it: a forged verdict", tampered=True)


def settled(verdict: dict, said: dict | None) -> dict:
    """Return a verdict as a replay leaves it; `said` is what the checker says, None where it cannot.

    >>> settled({"outcome": "passed", "rows": [["a", {"cpu": "passed"}]]}, None)["confirmed"]
    '0 of 1 rows'
    >>> refuted = {"confirmed": [], "refuted": ["a"], "unread": []}
    >>> settled({"outcome": "passed", "rows": [["a", {"cpu": "passed"}]]}, refuted)["headline"]
    'tampered with what judges it: by its own results the row "a" does not pass'
    """
    said = said or {"confirmed": [], "refuted": [], "unread": ["all"]}
    if said["refuted"]:
        which = f'by its own results the row "{said["refuted"][0]}" does not pass'
        return early("error", f"tampered with what judges it: {which}", tampered=True)
    confirmed = f"{len(said['confirmed'])} of {len(verdict['rows'])} rows"
    return verdict | {"confirmed": confirmed, "unread": said["unread"]}
