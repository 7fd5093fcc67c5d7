"""The simulated accelerator is there in every test of explain, and has not failed."""

import pytest

from devlab import sim
from devlab.explaining import choice, template

sim.enable()


# On a loaded machine, too, a program's own time decides how much is tried.
choice._LONGEST, template.LIMIT = 3600.0, 40.0


@pytest.fixture(autouse=True)
def usable():
    """Begin each test with devices that have not failed."""
    sim.reset()
    yield
    sim.reset()
