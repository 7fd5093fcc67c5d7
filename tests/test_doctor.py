"""The doctor's judgement, on facts made up for each trouble, and the command line around it."""

import json
import os
import subprocess
import sys
import venv
from dataclasses import replace
from pathlib import Path

import pytest

from devlab import cli, facts
from devlab.doctor import CHECKS, DRIVER_TROUBLES, IMPORT_TROUBLES, Diagnosis, diagnose, version
from devlab.facts import Device, Facts

SRC = Path(__file__).resolve().parents[1] / "src"
LAPTOP = Facts(
    devlab="0.1.0",
    python="3.12.1",
    system="Linux",
    bus_read=True,
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
TWO = replace(
    WORKSTATION, gpus=["A10", "A10"], devices=[Device("A10", f"cuda:{i}", 2**34, "8.6") for i in (0, 1)]
)
MAC = replace(
    LAPTOP,
    bus_read=False,
    mps_built=True,
    apple_silicon=True,
    macos="15.1",
    devices=[Device("Apple GPU", "mps")],
)
WSL = replace(LAPTOP, bus_read=False, wsl=True, wsl_gpu=True, cuda_build="12.8")
UV_TOOL = str(Path("home", "share", "uv", "tools", "devlab", "bin", "python"))
NO_TORCH = replace(LAPTOP, torch="", torch_error="ModuleNotFoundError: No module named 'torch'")


def failing(words: str) -> Facts:
    """A machine with a GPU on the bus, where nvidia-smi says these words in place of a list."""
    return replace(UNUSABLE, driver="", gpus=["an NVIDIA GPU"], driver_error=words)


def broken(words: str) -> Facts:
    """A machine on which importing PyTorch says these words."""
    return replace(NO_TORCH, torch_error=words)


# What is wrong, the facts that show it, and words that the cure must hold.
TROUBLES = [
    ("PyTorch missing", NO_TORCH, ["env/bin/python"]),
    (
        "PyTorch cannot be imported",
        broken("ModuleNotFoundError: No module named 'numpy'"),
        ["env/bin/python"],
    ),
    ("PyTorch cannot be imported", broken("ImportError: DLL load failed while importing _C"), ["Visual C++"]),
    ("PyTorch cannot be imported", broken("OSError: [WinError 126] c10.dll"), ["Visual C++"]),
    (
        "PyTorch cannot be imported",
        broken("ImportError: libc.so.6: version `GLIBC_2.28' not found"),
        ["system"],
    ),
    (
        "PyTorch cannot be imported",
        broken("ImportError: libtorch.so: undefined symbol: x"),
        ["LD_LIBRARY_PATH"],
    ),
    (
        "PyTorch cannot be imported",
        broken("ImportError: libcudart.so.12: cannot open shared object file"),
        ["fresh environment"],
    ),
    ("PyTorch cannot be imported", broken("importing it ends Python, with status -4"), ["processor"]),
    ("PyTorch cannot be imported", broken("RuntimeError: no idea"), ["fresh environment"]),
    (
        "PyTorch cannot be imported",
        replace(
            broken("AttributeError: module 'torch' has no attribute 'Tensor'"), torch_file="lab/torch.py"
        ),
        ["lab/torch.py", "rename"],
    ),
    ("cpu-only build", replace(UNUSABLE, cuda_build=""), ["install", "CUDA", "env/bin/python"]),
    ("build for another GPU", replace(UNUSABLE, cuda_build="", hip_build="6.4"), ["CUDA"]),
    (
        "no driver",
        replace(UNUSABLE, driver="", gpus=["an NVIDIA GPU"]),
        ["driver", "nvidia-smi", "container"],
    ),
    (
        "driver not running",
        failing("Failed to initialize NVML: Driver/library version mismatch"),
        ["restart"],
    ),
    (
        "driver not running",
        failing("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."),
        ["Secure Boot", "branch 580", "not the open ones"],
    ),
    ("driver not running", failing("Failed to initialize NVML: Insufficient Permissions"), ["group"]),
    ("driver not running", failing("Failed to initialize NVML: Unknown Error"), ["container"]),
    ("driver not running", failing("No devices were found"), ["dmesg", "branch 580", "P40"]),
    ("driver not running", failing("nvidia-smi did not answer within 10 seconds"), ["restart"]),
    ("driver not running", failing("something nobody has read yet"), ["restart", "driver"]),
    (
        "driver not running",
        replace(
            WSL, driver_error="Failed to initialize NVML: GPU access blocked by the operating system", gpus=[]
        ),
        ["wsl --update"],
    ),
    (
        "driver not running",
        replace(
            TWO, driver_error="Unable to determine the device handle for GPU1: 0000:02:00.0: GPU is lost."
        ),
        ["restart"],
    ),
    ("old driver", replace(UNUSABLE, driver="470.10"), ["update the driver", "CUDA 11"]),
    ("old driver", replace(UNUSABLE, cuda_build="13.0", driver="550.54"), ["CUDA 12"]),
    ("hidden devices", replace(UNUSABLE, visible_devices=""), ["unset CUDA_VISIBLE_DEVICES"]),
    ("hidden devices", replace(UNUSABLE, visible_devices="7,0"), ["unset CUDA_VISIBLE_DEVICES"]),
    ("lost devices", replace(TWO, visible_devices="0,7,1", devices=TWO.devices[:1]), ["nvidia-smi lists"]),
    ("GPU not usable", replace(UNUSABLE, cuda_error="error 802"), ["restart"]),
    (
        "AMD GPU not usable",
        replace(LAPTOP, hip_build="6.4", other_gpus=["an AMD GPU"]),
        ["render", "HIP_VISIBLE_DEVICES", "rocminfo"],
    ),
    (
        "unsupported chip",
        replace(WORKSTATION, architectures=["sm_80", "sm_90"]),
        ["CUDA 12.6 or"],
    ),
    (
        "unsupported chip",
        replace(WORKSTATION, devices=[Device("V100", "cuda:0", 2**34, "7.0")]),
        ["CUDA 12.6"],
    ),
    (
        "unsupported chip",
        replace(
            WORKSTATION,
            devices=[Device("RTX 5090", "cuda:0", 2**35, "12.0")],
            architectures=["sm_80", "sm_90"],
        ),
        ["CUDA 12.9 or 13.0"],
    ),
    (
        "unsupported chip",
        replace(WORKSTATION, devices=[Device("K80", "cuda:0", 2**34, "3.7")]),
        ["simulates"],
    ),
    # By PyTorch's table a Jetson Orin does not run kernels for sm_80.
    (
        "unsupported chip",
        replace(WORKSTATION, devices=[Device("Orin", "cuda:0", 2**35, "8.7")]),
        ["Jetson"],
    ),
    (
        "cpu-only build",
        replace(UNUSABLE, cuda_build="", executable=UV_TOOL, kernels={}),
        ["uv venv", "not as a uv tool"],
    ),
    ("PyTorch missing", replace(NO_TORCH, executable=UV_TOOL, kernels={}), ["uv venv"]),
    ("MPS not available", replace(MAC, devices=[], macos="13.0"), ["update macOS"]),
    ("MPS not available", replace(MAC, devices=[], macos="15.1"), ["virtual machine"]),
    ("no MPS in this build", replace(MAC, devices=[], mps_built=False), ["env/bin/python"]),
    ("Python under Rosetta", replace(MAC, devices=[], mps_built=False, rosetta=True), ["arm64"]),
    ("other environment", replace(LAPTOP, active="another"), ["deactivate"]),
    (
        "kernel of another environment",
        replace(LAPTOP, kernels={"python3": "another/bin/python"}),
        ["env/bin/python -m ipykernel install"],
    ),
    ("unknown device", replace(LAPTOP, choice="cuda:3", choice_error="it is not here"), ["DEVLAB_DEVICE"]),
    ("no simulated accelerator", replace(LAPTOP, simulator_error="torch 3 lacks it"), ["constraints.txt"]),
]


@pytest.mark.parametrize(("name", "found", "words"), TROUBLES)
def test_each_trouble_is_named_with_its_cure(name, found, words):
    """One trouble, one name, and a cure that says what to do."""
    problems = diagnose(found)
    assert [problem.name for problem in problems] == [name]
    assert all(word in problems[0].cure for word in words)
    assert f"✗ {name}: " in Diagnosis(found).text()
    assert name in Diagnosis(found).html()


def test_every_check_has_its_trouble_here():
    """A check that no test tries is a check that no reader can trust; so is a row of its tables."""
    firing = {check for _, found, _ in TROUBLES for check in CHECKS if check(found)}
    assert firing == set(CHECKS)
    said = [found.driver_error + found.torch_error for _, found, _ in TROUBLES]
    assert all(any(row[0] in words for words in said) for row in (*DRIVER_TROUBLES, *IMPORT_TROUBLES))


def test_what_a_program_said_is_shown():
    """The reader gets nvidia-smi's own words and those of the import, to search for."""
    assert "Driver/library version mismatch" in Diagnosis(failing("Driver/library version mismatch")).text()
    assert "libcudart.so.12" in Diagnosis(broken("ImportError: libcudart.so.12: cannot open")).text()


@pytest.mark.parametrize(
    "well",
    [
        LAPTOP,
        WORKSTATION,
        MAC,
        WSL,
        replace(WSL, wsl_gpu=False),
        replace(WORKSTATION, visible_devices="0"),
        replace(WORKSTATION, visible_devices="GPU-5a4,MIG-7"),
        replace(TWO, visible_devices="1,0"),
        replace(TWO, visible_devices="1,7"),
        replace(LAPTOP, visible_devices=""),
        replace(LAPTOP, active=""),
        replace(LAPTOP, kernels={}),
        replace(LAPTOP, kernels={"old": "another/bin/python", "python3": "env/bin/python"}),
        replace(LAPTOP, other_gpus=["an AMD GPU", "an Intel GPU"]),
        replace(LAPTOP, cuda_build="12.8", driver_error="couldn't communicate with the NVIDIA driver"),
        replace(WORKSTATION, cuda_build="13.0", driver="580.95.05"),
        replace(
            WORKSTATION, cuda_build="13.0", driver="550.54.14"
        ),  # with the package for forward compatibility
        replace(WORKSTATION, devices=[Device("A10", "cuda:0", 2**34, "8.6")]),
        replace(
            WORKSTATION, devices=[Device("Thor", "cuda:0", 2**36, "11.0")], architectures=["sm_101"]
        ),  # the chip's number was 10.1 in earlier CUDA
        replace(WORKSTATION, devices=[Device("newer", "cuda:0", 2**34, "12.0")]),
        replace(WORKSTATION, cuda_build="", hip_build="6.4", gpus=[], driver="", architectures=[]),
    ],
)
def test_a_machine_that_is_well_is_left_in_peace(well):
    """No GPU is no trouble; neither are kernels of other environments beside the reader's own."""
    assert diagnose(well) == []
    text = Diagnosis(well).text()
    assert "✓ all is well" in text or "✓ nothing is broken" in text


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (replace(LAPTOP, other_gpus=["an AMD GPU"]), "calls it cuda"),
        (replace(LAPTOP, other_gpus=["an Intel GPU"]), "XPU"),
        (WSL, "in Windows, not in WSL"),
        (replace(WSL, wsl_gpu=False), "wsl --update"),
        (replace(LAPTOP, driver_error="couldn't communicate"), "No NVIDIA GPU is among"),
    ],
)
def test_absence_is_not_claimed_of_what_was_not_seen(found, words):
    """A GPU that devlab cannot use or cannot see is spoken of; none is said to be missing."""
    diagnosis = Diagnosis(found)
    assert any(words in remark for remark in diagnosis.remarks)
    assert all(remark in diagnosis.text() for remark in diagnosis.remarks)
    assert diagnosis.as_dict()["remarks"] == diagnosis.remarks
    assert "there is no GPU" not in diagnosis.text() or (found.bus_read and not found.other_gpus)


def test_only_a_bus_that_was_read_says_that_there_is_no_gpu():
    """On Windows and macOS devlab looks for NVIDIA's programs alone, and says no more than that."""
    assert "there is no GPU here" in Diagnosis(LAPTOP).text()
    assert "no NVIDIA GPU was found here" in Diagnosis(replace(LAPTOP, bus_read=False)).text()


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


def program(folder: Path, name: str, script: str) -> None:
    """Write an executable shell script."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


posix = pytest.mark.skipif(os.name == "nt", reason="the pretended nvidia-smi is a shell script")


@posix
@pytest.mark.parametrize(
    ("script", "driver", "gpus", "error"),
    [
        (
            "echo '570.86.10, Tesla T4'; echo '570.86.10, NVIDIA H100, 80GB'",
            "570.86.10",
            ["Tesla T4", "NVIDIA H100, 80GB"],
            "",
        ),
        (
            "echo 'Failed to initialize NVML: Driver/library version mismatch'; echo 'NVML: 570'; exit 18",
            "",
            [],
            "Driver/library version mismatch",
        ),
        ("echo 'No devices were found'; exit 6", "", [], "No devices were found"),
        ("echo 'broken' >&2; exit 1", "", [], "broken"),
        ("exit 9", "", [], "listed nothing"),
        (
            "echo '570.86.10, A10'; echo 'Unable to determine the device handle for GPU1'; exit 15",
            "570.86.10",
            ["A10"],
            "device handle",
        ),
    ],
)
def test_nvidia_smi_is_asked(script, driver, gpus, error, tmp_path, monkeypatch):
    """A real program on the PATH: what it lists is read, and what it says in place of that is kept."""
    program(tmp_path, "nvidia-smi", script)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(facts, "BUS", tmp_path / "bus")
    found = facts._nvidia()
    assert found[:2] == (driver, gpus)
    assert error in found[2]
    assert bool(error) is bool(found[2])


@posix
def test_wsls_own_nvidia_smi_is_found_off_the_path(tmp_path, monkeypatch):
    """WSL keeps it in a folder that is often missing on the PATH."""
    program(tmp_path / "wsl", "nvidia-smi", "echo '570.86.10, RTX 4070'")
    monkeypatch.setattr(facts, "WSL_PROGRAMS", str(tmp_path / "wsl"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert facts._nvidia() == ("570.86.10", ["RTX 4070"], "")


@posix
def test_a_driver_that_hangs_is_told(tmp_path, monkeypatch):
    """A program that never answers is stopped, and that is what it said."""
    program(tmp_path, "nvidia-smi", "exec sleep 60")
    monkeypatch.setattr(facts, "PATIENCE", 0.2)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert "did not answer within" in facts._nvidia()[2]


def test_the_bus_names_the_makers(tmp_path, monkeypatch):
    """GPUs that no driver serves are found all the same; sound cards and disks are none."""
    devices = [("0x10de", "0x030000"), ("0x1002", "0x038000"), ("0x8086", "0x030000"), ("0x10de", "0x040300")]
    for number, (vendor, kind) in enumerate(devices):
        folder = tmp_path / "bus" / str(number)
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(vendor + "\n")
        (folder / "class").write_text(kind + "\n")
    monkeypatch.setattr(facts, "BUS", tmp_path / "bus")
    monkeypatch.setenv("PATH", "")
    assert sorted(facts._on_the_bus()) == ["AMD", "Intel", "NVIDIA"]
    assert facts._nvidia() == ("", ["an NVIDIA GPU"], "")


def test_a_program_that_is_not_there_says_so():
    """Neither a missing program nor a failing one stops the doctor."""
    assert "could not be run" in facts._ask(["no-such-program-here"])[1]
    assert facts._ask([sys.executable, "-c", "raise SystemExit(3)"]) == ("", "")


def doctor(python: str, **environment: str) -> tuple[int, dict]:
    """Run `devlab doctor --json` as a learner does, in a process of its own."""
    script = "import sys; from devlab.cli import main; sys.exit(main(['doctor', '--json']))"
    done = subprocess.run(
        [python, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(SRC)} | environment,
    )
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def test_a_python_without_pytorch_gets_a_diagnosis(tmp_path):
    """The doctor does not die of what it is called for: here PyTorch and NumPy are missing."""
    venv.create(tmp_path / "bare", with_pip=False)
    python = tmp_path / "bare" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    status, said = doctor(str(python))
    assert status == 1
    assert "No module named" in said["problems"][0]["what"]
    assert "README" in said["problems"][0]["cure"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "torch/__init__.py",
            "raise ImportError('libcudart.so.12: cannot open shared object file')",
            "fresh",
        ),
        ("torch.py", "x = 1", "rename"),
        ("torch/__init__.py", "import os; os.abort()", "fresh"),
    ],
)
def test_a_pytorch_that_cannot_be_imported_gets_a_diagnosis(name, content, words, tmp_path):
    """A broken library, a file of the learner's that has PyTorch's name, an import that ends the process."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(content)
    status, said = doctor(sys.executable, PYTHONPATH=os.pathsep.join([str(tmp_path), str(SRC)]))
    assert status == 1
    assert said["problems"][0]["name"] == "PyTorch cannot be imported"
    assert words in said["problems"][0]["cure"]


def test_a_relative_kernel_is_the_one_jupyter_runs_in(monkeypatch):
    """Only Python's kernels count, and a bare "python" is Jupyter's own."""
    specs = {
        "python3": {"spec": {"argv": ["python", "-m", "ipykernel_launcher"], "language": "python"}},
        "ir": {"spec": {"argv": ["R"], "language": "R"}},
    }
    monkeypatch.setattr(facts, "_ask", lambda command: (json.dumps({"kernelspecs": specs}), ""))
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
