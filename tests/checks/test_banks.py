"""Every answer of every bank is judged as it should be, on every device of the bench."""

import re

import pytest
from bank import ANSWERS, Answer, banks, load, one_of_each

from devlab.checks.exercise import exercises, find
from devlab.checks.judge import judge
from devlab.checks.result import Outcome, Result
from devlab.devices import bench


def test_bench_has_an_accelerator_with_two_devices():
    """The banks are worth little if they run on the CPU alone."""
    assert [str(device) for device in bench()][:3] == ["cpu", "sim:0", "sim:1"]


@pytest.mark.parametrize("path", banks(), ids=lambda path: path.stem)
def test_answers_are_judged_as_they_should_be(path):
    """A right answer passes; a wrong one is refused by the row that it names, and says why.

    A bank is one test, for it takes as long to set up a test as to judge most answers. It names every answer
    that is judged otherwise. `make exercise NAME=...` shows each verdict of one bank.
    """
    exercise = find(path.stem)
    found = {answer.name: differs(answer, judge(exercise, answer.code)) for answer in load(path)}
    assert not any(found.values()), "\n\n".join(f"{name}: {what}" for name, what in found.items() if what)


def differs(answer: Answer, result: Result) -> str | None:
    """Tell in what a verdict is not the answer's, with the verdict; None where it is."""
    if answer.fragment is None:
        if not result.passed or result.points != result.possible:
            return f"it is right, and earns {result.points} of {result.possible} points\n{result}"
        return None
    rows = (answer.row,) if isinstance(answer.row, str) else answer.row
    if result.outcome not in (Outcome.FAILED, Outcome.ERROR):
        what = f"it is wrong, and is {result.outcome.name}"
    elif answer.fragment not in str(result):
        what = f"its message is missing: {answer.fragment}"
    elif refused_by(result) not in rows:
        what = f"it is refused by {refused_by(result)!r}, not by {' or '.join(map(repr, rows))}"
    elif "please report it" in str(result):
        what = "the check failed, not the answer"
    else:
        return None
    return f"{what}\n{result}"


def refused_by(result: Result) -> str | None:
    """Return the label of the first row that an answer did not pass."""
    stops = (Outcome.FAILED, Outcome.ERROR)
    return next(
        (row.label for row in result.rows if any(one in stops for one in row.outcomes.values())), None
    )


@pytest.mark.parametrize("exercise", exercises(), ids=lambda exercise: exercise.name)
def test_bank_is_complete(exercise):
    """Each exercise has at least three right answers and six wrong ones, each with a message."""
    path = ANSWERS / f"{exercise.name}.py"
    assert path.is_file(), f"write {path.relative_to(ANSWERS.parents[1])}"
    bank = load(path)
    assert sum(answer.fragment is None for answer in bank) >= 3
    assert sum(bool(answer.fragment) for answer in bank) >= 6
    assert all(answer.fragment is None or len(answer.fragment) >= 8 for answer in bank)


def test_no_bank_without_an_exercise():
    """A bank whose exercise was renamed would test nothing."""
    assert {path.stem for path in banks()} == {exercise.name for exercise in exercises()}


# A mistake that a message about numbers tells. The right ones are asked for other numbers by `devlab grade`,
# in classroom/test_right_answers_graded.py.
NUMBERS = re.compile(r"value|number|wrong|loss|mean|median|\d")


# Thorough but for a bank of each lesson: a second seed has never refused what the first one accepted.
@pytest.mark.parametrize(
    "path", one_of_each(banks(), lambda path: find(path.stem).lesson), ids=lambda path: path.stem
)
def test_wrong_numbers_are_wrong_whatever_was_asked(path):
    """The verdict is about the answer, not about the numbers: a grader's fresh seed changes nothing."""
    numeric = [one for one in load(path) if one.fragment and NUMBERS.search(one.fragment)]
    accepted = [one.name for one in numeric if judge(find(one.exercise), one.code, seed=77).passed]
    assert not accepted
