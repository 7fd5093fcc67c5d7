"""Which exercise a value answers, told from its own name or from the name that it has where it was passed."""

import sys
import types
from collections.abc import Iterable

from devlab.checks.exercise import Exercise, exercises, find, nearest
from devlab.checks.values import a_type


class BadCall(Exception):
    """What was passed cannot be judged; `headline` says why and `step` what to do."""

    def __init__(self, name: str, headline: str, step: str):
        super().__init__(headline)
        self.name = name
        self.headline = headline
        self.step = step


def names_of_caller(answer: object) -> list[str]:
    """Return the names of a value in the code that called devlab, local names before global names.

    For a function of this package that a learner calls: what counts is the frame that called that function.
    """
    frame = sys._getframe(2)
    held = [*frame.f_locals.items(), *frame.f_globals.items()]
    return list(dict.fromkeys(name for name, value in held if value is answer))


def exercise_of(answer: object, names: Iterable[str] = ()) -> Exercise:
    """Return the exercise that a value answers; raises BadCall where none fits.

    A function or class says it by its own name. Whatever else can be called, such as a functools.partial or
    a lambda, is known by one of the `names` that it has where it was passed.
    """
    if isinstance(answer, str):
        return _by_name(answer)
    if isinstance(answer, types.ModuleType) or not callable(answer) or find(type(answer).__name__):
        raise _no_function(answer)
    name = getattr(answer, "__name__", None)
    if not (isinstance(name, str) and find(name)):
        name = next(filter(find, names), name)
    if not isinstance(name, str) or name == "<lambda>":
        raise _no_name(answer)
    exercise = _by_name(name)
    if exercise.wants_class != isinstance(answer, type):
        wanted, came = ("class", "function") if exercise.wants_class else ("function", "class")
        raise BadCall(
            name, f"the task asks for a {wanted}, and this is a {came}", f"write {exercise.signature}"
        )
    return exercise


def _by_name(name: str) -> Exercise:
    exercise = find(name)
    if exercise:
        return exercise
    near = nearest(name)
    step = f"did you mean {' or '.join(near)}? The function's own name is the exercise" if near else (
        "the function's own name is the exercise; devlab.progress() lists them all"
    )  # fmt: skip
    raise BadCall(name, "there is no exercise of this name", step)


def _no_function(answer: object) -> BadCall:
    kind = type(answer).__name__
    if find(kind):
        return BadCall(
            kind, "this is an object made by the class; the class itself is judged", f"devlab.check({kind})"
        )
    headline = f"check takes the function itself, and this is {'None' if answer is None else a_type(answer)}"
    step = f"pass the name without parentheses or quotes: devlab.check({exercises()[0].name})"
    return BadCall("check", headline, step)


def _no_name(answer: object) -> BadCall:
    """Say that what can be called does not tell which exercise it answers."""
    within = getattr(getattr(answer, "func", None), "__name__", "")  # of a functools.partial
    example = within if find(within) else exercises()[0].name
    is_lambda = getattr(answer, "__name__", "") == "<lambda>"
    headline = (
        f"{'a lambda' if is_lambda else a_type(answer)} has no name that says which exercise it answers"
    )
    step = f"give it the exercise's name first: {example} = …, then devlab.check({example})"
    return BadCall("check", headline, step)
