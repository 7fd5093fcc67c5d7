"""An answer is whatever can be called under the exercise's name; of all else a verdict truly says why not."""

import functools
import operator

import pytest
import torch

import devlab
from devlab.checks.answered import BadCall, exercise_of
from devlab.checks.calls import plain_function
from devlab.checks.exercise import find
from devlab.checks.result import Outcome
from devlab.checks.trial import Caller
from devlab.classroom.engine.worker import _judge_answer
from devlab.devices import bench

BEFORE = """
import functools, operator, torch, devlab

def place(x):
    return x.device

class Asked:
    def __init__(self, what):
        self.what = what

    def __call__(self, x):
        return getattr(x, self.what)

def logged(function):
    def wrapper(*args):
        return function(*args)
    return wrapper
"""
RIGHT = {
    "attrgetter": "device_of = operator.attrgetter('device')",
    "partial": "device_of = functools.partial(place)",
    "object": "device_of = Asked('device')",
    "lambda": "device_of = lambda x: x.device",
    "method": "device_of = Asked('device').__call__",
    "another function": "device_of = place",
    "property": "device_of = torch.Tensor.device.__get__",
    "decorated": "@logged\ndef device_of(x):\n    return x.device",
}
WRONG = {
    "attrgetter": "device_of = operator.attrgetter('dtype')",
    "partial": "device_of = functools.partial(getattr, torch.ones(1))",
    "object": "device_of = Asked('shape')",
    "lambda": "device_of = lambda x: 'cpu'",
    "another function": "device_of = len",
}


def run(cell: str, last: str) -> tuple[object, dict]:
    """Run a cell as a notebook does; return what its last line gives, and the names."""
    names = {}
    exec(f"{BEFORE}\n{cell}", names)
    return eval(last, names), names


@pytest.mark.parametrize("cell", RIGHT.values(), ids=RIGHT)
def test_right_answers_in_other_forms_pass(cell):
    """`devlab.check` finds the exercise by the name that the value has where it is passed."""
    result, _ = run(cell, "devlab.check(device_of)")
    assert result.passed, str(result)


@pytest.mark.parametrize("cell", WRONG.values(), ids=WRONG)
def test_wrong_answers_in_other_forms_are_judged(cell):
    """They fail by what they answer, not by their form; no verdict is at a loss."""
    result, _ = run(cell, "devlab.check(device_of)")
    assert result.name == "device_of"
    assert result.outcome in (Outcome.FAILED, Outcome.ERROR)
    assert result.rows, str(result)
    assert "please report" not in str(result)


@pytest.mark.parametrize("cell", [*RIGHT.values(), *WRONG.values()])
def test_grading_agrees(cell):
    """`devlab grade` judges the same value under the same name as `devlab.check` does."""
    shown, names = run(cell, "devlab.check(device_of)")
    graded = _judge_answer(find("device_of"), names["device_of"], True, None, bench(), 0, Caller())
    assert graded["outcome"] == str(shown.outcome)
    assert [label for label, _ in graded["rows"]] == [row.label for row in shown.rows]


def test_hints_and_solutions_know_the_name_as_well(capsys):
    """Whatever form it has."""
    run(RIGHT["attrgetter"], "devlab.hint(device_of)")
    assert "hint 1 of 3 for device_of" in capsys.readouterr().out


def test_a_local_name_will_do():
    """A check inside of a function finds the names there."""

    def checked():
        device_of = operator.attrgetter("device")
        return devlab.check(device_of)

    assert checked().passed


@pytest.mark.parametrize("value", [operator.attrgetter("device"), lambda x: x.device, torch.nn.Linear(1, 1)])
def test_what_has_no_exercises_name_is_told_so(value):
    """The message says the truth: the name is what is missing, and how to give it."""
    with pytest.raises(BadCall, match="has no name that says which exercise it answers") as bad:
        exercise_of(value, ["f", "value"])
    assert bad.value.step == "give it the exercise's name first: device_of = …, then devlab.check(device_of)"


def test_a_functions_own_name_comes_first():
    """A second name for a function is no other exercise."""

    def device_of(x):
        return x.device

    assert exercise_of(device_of, ["same_place"]).name == "device_of"


def test_a_class_is_asked_for():
    """What makes objects of a class is not the class."""
    with pytest.raises(BadCall, match="the task asks for a class, and this is a function"):
        exercise_of(functools.partial(torch.nn.Linear, 3), ["CausalMask"])


def test_the_function_inside():
    """Rows that pretend another clock or machine look there."""

    class Callable:
        def __call__(self, x):
            return x

    def plain(x):
        return x

    for answer in (plain, functools.partial(functools.partial(plain), 1), functools.cache(plain)):
        assert plain_function(answer) is plain
    assert plain_function(Callable()) is Callable.__call__
    assert plain_function(Callable().__call__) is Callable.__call__
    for answer in (operator.attrgetter("device"), len, torch.Tensor.device.__get__, torch.nn.ReLU):
        assert plain_function(answer) is None
