"""`devlab doctor`: what is here, what is wrong with it, and what to do."""

import os
from dataclasses import asdict, dataclass

from devlab.facts import Facts
from devlab.panel import LABEL, Column, Panel, Table, escape, prose

# The oldest NVIDIA driver that runs a build of PyTorch for that version of CUDA, on Linux.
OLDEST_DRIVER = {11: (450, 80), 12: (525, 60), 13: (580, 65)}

# The last branch of drivers for Maxwell, Pascal and Volta, by NVIDIA's schedule of deprecations for Unix.
# NVIDIA's open kernel modules are for Turing and later chips in every branch.
OLD_CHIPS = (
    "for a chip of the generations Maxwell, Pascal or Volta (such as GTX 1080, P40, V100) install a driver "
    "of branch 580, the last that knows them, with NVIDIA's proprietary kernel modules, not the open ones"
)

# The chips of NVIDIA's Jetson, which by PyTorch's table run no kernels but their own.
JETSON = ("5.3", "6.2", "7.2", "8.7", "10.1")

# The oldest macOS on which torch 2.13 uses Apple's GPU.
OLDEST_MACOS = (14,)

# The words of nvidia-smi when it cannot list the GPUs, their cause, and the cure.
DRIVER_TROUBLES = (
    (
        "Driver/library version mismatch",
        "the NVIDIA driver was updated, and the old one is still running",
        "restart the machine",
    ),
    (
        "couldn't communicate with the NVIDIA driver",
        "the NVIDIA driver is installed, and it is not running",
        "restart the machine; if it stays so, the driver was not built for this kernel, or Secure Boot "
        f"refuses it: install NVIDIA's driver again, and {OLD_CHIPS}",
    ),
    (
        "blocked by the operating system",
        "Windows does not let WSL reach the GPU",
        "update NVIDIA's driver in Windows, run `wsl --update` and `wsl --shutdown` there, and start WSL "
        "again",
    ),
    (
        "Insufficient Permissions",
        "your user may not open the GPU",
        "let an administrator add your user to the group that owns /dev/nvidia0 (ls -l shows it), then log "
        "in again",
    ),
    (
        "No devices were found",
        "the NVIDIA driver is running, and it finds no GPU that it can start",
        f"restart the machine; {OLD_CHIPS}; if it stays so, read what the driver said at start (sudo dmesg | "
        "grep NVRM)",
    ),
    (
        "NVML: Unknown Error",
        "this container has lost the GPU",
        "start the container again (outside a container: restart the machine)",
    ),
    ("GPU is lost", "a GPU has stopped answering", "restart the machine"),
    ("Unable to determine the device handle", "a GPU has stopped answering", "restart the machine"),
    ("did not answer within", "the NVIDIA driver hangs", "restart the machine"),
)

# The words of a failed import of PyTorch, and the cure.
REINSTALL = "install PyTorch into a fresh environment, as the README says, and devlab beside it"
IMPORT_TROUBLES = (
    ("No module named", "install what is missing, as the README says, {where}"),
    ("DLL", "install Microsoft's Visual C++ Redistributable; if it stays so, " + REINSTALL),
    ("WinError", "install Microsoft's Visual C++ Redistributable; if it stays so, " + REINSTALL),
    ("GLIBC", "this Linux is older than the PyTorch that was installed: update the system"),
    (
        "undefined symbol",
        "libraries of another CUDA are found first: unset LD_LIBRARY_PATH; if it stays so, " + REINSTALL,
    ),
    (
        "cannot open shared object",
        "a library that PyTorch came with is missing, or LD_LIBRARY_PATH leads elsewhere: " + REINSTALL,
    ),
    (
        "status -4",
        "this processor lacks instructions that this PyTorch uses: install a build made for it, or use "
        "another machine",
    ),
)


@dataclass(frozen=True)
class Problem:
    """A fault of the installation: its name, the fault in a sentence, and its cure."""

    name: str
    what: str
    cure: str


def diagnose(facts: Facts) -> list[Problem]:
    """Return what is wrong with a machine, gravest first; an empty list when all is well.

    A machine without a GPU is well: the course simulates one.
    """
    return [problem for check in CHECKS if (problem := check(facts)) is not None]


def _broken_torch(facts: Facts) -> Problem | None:
    said, found = facts.torch_error, facts.torch_file
    if not said:
        return None
    name = "PyTorch missing" if "No module named 'torch'" in said else "PyTorch cannot be imported"
    if found.endswith("torch.py") or "partially initialized module 'torch'" in said:
        cure = f"{found} has PyTorch's name and is imported in its place: rename it"
    else:
        cure = next((cure for words, cure in IMPORT_TROUBLES if words in said), REINSTALL)
    return Problem(name, f"`import torch` says: {said}", cure.format(where=_where(facts)))


def _where(facts: Facts) -> str:
    """Return where to install PyTorch: a tool's environment is its installer's, and stays as that made it."""
    if "tools" in facts.executable.split(os.sep) and "uv" in facts.executable.split(os.sep):
        return "into an environment of the course's own (uv venv), with devlab beside it, not as a uv tool"
    return f"into this same Python: {facts.executable}"


def _cpu_only_build(facts: Facts) -> Problem | None:
    if not facts.gpus or facts.cuda_build or facts.usable or facts.torch_error:
        return None
    build = "for ROCm, which is AMD's" if facts.hip_build else "without CUDA"
    return Problem(
        "cpu-only build" if not facts.hip_build else "build for another GPU",
        f"there is a GPU here ({facts.gpus[0]}), and this PyTorch ({facts.torch}) was built {build}",
        f"install the build for CUDA that the selector on pytorch.org names for your system, {_where(facts)}",
    )


def _driver_trouble(facts: Facts) -> Problem | None:
    said = facts.driver_error
    # A disk image made for machines with a GPU has nvidia-smi also where there is none.
    no_gpu = facts.bus_read and not facts.gpus
    if not said or no_gpu or (facts.usable and not facts.gpus) or facts.torch_error:
        return None
    for words, what, cure in DRIVER_TROUBLES:
        if words in said:
            return Problem("driver not running", f"{what} (nvidia-smi says: {said})", cure)
    if facts.driver or facts.usable:
        return None
    return Problem(
        "driver not running",
        f"nvidia-smi cannot list the GPUs; it says: {said}",
        "restart the machine; if it stays so, install NVIDIA's driver again",
    )


def _no_driver(facts: Facts) -> Problem | None:
    if not facts.gpus or facts.driver or facts.driver_error or not facts.cuda_build or facts.usable:
        return None
    return Problem(
        "no driver",
        f"there is a GPU here ({facts.gpus[0]}), and no NVIDIA driver (there is no nvidia-smi)",
        "install NVIDIA's driver, restart the machine, and see that nvidia-smi lists the GPU; in a container "
        "start it with access to the GPU (docker run --gpus all)",
    )


def _old_driver(facts: Facts) -> Problem | None:
    needed = OLDEST_DRIVER.get(int(facts.cuda_build.partition(".")[0])) if facts.cuda_build else None
    # An old driver with NVIDIA's package for forward compatibility works.
    if not needed or not facts.driver or facts.usable or version(facts.driver) >= needed:
        return None
    runs = [major for major, oldest in OLDEST_DRIVER.items() if version(facts.driver) >= oldest]
    other = f", or install a PyTorch built for CUDA {max(runs)}, which this driver runs" if runs else ""
    return Problem(
        "old driver",
        f"the NVIDIA driver is {facts.driver}, and this PyTorch, built for CUDA {facts.cuda_build}, needs "
        f"{'.'.join(map(str, needed))} or later",
        f"update the driver{other}",
    )


def version(text: str) -> tuple[int, ...]:
    """Return a version's leading numbers, to compare by.

    >>> version("535.104.05") > version("525.60")
    True
    """
    numbers = []
    for part in text.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def _hidden_devices(facts: Facts) -> Problem | None:
    visible = facts.visible_devices
    if visible is None or facts.usable or not (facts.gpus and facts.cuda_build and facts.driver):
        return None
    shown = f'"{visible}"' if visible else "empty"
    _, why = _first_bad_entry(visible, len(facts.gpus))
    return Problem(
        "hidden devices",
        f"the environment variable CUDA_VISIBLE_DEVICES is {shown}, which hides the GPU from PyTorch"
        + (f": {why}" if why else ""),
        "remove the variable (unset CUDA_VISIBLE_DEVICES), or set it to the numbers that nvidia-smi lists, "
        "such as 0; then start Python again",
    )


def _lost_devices(facts: Facts) -> Problem | None:
    if not (facts.visible_devices and facts.usable and facts.cuda_build):
        return None
    entries = [entry.strip() for entry in facts.visible_devices.split(",")]
    place, why = _first_bad_entry(facts.visible_devices, len(facts.gpus))
    behind = [entry for entry in entries[place + 1 :] if entry.isdigit() and int(entry) < len(facts.gpus)]
    if not why or not behind:
        return None
    return Problem(
        "lost devices",
        f'the environment variable CUDA_VISIBLE_DEVICES is "{facts.visible_devices}": {why}. CUDA stops '
        f"reading there, so the GPUs behind it are lost ({', '.join(behind)})",
        "write only numbers that nvidia-smi lists into the variable, each once; then start Python again",
    )


def _first_bad_entry(visible: str, count: int) -> tuple[int, str]:
    """Return the place of the first entry that names no GPU, and what is wrong with it; "" if all are good.

    >>> _first_bad_entry("1,7,0", 2)
    (1, 'the entry 7 names no GPU, since nvidia-smi lists 2, numbered from 0')
    """
    entries = [entry.strip() for entry in visible.split(",")]
    for place, entry in enumerate(entries):
        if entry.startswith(("GPU-", "MIG-")):
            continue
        if entry in entries[:place]:
            return place, f"the entry {entry} stands there twice"
        if not entry.isdigit() or int(entry) >= count:
            named = f"the entry {entry}" if entry else "an empty entry"
            return place, f"{named} names no GPU, since nvidia-smi lists {count}, numbered from 0"
    return len(entries), ""


def _unsupported_chip(facts: Facts) -> Problem | None:
    for device in facts.devices:
        if device.capability and facts.architectures and not _runs(device.capability, facts.architectures):
            return Problem(
                "unsupported chip",
                f"{device.name} has compute capability {device.capability}, and this PyTorch holds kernels "
                f"for {', '.join(facts.architectures)}",
                _build_for(device.capability),
            )
    return None


def _build_for(capability: str) -> str:
    """Return which build holds kernels for a chip, by the table of releases in the torch that is here."""
    from torch import cuda

    builds = []
    for release, codes in cuda.PYTORCH_RELEASES_CODE_CC.items():
        every = codes if isinstance(codes, set) else set().union(*codes.values())  # since torch 2.13 by host
        builds += [release] if _runs(capability, [f"sm_{code}" for code in every]) else []
    if builds:
        return (
            f"install the build of PyTorch for CUDA {' or '.join(builds)}, which holds kernels for this chip"
        )
    if capability in JETSON:
        return "install the PyTorch that NVIDIA builds for Jetson; PyTorch's own builds leave this chip out"
    return "no present build of PyTorch has kernels for this chip; the course simulates a GPU instead"


def _runs(capability: str, architectures: list[str]) -> bool:
    """Tell whether kernels for some architectures run on a chip.

    Binary kernels run where PyTorch's own table DEVICE_REQUIREMENT says, portable ones on all later chips.

    >>> _runs("8.6", ["sm_80"]), _runs("8.7", ["sm_80"]), _runs("12.0", ["compute_90"])
    (True, False, True)
    """
    from torch import cuda

    chip = int(capability.replace(".", ""))
    for name in architectures:
        kind, _, number = name.partition("_")
        code = int("".join(filter(str.isdigit, number)) or 0)
        if (kind == "compute" and 0 < code <= chip) or chip in cuda.DEVICE_REQUIREMENT.get(code, ()):
            return True
    return False


def _dead_gpu(facts: Facts) -> Problem | None:
    explained = (_driver_trouble, _no_driver, _old_driver, _hidden_devices)
    if not (facts.gpus and facts.cuda_build) or facts.usable or any(check(facts) for check in explained):
        return None
    return Problem(
        "GPU not usable",
        f"the driver ({facts.driver}) lists {facts.gpus[0]}, and PyTorch cannot use it"
        + (f": {facts.cuda_error}" if facts.cuda_error else ""),
        "restart the machine; if it stays so, reinstall the driver, and see if another program holds the "
        "GPU (nvidia-smi lists them)",
    )


def _dead_amd_gpu(facts: Facts) -> Problem | None:
    if not facts.hip_build or facts.usable or "an AMD GPU" not in facts.other_gpus:
        return None
    return Problem(
        "AMD GPU not usable",
        f"there is an AMD GPU here, and this PyTorch, built for ROCm {facts.hip_build}, cannot use it"
        + (f": {facts.cuda_error}" if facts.cuda_error else ""),
        "see that rocminfo lists the GPU, that your user is in the groups render and video, that neither "
        "HIP_VISIBLE_DEVICES nor ROCR_VISIBLE_DEVICES hides it, and that AMD names the chip among those "
        "that ROCm supports",
    )


def _mps_not_built(facts: Facts) -> Problem | None:
    if not facts.apple_silicon or facts.usable or facts.torch_error:
        return None
    if facts.rosetta:
        return Problem(
            "Python under Rosetta",
            "this Mac has an Apple GPU, and this Python, made for Intel's processors, runs under Rosetta",
            'install a Python for arm64 and PyTorch into it; `python -c "import platform; '
            'print(platform.machine())"` then prints arm64',
        )
    if not facts.mps_built:
        return Problem(
            "no MPS in this build",
            "this Mac has an Apple GPU, and this PyTorch was built without MPS",
            f"install PyTorch again from PyPI or pytorch.org, {_where(facts)}",
        )
    if version(facts.macos) < OLDEST_MACOS:
        cure = f"update macOS to {OLDEST_MACOS[0]} or later"
    else:
        cure = "run it on the Mac itself: a virtual machine, as many build servers are, offers no Apple GPU"
    return Problem(
        "MPS not available",
        f"this PyTorch can use Apple's GPU, and this macOS ({facts.macos}) does not offer it",
        cure,
    )


def _other_environment(facts: Facts) -> Problem | None:
    if not facts.active or os.path.realpath(facts.active) == os.path.realpath(facts.prefix):
        return None
    return Problem(
        "other environment",
        f"the active environment is {facts.active}, and this Python belongs to {facts.prefix}",
        "start devlab and Jupyter from the active environment itself (python -m jupyter lab), or leave it "
        "(deactivate)",
    )


def _wrong_kernel(facts: Facts) -> Problem | None:
    if not facts.kernels or any(same_folder(path, facts.executable) for path in facts.kernels.values()):
        return None
    name, path = next(iter(facts.kernels.items()))
    return Problem(
        "kernel of another environment",
        f'the notebook kernel "{name}" runs {path}, and devlab is installed in {facts.executable}',
        f"{facts.executable} -m ipykernel install --sys-prefix, then choose that kernel in JupyterLab",
    )


def _bad_choice(facts: Facts) -> Problem | None:
    if not facts.choice_error:
        return None
    return Problem(
        "unknown device",
        facts.choice_error.partition(". ")[0],
        "remove the environment variable DEVLAB_DEVICE, or name a device that is here",
    )


def _no_simulator(facts: Facts) -> Problem | None:
    if not facts.simulator_error or facts.usable:
        return None
    return Problem(
        "no simulated accelerator",
        f"no GPU is usable here, and the simulated one does not start: {facts.simulator_error}",
        "install the torch that constraints.txt names; until then every answer is judged on the CPU alone",
    )


def same_folder(one: str, other: str) -> bool:
    """Tell whether two programs lie in one folder: python and python3 of one environment do.

    >>> same_folder("env/bin/python", "env/bin/python3"), same_folder("env/bin/python", "other/bin/python")
    (True, False)
    """
    return os.path.realpath(os.path.dirname(one)) == os.path.realpath(os.path.dirname(other))


CHECKS = (
    _broken_torch,
    _cpu_only_build,
    _driver_trouble,
    _no_driver,
    _old_driver,
    _hidden_devices,
    _lost_devices,
    _dead_gpu,
    _dead_amd_gpu,
    _unsupported_chip,
    _mps_not_built,
    _no_simulator,
    _other_environment,
    _wrong_kernel,
    _bad_choice,
)


def remarks(facts: Facts) -> list[str]:
    """Return what is worth knowing of a machine without a usable GPU and is no fault, a sentence each."""
    if facts.usable:
        return []
    found = []
    if "an AMD GPU" in facts.other_gpus and not facts.hip_build:
        found.append(
            "There is an AMD GPU here. On Linux, PyTorch's build for ROCm uses it if AMD names the chip "
            "among those that ROCm supports; PyTorch then calls it cuda."
        )
    if "an Intel GPU" in facts.other_gpus:
        found.append("There is an Intel GPU here. PyTorch's build for XPU uses Intel's Arc GPUs.")
    if facts.wsl and not facts.gpus and facts.wsl_gpu:
        found.append(
            "Windows passes a GPU on to this WSL (/dev/dxg), and nvidia-smi is not in /usr/lib/wsl/lib. If "
            "the GPU is NVIDIA's, install NVIDIA's driver in Windows, not in WSL."
        )
    if facts.wsl and not facts.gpus and not facts.wsl_gpu:
        found.append(
            "This WSL is offered no GPU. If Windows has one, WSL 2 can use it: run `wsl --update` in "
            "Windows, and see with `wsl --list --verbose` that this system runs under version 2."
        )
    if facts.driver_error and not facts.gpus and facts.bus_read:
        found.append(
            f"nvidia-smi is installed and says: {facts.driver_error}. No NVIDIA GPU is among the machine's "
            "PCI devices."
        )
    return found


class Diagnosis(Panel):
    """What `devlab doctor` found: the facts, the problems, and whether all is well."""

    def __init__(self, facts: Facts):
        self.facts = facts
        self.problems = diagnose(facts)
        self.remarks = remarks(facts)

    @property
    def healthy(self) -> bool:
        """Tell whether there is nothing to mend."""
        return not self.problems

    def as_dict(self) -> dict:
        """Return everything as plain values, as `--json` prints it."""
        return {
            "healthy": self.healthy,
            "facts": asdict(self.facts),
            "problems": [asdict(problem) for problem in self.problems],
            "remarks": self.remarks,
        }

    def _table(self) -> Table:
        return Table([Column(look=LABEL, labels=True), Column()], self.facts.rows())

    def text(self) -> str:
        """Return the facts, then each problem with its cure."""
        lines = [self._table().text()]
        for problem in self.problems:
            lines += ["", f"✗ {problem.name}: {problem.what}", f"  cure: {problem.cure}"]
        lines += [] if self.problems else ["", f"✓ {self._well()}"]
        return "\n".join([*lines, *(f"  {remark}" for remark in self.remarks)])

    def html(self) -> str:
        """Return the same as HTML."""
        found = "".join(
            f"<div>✗ <strong>{escape(problem.name)}</strong>: {prose(problem.what)}<br>"
            f"cure: {prose(problem.cure)}</div>"
            for problem in self.problems
        )
        found = found or f"<div>✓ {escape(self._well())}</div>"
        return self._table().html() + found + "".join(f"<div>{prose(r)}</div>" for r in self.remarks)

    def _well(self) -> str:
        if self.facts.usable:
            return "all is well"
        if self.facts.gpus or self.facts.other_gpus or self.facts.wsl_gpu:
            return "nothing is broken: this PyTorch uses no GPU here, and the course simulates one"
        seen = "there is no GPU" if self.facts.bus_read else "no NVIDIA GPU was found"
        return f"all is well: {seen} here, and the course simulates one"

    def __repr__(self) -> str:
        return f"<Diagnosis: {'healthy' if self.healthy else ', '.join(p.name for p in self.problems)}>"
