"""`devlab.check`: judge an answer, show the verdict, remember it."""

import os
from collections.abc import Callable, Iterable

from devlab.checks import progress
from devlab.checks.answer import BadCall, exercise_of, names_of_caller
from devlab.checks.judge import judge, not_attempted
from devlab.checks.placeholder import is_blank, is_printed
from devlab.checks.result import CheckFailed, Outcome, Result
from devlab.devices import UnknownDevice


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
    result = verdict(answer, names_of_caller(answer))
    result.show()
    if result.rows and (result.passed or not is_printed(result.name, answer)):
        progress.record(result)
    if os.environ.get("DEVLAB_STRICT") == "1" and not result.passed:
        raise CheckFailed(result.text())
    return result


def verdict(answer: Callable, names: Iterable[str] = ()) -> Result:
    """Return what check shows, without showing or remembering it; never raises.

    `names` are those that the answer has where it comes from.
    """
    try:
        exercise = exercise_of(answer, names)
        if isinstance(answer, str):
            raise BadCall(
                answer, "this is the name in quotes", f"pass the {answer} you wrote: devlab.check({answer})"
            )
        return not_attempted(exercise) if is_blank(answer) else judge(exercise, answer)
    except BadCall as bad:
        return Result(bad.name, Outcome.ERROR, bad.headline, details=(("next", bad.step),))
    except UnknownDevice as unknown:
        return Result("check", Outcome.ERROR, "no device to judge on", details=(("next", str(unknown)),))
