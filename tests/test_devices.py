"""Which devices the course uses: real ones first, a simulated one on a machine without, and what is said."""

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import jupytext
import pytest
import torch

import devlab
from devlab import devices as show_devices
from devlab import sim
from devlab.devices import UnknownDevice, accelerators, bench, describe_device


@pytest.fixture
def two_gpus(monkeypatch):
    """Pretend that CUDA has two GPUs, and that the environment asks for nothing."""
    monkeypatch.delenv("DEVLAB_DEVICE", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"GPU number {index}")


@pytest.fixture
def no_gpu(monkeypatch):
    """Pretend that there is no accelerator at all."""
    monkeypatch.delenv("DEVLAB_DEVICE", raising=False)
    for kind in ("cuda", "mps", "xpu"):
        monkeypatch.setattr(getattr(torch, kind), "is_available", lambda: False)


def names(found) -> list[str]:
    """Return the devices as text."""
    return [str(device) for device in found]


def test_without_a_gpu_the_bench_is_simulated(no_gpu):
    """The CPU first, then both simulated devices."""
    assert names(bench()) == ["cpu", "sim:0", "sim:1"]


def test_a_real_gpu_is_preferred(two_gpus, monkeypatch):
    """With a GPU nothing is simulated: enabling would change what torch.accelerator answers."""
    monkeypatch.setattr(sim, "enable", lambda: pytest.fail("the simulator was enabled beside a real GPU"))
    assert names(bench()) == ["cpu", "cuda:0", "cuda:1"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("cpu", ["cpu"]),
        ("sim", ["cpu", "sim:0", "sim:1"]),
        ("SIM:1", ["cpu", "sim:1"]),
        ("cuda", ["cpu", "cuda:0", "cuda:1"]),
        ("cuda:1", ["cpu", "cuda:1"]),
    ],
)
def test_the_environment_decides(two_gpus, monkeypatch, wanted, found):
    """DEVLAB_DEVICE names a kind or one device."""
    monkeypatch.setenv("DEVLAB_DEVICE", wanted)
    assert names(bench()) == found


@pytest.mark.parametrize("wanted", ["cuda:7", "tpu", "mps", "sim:9"])
def test_a_device_that_is_not_here_is_named(two_gpus, monkeypatch, wanted, capsys):
    """The message says what was asked, what is here and what to do; the lesson goes on with the CPU."""
    monkeypatch.setenv("DEVLAB_DEVICE", wanted)
    with pytest.raises(UnknownDevice, match="This machine has: cpu, sim, cuda:0, cuda:1"):
        accelerators()
    assert devlab.start() == torch.device("cpu")
    assert "Going on with the CPU" in capsys.readouterr().out
    result = devlab.check(lambda x: x)
    assert not result.passed

    def device_of(x):
        return x.device

    assert "DEVLAB_DEVICE is set to" in str(devlab.check(device_of))


def test_a_torch_that_cannot_simulate_leaves_the_cpu(no_gpu, monkeypatch, capsys):
    """The course still opens, and says why there is no accelerator."""

    def enable():
        raise RuntimeError("this torch no longer has torch._something.")

    monkeypatch.setattr(sim, "enable", enable)
    assert names(bench()) == ["cpu"]
    assert devlab.start() == torch.device("cpu")
    said = capsys.readouterr().out
    assert "no longer has torch._something. Going on with the CPU." in said


def test_start_says_that_the_accelerator_is_simulated(no_gpu, capsys):
    """One line, with versions, and never a simulated device passed off as a real one."""
    device = devlab.start()
    said = capsys.readouterr().out
    assert device == torch.device("sim:0")
    assert said.count("\n") == 1
    assert f"torch {torch.__version__}" in said
    assert "sim:0, a simulated accelerator (no GPU in use)" in said


def test_start_names_a_real_gpu(two_gpus, capsys):
    """A real device is called by its name."""
    assert devlab.start() == torch.device("cuda:0")
    assert "cuda:0, GPU number 0" in capsys.readouterr().out


def test_start_says_that_an_amd_gpu_is_reached_by_rocm(two_gpus, monkeypatch, capsys):
    """A build for ROCm calls AMD's GPUs cuda, and the line names both."""
    monkeypatch.setattr(torch.version, "hip", "7.0.2")
    assert devlab.start() == torch.device("cuda:0")
    assert "cuda:0, GPU number 0 by ROCm" in capsys.readouterr().out


def test_start_uses_a_macs_gpu(no_gpu, monkeypatch, capsys):
    """On a Mac whose GPU can be used nothing is simulated."""
    monkeypatch.setattr(torch.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "device_count", lambda: 1)
    assert devlab.start() == torch.device("mps:0")
    assert "mps:0, Apple GPU" in capsys.readouterr().out


@pytest.mark.parametrize(("integrated", "memory"), [(0, "its own memory"), (1, "shared with the CPU")])
def test_an_integrated_gpu_shares_the_cpus_memory(two_gpus, monkeypatch, integrated, memory):
    """The table asks the chip, and does not take every GPU for a card with memory of its own."""
    properties = SimpleNamespace(is_integrated=integrated)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(import_module("devlab.devices"), "has_float64", lambda device: True)
    assert describe_device(torch.device("cuda:1")).memory == memory


@pytest.mark.parametrize(
    ("cuda", "hip", "mps", "said"),
    [
        (None, None, False, "the CPU"),
        ("13.0", None, False, "the CPU, CUDA (NVIDIA)"),
        (None, "7.0.2", False, "the CPU, ROCm (AMD)"),
        (None, None, True, "the CPU, MPS (Apple)"),
    ],
)
def test_lesson_00_names_what_pytorch_was_built_for(monkeypatch, capsys, cuda, hip, mps, said):
    """No owner of an AMD GPU or of a Mac is told that the build is for the CPU only."""
    lesson = jupytext.read(Path(__file__).resolve().parents[1] / "source" / "lessons" / "00_start_here.py")
    (cell,) = [cell.source for cell in lesson.cells if cell.source.startswith("builds = {")]
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.backends.mps, "is_built", lambda: mps)
    exec(cell, {"torch": torch})
    assert capsys.readouterr().out.splitlines()[0] == f"built for: {said}"


def test_devices_tell_real_from_simulated(no_gpu, capsys):
    """The table has a row for each device, and the simulated ones say so twice."""
    panel = show_devices()
    assert [row.real for row in panel.here] == [True, False, False]
    assert "simulated" in describe_device(torch.device("sim:1")).name
    assert capsys.readouterr().out.splitlines()[0].split() == ["device", "kind", "name", "memory", "float64"]
    assert panel.html().count("<tr>") == 4
