"""The simulated accelerator, enabled for every test of it, with device 0 current before and after."""

import pytest
import torch

import devlab.sim

devlab.sim.enable()
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def first_device_current():
    """Make device 0 the current one before and after each test, and let no device have failed."""
    devlab.sim.reset()
    torch.sim.set_device(0)
    yield
    devlab.sim.reset()
    torch.sim.set_device(0)


@pytest.fixture(params=["sim:0", "sim:1"])
def device(request):
    """Each simulated device in turn."""
    return torch.device(request.param)
