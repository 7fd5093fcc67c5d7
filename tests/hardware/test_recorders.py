"""The recording of real hardware, rehearsed on the simulated device as it will run on a bare GPU machine."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from devlab import sim

ROOT = Path(__file__).parents[2]
COMMAND = ["benchmarks/hardware/record.py"]


@pytest.fixture
def device():
    """The first simulated device."""
    sim.enable()
    return torch.device("sim", 0)


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
    names = ["mixed_devices", "launches"]
    done = run("--device", "sim", "--out", str(tmp_path), "--only", *names, bare=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in names:
        found = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
        assert found["source"] == "simulated, not recorded"
        assert {"torch", "cuda", "numpy", "python", "system"} <= found.keys()
        assert found["cases"]


class Doubling:
    """An operator as PyTorch's database describes it, which has no sample of bool."""

    def sample_inputs(self, device, dtype, requires_grad):
        """Yield the only sample."""
        if dtype is torch.bool:
            raise RuntimeError("no sample")
        yield SimpleNamespace(input=torch.ones(3, dtype=dtype), args=(torch.device("cpu"),), kwargs={})

    def __call__(self, x, place):
        """Return twice x, which must be where the second argument says, and must not be complex."""
        if x.is_complex():
            raise NotImplementedError(f"no complex numbers on {x.device}")
        return x + torch.ones(3, dtype=x.dtype, device=place)


def test_operators_are_written_as_rows_below_their_source(tmp_path, monkeypatch, device):
    """What was written is read again: the head, and each answer by the name of its question."""
    from hardware import agreement, operators_by_dtype, record

    monkeypatch.setattr(operators_by_dtype, "database", lambda: {"doubling": Doubling()})
    head, cases = agreement.read(record.write("operators_by_dtype", device, tmp_path))
    assert head["source"] == "simulated, not recorded"
    assert list(cases) == [f"doubling {dtype}" for dtype in operators_by_dtype.DTYPES]
    named = {"op": "doubling", "dtype": "float32"}
    assert cases["doubling float32"] == named | {"ok": True, "cpu": True}
    assert cases["doubling bool"] == named | {"dtype": "bool", "sample": "RuntimeError"}
    refused = cases["doubling complex64"]
    assert refused["error"] == ["NotImplementedError", "no complex numbers on sim:0"]
    assert refused["cpu"] == ["NotImplementedError", "no complex numbers on cpu"]


def test_the_bytes_of_an_operator_are_recorded(tmp_path, monkeypatch, device):
    """What is kept and the peak count from before the call; PyTorch's own word is CUDA's alone."""
    from hardware import operators_waits_and_bytes

    monkeypatch.setattr(operators_waits_and_bytes, "database", lambda: {"doubling": Doubling()})
    found = operators_waits_and_bytes.ask("doubling", device)
    assert (found["kept"], found["peak"]) == (512, 1024)  # the result, and the ones that it is made of
    assert found["watch"] == {"synchronizations": 0, "blocking": 0, "transfers": 0, "launches": 2}
    assert "pytorch says" not in found


def test_a_rehearsal_is_kept_out_of_the_recordings():
    """A simulated figure is never passed off as a measured one, in no folder of them."""
    folder = ROOT / "benchmarks/recorded"
    before = sorted(path for path in folder.rglob("*"))
    for out in ([], ["--out", str(folder)], ["--out", str(folder / "h200")]):
        done = run("--device", "sim", "--only", "bandwidth", *out)
        assert done.returncode == 2
        assert "Simulated figures do not go to" in done.stdout
    assert sorted(path for path in folder.rglob("*")) == before


def test_a_device_that_is_not_here_is_named():
    """And the rehearsal is offered; no traceback."""
    done = run("--device", "xpu:7")
    assert done.returncode == 2
    assert done.stdout.startswith("xpu:7 is not here")
    assert not done.stderr


@pytest.mark.parametrize(
    "gpu", ["Tesla T4", "NVIDIA H200", "NVIDIA A100-SXM4-80GB", "NVIDIA GeForce RTX 4090"]
)
def test_each_gpu_has_a_folder_that_is_called_after_it(gpu):
    """Lower case, without the maker's name, and nothing that a path could misread."""
    from hardware.record import folder_of

    expected = {"T4": "t4", "H200": "h200", "80GB": "a100_sxm4_80gb", "4090": "rtx_4090"}
    assert folder_of(gpu) == next(name for part, name in expected.items() if part in gpu)


@pytest.mark.parametrize("name", ["bandwidth", "crossover"])
def test_the_long_recordings_are_right_in_small(name, tmp_path, monkeypatch, device):
    """Fewer sizes, the same code: all figures are seconds or rates above zero."""
    module = importlib.import_module(f"hardware.{name}")
    monkeypatch.setattr(module, "SIZES" if name == "bandwidth" else "SIDES", [1 << 4, 1 << 6])
    for case in module.record(device).values():
        assert all(figure > 0 for figure in case.values())


def test_the_measured_table_is_rehearsed_in_small(empty_memory, device):
    """Its figures have the names of the H200's recording, and none of these parts fails."""
    from hardware import measured

    made = measured.record(device, ["basics", "transfers", "memory_by_phase"])
    recorded = json.loads((ROOT / "benchmarks/recorded/h200/measured.json").read_text(encoding="utf-8"))
    for section, figures in made.items():
        assert "failed" not in figures, figures["failed"]
        unlike = figures.keys() - recorded["cases"][section].keys()
        assert all("128 x 128 product" in name for name in unlike)


@pytest.mark.thorough  # a step of training for each change takes half a minute
def test_every_section_of_the_measured_table_can_be_made(empty_memory, device):
    """Training, loading and launches as well; a step that fails would be recorded as an error."""
    from hardware import measured

    made = measured.record(device)
    assert made.keys() == measured.SECTIONS.keys()
    assert not [section for section, figures in made.items() if "failed" in figures]
    assert not [name for name, figures in made["spine"].items() if "error" in figures]


def test_a_part_that_fails_does_not_end_the_recording(monkeypatch, device):
    """Its words stand in the place of its figures."""
    from hardware import measured

    def broken(watch, small):
        raise RuntimeError("out of luck")

    monkeypatch.setitem(measured.SECTIONS, "transfers", broken)
    assert "out of luck" in measured.record(device, ["transfers"])["transfers"]["failed"]


SPOILING = """
import os
import torch
from torch.nn import functional as F

def ask(name, device):
    if name == "dies":
        os._exit(9)
    if name == "spoils":
        F.embedding(torch.tensor([9], device=device), torch.ones(3, 3, device=device))
    x = torch.ones(3, device=device)
    return {"pid": os.getpid(), "sum": float(x.sum()) if name != "spoils" else None}
"""


def test_no_question_spoils_the_answer_of_another(tmp_path, monkeypatch, device):
    """A device that takes no more work, or the end of the process, costs nothing but a new process."""
    from hardware import parts

    (tmp_path / "hardware").mkdir()
    (tmp_path / "hardware" / "spoiling.py").write_text(SPOILING, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    names = ["first", "spoils", "second", "dies", "third"]
    found = parts.ask_in_parts("spoiling", device, names, at_once=1)
    assert list(found) == names
    assert [found[name]["sum"] for name in ("first", "second", "third")] == [3.0, 3.0, 3.0]
    assert found["first"]["pid"] == found["spoils"]["pid"] != found["second"]["pid"]
    assert found["dies"]["error"][0] == "the process ended"
    assert "exit status 9" in found["dies"]["error"][1]


def test_a_bank_is_judged_in_a_process_of_its_own(device):
    """The counts of right and wrong answers, and no verdict but on those that were misjudged."""
    from hardware import banks_by_exercise

    found = banks_by_exercise.record(device, ["device_of"])
    assert found.keys() == {"device_of"}
    bank = found["device_of"]
    assert bank["right"] >= 3
    assert bank["wrong"] >= 6
    assert bank["misjudged"] == {}


def test_exercises_that_measure_time_are_judged_last():
    """They exist, so that a new name is not forgotten."""
    from hardware import banks_by_exercise

    assert set(banks_by_exercise.TIMED) <= set(banks_by_exercise.names())


@pytest.fixture
def known(tmp_path):
    """A folder with a recording of three cases and a list with one difference."""
    cases = {"same": {"result": "cuda:1"}, "listed": {"result": "cpu"}, "other": {"result": "cpu"}}
    recording = {"source": "recorded on NVIDIA Made-Up 1", "cases": cases}
    listed = {"source": "made up", "cases": {"mixed devices": {"a reason in words": ["listed"]}}}
    for name, content in (("mixed_devices", recording), ("differences", listed)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return tmp_path


def test_a_new_difference_and_a_mended_one_are_both_said(known):
    """The kind of device is translated; what is listed is no news; the list shrinks by what is mended."""
    from hardware import agreement

    here = {"same": {"result": "sim:1"}, "listed": {"result": "meta"}, "other": {"result": "cpu"}}
    found = agreement.compared(known, "mixed devices", here)
    assert (found.asked, list(found.differing), found.new, found.mended) == (3, ["listed"], {}, [])
    assert agreement.totals(known) == {"mixed devices": (2, 3)}

    here["other"] = {"result": "meta"}
    here["listed"] = {"result": "cpu"}
    found = agreement.compared(known, "mixed devices", here)
    assert (list(found.new), found.mended) == (["other"], ["listed"])
    assert "2 of      3 agree, 1 difference is new" in str(found)

    agreement.drop(known, "mixed devices", found.mended)
    assert agreement.known(known, "mixed devices") == {}
    assert agreement.compared(known, "mixed devices", here).mended == []


def test_a_case_that_is_no_longer_asked_is_missed(known):
    """A recorder that loses a case does not make the comparison better."""
    from hardware import agreement

    with pytest.raises(ValueError, match=r"no longer asked.*other"):
        agreement.compared(known, "mixed devices", {"same": {}, "listed": {}})


def test_the_command_says_how_many_agree_and_whether_the_list_is_right(known, capsys, monkeypatch):
    """The status is 1 for a list that is not right, and a recording that is not there is no difference."""
    from hardware import record

    monkeypatch.setenv("DEVLAB_DEVICE", "sim")  # as the command does, which leaves it set
    (known / "mixed_devices.json").unlink()
    assert record.main(["--compare", str(known)]) == 0
    assert "mixed devices        not recorded" in capsys.readouterr().out
    (known / "late_errors.json").write_text('{"source": "made up", "cases": {"x[bad]": {"0": {}}}}')
    assert record.main(["--compare", str(known)]) == 1
    assert "late errors               0 of      1 agree, 1 difference is new" in capsys.readouterr().out
