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

HOOK = """
import pytest, torch

def pytest_generate_tests(metafunc):
    if metafunc.function.__name__ == "test_own_hook":
        metafunc.parametrize("device", ["c"])

def test_own_hook(device):
    assert device == "c"

@pytest.mark.parametrize("device", ["sim:1", "cpu"], indirect=True)
def test_own_names_for_our_fixture(device):
    assert torch.ones(1, device=device).device == device

class TestInAClass:
    @pytest.fixture
    def layer(self, device):
        return torch.nn.Linear(2, 2).to(device)

    def test_by_a_fixture(self, layer):
        assert layer.weight.device.type in ("cpu", "sim")
"""

UNIT = """
import unittest
import pytest, torch

class Counted(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def tools(self, watch, no_sync, two_devices):
        self.watch, self.no_sync, self.device = watch, no_sync, two_devices[0]

    def test_no_wait(self):
        with self.watch() as log, self.no_sync():
            total = torch.ones(2, device=self.device).sum()
        self.assertEqual((log.synchronizations, log.launches), (0, 2))
        with pytest.raises(RuntimeError, match="makes the host wait"), self.no_sync():
            total.item()

@pytest.mark.usefixtures("device")
class Placed(unittest.TestCase):
    def test_nowhere(self): pass
"""

LEAVING = """
import pytest, torch

def test_sets_everything(device):
    torch.set_default_device(device)
    if device.type == "sim":
        import devlab.sim
        torch.accelerator.set_device_index(1 - device.index)
        torch.accelerator.set_stream(torch.Stream(device))
        devlab.sim.races(True)
        devlab.sim.memory.set_capacity(2 << 20, device)
        torch.sim.memory._record_memory_history()

def test_finds_nothing_set(device):
    assert torch.empty(0).is_cpu
    assert not torch.overrides.has_torch_function(())  # a default device is a mode
    if device.type == "sim":
        from devlab.sim import racing
        assert torch.accelerator.current_device_index() == 0
        assert torch.accelerator.current_stream(device).stream_id == 0
        assert not racing.visible
        assert torch.sim.mem_get_info(device)[1] == 1 << 30
        assert torch.sim.memory._snapshot()["device_traces"][0] == []

def test_that_asks_for_no_device():
    assert torch.empty(0).is_cpu

@pytest.fixture(scope="module")
def everywhere():
    torch.set_default_device("meta")
    yield
    torch.set_default_device(None)

def test_a_default_device_of_the_project_stays(everywhere, device):
    torch.set_default_device("cpu")

def test_and_is_there_in_the_next_one(everywhere):
    assert torch.empty(0).is_meta
"""

MORE = """
import pytest, torch

def test_pair(two_devices):
    a, b = two_devices
    assert a != b
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2, device=a) + torch.ones(2, device=b)

def test_ordinary(device):
    assert str(device) != "cpu", "this one is about nothing that devlab explains"

@pytest.mark.real_device
def test_any(): pass

@pytest.mark.real_device("cuda")
def test_cuda(): pass

@pytest.mark.real_device
def test_both(device): pass
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

def test_nobody_waits_and_no_device_is_asked_for():
    rows(torch.device("sim:1"))

def test_after_all(device):
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
    assert not re.search(r"devlab/sim/", said)  # the place that failed is the project's line
    assert said.count("attention.py:14: RuntimeError") == 4
    assert MENDED in said
    assert "needs a real accelerator" in said
    assert "needs a real cuda" in said
    assert "3 skipped" in said  # a test with an argument `device` once, not once for each device


def test_a_project_with_habits_of_its_own(tmp_path):
    """What it says of its devices counts, and what one test leaves set is gone in the next.

    Its own hook, names given to our fixture, classes, fixtures that ask for a device, and a default device
    that a fixture sets. A unittest.TestCase takes what a fixture of its own asks for; `device` says in words
    why it cannot come. Default and current device, streams, races, sizes and histories do not stay.
    """
    files = {"test_hook.py": HOOK, "test_leaving.py": LEAVING, "test_unit.py": UNIT}
    outcomes, said = run(tmp_path, files)
    assert outcomes.keys() == {"PASSED", "ERROR"}, said
    assert outcomes["ERROR"] == ["Placed::test_nowhere"]
    assert "It cannot do so for a unittest.TestCase" in said
    passed = {name for name in outcomes["PASSED"] if "hook" in name or "::" in name or "names" in name}
    assert passed == {
        "Counted::test_no_wait",
        "TestInAClass::test_by_a_fixture[cpu]",
        "TestInAClass::test_by_a_fixture[sim:0]",
        "TestInAClass::test_by_a_fixture[sim:1]",
        "test_own_hook[c]",
        "test_own_names_for_our_fixture[cpu]",
        "test_own_names_for_our_fixture[sim:1]",
    }
    assert len(outcomes["PASSED"]) == len(passed) + 11


def test_without_the_plugin_there_is_nothing_of_it(tmp_path):
    """`-p no:devlab` takes the fixtures, the option and the marker away; markers are refused if strict."""
    outcomes, said = run(tmp_path, {"attention.py": EXAMPLE[0], "test_it.py": EXAMPLE[1]}, "-p", "no:devlab")
    assert outcomes.keys() == {"ERROR"}
    assert "fixture 'device' not found" in said


def test_an_error_that_comes_late(tmp_path):
    """What a simulated device noticed and no wait reported is an error of that test, and of no other."""
    outcomes, said = run(tmp_path, {"test_late.py": LATE})
    assert outcomes["FAILED"] == ["test_nobody_waits[cpu]"]
    assert outcomes["ERROR"] == [
        "test_nobody_waits[sim:0]",
        "test_nobody_waits[sim:1]",
        "test_nobody_waits_and_no_device_is_asked_for",
    ]
    assert len(outcomes["PASSED"]) == 12  # a test may pass before its end is an error
    assert "sim error: device-side assert triggered" in said
    assert said.count("failed in   no line of yours: the device was asked when the code had ended") == 2
    assert "teardown.send" not in said.rpartition("devlab explains")[2]


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


QUIET = {
    "test_quiet.py": "def test_nothing(): pass",
    "conftest.py": "import sys\n"
    "def pytest_unconfigure(): print('loaded', sorted({'torch', 'numpy'} & {*sys.modules}))",
}


@pytest.mark.parametrize("options", [(), ("--devlab", "all"), ("-p", "no:devlab")])
def test_a_project_that_asks_for_nothing_imports_nothing(options, tmp_path):
    """A run without a test that asks for a device loads neither PyTorch nor NumPy, and says nothing more."""
    outcomes, said = run(tmp_path, QUIET, *options)
    assert outcomes == {"PASSED": ["test_nothing"]}
    assert "loaded []" in said
    header, _, rest = said.partition("collected 1 item")
    assert header
    assert "devlab" not in rest.replace(str(tmp_path), "")
