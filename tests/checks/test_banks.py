"""Every answer of every bank is judged as it should be, on every device of the bench."""

import re
from pathlib import Path

import pytest
import show
from bank import ANSWERS, Answer, banks, fault, load, one_of_each

from devlab.checks.exercise import exercises, find
from devlab.checks.judge import judge
from devlab.devices import bench


def test_bench_has_an_accelerator_with_two_devices():
    """The banks are worth little if they run on the CPU alone."""
    assert [str(device) for device in bench()][:3] == ["cpu", "sim:0", "sim:1"]


def of_a_kind(path: Path) -> tuple[list[Answer], list[Answer]]:
    """Divide a bank: the right answers and a wrong one of each row and message, and the other wrong ones."""
    first, further, met = [], [], set()
    for answer in load(path):
        kind = answer.row, answer.fragment
        again = answer.fragment is not None and kind in met
        (further if again else first).append(answer)
        met.add(kind)
    return first, further


@pytest.mark.parametrize("path", banks(), ids=lambda path: path.stem)
def test_answers_are_judged_as_they_should_be(path):
    """A right answer passes; a wrong one is refused by the row that it names, and says why.

    A bank is one test, for it takes as long to set up a test as to judge most answers. It names every answer
    that is judged otherwise. `make exercise NAME=...` shows each verdict of one bank.
    """
    first, _ = of_a_kind(path)
    assert not (told := misjudged(first)), told


# Thorough, for each makes a mistake that another answer of the bank makes, and gets that one's message.
@pytest.mark.thorough
@pytest.mark.parametrize("path", banks(), ids=lambda path: path.stem)
def test_further_answers_are_judged_as_they_should_be(path):
    """The same of wrong answers that come to a mistake by other roads."""
    _, further = of_a_kind(path)
    assert not (told := misjudged(further)), told


def misjudged(answers: list[Answer]) -> str:
    """Judge answers; return what is wrong with each verdict that is not as it should be, and the verdict."""
    results = ((one, judge(find(one.exercise), one.code)) for one in answers)
    return "\n\n".join(f"{what}\n{result}" for one, result in results if (what := fault(one, result)))


@pytest.mark.parametrize("exercise", exercises(), ids=lambda exercise: exercise.name)
def test_bank_is_complete(exercise):
    """Each exercise has what the contributing guide asks for, three right and six wrong answers first."""
    path = ANSWERS / f"{exercise.name}.py"
    assert path.is_file(), f"write {path.relative_to(ANSWERS.parents[1])}"
    assert show.missing(exercise, load(path)) == []


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
