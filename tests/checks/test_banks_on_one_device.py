"""The banks on one accelerator, as most people have, and right answers with another device's rounding.

What only a second accelerator can tell is not judged there: the row shows – and the verdict says how to have
it judged. A wrong answer is refused by a row that can tell, or left to such a row; a right one passes.
"""

import re
from pathlib import Path

import pytest
from bank import Answer, all_answers, banks, load
from checks.test_banks import misjudged, of_a_kind
from other_rounding import OtherRounding

from devlab.checks.exercise import find

FEW = 2  # right answers of a bank, which differ in approach


def parted(path: Path) -> tuple[list[Answer], list[Answer]]:
    """Divide a bank: two right answers and two wrong ones of each row; the rest."""
    of_each, _ = of_a_kind(path)
    right = [one for one in of_each if one.fragment is None]
    first = [*right[:FEW], *(one for one in of_each if one.fragment is not None)]
    names = {one.name for one in first}
    return first, [one for one in load(path) if one.name not in names]


def judged_otherwise(answers: list[Answer]) -> str:
    """Return each verdict that is not as it should be: of right answers with another device's rounding.

    A GPU adds in an order of its own, so its results may differ from the CPU's in their last bits. What is
    judged on the CPU alone, in processes of its own, has the CPU's.
    """
    told = misjudged([one for one in answers if one.fragment is not None])
    right = [one for one in answers if one.fragment is None]
    if right and all(row.only == "cpu" for row in find(right[0].exercise).rows):
        return told + misjudged(right)
    with OtherRounding():
        return told + misjudged(right)


@pytest.mark.parametrize("path", banks(), ids=lambda path: path.stem)
def test_answers_are_judged_as_they_should_be(one_accelerator, path):
    """No wrong answer gets every point, and no right one is refused."""
    assert not (told := judged_otherwise(parted(path)[0])), told


# Thorough, as the further answers of a bank are on two devices.
@pytest.mark.thorough
@pytest.mark.parametrize("path", banks(), ids=lambda path: path.stem)
def test_further_answers_are_judged_as_they_should_be(one_accelerator, path):
    """The same of the rest of a bank."""
    assert not (told := judged_otherwise(parted(path)[1])), told


# A name with its index is one device of one kind of machine.
NAMED = re.compile(r"\b(sim|cuda|mps|xpu):\d|\bsim\b")
# These tasks are about names: they ask for devices that are not here, or on a machine that is pretended.
ABOUT_NAMES = {"choose_device", "current_accelerator_or_cpu", "pick_cuda_or_cpu", "resolve", "list_gpus"}
ABOUT_NAMES |= {"make_loader"}


def test_no_fragment_names_a_device():
    """A bank holds on any kind of accelerator: `{device}` stands for the first, `{second}` for the next."""
    named = [
        f"{one.exercise}, {one.name}: {fragment}"
        for one in all_answers()
        if one.exercise not in ABOUT_NAMES
        for fragment in one.fragments
        if NAMED.search(fragment)
    ]
    assert named == []
