"""The banks on machines unlike the bench: one GPU, as most people have, and a Mac's rules.

With one device some wrong answers cannot be told from right ones (a bare `.cuda()` always finds the right
GPU), so here every right answer must pass, and of a wrong one only that it was judged. That is asked under
Apple's rules alone, which have one device, too: with CUDA's the bench of test_banks.py judges them all.
"""

from contextlib import nullcontext

import pytest
from bank import banks, load

from devlab import sim
from devlab.checks.judge import judge
from devlab.checks.registry import find
from devlab.devices import bench

# Right wherever there is float64, and on a Mac the same TypeError as any learner would get.
NEEDS_FLOAT64 = {"InDoublePrecision"}


@pytest.fixture(params=["one GPU", "Apple's rules"])
def elsewhere(request, monkeypatch):
    """A bench of the CPU and one simulated device, under the rules of CUDA or of MPS."""
    sim.enable()
    monkeypatch.setenv("DEVLAB_DEVICE", "sim:0")
    apples = request.param == "Apple's rules"
    with sim.rules("mps") if apples else nullcontext():
        assert [str(device) for device in bench()] == ["cpu", "sim:0"]
        yield request.param


@pytest.mark.parametrize("path", banks(), ids=lambda path: path.stem)
def test_right_answers_pass_and_every_answer_can_be_judged(elsewhere, path):
    """What a row needs and the machine lacks is skipped or left out; it never becomes the learner's fault."""
    for answer in load(path):
        if answer.fragment is not None and elsewhere == "one GPU":
            continue
        result = judge(find(answer.exercise), answer.code)
        assert "please report it" not in str(result), f"{answer.name}\n{result}"
        if answer.fragment is None and not (elsewhere == "Apple's rules" and answer.name in NEEDS_FLOAT64):
            assert result.passed, f"{answer.name}\n{result}"
