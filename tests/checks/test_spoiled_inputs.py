"""An answer that changes its lists and dicts is told so, and leaves the next answer the same question."""

import pytest
from bank import ANSWERS, load

from devlab.checks.exercise import find
from devlab.checks.judge import judge


def crossover(sizes, cpu_times, device_times, transfer_times):
    """Sort in place, which tears sizes and times apart."""
    for values in (sizes, cpu_times, device_times, transfer_times):
        values.sort()
    return sizes[0]


def regime(rows, inner, columns, dtype, chip):
    """Take a figure out of the dict."""
    return "compute", chip.pop("half_rate")


@pytest.mark.parametrize("spoils", [crossover, regime], ids=lambda answer: answer.__name__)
def test_a_right_answer_passes_after_one_that_spoils_its_inputs(spoils):
    """A notebook judges many tries in one process, so a row's own tables must be out of their reach."""
    exercise = find(spoils.__name__)
    told = str(judge(exercise, spoils))
    assert "was changed" in told or "was replaced" in told
    right = next(one for one in load(ANSWERS / f"{exercise.name}.py") if one.fragment is None)
    assert judge(exercise, right.code).passed
