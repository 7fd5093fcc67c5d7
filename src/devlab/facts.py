"""What a machine has, as far as PyTorch and notebooks are concerned."""

import json
import os
import platform
import subprocess
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import torch

NVIDIA = "0x10de"
DISPLAY = "0x03"
PATIENCE = 10


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
    cuda_build: str = ""
    hip_build: str = ""
    mps_built: bool = False
    apple_silicon: bool = False
    macos: str = ""
    gpus: list[str] = field(default_factory=list)
    driver: str = ""
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
            ("torch", f"{self.torch}, built {build}"),
            ("driver", self.driver or "none found"),
            ("GPUs", ", ".join(self.gpus) or "none found"),
            *((device.kind, _in_words(device)) for device in self.devices),
        ]
        if not self.devices:
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
    """Look around and return what is here.

    >>> gather().python.startswith("3.")
    True
    """
    from devlab import __version__

    facts = Facts(
        devlab=__version__,
        python=platform.python_version(),
        system=platform.platform(),
        executable=sys.executable,
        prefix=sys.prefix,
        active=_active_environment(),
        torch=torch.__version__,
        cuda_build=torch.version.cuda or "",
        hip_build=torch.version.hip or "",
        mps_built=torch.backends.mps.is_built(),
        apple_silicon=sys.platform == "darwin" and "arm" in platform.processor(),
        macos=platform.mac_ver()[0],
        visible_devices=os.environ.get("CUDA_VISIBLE_DEVICES"),
        choice=os.environ.get("DEVLAB_DEVICE", ""),
        kernels=_kernels(),
    )
    facts.driver, facts.gpus = _nvidia()
    facts.devices, facts.cuda_error = _devices()
    facts.architectures = torch.cuda.get_arch_list() if facts.cuda_build else []
    facts.simulator_error = "" if facts.devices else _simulator_error()
    facts.choice_error = _choice_error()
    return facts


def _active_environment() -> str:
    """Return the folder of the shell's active environment, "" for none; conda's base counts as none."""
    conda = os.environ.get("CONDA_PREFIX", "") if os.environ.get("CONDA_DEFAULT_ENV") != "base" else ""
    return os.environ.get("VIRTUAL_ENV") or conda


def _nvidia() -> tuple[str, list[str]]:
    """Return NVIDIA's driver and GPUs, as nvidia-smi tells them, or as the bus does without a driver."""
    said = _said(["nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader"])
    listed = [line.split(", ", 1) for line in said.splitlines() if ", " in line]
    if listed:
        return listed[0][0], [name for _, name in listed]
    return "", ["an NVIDIA GPU"] * _on_the_bus()


def _on_the_bus() -> int:
    found = 0
    for device in Path("/sys/bus/pci/devices").glob("*"):
        try:
            vendor, kind = ((device / name).read_text().strip() for name in ("vendor", "class"))
        except OSError:
            continue
        found += vendor == NVIDIA and kind.startswith(DISPLAY)
    return found


def _said(command: list[str]) -> str:
    """Return what a program prints, "" where it is missing, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _devices() -> tuple[list[Device], str]:
    """Return the accelerators that PyTorch can use, and what it said if it cannot."""
    from devlab.devices import real_accelerators

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = real_accelerators()
    error = str(said[-1].message).splitlines()[0] if said and not found else ""
    return [_describe(device) for device in found], error


def _describe(device: torch.device) -> Device:
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
    said = _said([sys.executable, "-m", "jupyter", "kernelspec", "list", "--json"])
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
