"""`devlab.check`: find the exercise that a value answers, judge it, show the verdict, remember it."""

import os
from collections.abc import Callable, Iterable

from devlab.carried import notebook
from devlab.checks.answered import BadCall, exercise_of, names_of_caller
from devlab.checks.calls import find_failed_cell, loops_around, where_raised
from devlab.checks.exercise import lessons
from devlab.checks.judge import judge, not_attempted
from devlab.checks.placeholder import is_blank, is_printed
from devlab.checks.result import CheckFailed, Outcome, Result
from devlab.devices import UnknownDevice
from devlab.learner import card, progress
from devlab.panel import notebook_shell


def check(answer: Callable) -> Result:
    """Judge a function or class on every device present, show the verdict and return it.

    Its own name says which exercise it answers, or the name that it has where check is called. Nothing that
    the answer does raises here, so that Run All reaches the end of a half-solved notebook. In strict mode
    (the environment variable DEVLAB_STRICT=1, as a grader sets it) every outcome but a pass raises
    CheckFailed.

    >>> check(3).outcome
    ! check: check takes the function itself, and this is an int
      next          pass the name without parentheses or quotes: devlab.check(device_of)
    <Outcome.ERROR: 'error'>
    """
    names = names_of_caller(answer)
    result = _judge_live(answer, names) if hasattr(notebook_shell(), "kernel") else verdict(answer, names)
    if result.passed:
        result.onward = onward(result.name)
    counts = not is_printed(result.name, answer)
    card.show(result, counts)
    if result.rows and (result.passed or counts):
        progress.record(result)
    if os.environ.get("DEVLAB_STRICT") == "1" and not result.passed:
        raise CheckFailed(result.text())
    return result


def _judge_live(answer: Callable, names: Iterable[str]) -> Result:
    """Judge in a notebook: what runs on says so, an interrupt ends in a verdict, a failed cell is named."""
    name = str(getattr(answer, "__name__", "check"))
    with card.told_while_running(name) as speak:
        try:
            result = verdict(answer, names, speak)
        except KeyboardInterrupt as stop:
            at = loops_around(stop) or where_raised(stop)
            details = ("at", at), ("next", "see what your code was doing there, then run this cell again")
            result = Result(name, Outcome.ERROR, "you have interrupted it", details=details[not at :])
    result.warning = find_failed_cell(answer)
    return result


def onward(name: str) -> tuple[str, str]:
    """Return what comes after an exercise that is passed, in words, and its address beside the exercises.

    >>> onward("device_of")[0]
    'Well done. `same_place` comes next.'
    """
    course = [(lesson, exercise.name) for lesson in lessons() for exercise in lesson.exercises]
    place = [own for _, own in course].index(name)
    if place + 1 == len(course):
        return "Well done. That was the last exercise of the course.", ""
    (lesson, _), (following, coming) = course[place : place + 2]
    words, where = f"The next lesson is {following.title}.", notebook("notebooks", following.id)
    if following is lesson:
        words, where = f"`{coming}` comes next.", f"{notebook('exercises', lesson.id)}#cell-id=task_{coming}"
    return f"Well done. {words}", f"../{where}"


def verdict(answer: Callable, names: Iterable[str] = (), speak: Callable | None = None) -> Result:
    """Return what check shows, without showing or remembering it; never raises.

    `names` are those that the answer has where it comes from. `speak` is called when it takes long.
    """
    try:
        exercise = exercise_of(answer, names)
        if isinstance(answer, str):
            raise BadCall(
                answer, "this is the name in quotes", f"pass the {answer} you wrote: devlab.check({answer})"
            )
        return not_attempted(exercise) if is_blank(answer) else judge(exercise, answer, speak=speak)
    except BadCall as bad:
        return Result(bad.name, Outcome.ERROR, bad.headline, details=(("next", bad.step),))
    except UnknownDevice as unknown:
        return Result("check", Outcome.ERROR, "no device to judge on", details=(("next", str(unknown)),))
