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
NEEDS_FLOAT64 = {"InDoublePrecision"}
# Right on CUDA. PyTorch changes the dtype before the transfer on MPS, in both directions, so that one call
# never moves the smaller form there when the dtype grows.
COUNTS_ON_CUDA = {"in_one_call_where_that_is_best", "in_one_call_that_blocks_or_not"}


@pytest.fixture
def under_apples_rules(monkeypatch):
    """A bench of the CPU and one simulated device, under the rules of MPS."""
    sim.enable()
    monkeypatch.setenv("DEVLAB_DEVICE", "sim:0")
    with sim.rules("mps"):
        assert [str(device) for device in bench()] == ["cpu", "sim:0"]
        yield


@pytest.mark.parametrize(
    "path", one_of_each(banks(), lambda path: find(path.stem).lesson), ids=lambda path: path.stem
)
def test_right_answers_pass_and_every_answer_can_be_judged(under_apples_rules, path):
    """What a row needs and the machine lacks is skipped or left out; it never becomes the learner's fault."""
    for answer in load(path):
        result = judge(find(answer.exercise), answer.code)
        assert "please report it" not in str(result), f"{answer.name}\n{result}"
        if answer.fragment is None and answer.name not in NEEDS_FLOAT64 | COUNTS_ON_CUDA:
            assert result.passed, f"{answer.name}\n{result}"
