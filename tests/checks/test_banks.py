"""Every answer of every bank is judged as it should be, on every device of the bench."""

import re

import pytest
from bank import ANSWERS, all_answers, banks, load, one_of_each

from devlab.checks.exercise import exercises, find
from devlab.checks.judge import judge
from devlab.checks.result import Outcome, Result
from devlab.devices import bench

answers = all_answers()


def test_bench_has_an_accelerator_with_two_devices():
    """The banks are worth little if they run on the CPU alone."""
    assert [str(device) for device in bench()][:3] == ["cpu", "sim:0", "sim:1"]


@pytest.mark.parametrize("answer", answers, ids=lambda answer: f"{answer.exercise}-{answer.name}")
def test_answer_is_judged_as_it_should_be(answer):
    """A right answer passes; a wrong one is refused, and says why."""
    result = judge(find(answer.exercise), answer.code)
    if answer.fragment is None:
        assert result.passed, str(result)
        assert result.points == result.possible
    else:
        assert result.outcome in (Outcome.FAILED, Outcome.ERROR), str(result)
        assert answer.fragment in str(result), str(result)
        rows = (answer.row,) if isinstance(answer.row, str) else answer.row
        assert refused_by(result) in rows, str(result)
        assert "please report it" not in str(result)


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
numeric = [one for one in answers if one.fragment and NUMBERS.search(one.fragment)]


@pytest.mark.parametrize(
    "answer",
    one_of_each(numeric, lambda answer: answer.exercise),
    ids=lambda answer: f"{answer.exercise}-{answer.name}",
)
def test_wrong_numbers_are_wrong_whatever_was_asked(answer):
    """The verdict is about the answer, not about the numbers: a grader's fresh seed changes nothing."""
    result = judge(find(answer.exercise), answer.code, seed=77)
    assert not result.passed, str(result)
