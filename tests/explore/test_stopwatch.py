"""The stopwatch: real seconds on real devices, the model's on sim, whatever the clock did before."""

import time

import pytest
import torch

from devlab import sim
from devlab.explore.stopwatch import can_pin, lap
from devlab.sim import clock
from devlab.sim.specs import CUDA_LIKE


@pytest.fixture(autouse=True, scope="module")
def simulated():
    """Let `sim:0` be there."""
    sim.enable()


def test_a_real_call_takes_at_least_as_long_as_it_sleeps():
    """And the host was busy all the while."""
    start = time.perf_counter()
    one = lap(lambda: time.sleep(0.003), "cpu")
    assert 0.003 <= one.returned == one.done <= time.perf_counter() - start


def test_a_simulated_call_returns_before_the_device_is_done():
    """A launch for the host; launch, start and traffic for the device."""
    x = torch.ones(1 << 20, device="sim:0")
    one = lap(lambda: x + 1, "sim:0")
    assert one.returned == pytest.approx(CUDA_LIKE.launch)
    traffic = 2 * x.nbytes / CUDA_LIKE.bandwidth
    assert one.done == pytest.approx(CUDA_LIKE.launch + CUDA_LIKE.shortest + traffic, abs=1e-10)


def test_the_model_is_the_same_in_slow_motion_and_after_a_long_day():
    """Notebooks run with real waits, and their clock has run for hours."""
    x = torch.ones(1000, device="sim:0")
    before = lap(lambda: x + 1, "sim:0")
    clock.spend(36_000)
    assert lap(lambda: x + 1, "sim:0") == before
    clock.real_waits(True)
    try:
        assert lap(lambda: x + 1, "sim:0") == before
    finally:
        clock.real_waits(False)


def test_what_the_call_raises_comes_through():
    """A copy that does not fit, for one."""
    with pytest.raises(ZeroDivisionError):
        lap(lambda: 1 / 0, "cpu")


@pytest.mark.parametrize(("device", "can"), [("cpu", False), ("mps:0", False), ("sim:0", True)])
def test_pinning_is_offered_where_it_is_possible(device, can):
    """Not for the CPU itself, and not on Apple's chips."""
    assert can_pin(device) is can
