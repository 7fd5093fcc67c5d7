"""No exercise is passed by pasting a cell of its lesson: a lesson shows what is near the answer.

Every function, class and lambda that a lesson defines is judged under the name of each of its exercises. So
is every cell that speaks of all the parameters of an exercise, as a function that returns the cell's last
value, and every function that has some of them as its own parameters and the others from the lesson.
"""

import pytest
from notebooks import forked
from notebooks.pasting import ROOT, passed, pasted

from devlab.checks.exercise import exercises
from factory import kernel

LESSONS = sorted((ROOT / "source" / "lessons").glob("*.py"))


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_no_exercise_is_passed_by_pasting_a_cell(path, tmp_path):
    """Where one is, the lesson should show another case, a simpler function, or the pieces alone."""
    passing = forked.apart(pasted, path, kernel.environment(tmp_path))
    assert not passing, "\n".join(passing)


def test_what_is_pasted_is_judged():
    """What is right passes: a function, also one that calls itself, a lambda, a cell, a part of a program."""
    own = [exercise for exercise in exercises() if exercise.name == "tensor_bytes"]
    right = "x.numel() * x.element_size()"
    function = f"def size(x):\n    return 0 if x is None else {right} + size(None)"
    assert passed(["import torch", function], own) == ["tensor_bytes ← size"]
    assert passed([f"PROGRAM = '''\n{function}\n'''"], own) == ["tensor_bytes ← size"]
    assert passed([f"sizes = [lambda x: {right}]"], own) == ["tensor_bytes ← lambda in cell 1"]
    assert passed(["x = None", f"print({right})"], own) == ["tensor_bytes ← cell 2"]
    assert passed([f"x = None\ndef size():\n    return {right}"], own) == ["tensor_bytes ← body of size"]
    assert passed(["def size(x):\n    return x.numel()"], own) == []


def test_a_part_that_breaks_something_breaks_nothing_for_the_next():
    """A lesson's function that pretends another machine may leave it so."""
    own = [exercise for exercise in exercises() if exercise.name == "tensor_bytes"]
    breaks = "import torch\n\ndef breaks(x):\n    torch.accelerator.current_accelerator = None"
    right = "def right(x):\n    return x.numel() * x.element_size()"
    assert passed([breaks, right], own) == ["tensor_bytes ← right"]
