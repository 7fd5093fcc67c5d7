"""A device whose memory the notebook has filled is no fault of the answer, and the verdict says so."""

import pytest
import torch
from bank import ANSWERS, load

from devlab.checks.judge import judge
from devlab.checks.registry import find
from devlab.checks.result import Outcome
from devlab.sim import enable, memory


@pytest.fixture
def nearly_full():
    """A device with a tensor of the notebook's, and hardly any memory beside it."""
    enable()
    held = torch.empty(30 << 20, dtype=torch.uint8, device="sim:0")
    whole = memory.of(0).capacity
    memory.set_capacity(memory.memory_reserved(0) + (4 << 20), 0)
    yield held
    memory.set_capacity(whole, 0)


@pytest.mark.parametrize("name", ["release", "cached_bytes"])
def test_a_full_device_is_named(nearly_full, name):
    """The row was not judged, and is no failure: the notebook's own tensors hold the memory."""
    right = next(answer for answer in load(ANSWERS / f"{name}.py") if answer.fragment is None)
    result = judge(find(name), right.code)
    assert "devlab could not judge" not in str(result)
    assert result.outcome is not Outcome.ERROR, str(result)
    skipped = [row.outcomes["sim:0"] for row in result.rows]
    assert Outcome.SKIPPED in skipped, str(result)
