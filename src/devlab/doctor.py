"""`devlab doctor`: what is here, what is wrong with it, and what to do."""

import os
from dataclasses import asdict, dataclass

from devlab.facts import Facts
from devlab.panel import Panel, escape

# The oldest NVIDIA driver that runs a build of PyTorch for that version of CUDA, on Linux.
OLDEST_DRIVER = {11: (450, 80), 12: (525, 60), 13: (580, 65)}


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: what it is, in one sentence, and its cure."""

    name: str
    what: str
    cure: str


def diagnose(facts: Facts) -> list[Problem]:
    """Return what is wrong with a machine, gravest first; an empty list when all is well.

    A machine without a GPU is well: the course simulates one.
    """
    return [problem for check in CHECKS if (problem := check(facts)) is not None]


def _cpu_only_build(facts: Facts) -> Problem | None:
    if not facts.gpus or facts.cuda_build or facts.hip_build or facts.usable:
        return None
    return Problem(
        "cpu-only build",
        f"there is a GPU here ({facts.gpus[0]}), and this PyTorch ({facts.torch}) was built without CUDA",
        "install the build for CUDA that the selector on pytorch.org names for your system, into this same "
        f"Python: {facts.executable}",
    )


def _no_driver(facts: Facts) -> Problem | None:
    if not facts.gpus or facts.driver or not facts.cuda_build or facts.usable:
        return None
    return Problem(
        "no driver",
        f"there is a GPU here ({facts.gpus[0]}), and no NVIDIA driver answers (nvidia-smi gave nothing)",
        "install NVIDIA's driver, restart the machine, and see that nvidia-smi lists the GPU; in a container "
        "start it with access to the GPU (docker run --gpus all)",
    )


def _old_driver(facts: Facts) -> Problem | None:
    needed = OLDEST_DRIVER.get(int(facts.cuda_build.partition(".")[0])) if facts.cuda_build else None
    if not needed or not facts.driver or version(facts.driver) >= needed:
        return None
    return Problem(
        "old driver",
        f"the NVIDIA driver is {facts.driver}, and this PyTorch, built for CUDA {facts.cuda_build}, needs "
        f"{'.'.join(map(str, needed))} or later",
        "update the driver, or install a PyTorch built for an older CUDA",
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


def _hidden(facts: Facts) -> Problem | None:
    visible = facts.visible_devices
    if visible is None or facts.usable or not (facts.gpus and facts.cuda_build):
        return None
    shown = f'"{visible}"' if visible else "empty"
    return Problem(
        "hidden devices",
        f"the environment variable CUDA_VISIBLE_DEVICES is {shown}, which hides the GPU from PyTorch",
        "remove the variable (unset CUDA_VISIBLE_DEVICES), or set it to the numbers that nvidia-smi lists, "
        "such as 0; then start Python again",
    )


def _unsupported_chip(facts: Facts) -> Problem | None:
    for device in facts.devices:
        if device.capability and facts.architectures and not _runs(device.capability, facts.architectures):
            return Problem(
                "unsupported chip",
                f"{device.name} has compute capability {device.capability}, and this PyTorch holds kernels "
                f"for {', '.join(facts.architectures)}",
                "install a build of PyTorch that holds kernels for it: a newer one for a new chip, an older "
                "one for an old chip",
            )
    return None


def _runs(capability: str, architectures: list[str]) -> bool:
    """Tell whether kernels for some architectures run on a chip.

    Binary ones run on their own major version from their minor one up, portable ones on all later chips.

    >>> _runs("8.6", ["sm_80"]), _runs("7.5", ["sm_80"]), _runs("12.0", ["compute_90"])
    (True, False, True)
    """
    major, minor = map(int, capability.split("."))
    for name in architectures:
        kind, _, number = name.partition("_")
        digits = "".join(c for c in number if c.isdigit())
        if not digits:
            continue
        own_major, own_minor = int(digits[:-1]), int(digits[-1])
        binary = kind == "sm" and own_major == major and own_minor <= minor
        portable = kind == "compute" and (own_major, own_minor) <= (major, minor)
        if binary or portable:
            return True
    return False


def _dead_gpu(facts: Facts) -> Problem | None:
    explained = (_no_driver, _old_driver, _hidden)
    if not (facts.gpus and facts.cuda_build) or facts.usable or any(check(facts) for check in explained):
        return None
    return Problem(
        "GPU not usable",
        f"the driver ({facts.driver}) lists {facts.gpus[0]}, and PyTorch cannot use it"
        + (f": {facts.cuda_error}" if facts.cuda_error else ""),
        "restart the machine; if it stays so, reinstall the driver, and see if another program holds the "
        "GPU (nvidia-smi lists them)",
    )


def _mps_not_built(facts: Facts) -> Problem | None:
    if not facts.apple_silicon or facts.usable:
        return None
    if facts.mps_built:
        return Problem(
            "MPS not available",
            f"this PyTorch can use Apple's GPU, and macOS {facts.macos} does not offer it",
            "update macOS (14 or later), and run outside a virtual machine",
        )
    return Problem(
        "no MPS in this build",
        "this Mac has an Apple GPU, and this PyTorch was built without MPS",
        "use a Python for arm64, not one that runs under Rosetta, and install PyTorch into it again",
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
        f"there is no GPU here, and the simulated one does not start: {facts.simulator_error}",
        "install the torch that constraints.txt names; until then every answer is judged on the CPU alone",
    )


def same_folder(one: str, other: str) -> bool:
    """Tell whether two programs lie in one folder: python and python3 of one environment do.

    >>> same_folder("env/bin/python", "env/bin/python3"), same_folder("env/bin/python", "other/bin/python")
    (True, False)
    """
    return os.path.realpath(os.path.dirname(one)) == os.path.realpath(os.path.dirname(other))


CHECKS = (
    _cpu_only_build,
    _no_driver,
    _old_driver,
    _hidden,
    _dead_gpu,
    _unsupported_chip,
    _mps_not_built,
    _no_simulator,
    _other_environment,
    _wrong_kernel,
    _bad_choice,
)


class Diagnosis(Panel):
    """What `devlab doctor` found: the facts, the problems, and whether all is well."""

    def __init__(self, facts: Facts):
        self.facts = facts
        self.problems = diagnose(facts)

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
        }

    def text(self) -> str:
        """Return the facts, then each problem with its cure."""
        width = max(len(name) for name, _ in self.facts.rows())
        lines = [f"{name:<{width}}  {value}" for name, value in self.facts.rows()]
        for problem in self.problems:
            lines += ["", f"✗ {problem.name}: {problem.what}", f"  cure: {problem.cure}"]
        return "\n".join([*lines, *([] if self.problems else ["", f"✓ {self._well()}"])])

    def html(self) -> str:
        """Return the same as HTML."""
        rows = "".join(
            f'<tr><th scope="row" style="text-align:left;font-weight:normal">{escape(name)}</th>'
            f'<td style="text-align:left">{escape(value)}</td></tr>'
            for name, value in self.facts.rows()
        )
        found = "".join(
            f"<div>✗ <strong>{escape(problem.name)}</strong>: {escape(problem.what)}<br>"
            f"cure: {escape(problem.cure)}</div>"
            for problem in self.problems
        )
        return f"<table><tbody>{rows}</tbody></table>" + (found or f"<div>✓ {escape(self._well())}</div>")

    def _well(self) -> str:
        if self.facts.usable:
            return "all is well"
        return "all is well: there is no GPU here, and the course simulates one"

    def __repr__(self) -> str:
        return f"<Diagnosis: {'healthy' if self.healthy else ', '.join(p.name for p in self.problems)}>"
