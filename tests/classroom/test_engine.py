"""`devlab grade` gives honest work its marks; what it does about hostile work is in test_hostile.py."""

import sys

import pytest
from classroom.students import CLASS, LESSON, deserved, hand_in

from devlab.classroom import course
from devlab.classroom.collect import collect
from devlab.classroom.engine.grade import Settings, grade
from devlab.classroom.engine.limits import Limits
from devlab.classroom.engine.sandbox import isolation_available

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's")


def sandboxed(tmp_path, answers):
    """Lay out a course, hand answers in, grade them, and return the records by student."""
    folder = tmp_path / "course"
    course.lay_out(folder, ["0"])
    downloads = hand_in(folder / "handout" / LESSON / f"{LESSON}.ipynb", tmp_path / "downloads", answers)
    source = folder / "source" / LESSON / f"{LESSON}.ipynb"
    before = source.read_bytes()
    settings = Settings(isolation_available(), Limits(seconds=5))
    records = {
        one.student: one for one in grade(collect([downloads], course.cells_of(folder)), folder, settings)
    }
    assert source.read_bytes() == before
    return records


def test_honest_marks_are_those_deserved(tmp_path):
    """The class that nbgrader marks in test_nbgrader.py gets the same points here, exercise by exercise."""
    records = sandboxed(tmp_path, CLASS)
    got = {who: {one.name: one.points for one in record.exercises} for who, record in records.items()}
    assert got == deserved()
    assert {record.isolation for record in records.values()} == {isolation_available()}
