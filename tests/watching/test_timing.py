"""Times that can be trusted: warmed up, synchronized, repeated, and honest about what was measured."""

import re
import time

import pytest
import torch

import devlab
from devlab.devices import UnknownDevice
from devlab.watching import timing

SIM = torch.device("sim:0")


def test_on_the_cpu_it_is_the_hosts_clock():
    """A sleep takes as long as it sleeps."""
    start = time.perf_counter()
    found = devlab.time_op(lambda: time.sleep(0.01), "cpu", repeats=5, show=False)
    assert sum(found.times) < time.perf_counter() - start
    assert found.median >= 0.01
    assert len(found.times) == 5
    assert found.calls == 1
    assert not found.modelled
    assert float(found) == found.median
    assert found.spread[0] <= found.median <= found.spread[1]


def test_short_functions_run_several_times_a_sample():
    """So that the clock's own grain counts for little."""
    found = devlab.time_op(lambda: None, "cpu", repeats=5, show=False)
    assert found.calls > 100
    assert found.median < 1e-4


def test_a_slow_function_is_not_run_thirty_times(monkeypatch):
    """Five samples at least, then patience ends."""
    monkeypatch.setattr(timing, "PATIENCE", 0.05)
    found = devlab.time_op(lambda: time.sleep(0.02), "cpu", show=False)
    assert 5 <= len(found.times) < 30


def test_it_warms_up_first():
    """What the first calls cost is not in the figure."""
    calls = []

    def slow_at_first():
        calls.append(0)
        time.sleep(0.1 if len(calls) == 1 else 0.001)

    assert devlab.time_op(slow_at_first, "cpu", repeats=5, show=False).median < 0.05


def test_on_sim_the_time_is_modelled(capsys):
    """The simulator's own figure, the same every time, and called simulated."""
    x = torch.ones(512, 512, device=SIM)
    found = devlab.time_op(lambda: x @ x, SIM, repeats=7)
    said = capsys.readouterr().out
    assert found.modelled
    assert found.spread[0] == pytest.approx(found.spread[1])
    assert "modelled" in said
    assert "the device is simulated, and so is its time" in said
    start, end = torch.sim.Event(enable_timing=True), torch.sim.Event(enable_timing=True)
    torch.sim.synchronize()
    start.record()
    x @ x
    end.record()
    torch.sim.synchronize()
    assert found.median == pytest.approx(start.elapsed_time(end) / 1e3)


def test_a_larger_product_takes_longer_on_sim():
    """The model follows the work."""
    small, large = (torch.ones(n, n, device=SIM) for n in (64, 1024))
    times = [devlab.time_op(lambda m=m: m @ m, "sim", repeats=5, show=False).median for m in (small, large)]
    assert times[0] < times[1]


def test_work_on_another_device_is_noticed(capsys):
    """Timing sim while the tensors are on the CPU times nothing."""
    x = torch.ones(8, 8)
    found = devlab.time_op(lambda: x @ x, SIM, repeats=5)
    assert found.median == 0
    assert "Nothing ran on sim:0" in capsys.readouterr().out


def test_it_is_shown_once_as_text_and_html(capsys):
    """Median, spread, and how it was measured."""
    found = devlab.time_op(lambda: None, repeats=5)
    said = capsys.readouterr().out
    assert said.rstrip("\n") == found.text()
    assert re.match(r"[\d.]+ µs on cpu \((half of the samples|every sample) ", said)
    assert "after a warm-up, on the host's clock" in said
    assert "<strong>" in found.html()
    assert repr(found).startswith("<Timing: ")


@pytest.mark.parametrize(
    ("times", "spread"),
    [
        ([1e-6, 2e-6, 3e-6, 4e-6, 5e-6], "half of the samples from 2 µs to 4 µs"),
        ([1e-6, 2e-6, 2e-6, 2e-6, 5e-6], "half of the samples the same"),
        ([2e-6, 2e-6, 2e-6 + 1e-15, 2e-6, 2e-6], "every sample the same"),
    ],
)
def test_the_spread_is_said_as_it_is(times, spread):
    """Only samples that all print alike are called the same; where the middle ones do, it says so of them."""
    found = timing.Timing(times, 1, torch.device("cpu"), "on the host's clock", modelled=False)
    assert f" on cpu ({spread})" in found.text()


def test_a_result_instead_of_a_function():
    """The usual slip gets its cure."""
    with pytest.raises(TypeError, match=r"time_op\(lambda: x @ x, device\)"):
        devlab.time_op(torch.ones(2), "cpu")


def test_what_the_function_raises_comes_through():
    """A broken function is the learner's to see."""
    with pytest.raises(ZeroDivisionError):
        devlab.time_op(lambda: 1 / 0, "cpu")


def test_a_device_that_is_not_here():
    """Named, with what to do."""
    if torch.cuda.is_available():
        pytest.skip("CUDA is here")
    with pytest.raises(UnknownDevice, match=r"cuda is not here; devlab\.devices\(\)"):
        devlab.time_op(lambda: None, "cuda")


def test_on_cuda_it_agrees_with_events(cuda):
    """Within 3 % of CUDA's own events around many calls, on a kernel of more than 100 µs."""
    x = torch.randn(4096, 4096, device=cuda)
    found = devlab.time_op(lambda: x @ x, cuda, show=False)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    for _ in range(50):
        x @ x
    end.record()
    torch.cuda.synchronize()
    assert found.median > 100e-6
    assert found.median == pytest.approx(start.elapsed_time(end) / 1e3 / 50, rel=0.03)
