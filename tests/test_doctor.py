"""The doctor's judgement, on facts made up for each trouble, and the command line around it."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from devlab import cli, facts
from devlab.doctor import CHECKS, Diagnosis, diagnose, version
from devlab.facts import Device, Facts

LAPTOP = Facts(
    devlab="0.1.0",
    python="3.12.1",
    system="Linux",
    executable="env/bin/python",
    prefix="env",
    active="env",
    torch="2.13.0",
    kernels={"python3": "env/bin/python3"},
)
T4 = Device("Tesla T4", "cuda:0", 16 * 2**30, "7.5")
WORKSTATION = replace(
    LAPTOP,
    cuda_build="12.8",
    gpus=["Tesla T4"],
    driver="570.86.10",
    devices=[T4],
    architectures=["sm_75", "sm_80", "sm_90", "compute_90"],
)
UNUSABLE = replace(WORKSTATION, devices=[], architectures=[])
MAC = replace(LAPTOP, mps_built=True, apple_silicon=True, macos="15.1", devices=[Device("Apple GPU", "mps")])

# What is wrong, the facts that show it, and words that the cure must hold.
TROUBLES = {
    "cpu-only build": (replace(UNUSABLE, cuda_build=""), ["install", "CUDA", "env/bin/python"]),
    "no driver": (
        replace(UNUSABLE, driver="", gpus=["an NVIDIA GPU"]),
        ["driver", "nvidia-smi", "container"],
    ),
    "old driver": (replace(UNUSABLE, driver="470.10"), ["update the driver"]),
    "hidden devices": (replace(UNUSABLE, visible_devices=""), ["unset CUDA_VISIBLE_DEVICES"]),
    "GPU not usable": (replace(UNUSABLE, cuda_error="error 802"), ["restart"]),
    "unsupported chip": (replace(WORKSTATION, architectures=["sm_80", "sm_90"]), ["older"]),
    "MPS not available": (replace(MAC, devices=[], macos="13.0"), ["update macOS"]),
    "no MPS in this build": (replace(MAC, devices=[], mps_built=False), ["arm64"]),
    "other environment": (replace(LAPTOP, active="another"), ["deactivate"]),
    "kernel of another environment": (
        replace(LAPTOP, kernels={"python3": "another/bin/python"}),
        ["env/bin/python -m ipykernel install"],
    ),
    "unknown device": (replace(LAPTOP, choice="cuda:3", choice_error="it is not here"), ["DEVLAB_DEVICE"]),
    "no simulated accelerator": (replace(LAPTOP, simulator_error="torch 3 lacks it"), ["constraints.txt"]),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_each_trouble_is_named_with_its_cure(name):
    """One trouble, one name, and a cure that says what to do."""
    found, words = TROUBLES[name]
    problems = diagnose(found)
    assert [problem.name for problem in problems] == [name]
    assert all(word in problems[0].cure for word in words)
    assert f"✗ {name}: " in Diagnosis(found).text()
    assert name in Diagnosis(found).html()


def test_every_check_has_its_trouble_here():
    """A check that nobody tries is a check that nobody can trust."""
    firing = {check for found, _ in TROUBLES.values() for check in CHECKS if check(found)}
    assert firing == set(CHECKS)


@pytest.mark.parametrize(
    "well",
    [
        LAPTOP,
        WORKSTATION,
        MAC,
        replace(WORKSTATION, visible_devices="0"),
        replace(LAPTOP, visible_devices=""),
        replace(LAPTOP, active=""),
        replace(LAPTOP, kernels={}),
        replace(LAPTOP, kernels={"old": "another/bin/python", "python3": "env/bin/python"}),
        replace(WORKSTATION, cuda_build="13.0", driver="580.95.05"),
        replace(WORKSTATION, devices=[Device("A10", "cuda:0", 2**34, "8.6")]),
        replace(WORKSTATION, devices=[Device("newer", "cuda:0", 2**34, "12.0")]),
        replace(WORKSTATION, cuda_build="", hip_build="6.4", gpus=[], driver="", architectures=[]),
    ],
)
def test_a_machine_that_is_well_is_left_in_peace(well):
    """No GPU is no trouble; neither are kernels of other environments beside one's own."""
    assert diagnose(well) == []
    assert "✓ all is well" in Diagnosis(well).text()


def test_versions_compare_as_numbers():
    """535.9 is older than 535.104."""
    assert version("535.9") < version("535.104.05")


def test_the_facts_of_this_machine_can_be_gathered():
    """Whatever is here, gathering it never fails, and text, HTML and JSON hold it."""
    found = facts.gather()
    diagnosis = Diagnosis(found)
    assert found.torch in diagnosis.text()
    assert found.torch in diagnosis.html()
    assert json.loads(json.dumps(diagnosis.as_dict()))["facts"]["torch"] == found.torch


def test_nvidia_smi_is_read(monkeypatch):
    """Two GPUs, one driver."""
    monkeypatch.setattr(facts, "_said", lambda command: "570.86.10, Tesla T4\n570.86.10, NVIDIA H100, 80GB\n")
    assert facts._nvidia() == ("570.86.10", ["Tesla T4", "NVIDIA H100, 80GB"])


def test_without_a_driver_the_bus_is_asked(monkeypatch):
    """A GPU that no driver serves is found all the same."""
    monkeypatch.setattr(facts, "_said", lambda command: "")
    monkeypatch.setattr(facts, "_on_the_bus", lambda: 2)
    assert facts._nvidia() == ("", ["an NVIDIA GPU", "an NVIDIA GPU"])


def test_a_program_that_is_not_there_says_nothing():
    """Neither a missing program nor a failing one stops the doctor."""
    assert facts._said(["no-such-program-here"]) == ""
    assert facts._said([sys.executable, "-c", "raise SystemExit(3)"]) == ""


def test_a_relative_kernel_is_the_one_jupyter_runs_in(monkeypatch):
    """Only Python's kernels count, and a bare "python" is Jupyter's own."""
    specs = {
        "python3": {"spec": {"argv": ["python", "-m", "ipykernel_launcher"], "language": "python"}},
        "ir": {"spec": {"argv": ["R"], "language": "R"}},
    }
    monkeypatch.setattr(facts, "_said", lambda command: json.dumps({"kernelspecs": specs}))
    assert facts._kernels() == {"python3": sys.executable}


def test_condas_base_is_no_choice(monkeypatch):
    """An environment of one's own beside conda's base is usual; beside another one it is not."""
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setenv("CONDA_PREFIX", "conda")
    monkeypatch.setenv("CONDA_DEFAULT_ENV", "base")
    assert facts._active_environment() == ""
    monkeypatch.setenv("CONDA_DEFAULT_ENV", "lab")
    assert facts._active_environment() == "conda"


@pytest.mark.parametrize(("found", "status"), [(LAPTOP, 0), (replace(LAPTOP, active="another"), 1)])
def test_the_exit_status_tells(found, status, monkeypatch, capsys):
    """0 when all is well, 1 when something wants mending; as text and as JSON."""
    monkeypatch.setattr(facts, "gather", lambda: found)
    assert cli.main(["doctor"]) == status
    assert ("✓ all is well" in capsys.readouterr().out) is (status == 0)
    assert cli.main(["doctor", "--json"]) == status
    said = json.loads(capsys.readouterr().out)
    assert said["healthy"] is (status == 0)
    assert said["facts"]["python"] == "3.12.1"


def test_progress_is_shown(capsys):
    """The same overview as devlab.progress()."""
    assert cli.main(["progress"]) == 0
    assert " exercises passed" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [[], ["docter"], ["doctor", "--xml"]])
def test_bad_usage_is_status_2(wrong, capsys):
    """And the usage is shown."""
    with pytest.raises(SystemExit) as stopped:
        cli.main(wrong)
    assert stopped.value.code == 2
    assert "usage: devlab" in capsys.readouterr().err


def test_the_command_runs_in_a_process_of_its_own():
    """Nothing but the diagnosis is printed, and the status is one of the two."""
    script = "import sys; from devlab.cli import main; sys.exit(main(['doctor', '--json']))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert json.loads(done.stdout)["healthy"] is (done.returncode == 0)
