"""`devlab grade` gives honest work its marks, and forgers none; hostile work is in test_hostile.py."""

import sys

import pytest
from classroom.students import CLASS, LESSON, RIGHT, deserved, hand_in

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
    confirmed = {one.name: one.confirmed for one in records["Right Rita"].exercises}
    assert confirmed == {"device_of": "3 of 3 rows", "same_place": "5 of 5 rows"}
    assert not any("confirmed" in note for record in records.values() for note in record.remarks)


def test_a_function_that_is_not_there_is_not_attempted(tmp_path):
    """Whoever emptied the cell, or gave the function another name, tampered with nothing."""
    written = {
        "Empty Ed": "",
        "Other Otto": "def another_name(a, b):\n    return True\n",
        "Just Jo": "x = 1\n",
    }
    answers = {who: ({**RIGHT, "same_place": source}, {}) for who, source in written.items()}
    for record in sandboxed(tmp_path, answers).values():
        first, second = record.exercises
        assert (first.outcome, first.points) == ("passed", 3)
        assert (second.outcome, second.points) == ("not attempted", 0)
        assert not record.remarks


# They find what judges them through the frames below their own, and have wrong answers called right.
FRAMES = """
import sys
def found(name):
    frame = sys._getframe()
    while frame and name not in frame.f_locals:
        frame = frame.f_back
    return frame and frame.f_locals[name]
def device_of(x):
    {deed}
    return torch.device("meta")
def same_place(a, b):
    return None
"""
PASSED = """
    from devlab.checks.registry import find
    for name in ("device_of", "same_place"):
        marks = dict.fromkeys(("cpu", "sim:0", "sim:1"), "passed")
        rows = [[row.label, marks] for row in find(name).rows]
        found("send")({"done": name, "outcome": "passed", "headline": "passed", "rows": rows, "calls": CALLS})
    found("send")({"end": True})
"""
FORGED = {
    "the channel": PASSED.replace("CALLS", "[]"),
    "the channel, and an empty transcript": PASSED.replace("CALLS", "'[]'"),
    "the channel, and nonsense for a transcript": PASSED.replace("CALLS", "str([[7]] * 30)"),
    "the channel, and half a transcript": PASSED.replace("CALLS", "'[[{'"),
    "the channel, and a transcript without end": PASSED.replace("CALLS", "'[' * 100000"),
    "the channel, and its own transcript": PASSED.replace("CALLS", 'found("recorder").take()'),
    "the seal, then the checks": """
    seal = found("seal")
    seal.patched = seal.broken = lambda: ""
    import devlab.checks.judge as judge
    judge._judge_row = lambda *a: judge.Finding(judge.Outcome.PASSED)
""",
}


def test_forged_verdicts_earn_nothing(tmp_path):
    """Results are judged again where no student's code ran: wrong ones stay wrong, whatever a worker says."""
    answers = {
        way: ({"device_of": FRAMES.replace("{deed}", deed.strip()), "same_place": "same_place = 3"}, {})
        for way, deed in FORGED.items()
    }
    for way, record in sandboxed(tmp_path, answers).items():
        assert record.points == 0, f"{way}: {record}"
        assert any(note.startswith("tampered: device_of") for note in record.remarks), f"{way}: {record}"
