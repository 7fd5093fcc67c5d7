"""The curves of a training: what they say, that they can be read, and what is refused."""

import pytest
from explore.fitting import faults

from devlab.explore.curves import curves


def test_the_words_hold_the_numbers(capsys):
    """A terminal and a screen reader have nothing else."""
    curves("Loss", training=[2.0, 0.25, 0.5], held_out=[1.5, 0.75])
    assert capsys.readouterr().out.splitlines() == [
        "Loss",
        "training: 3 values from 2 to 0.5, the least 0.25, the most 2",
        "held out: 2 values from 1.5 to 0.75, the least 0.75, the most 1.5",
    ]


@pytest.mark.parametrize("last", [0.0, 0.5, 3.0])
def test_two_curves_can_be_told_apart(last):
    """Wherever they end, and even where they end at one place, each has its name beside it."""
    assert faults(curves("Loss", training=[3.0, last], held_out=[2.0, last]).scene) == []


def test_each_curve_is_as_wide_as_the_picture():
    """A value for each epoch stands beside a value for each step."""
    paths = {shape.id: shape for shape in curves("Loss", a=[1, 2, 3], b=[3, 1]).scene.shapes}
    assert paths["a"].points[0][0] == paths["b"].points[0][0]
    assert paths["a"].points[-1][0] == paths["b"].points[-1][0]


@pytest.mark.parametrize("values", [[], [1.0], [1.0, float("nan")], [1.0, -1.0], [1.0, float("inf")]])
def test_what_cannot_be_drawn_is_refused(values):
    """A picture without its numbers would mislead."""
    with pytest.raises(ValueError, match="loss needs two values"):
        curves("Loss", loss=values)
    with pytest.raises(ValueError, match="one to 4 curves"):
        curves("Loss")
