"""The recording of real hardware, rehearsed on the simulated device as it will run on a bare GPU machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMAND = ["benchmarks/hardware/record.py"]


def run(*arguments: str, bare: bool = False) -> subprocess.CompletedProcess:
    """Run the recording script by itself; `bare` hides every installed package but torch's own needs."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("DEVLAB", "PYTHON"))
    }
    program = [sys.executable, "-W", "error", *COMMAND, *arguments]
    if bare:
        program[3:4] = ["-c", HIDING, *COMMAND]
    return subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)


HIDING = """
import runpy, sys
for name in ("pytest", "IPython", "ipywidgets", "matplotlib", "nbformat", "jupytext", "hypothesis", "rich"):
    sys.modules[name] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_a_rehearsal_writes_files_that_say_simulated(tmp_path):
    """Each names its source and the versions, and has cases; torch and NumPy suffice."""
    names = ["allocator", "mixed_devices", "launches", "synchronizations"]
    done = run("--device", "sim", "--out", str(tmp_path), "--only", *names, bare=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in names:
        found = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
        assert found["source"].endswith("not recorded")
        assert {"torch", "cuda", "numpy", "python", "system"} <= found.keys()
        assert found["cases"]


def test_a_rehearsal_is_kept_out_of_the_recordings():
    """A simulated figure is never passed off as a measured one."""
    before = sorted(path.name for path in (ROOT / "benchmarks/recorded").iterdir())
    done = run("--device", "sim", "--only", "bandwidth")
    assert done.returncode == 2
    assert "simulated figures do not go to" in done.stdout
    assert sorted(path.name for path in (ROOT / "benchmarks/recorded").iterdir()) == before


def test_a_device_that_is_not_here_is_named():
    """And the rehearsal is offered; no traceback."""
    done = run("--device", "xpu:7")
    assert done.returncode == 2
    assert done.stdout.startswith("xpu:7 is not here")
    assert not done.stderr


@pytest.mark.parametrize("name", ["bandwidth", "crossover"])
def test_the_long_recordings_are_right_in_small(name, tmp_path, monkeypatch):
    """Fewer sizes, the same code: all figures are seconds or rates above zero."""
    import importlib

    import torch

    from devlab import sim

    sim.enable()
    module = importlib.import_module(f"hardware.{name}")
    monkeypatch.setattr(module, "SIZES" if name == "bandwidth" else "SIDES", [1 << 4, 1 << 6])
    for case in module.record(torch.device("sim", 0)).values():
        assert all(figure > 0 for figure in case.values())


# What PyTorch's source and CUDA's documentation lead one to expect of a GPU, until one has been asked.
DOCUMENTED = {
    "pageable.to(device)": True,
    "pageable.to(device, non_blocking=True)": False,
    "pageable.to(device, float16, non_blocking=True)": False,
    "pinned.to(device)": True,
    "pinned.to(device, non_blocking=True)": False,
    "x.copy_(pageable)": True,
    "x.copy_(pageable, non_blocking=True)": False,
    "pageable.copy_(x, non_blocking=True)": True,
    "pinned.copy_(x, non_blocking=True)": False,
    "x.to('cpu', non_blocking=True)": False,
    "x.repeat_interleave(rows)": True,
    "x.repeat_interleave(rows, output_size=2)": False,
}


def test_the_rehearsal_waits_where_the_documentation_says():
    """The simulator and the watch, for each kind of copy; `sim/crossing.py` names the documentation."""
    import torch
    from hardware import synchronizations

    from devlab import sim

    sim.enable()
    table = synchronizations.record(torch.device("sim", 0))
    assert {name: table[name] for name in DOCUMENTED} == {
        name: {"waits": waits, "watch": waits} for name, waits in DOCUMENTED.items()
    }
    assert all(said["waits"] == said["watch"] for said in table.values())


def test_an_answer_that_is_misjudged_is_found():
    """The judge of the judging: right must pass, wrong must get its message."""
    from bank import load
    from hardware.banks import as_it_should_be

    from devlab.checks.exercise import find
    from devlab.checks.judge import judge

    for answer in load(ROOT / "tests/answers/device_of.py"):
        result = judge(find("device_of"), answer.code)
        assert as_it_should_be(answer, result)
        opposite = None if answer.fragment else "a message that no verdict has"
        swapped = type(answer)(answer.exercise, answer.name, answer.code, opposite)
        assert not as_it_should_be(swapped, result)
