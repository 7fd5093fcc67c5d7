"""The ways through the course are made from the minutes that the lessons name."""

import re
from pathlib import Path

import pytest

from devlab.checks.exercise import exercises

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "syllabi.md").read_text("utf-8")
ROW = re.compile(r"^\| \[(\d\d) .*\]\(../notebooks/(\w+)\.ipynb\) \| (\d+) \| (\d+) \|$", re.MULTILINE)
MINUTES = {number: (int(read), int(tasks)) for number, _, read, tasks in ROW.findall(PAGE)}
TAKES = re.compile(r"\*\*Takes\*\* about (\d+) minutes to read, and (\d+) for the tasks")


@pytest.mark.parametrize(("number", "name"), [row[:2] for row in ROW.findall(PAGE)])
def test_a_lessons_minutes_are_its_own(number, name):
    """A row is at most ten minutes off what its lesson says, where that tells reading and tasks apart."""
    text = (ROOT / "source" / "lessons" / f"{name}.py").read_text("utf-8").replace("\n# ", " ")
    assert "**Takes** about" in text
    for own in TAKES.findall(text):
        assert MINUTES[number] == pytest.approx(tuple(map(int, own)), abs=10)


def test_every_lesson_has_a_row():
    """Each source of a lesson, in order."""
    lessons = sorted(path.stem[:2] for path in (ROOT / "source" / "lessons").glob("*.py"))
    assert list(MINUTES) == lessons


def test_the_weeks_add_up():
    """A week's minutes are the sums of its lessons' rows."""
    weeks = re.findall(r"^\| \d \| ([\d, ]+) \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    assert len(weeks) == 6
    for lessons, read, tasks in weeks:
        rows = [MINUTES[number] for number in lessons.split(", ")]
        assert [sum(column) for column in zip(*rows, strict=True)] == [int(read), int(tasks)]


def test_the_tasks_that_it_names_exist():
    """No way through the course names a task that was renamed."""
    known = {exercise.name for exercise in exercises()}
    named = set(re.findall(r"`(\w+)`", PAGE.partition("## Two hours")[2]))
    assert named <= known
