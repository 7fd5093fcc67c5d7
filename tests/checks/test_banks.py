"""Every answer of every bank is judged as it should be, on every device of the bench."""

import re
from collections import Counter
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


FEW = 2  # wrong answers of a row


def of_a_kind(path: Path) -> tuple[list[Answer], list[Answer]]:
    """Divide a bank: the right answers and a few wrong ones of each row, with other messages; the rest."""
    first, further, met = [], [], Counter()
    messages = set()
    for answer in load(path):
        wrong = answer.fragment is not None
        seen = met[answer.rows] and answer.fragment in messages
        again = wrong and (seen or met[answer.rows] == FEW)
        (further if again else first).append(answer)
        if wrong and not again:
            met[answer.rows] += 1
            messages.add(answer.fragment)
    return first, further


@pytest.mark.parametrize("path", banks(), ids=lambda path: path.stem)
def test_answers_are_judged_as_they_should_be(path):
    """A right answer passes; a wrong one is refused by the row that it names, and says why.

    A bank is one test, for it takes as long to set up a test as to judge most answers. It names every answer
    that is judged otherwise. `make exercise NAME=...` shows each verdict of one bank.
    """
    first, _ = of_a_kind(path)
    assert not (told := misjudged(first)), told


# Thorough, for a few mistakes show that a row judges, and whoever changes an exercise has all of its bank
# judged by `make exercise`.
@pytest.mark.thorough
@pytest.mark.parametrize("path", banks(), ids=lambda path: path.stem)
def test_further_answers_are_judged_as_they_should_be(path):
    """The same of the other wrong answers of each row."""
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


@pytest.mark.parametrize(
    "path", one_of_each(banks(), lambda path: find(path.stem).lesson), ids=lambda path: path.stem
)
def test_a_wrong_number_is_wrong_whatever_was_asked(path):
    """The verdict is about the answer, not about the numbers: a grader's fresh seed changes nothing."""
    assert not accepted_with_another_seed(path, slice(1))


# Thorough, for a second seed has never accepted what the first one refused.
@pytest.mark.thorough
@pytest.mark.parametrize("path", banks(), ids=lambda path: path.stem)
def test_every_wrong_number_is_wrong_whatever_was_asked(path):
    """The same of each answer whose message tells a number."""
    assert not accepted_with_another_seed(path, slice(None))


def accepted_with_another_seed(path: Path, part: slice) -> list[str]:
    """Return which of a part of a bank's wrong numbers pass when other numbers are asked."""
    numeric = [one for one in load(path) if NUMBERS.search(str(one.fragments))][part]
    return [one.name for one in numeric if judge(find(one.exercise), one.code, seed=77).passed]
