"""The simulated accelerator is there in every test of explain, and has not failed."""

import pytest

from devlab import sim

sim.enable()


@pytest.fixture(autouse=True)
def usable():
    """Begin each test with devices that have not failed."""
    sim.reset()
    yield
    sim.reset()
