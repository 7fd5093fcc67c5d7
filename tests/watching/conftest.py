"""Instruments are tried on the simulated accelerator, and on a real one where there is one."""

import pytest
import torch

import devlab.sim

devlab.sim.enable()


@pytest.fixture
def sim():
    """Return the simulated device."""
    return torch.device("sim:0")


@pytest.fixture
def cuda():
    """Return the first real GPU, or skip."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here: the same program was counted on sim alone")
    return torch.device("cuda:0")
