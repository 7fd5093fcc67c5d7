"""Which exercise a value answers; a kind word where it answers none."""

import dis
import inspect
import types

from devlab.checks.calls import STUB
from devlab.checks.describe import a_type
from devlab.checks.exercise import Exercise
from devlab.checks.registry import exercises, find, nearest


class BadCall(Exception):
    """What was passed cannot be judged; `headline` says why and `step` what to do."""

    def __init__(self, name: str, headline: str, step: str):
        super().__init__(headline)
        self.name = name
        self.headline = headline
        self.step = step


def exercise_of(answer: object) -> Exercise:
    """Return the exercise whose name the function or class carries; raises BadCall where none fits."""
    if isinstance(answer, str):
        return _by_name(answer)
    name = getattr(answer, "__name__", None)
    if name == "<lambda>":
        raise BadCall(
            "check", "a lambda has no name, and the name says which exercise it answers", "write it with def"
        )
    if isinstance(answer, types.ModuleType) or not callable(answer) or not isinstance(name, str):
        raise _no_function(answer)
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
    within = getattr(getattr(answer, "func", None), "__name__", "")  # as a functools.partial has it
    example = within if find(within) else exercises()[0].name
    step = f"pass the name without parentheses or quotes: devlab.check({example})"
    return BadCall("check", headline, step)


def _handed_out():
    """As a function of the notebooks is before anything is written into it."""
    raise NotImplementedError("your code here")


def is_blank(answer: object) -> bool:
    """Tell whether a function's body is still empty: the stub, or no more than a docstring, `pass` or `...`.

    >>> def later(x):
    ...     '''Do it tomorrow.'''
    >>> is_blank(later)
    True
    """
    if not inspect.isfunction(answer):
        return False
    code, stub = answer.__code__, _handed_out.__code__
    if code.co_code == stub.co_code and code.co_names == stub.co_names and code.co_consts[1:] == (STUB,):
        return True  # to call it would tell the same, in `ddp_gradients` after seconds
    idle = {"RESUME", "NOP", "COPY_FREE_VARS", "MAKE_CELL", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE"}
    returned = []
    for step in dis.get_instructions(answer):
        if step.opname not in idle:
            return False  # mostly after a few: to read all that an answer does takes long
        if step.opname in ("LOAD_CONST", "RETURN_CONST"):
            returned.append(step.argval)
    return returned == [None]
