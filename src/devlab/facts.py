"""What a machine has, as far as PyTorch and notebooks are concerned.

PyTorch is imported inside functions: the doctor has to report a PyTorch that is missing or broken.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from devlab import __version__

if TYPE_CHECKING:
    import torch

MAKERS = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel"}
DISPLAY = "0x03"
BUS = Path("/sys/bus/pci/devices")
WSL_GPU = Path("/dev/dxg")
WSL_PROGRAMS = "/usr/lib/wsl/lib"  # where WSL puts nvidia-smi, which is often missing on the PATH
PATIENCE = 10

# A child tries this, so that the doctor survives an import that ends the process.
TRY_IMPORT = """
import importlib.util, sys
try:
    import numpy, torch
    torch.Tensor
except BaseException as error:
    print(getattr(importlib.util.find_spec("torch"), "origin", None) or "")
    print(f"{type(error).__name__}: {error}")
    sys.exit(1)
"""


@dataclass
class Device:
    """One accelerator that PyTorch can use."""

    name: str
    kind: str
    memory: int | None = None
    capability: str = ""


@dataclass
class Facts:
    """Everything the doctor judges by; empty strings and lists stand for what is not there."""

    devlab: str
    python: str
    system: str
    executable: str
    prefix: str
    active: str
    torch: str
    torch_error: str = ""  # the error of importing NumPy and PyTorch
    torch_file: str = ""  # the file that a failing `import torch` finds
    cuda_build: str = ""
    hip_build: str = ""
    mps_built: bool = False
    apple_silicon: bool = False
    rosetta: bool = False
    macos: str = ""
    wsl: bool = False
    wsl_gpu: bool = False
    bus_read: bool = False  # whether the machine's list of PCI devices could be read
    gpus: list[str] = field(default_factory=list)
    other_gpus: list[str] = field(default_factory=list)
    driver: str = ""
    driver_error: str = ""  # the words of nvidia-smi in place of a list
    visible_devices: str | None = None
    cuda_error: str = ""
    devices: list[Device] = field(default_factory=list)
    architectures: list[str] = field(default_factory=list)
    simulator_error: str = ""
    choice: str = ""
    choice_error: str = ""
    kernels: dict[str, str] = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        """Tell whether PyTorch can use a real accelerator here."""
        return bool(self.devices)

    def rows(self) -> list[tuple[str, str]]:
        """Return the facts in words, for people."""
        build = f"for CUDA {self.cuda_build}" if self.cuda_build else "without CUDA"
        if self.hip_build:
            build = f"for ROCm {self.hip_build}"
        elif self.mps_built:
            build = "with MPS"
        rows = [
            ("devlab", self.devlab),
            ("Python", f"{self.python}, {self.executable}"),
            ("system", self.system),
            ("torch", "cannot be imported" if self.torch_error else f"{self.torch}, built {build}"),
            ("NVIDIA driver", self.driver or self.driver_error or "none found"),
            ("GPUs", ", ".join([*self.gpus, *self.other_gpus]) or "none found"),
            *((device.kind, _in_words(device)) for device in self.devices),
        ]
        if not self.devices and not self.torch_error:
            rows.append(("simulated", self.simulator_error or "sim:0 and sim:1, on request"))
        if self.visible_devices is not None:
            rows.append(("CUDA_VISIBLE_DEVICES", f'"{self.visible_devices}"'))
        if self.choice:
            rows.append(("DEVLAB_DEVICE", self.choice))
        return rows + [("kernel", f"{name}: {path}") for name, path in self.kernels.items()]


def _in_words(device: Device) -> str:
    memory = f", {device.memory / 2**30:.1f} GiB" if device.memory else ""
    capability = f", compute capability {device.capability}" if device.capability else ""
    return f"{device.name}{memory}{capability}"


def gather() -> Facts:
    """Look around and return what is here; a child that imports PyTorch takes most of the time."""
    facts = Facts(
        devlab=__version__,
        python=platform.python_version(),
        system=platform.platform(),
        executable=sys.executable,
        prefix=sys.prefix,
        active=_active_environment(),
        torch="",
        rosetta=_sysctl("sysctl.proc_translated") == "1",
        macos=platform.mac_ver()[0],
        wsl="microsoft" in platform.release().lower(),
        wsl_gpu=WSL_GPU.exists(),
        bus_read=BUS.is_dir() and not WSL_GPU.exists(),
        visible_devices=os.environ.get("CUDA_VISIBLE_DEVICES"),
        choice=os.environ.get("DEVLAB_DEVICE", ""),
        kernels=_kernels(),
    )
    # Under Rosetta the processor calls itself i386.
    facts.apple_silicon = sys.platform == "darwin" and (facts.rosetta or platform.machine() == "arm64")
    facts.driver, facts.gpus, facts.driver_error = _nvidia()
    facts.other_gpus = [f"an {maker} GPU" for maker in _on_the_bus() if maker != "NVIDIA"]
    facts.torch_error, facts.torch_file = _import_error()
    if not facts.torch_error:
        _ask_torch(facts)
    return facts


def _ask_torch(facts: Facts) -> None:
    import torch

    facts.torch = torch.__version__
    facts.cuda_build, facts.hip_build = torch.version.cuda or "", torch.version.hip or ""
    facts.mps_built = torch.backends.mps.is_built()
    facts.devices, facts.cuda_error = _devices()
    facts.architectures = torch.cuda.get_arch_list() if facts.cuda_build else []
    facts.simulator_error = "" if facts.devices else _simulator_error()
    facts.choice_error = _choice_error()


def _import_error() -> tuple[str, str]:
    """Return what importing NumPy and PyTorch says in a child, "" if it works, and the file that it found."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", TRY_IMPORT], capture_output=True, text=True, timeout=120, check=False
        )
    except subprocess.TimeoutExpired:
        return "importing it takes longer than two minutes", ""
    if done.returncode == 0:
        return "", ""
    if done.returncode < 0 or not done.stdout.strip():
        return f"importing it ends Python, with status {done.returncode}", ""
    found, _, said = done.stdout.partition("\n")
    return " ".join(said.split()), found


def _sysctl(name: str) -> str:
    return _ask(["sysctl", "-n", name])[0].strip() if sys.platform == "darwin" else ""


def _active_environment() -> str:
    """Return the folder of the shell's active environment, "" for none; conda's base counts as none."""
    conda = os.environ.get("CONDA_PREFIX", "") if os.environ.get("CONDA_DEFAULT_ENV") != "base" else ""
    return os.environ.get("VIRTUAL_ENV") or conda


def _nvidia() -> tuple[str, list[str], str]:
    """Return NVIDIA's driver and GPUs as nvidia-smi lists them, and what nvidia-smi said in place of that.

    Where it lists nothing, the GPUs are those on the bus, without their names.
    """
    program = shutil.which("nvidia-smi") or shutil.which("nvidia-smi", path=WSL_PROGRAMS)
    if not program:
        return "", ["an NVIDIA GPU"] * _on_the_bus().count("NVIDIA"), ""
    said, trouble = _ask([program, "--query-gpu=driver_version,name", "--format=csv,noheader"])
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    listed = [line.split(", ", 1) for line in lines if line[0].isdigit() and ", " in line]
    error = " ".join([line for line in lines if ", " not in line or not line[0].isdigit()] + trouble.split())
    if listed:
        return listed[0][0], [name for _, name in listed], error
    return "", ["an NVIDIA GPU"] * _on_the_bus().count("NVIDIA"), error or "nvidia-smi listed nothing"


def _on_the_bus() -> list[str]:
    """Return the maker of each GPU on the PCI bus, which Linux alone shows, and which is empty in WSL."""
    found = []
    for device in BUS.glob("*"):
        try:
            vendor, kind = ((device / name).read_text().strip() for name in ("vendor", "class"))
        except OSError:
            continue
        if vendor in MAKERS and kind.startswith(DISPLAY):
            found.append(MAKERS[vendor])
    return found


def _ask(command: list[str]) -> tuple[str, str]:
    """Return what a program prints, and what went wrong where it is missing, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return "", f"{os.path.basename(command[0])} did not answer within {PATIENCE} seconds"
    except OSError as error:
        return "", f"{os.path.basename(command[0])} could not be run: {error.strerror}"
    return done.stdout, done.stderr.strip()


def _devices() -> tuple[list[Device], str]:
    """Return the accelerators that PyTorch can use, and what it said if it cannot."""
    from devlab.devices import real_accelerators

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = real_accelerators()
    error = str(said[-1].message).splitlines()[0] if said and not found else ""
    return [_describe(device) for device in found], error


def _describe(device: "torch.device") -> Device:
    import torch

    if device.type == "mps":
        return Device("Apple GPU", "mps")
    properties = torch.get_device_module(device).get_device_properties(device)
    capability = f"{properties.major}.{properties.minor}" if device.type == "cuda" else ""
    return Device(properties.name, str(device), properties.total_memory, capability)


def _simulator_error() -> str:
    from devlab import sim

    try:
        sim.enable()
    except RuntimeError as error:
        return str(error)
    return ""


def _choice_error() -> str:
    from devlab.devices import UnknownDevice, accelerators

    try:
        accelerators()
    except UnknownDevice as error:
        return str(error)
    except Exception:  # told elsewhere: the simulator's own trouble
        return ""
    return ""


def _kernels() -> dict[str, str]:
    """Return the Python that each notebook kernel runs, as Jupyter lists them; {} without Jupyter."""
    said, _ = _ask([sys.executable, "-m", "jupyter", "kernelspec", "list", "--json"])
    try:
        specs = json.loads(said)["kernelspecs"]
    except (ValueError, KeyError):
        return {}
    kernels = {}
    for name, spec in specs.items():
        command = spec["spec"]
        if command.get("language") == "python" and command.get("argv"):
            first = command["argv"][0]
            # A bare "python" is the Python that Jupyter itself runs in.
            kernels[name] = first if os.path.isabs(first) else sys.executable
    return kernels
