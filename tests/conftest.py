"""Every test judges on the simulated bench."""

import gc
import os

import pytest

try:
    from xdist.scheduler import LoadScopeScheduling
except ImportError:  # tests run without xdist, too
    LoadScopeScheduling = object

# Set before devlab chooses: the tests of the simulator must run on a machine with a GPU, too.
os.environ.setdefault("DEVLAB_DEVICE", "sim")


@pytest.fixture
def empty_memory():
    """Give each simulated device an empty memory: what other tests left may die at any time in theirs."""
    import devlab.sim
    from devlab.sim import accounts

    devlab.sim.enable()
    used = list(accounts.allocators)
    accounts.allocators[:] = [type(one)(index, one.capacity) for index, one in enumerate(used)]
    yield
    accounts.allocators[:] = used


@pytest.fixture
def one_accelerator():
    """A machine with one simulated device, which has one more in other tests."""
    from devlab import sim
    from devlab.devices import bench
    from devlab.sim import data

    sim.enable()
    count = sim.device_count()
    data.set_count(1)
    assert [str(device) for device in bench()] == ["cpu", "sim:0"]
    yield
    data.set_count(count)


@pytest.fixture(scope="module")
def browser():
    """Start the browser for one module."""
    from browser.lab import start_browser

    yield from start_browser()


class OneServer(LoadScopeScheduling):
    """Hands out single tests, but those that share something slow to start to one worker."""

    # A JupyterLab server; classes that nbgrader marked.
    SHARING = ("tests/browser/", "tests/classroom/test_nbgrader", "tests/classroom/test_against_nbgrader")

    def _split_scope(self, nodeid: str) -> str:
        return next((shared for shared in self.SHARING if shared in nodeid), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Schedule by folder: `--dist=loadgroup` of xdist 3.8 groups nothing under pytest 9.2."""
    return OneServer(config, log)


@pytest.fixture(autouse=True)
def few_objects():
    """Let the collector pass over what was there before a test, its thousands of neighbours: it is slow."""
    gc.collect(1)  # what the last test dropped must not be kept for ever
    gc.freeze()
