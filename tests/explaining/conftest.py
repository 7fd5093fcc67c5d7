"""The simulated accelerator is there in every test of explain, and has not failed."""

import pytest

from devlab import sim
from devlab.explaining import choice

sim.enable()


choice._LONGEST = 3600.0  # on a loaded machine, too, a program's own time decides how much is tried


@pytest.fixture(autouse=True)
def usable():
    """Begin each test with devices that have not failed."""
    sim.reset()
    yield
    sim.reset()
