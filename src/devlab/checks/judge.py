"""Run an answer through every row of its exercise, on every device of the bench."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from devlab.checks.calls import AnswerRaised, NotAttempted
from devlab.checks.exercise import Exercise, Row
from devlab.checks.expect import Mismatch
from devlab.checks.isolation import fresh_defaults, preserved_state
from devlab.checks.machine import BEYOND, is_beyond
from devlab.checks.result import Outcome, Result, RowResult
from devlab.checks.trace import where_raised
from devlab.checks.trial import Skip, Trial

# Of the message of an exception; whoever wants it whole calls the function.
MOST_LINES, LONGEST = 8, 1000


@dataclass
class Finding:
    """What one row said on one device."""

    outcome: Outcome
    headline: str = ""
    details: tuple[tuple[str, str], ...] = ()


def judge(
    exercise: Exercise, answer: Callable, devices: Sequence[torch.device] | None = None, seed: int = 0
) -> Result:
    """Judge an answer and return the Result; never raises for anything that the answer does.

    `devices` defaults to the bench of this machine. `seed` moves all random inputs, so that a grader
    can use numbers that nobody has seen.
    """
    if devices is None:
        from devlab.devices import bench

        devices = bench()
    findings: list[list[Finding | None]] = []
    with preserved_state():
        for row in exercise.rows:
            findings.append([
                _judge_row(exercise, row, answer, device, devices, seed)
                if row.applies_to(device, devices)
                else None
                for device in devices
            ])  # fmt: skip
    return _verdict(exercise, devices, findings)


def not_attempted(exercise: Exercise) -> Result:
    """Return the Result of an answer that is still empty."""
    rows = tuple(RowResult(row.label, {}) for row in exercise.rows)
    return Result(
        exercise.name,
        Outcome.NOT_ATTEMPTED,
        "not attempted yet",
        rows,
        _next_step(exercise, Outcome.NOT_ATTEMPTED),
        exercise.possible,
    )


def _judge_row(
    exercise: Exercise, row: Row, answer: Callable, device: torch.device, devices: Sequence, seed: int
) -> Finding:
    others = tuple(other for other in devices if other != device)
    trial = Trial(answer, exercise.signature, device, others, seed)
    fresh_defaults()
    try:
        row.judge(trial)
    except Skip as skip:
        return Finding(Outcome.SKIPPED, str(skip))
    except NotAttempted:
        return Finding(Outcome.NOT_ATTEMPTED)
    except Mismatch as mismatch:
        found = [("expected", mismatch.expected), ("got", mismatch.got)]
        return Finding(Outcome.FAILED, mismatch.headline, _details(trial, found))
    except AnswerRaised as raised:
        error = raised.error
        found = [("raised", _said(error)), ("at", where_raised(error))]
        found += [("note", BEYOND)] if "NVIDIA GPU" in trial.situation and is_beyond(error) else []
        headline = f"your code raised {type(error).__name__} {trial.situation or f'on {device}'}"
        return Finding(Outcome.ERROR, headline, _details(trial, found))
    except Exception as ours:
        # The row itself broke, most likely over a result that nobody thought of. No traceback of
        # ours reaches a learner; the report says what a maintainer needs.
        found = [("raised", _said(ours)), ("in", f"the row {row.label!r} of devlab")]
        headline = "devlab could not judge this answer; please report it"
        return Finding(Outcome.ERROR, headline, _details(trial, found))
    return Finding(Outcome.PASSED)


def _said(error: BaseException) -> str:
    """Return an exception's type and message; PyTorch's own may go on for pages."""
    lines = f"{type(error).__name__}: {error}".splitlines()
    text = "\n".join(lines[:MOST_LINES])
    return f"{text[:LONGEST]} …" if len(lines) > MOST_LINES or len(text) > LONGEST else text


def _details(trial: Trial, found: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    call = trial.last_call
    where = trial.situation or f"judged on {trial.device}"
    called = [("called with", f"{call.reads}, {where}")] if call else []
    printed = [("printed", call.printed.strip())] if call else []
    return tuple((label, text) for label, text in [*called, *found, *printed] if text)


def _verdict(exercise: Exercise, devices: Sequence, findings: list[list[Finding | None]]) -> Result:
    rows = tuple(
        RowResult(
            row.label,
            {str(device): one.outcome if one else None for device, one in zip(devices, found, strict=True)},
        )
        for row, found in zip(exercise.rows, findings, strict=True)
    )
    every = [one for found in findings for one in found if one]
    worst = _first(every, Outcome.NOT_ATTEMPTED) or _first(every, Outcome.FAILED, Outcome.ERROR)
    if worst is None:
        unjudged = [
            found for found in findings if not any(one and one.outcome is Outcome.PASSED for one in found)
        ]
        worst = _skipped(unjudged[0]) if unjudged else Finding(Outcome.PASSED, "passed")
    return Result(
        name=exercise.name,
        outcome=worst.outcome,
        headline=worst.headline or "not attempted yet",
        rows=rows,
        details=(*worst.details, *_next_step(exercise, worst.outcome)),
        possible=exercise.possible,
    )


def _skipped(found: list[Finding | None]) -> Finding:
    """Return why a row was judged nowhere: an answer that nobody could judge in full has not passed."""
    unable = Finding(Outcome.SKIPPED, "there is no accelerator here to judge it on")
    return next((one for one in found if one), unable)


def _first(findings: list[Finding], *outcomes: Outcome) -> Finding | None:
    return next((one for one in findings if one.outcome in outcomes), None)


def _next_step(exercise: Exercise, outcome: Outcome) -> tuple[tuple[str, str], ...]:
    if outcome is Outcome.NOT_ATTEMPTED:
        return (("next", f"write {exercise.name}, run its cell, then run this one again"),)
    if outcome in (Outcome.FAILED, Outcome.ERROR):
        return (("next", f"devlab.hint({exercise.name})"),)
    return ()
