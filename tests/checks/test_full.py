"""A device whose memory the notebook itself holds: the check says so, and blames no answer."""

import gc

import pytest
import torch
from bank import ANSWERS, load

from devlab.checks.exercise import find
from devlab.checks.judge import full, judge
from devlab.checks.result import Outcome
from devlab.devices import bench
from devlab.sim import accounts

MIB = 1 << 20


@pytest.fixture
def nearly_full():
    """Two simulated devices of 64 MiB, the first with 60 MiB of a notebook's own tensors."""
    bench()
    used = list(accounts.allocators)
    accounts.allocators[:] = [type(one)(index, 64 * MIB) for index, one in enumerate(used)]
    held = torch.empty(60 * MIB, dtype=torch.uint8, device="sim:0")
    yield
    del held
    gc.collect()
    accounts.allocators[:] = used


def right(name: str):
    """Return the first right answer of a bank."""
    return next(one.code for one in load(ANSWERS / f"{name}.py") if one.fragment is None)


@pytest.mark.usefixtures("nearly_full")
@pytest.mark.parametrize("name", ["release", "peak_bytes", "bytes_kept"])
def test_the_machines_state_is_not_the_answers_fault(name):
    """Neither a pass nor a failure: it says who holds the memory, and how to have it back."""
    result = judge(find(name), right(name))
    assert result.outcome is Outcome.SKIPPED, str(result)
    assert result.headline == "there is too little memory left on sim:0 to judge it"
    details = dict(result.details)
    assert details["held"] == "60 of the 64 MiB of sim:0, by tensors of your notebook"
    assert details["next"].startswith("`del` the names that hold them, or restart the kernel")
    assert "please report" not in str(result)


@pytest.mark.usefixtures("nearly_full")
def test_an_answers_own_want_of_memory_names_it_as_well():
    """The exception is the learner's; who holds the memory is said beside it."""

    def device_of(x):
        torch.empty(20 * MIB, dtype=torch.uint8, device="sim:0")
        return x.device

    result = judge(find("device_of"), device_of)
    assert result.headline == "your code raised OutOfMemoryError on cpu"
    assert dict(result.details)["held"] == "60 of the 64 MiB of sim:0, by tensors of your notebook"
    assert dict(result.details)["next"] == "devlab.hint(device_of)"


@pytest.mark.usefixtures("nearly_full")
def test_which_device_is_full():
    """The first that is; a device with room, and the CPU, are not."""
    assert full(bench()).device == torch.device("sim:0")
    assert full([torch.device("cpu"), torch.device("sim:1")]) is None
