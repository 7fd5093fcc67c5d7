"""Facts about every exercise: names, hints, facts, points."""

import re

import pytest

from devlab.checks.exercise import exercises, find, lessons, nearest

every = pytest.mark.parametrize("exercise", exercises(), ids=lambda exercise: exercise.name)


def test_names_are_unique():
    """The function's own name is the exercise, over the whole course."""
    names = [exercise.name for exercise in exercises()]
    assert len(names) == len(set(names))


def test_lessons_come_in_order():
    """`lessons` gives the order of the course, and each id is a number and a name."""
    ids = [lesson.id for lesson in lessons()]
    assert ids == sorted(ids)
    assert all(re.fullmatch(r"\d\d_[a-z_]+", id) for id in ids)


@every
def test_has_what_a_learner_needs(exercise):
    """No hint is empty or repeated, and the signature has its name; `show.missing` asks for the rest."""
    assert all(len(hint) > 20 for hint in exercise.hints)
    assert len(set(exercise.hints)) == len(exercise.hints)
    assert exercise.signature.removeprefix("class ").startswith(f"{exercise.name}(")


@every
def test_rows_read_well(exercise):
    """Labels are unique, short enough for the table, and state something."""
    labels = [row.label for row in exercise.rows]
    assert len(labels) == len(set(labels))
    assert all(8 <= len(label) <= 48 for label in labels), labels


def test_unknown_names_find_their_neighbours():
    """A misspelt name leads to the right one."""
    assert find("no_such_exercise") is None
    assert nearest("deviceof")[0] == "device_of"
    assert nearest("qqqqqq") == []
