"""Run an answer through every row of its exercise, on every device of the bench."""

from collections.abc import Callable, Sequence

import torch

from devlab.checks import defaults, findings, waiting
from devlab.checks.exercise import Exercise, Row
from devlab.checks.findings import Finding
from devlab.checks.isolation import fresh_defaults, preserved_state
from devlab.checks.reasons import reason
from devlab.checks.result import Outcome, Result, RowResult
from devlab.checks.trial import Caller, Skip, Trial

UNREACHED = Finding(Outcome.NOT_REACHED)


def judge(
    exercise: Exercise,
    answer: Callable,
    devices: Sequence[torch.device] | None = None,
    seed: int = 0,
    caller: Caller | None = None,
) -> Result:
    """Judge an answer and return the Result; never raises for anything that the answer does.

    `devices` defaults to the bench of this machine. `seed` moves all random inputs, so that a grader
    can use numbers that nobody has seen. `caller` makes the calls of the answer.
    """
    caller = caller or Caller()
    if devices is None:
        from devlab.devices import bench

        devices = bench()
    with preserved_state() as free, waiting.watched():
        table = _judge_rows(exercise, answer, devices, seed, caller)
        if free and findings.first(table) is None:
            _judge_once_more(exercise, answer, devices, seed, caller, table)
    return _verdict(exercise, devices, table)


def not_attempted(exercise: Exercise) -> Result:
    """Return the Result of an answer that is still empty."""
    rows = tuple(RowResult(row.label, {}) for row in exercise.rows)
    return Result(
        exercise.name,
        Outcome.NOT_ATTEMPTED,
        "not attempted yet",
        rows,
        (("next", f"write {exercise.name}, run its cell, then run this one again"),),
        exercise.possible,
    )


def _judge_rows(
    exercise: Exercise, answer: Callable, devices: Sequence[torch.device], seed: int, caller: Caller
) -> list[list[Finding | None]]:
    table, endless = [], False
    for row in exercise.rows:
        table.append([])
        for device in devices:
            found = UNREACHED if row.applies_to(device, devices) else None
            if found and not endless:  # a loop that did not end would not end in the next row, either
                found = judge_row(exercise, row, answer, device, devices, seed, caller)
                endless = found.endless
            table[-1].append(found)
    return table


def judge_row(
    exercise: Exercise,
    row: Row,
    answer: Callable,
    device: torch.device,
    devices: Sequence[torch.device],
    seed: int,
    caller: Caller,
) -> Finding:
    """Judge one row on one device; the rest is as in `judge`, which also puts PyTorch's state back."""
    caller.row()
    trial = _trial(exercise, answer, device, devices, seed, caller)
    fresh_defaults()
    try:
        row.judge(trial)
    except (Exception, waiting.TooLong) as stopped:
        waiting.disarm()
        return reason(stopped, trial, row.label)
    return Finding(Outcome.PASSED)


def _judge_once_more(
    exercise: Exercise,
    answer: Callable,
    devices: Sequence[torch.device],
    seed: int,
    caller: Caller,
    table: list[list],
) -> None:
    """Judge an answer that passes once more, on one device, with unusual settings in force.

    What it leaves changed goes into the table. Its results are no matter here: nothing says that they may
    not follow a default, and most of PyTorch's do. The first row is judged under each setting alone as well
    where the answer cannot work under all at once; for every row that would take too long, and so would more
    than a few calls of a row.
    """
    for number, (row, found) in enumerate(zip(exercise.rows, table, strict=True)):
        place = next((place for place, one in enumerate(found) if one), None)
        if place is None:
            continue
        others = tuple(one for one in devices if one != devices[place])
        together, *alone = defaults.unusual(devices[place], others)
        for unusual in (together, *alone) if number == 0 else (together,):
            trial = _trial(exercise, answer, devices[place], devices, seed, caller)
            trial.unusual = unusual
            fresh_defaults()
            try:
                row.judge(trial)
            except defaults.Changed as changed:
                trial.last_call.after = defaults.WORDS[changed.name](changed.before)
                found[place] = reason(changed, trial, row.label)
                break
            except Skip:
                break
            except (Exception, waiting.TooLong):
                waiting.disarm()
                continue
            break


def _trial(
    exercise: Exercise,
    answer: Callable,
    device: torch.device,
    devices: Sequence[torch.device],
    seed: int,
    caller: Caller,
) -> Trial:
    others = tuple(other for other in devices if other != device)
    return Trial(answer, exercise.signature, device, others, seed, caller)


def _verdict(exercise: Exercise, devices: Sequence, table: list[list[Finding | None]]) -> Result:
    labels = [row.label for row in exercise.rows]
    rows = tuple(
        RowResult(label, dict(zip(map(str, devices), outcomes, strict=True)))
        for label, outcomes in zip(labels, findings.outcomes(table), strict=True)
    )
    main = findings.first(table)
    told = main.details if main else ()
    if main:
        also = findings.others(labels, table)
        told += (("also failing", also),) * bool(also)
        told += (("next", main.step or f"devlab.hint({exercise.name})"),)
    else:
        main = _unjudged(table) or Finding(Outcome.PASSED, "passed")
        told = main.details
    return Result(exercise.name, main.outcome, main.headline, rows, told, exercise.possible)


def _unjudged(table: list[list[Finding | None]]) -> Finding | None:
    """Return why a row was judged nowhere: an answer that nobody could judge in full has not passed.

    What says more than that it is skipped can be helped, and comes first.
    """
    skipped = [one for row in table for one in row if one and one.outcome is Outcome.SKIPPED and one.details]
    if skipped:
        return skipped[0]
    for row in table:
        if not any(one and one.outcome is Outcome.PASSED for one in row):
            unable = Finding(Outcome.SKIPPED, "there is no accelerator here to judge it on")
            return next((one for one in row if one), unable)
    return None
