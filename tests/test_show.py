"""The command for whoever writes an exercise: what it shows, and that it finds what is missing."""

import pytest
import show
from bank import Answer

from devlab.checks.exercise import find


def test_it_shows_hints_and_every_verdict(capsys):
    """An exercise of the course has nothing missing."""
    assert show.main("device_of") == 0
    said = capsys.readouterr().out
    exercise = find("device_of")
    assert all(hint in said for hint in exercise.hints)
    assert "── right: " in said
    assert "── wrong: " in said
    assert "✗ device_of: " in said
    assert said.rstrip().endswith("✓ nothing is missing")


@pytest.mark.parametrize("name", ["", "device_off"])
def test_an_unknown_name_is_answered(name, capsys):
    """The nearest names are told."""
    assert show.main(name) == 1
    assert "there is no exercise" in capsys.readouterr().out


def test_what_is_wrong_is_told(capsys):
    """A wrong answer that passes, a right one that does not, a message that does not come, an empty bank."""
    exercise = find("device_of")
    right, wrong = (lambda x: x.device), (lambda x: "cpu")
    assert show.shown(exercise, Answer("device_of", "r", right, None)) == []
    assert show.shown(exercise, Answer("device_of", "a", right, "some words")) == [
        "a is wrong and was accepted"
    ]
    assert show.shown(exercise, Answer("device_of", "b", wrong, None)) == ["b is right and was refused"]
    assert "without its message" in show.shown(exercise, Answer("device_of", "c", wrong, "no such words"))[0]
    assert len(show.missing(exercise, [])) == 2
