"""The banks under a Mac's rules: one device, no float64, operators that are missing.

With one device some wrong answers cannot be told from right ones (a bare `.cuda()` always finds the right
GPU), so here every right answer must pass, and of a wrong one only that it was judged. One GPU under CUDA's
rules, as most people have, is what right answers meet in classroom/test_right_answers_graded.py.
"""

import pytest
from bank import banks, load, one_of_each

from devlab import sim
from devlab.checks.exercise import find
from devlab.checks.judge import judge
from devlab.devices import bench

# Right wherever there is float64, and on a Mac the same TypeError as any learner would get.
NEEDS_FLOAT64 = {"InDoublePrecision", "in_double_on_the_way"}
# Right on CUDA. PyTorch changes the dtype before the transfer on MPS, in both directions, so that one call
# never moves the smaller form there when the dtype grows.
COUNTS_ON_CUDA = {"in_one_call_where_that_is_best", "in_one_call_that_blocks_or_not"}
# A GradScaler computes the inverse of its scale in float64, which PyTorch spares devices named mps alone.
# The simulated device has another name, so under Apple's rules it refuses what a Mac would do.
SCALED = {"mixed_step"}


@pytest.fixture
def under_apples_rules(monkeypatch):
    """A bench of the CPU and one simulated device, under the rules of MPS."""
    sim.enable()
    monkeypatch.setenv("DEVLAB_DEVICE", "sim:0")
    with sim.rules("mps"):
        assert [str(device) for device in bench()] == ["cpu", "sim:0"]
        yield


def of_each_lesson() -> list:
    """Return the paths of the banks, of which `make test` tries the first of each lesson."""
    return one_of_each(banks(), lambda path: find(path.stem).lesson)


@pytest.mark.parametrize("path", of_each_lesson(), ids=lambda path: path.stem)
def test_right_answers_pass(under_apples_rules, path):
    """What a row needs and the machine lacks is skipped or left out; it never becomes the learner's fault."""
    if path.stem in SCALED:
        pytest.skip("PyTorch's GradScaler spares float64 only for a device that is named mps")
    for answer in load(path):
        if answer.fragment is None:
            result = judge(find(answer.exercise), answer.code)
            assert "please report it" not in str(result), f"{answer.name}\n{result}"
            if answer.name not in NEEDS_FLOAT64 | COUNTS_ON_CUDA:
                assert result.passed, f"{answer.name}\n{result}"


# Of a wrong answer so little is asked here that three stand for a bank; the others are thorough.
FEW = 3


@pytest.mark.parametrize("path", of_each_lesson(), ids=lambda path: path.stem)
def test_a_few_wrong_answers_can_be_judged(under_apples_rules, path):
    """A check that cannot judge says so, and asks for a report: no answer leads to that."""
    assert not unjudged(path, slice(FEW))


@pytest.mark.thorough
@pytest.mark.parametrize("path", banks(), ids=lambda path: path.stem)
def test_every_wrong_answer_can_be_judged(under_apples_rules, path):
    """The same of the rest."""
    assert not unjudged(path, slice(FEW, None))


def unjudged(path, part: slice) -> list[str]:
    """Return the names of a part of a bank's wrong answers, of those that the check could not judge."""
    wrong = [answer for answer in load(path) if answer.fragment is not None][part]
    return [one.name for one in wrong if "please report it" in str(judge(find(one.exercise), one.code))]
