"""The pytest plug-in, run as another project would run it: the example of docs/testing.md, and odd cases."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from devlab import pytest_plugin

DEVICES = importlib.import_module("devlab.devices")  # `devlab.devices` is the function of that name
DOCS = Path(__file__).resolve().parents[1] / "docs" / "testing.md"
EXAMPLE = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
MENDED = "future = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).triu(1)"

ODD = """
import pytest, torch

@pytest.fixture
def device():
    return "mine"

def test_own_fixture(device):
    assert device == "mine"

@pytest.mark.parametrize("device", ["a", "b"])
def test_own_parameter(device):
    assert device in "ab"

@pytest.mark.parametrize(("n", "device"), [(1, "a")])
def test_own_parameters(n, device):
    assert device == "a"
"""

MORE = """
import pytest, torch

MADE = torch.ones

def test_pair(two_devices):
    a, b = two_devices
    assert a != b
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2, device=a) + torch.ones(2, device=b)

def test_births_are_forgotten_after_a_test():
    assert torch.ones is MADE

def test_ordinary(device):
    assert str(device) != "cpu", "this one is about nothing that devlab explains"

@pytest.mark.real_device
def test_any(): pass

@pytest.mark.real_device("cuda")
def test_cuda(): pass
"""


LATE = """
import pytest, torch

def rows(device):
    return torch.ones(3, device=device)[torch.tensor([5], device=device)]

def test_nobody_waits(device):
    rows(device)

def test_the_error_is_awaited(device):
    with pytest.raises((IndexError, torch.AcceleratorError)):
        rows(device).sum().item()

def test_after_both(device):
    assert torch.ones(3, device=device).sum().item() == 3
"""


def run(folder: Path, files: dict[str, str], *options: str) -> tuple[dict[str, list[str]], str]:
    """Run pytest on files in a folder; return the tests by outcome, and all that was printed."""
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "DEVLAB_DEVICE"}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-rA",
            "--strict-markers",
            "-c",
            os.devnull,
            "--rootdir",
            ".",
            *options,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    outcomes: dict[str, list[str]] = {}
    for outcome, test in re.findall(r"^(PASSED|FAILED|ERROR) \S+?::(\S+)", done.stdout, re.MULTILINE):
        outcomes.setdefault(outcome, []).append(test)
    return outcomes, done.stdout + done.stderr


def test_a_project_without_a_gpu(tmp_path):
    """The page's example fails on each simulated device, with the line that made the mask.

    A project's own `device` takes precedence, whether a fixture or a parameter; two devices do not mix; a
    test that needs hardware is skipped in words; nothing is said of failures that are not about devices.
    """
    files = {
        "attention.py": EXAMPLE[0],
        "test_attention.py": EXAMPLE[1],
        "test_odd.py": ODD,
        "test_more.py": MORE,
    }
    outcomes, said = run(tmp_path, files)
    assert sorted(outcomes["FAILED"]) == [
        "test_forward_never_waits_for_the_device[sim:0]",
        "test_forward_never_waits_for_the_device[sim:1]",
        "test_no_position_sees_the_future[sim:0]",
        "test_no_position_sees_the_future[sim:1]",
        "test_ordinary[cpu]",
    ]
    assert sorted(outcomes["PASSED"]) == [
        "test_births_are_forgotten_after_a_test",
        "test_forward_never_waits_for_the_device[cpu]",
        "test_no_position_sees_the_future[cpu]",
        "test_ordinary[sim:0]",
        "test_ordinary[sim:1]",
        "test_own_fixture",
        "test_own_parameter[a]",
        "test_own_parameter[b]",
        "test_own_parameters[1-a]",
        "test_pair",
    ]
    assert said.count("- devlab explains -") == 4
    assert "future is on cpu" in said
    assert MENDED in said
    assert "needs a real accelerator" in said
    assert "needs a real cuda" in said


def test_an_error_that_comes_late(tmp_path):
    """What a simulated device noticed and no wait reported is an error of that test, and of no other."""
    outcomes, said = run(tmp_path, {"test_late.py": LATE})
    assert outcomes["FAILED"] == ["test_nobody_waits[cpu]"]
    assert outcomes["ERROR"] == ["test_nobody_waits[sim:0]", "test_nobody_waits[sim:1]"]
    assert len(outcomes["PASSED"]) == 8  # a test may pass before its end is an error
    assert "sim error: device-side assert triggered" in said


@pytest.mark.thorough
def test_the_mended_example_in_parallel(tmp_path):
    """With the change that stood under the failure all six pass, also on the workers of xdist."""
    code = re.sub("future = .*", MENDED, EXAMPLE[0])
    files = {"attention.py": code, "test_attention.py": EXAMPLE[1]}
    outcomes, _ = run(tmp_path, files, "-n", "2", "--devlab", "sim")
    assert {outcome: len(tests) for outcome, tests in outcomes.items()} == {"PASSED": 6}
    assert MENDED in DOCS.read_text(encoding="utf-8")


def test_a_real_gpu_is_preferred_to_a_simulated_one(monkeypatch):
    """Where there is an accelerator, a run without the option takes it, and simulates none."""
    monkeypatch.setattr(DEVICES, "real_accelerators", lambda: [torch.device("cuda", 0)])
    names = {
        choice: [str(one) for one in pytest_plugin.devices_of(choice)] for choice in (None, "real", "all")
    }
    assert names[None] == names["real"] == ["cpu", "cuda:0"]
    assert [str(one) for one in pytest_plugin.devices_of("cpu")] == ["cpu"]
    assert names["all"] == ["cpu", "cuda:0", "sim:0", "sim:1"]


def test_hardware_that_is_not_here_is_refused_in_words(monkeypatch):
    """`--devlab real` never passes by running on the CPU alone."""
    monkeypatch.setattr(DEVICES, "real_accelerators", list)
    with pytest.raises(pytest.UsageError, match="PyTorch can use no accelerator on this machine"):
        pytest_plugin.devices_of("real")


def test_a_project_that_asks_for_nothing_imports_nothing():
    """Loading the plug-in imports no PyTorch."""
    script = "import sys, devlab.pytest_plugin; print([m for m in sys.modules if m.split('.')[0] == 'torch'])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
