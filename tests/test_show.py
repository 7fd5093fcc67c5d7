"""The command for whoever writes an exercise: what it shows, and that it finds what is missing."""

import pytest
import show
from bank import Answer

from devlab.checks.exercise import Exercise, Lesson, find, lessons


def test_it_shows_hints_and_every_verdict(capsys):
    """An exercise of the course has nothing missing."""
    assert show.main("device_of") == 0
    said = capsys.readouterr().out
    exercise = find("device_of")
    assert all(hint in said for hint in exercise.hints)
    assert all(fact in said for fact in exercise.facts)
    assert "── right: " in said
    assert "── wrong: " in said
    assert "✗ device_of: " in said
    assert "refused by the row: " in said
    assert "lines of judgement" in said
    assert "right and" in said
    assert said.rstrip().endswith("✓ nothing is missing")


@pytest.mark.parametrize(
    ("name", "near"), [("", "near: nothing"), ("device_off", "near: device_of"), ("xyzzy", "near: nothing")]
)
def test_an_unknown_name_is_answered(name, near, capsys):
    """The nearest names are told."""
    assert show.main(name) == 1
    said = capsys.readouterr().out
    assert f"there is no exercise {name!r}" in said
    assert near in said


def test_a_way_that_is_half_gone_says_what_comes_next(monkeypatch, capsys, tmp_path):
    """A name without its file, a file without its name in the lesson's order, an exercise without bank."""
    course = [Lesson("05_buffers", "Buffers", ("double",))]
    assert show.unknown("double", course) == (
        "lesson 05_buffers lists double, and nothing makes it: "
        "write src/devlab/lessons/lesson_05_buffers/double.py"
    )
    with monkeypatch.context() as patch:
        patch.setattr(show, "ROOT", tmp_path)
        stray = show.package("05_buffers") / "double.py"
        stray.parent.mkdir(parents=True)
        stray.touch()
        assert "double.py makes no exercise: write `double = lesson" in show.unknown("double", lessons())
    monkeypatch.setattr(show, "ANSWERS", show.ANSWERS / "none")
    assert show.main("device_of") == 1
    assert "write tests/answers/none/device_of.py" in capsys.readouterr().out

    def unlisted():
        raise ValueError("lesson 05_buffers does not list double among its exercises")

    monkeypatch.setattr(show, "lessons", unlisted)
    assert show.main("double") == 1
    assert "add it to the order in the lesson's __init__.py" in capsys.readouterr().out


def test_what_is_wrong_is_told(capsys):
    """A wrong answer that passes, a right one that does not, a message or a row that is not the answer's."""
    exercise = find("device_of")
    right, wrong = (lambda x: x.device), (lambda x: "cpu")
    row = exercise.rows[0].label

    def faults(*answer):
        return show.shown(exercise, Answer("device_of", *answer))

    assert faults("r", right, None) == []
    assert "a is wrong and was not refused" in faults("a", right, "some words", row)[0]
    assert "b is right and was refused" in faults("b", wrong, None)[0]
    assert "without its message" in faults("c", wrong, "no such words", row)[0]
    assert "is refused by the row" in faults("d", wrong, "device_of", "no such row")[0]
    assert faults("e", wrong, "device_of", row) == []


def test_what_is_missing_is_told():
    """Each of the guide's wishes, of an exercise that has nothing."""
    told = show.missing(Exercise("bare", "05_buffers", "bare(x)", (), ()), [])
    assert len(told) == 8
    assert any("three right answers" in one for one in told)
    assert any("six wrong answers" in one for one in told)
    assert any('the cell check="bare" in source/exercises/05_buffers.py' in one for one in told)
