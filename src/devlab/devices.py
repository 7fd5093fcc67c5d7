"""What devices are here, which one the course uses, and where an answer is judged.

PyTorch is imported where it is used: the command line needs this module's names, and seldom PyTorch.
"""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devlab.panel import Column, Panel, Table

if TYPE_CHECKING:
    import torch

REAL_KINDS = ("cuda", "xpu", "mps")


class UnknownDevice(ValueError):
    """The device asked for in DEVLAB_DEVICE is not here."""


def real_accelerators() -> "list[torch.device]":
    """Return every physical accelerator PyTorch can use here, the preferred kind first.

    >>> all(device.type != "cpu" for device in real_accelerators())
    True
    """
    import torch

    for kind in REAL_KINDS:
        module = getattr(torch, kind, None)
        if module is not None and module.is_available():
            return [torch.device(kind, index) for index in range(module.device_count())]
    return []


def simulated_accelerators() -> "list[torch.device]":
    """Enable the simulated accelerator and return its devices.

    Raises RuntimeError, which names the reason, where this torch cannot carry it.

    >>> simulated_accelerators()
    [device(type='sim', index=0), device(type='sim', index=1)]
    """
    import torch

    from devlab import sim

    sim.enable()
    return [torch.device("sim", index) for index in range(sim.device_count())]


def accelerators() -> "list[torch.device]":
    """Return the accelerators the course uses: real ones where there are any, else the simulated ones.

    The environment variable DEVLAB_DEVICE overrides the choice: `sim` (simulate although a GPU is
    present), `cpu` (no accelerator at all), or the name of a device that is here, such as `cuda:1`.
    Raises UnknownDevice when that name is no device, or one that is not here, and RuntimeError when the
    simulated accelerator is wanted and this torch cannot carry it.
    """
    wanted = os.environ.get("DEVLAB_DEVICE", "").strip().lower()
    real = real_accelerators()
    if wanted == "cpu":
        return []
    if wanted.partition(":")[0] == "sim" or (not wanted and not real):
        found = simulated_accelerators()
    else:
        found = real
    if not wanted:
        return found
    chosen = [device for device in found if wanted in (device.type, str(device))]
    if not chosen:
        here = ", ".join(["cpu", "sim", *map(str, real)])
        raise UnknownDevice(
            f"DEVLAB_DEVICE is set to {wanted!r}, which is not here. This machine has: {here}. "
            "Change the variable, or remove it and devlab chooses."
        )
    return chosen


# The functions of a module such as torch.cuda that tell about a device's memory; torch.mps has fewer.
ACCOUNT = (
    "memory_allocated",
    "max_memory_allocated",
    "reset_peak_memory_stats",
    "memory_reserved",
    "memory_stats",
    "memory_snapshot",
    "reset_accumulated_memory_stats",
    "mem_get_info",
    "empty_cache",
)


def with_account() -> "list[torch.device]":
    """Return the accelerators of whose memory PyTorch keeps an account, or else the simulated ones.

    Raises what `accelerators` raises.

    >>> with_account()[0].type != "mps"
    True
    """
    import torch

    def keeps(device: torch.device) -> bool:
        limit = () if device.type == "sim" else ("set_per_process_memory_fraction",)
        return all(hasattr(torch.get_device_module(device), name) for name in ACCOUNT + limit)

    return [device for device in accelerators() if keeps(device)] or _simulate_from_now_on()


def two() -> "list[torch.device]":
    """Return two accelerators: the first two real ones, or the simulated ones where there are fewer.

    Raises what `accelerators` raises.

    >>> len(two())
    2
    """
    found = accelerators()
    return (found if len(found) > 1 else _simulate_from_now_on())[:2]


def _simulate_from_now_on() -> "list[torch.device]":
    """Return the simulated devices, which this process then uses for everything."""
    os.environ["DEVLAB_DEVICE"] = "sim"
    return simulated_accelerators()


def bench() -> "list[torch.device]":
    """Return the devices an answer is judged on: the CPU, then each accelerator the course uses.

    Where this torch cannot carry the simulated accelerator the CPU is alone; `devlab.start` says why.

    >>> bench()[0]
    device(type='cpu')
    """
    import torch

    try:
        return [torch.device("cpu"), *accelerators()]
    except RuntimeError:
        return [torch.device("cpu")]


def introduce(device: "torch.device") -> str:
    """Return one phrase that names the device and says whether it is real.

    >>> import torch
    >>> introduce(torch.device("cpu"))
    'cpu only, no accelerator'
    """
    if device.type == "cpu":
        return "cpu only, no accelerator"
    if device.type == "sim":
        return f"{device}, a simulated accelerator (no GPU in use)"
    return f"{device}, {name_of(device)}" + (" by ROCm" if _by_rocm(device) else "")


def _by_rocm(device: "torch.device") -> bool:
    """Tell whether a device is AMD's: a PyTorch that is built for ROCm calls AMD's GPUs `cuda`."""
    import torch

    return device.type == "cuda" and bool(torch.version.hip)


def has_float64(*devices: "torch.device") -> bool:
    """Tell whether all the devices can hold 64-bit floats: each is asked, and none is judged by its name.

    >>> import torch
    >>> has_float64(torch.device("cpu"))
    True
    """
    import torch

    try:
        for device in devices:
            torch.empty(0, dtype=torch.float64, device=device)
    except (TypeError, RuntimeError):  # Apple's GPUs and some of Intel's have none
        return False
    return True


@dataclass(frozen=True)
class Here:
    """One device that is here: its name, where its memory is, and what it can and cannot do."""

    device: "torch.device"
    name: str
    memory: str
    float64: bool
    real: bool


def name_of(device: "torch.device") -> str:
    """Return what a device that is here is called.

    >>> import torch
    >>> name_of(torch.device("cpu"))
    'CPU'
    """
    import torch

    if device.type in ("cpu", "mps"):
        return "CPU" if device.type == "cpu" else "Apple GPU"
    return torch.get_device_module(device).get_device_name(device.index)


def describe_device(device: "torch.device") -> Here:
    """Return the facts about one device that is here.

    >>> import torch
    >>> describe_device(torch.device("cpu")).memory
    'system memory'
    """
    return Here(device, name_of(device), _memory_of(device), has_float64(device), real=device.type != "sim")


def _memory_of(device: "torch.device") -> str:
    """Return in words where a device's memory is; an integrated GPU uses the CPU's."""
    import torch

    known = {"cpu": "system memory", "mps": "shared with the CPU", "sim": "its own memory, modelled"}
    if device.type == "sim":
        from devlab import sim

        return f"{known['mps']}, modelled" if sim.following() == "mps" else known["sim"]
    if device.type in known:
        return known[device.type]
    properties = torch.get_device_module(device).get_device_properties(device)
    return known["mps"] if getattr(properties, "is_integrated", False) else "its own memory"


class Devices(Panel):
    """The table that `devlab.devices()` shows; `here` holds an entry for each device."""

    def __init__(self, here: list[Here]):
        self.here = here

    def _table(self) -> Table:
        return Table(
            [Column(name) for name in ("device", "kind", "name", "memory", "float64")],
            [
                (
                    str(one.device),
                    "real" if one.real else "simulated",
                    one.name,
                    one.memory,
                    "yes" if one.float64 else "no",
                )
                for one in self.here
            ],
        )

    def text(self) -> str:
        """Return the table as aligned text."""
        return self._table().text()

    def html(self) -> str:
        """Return the table as HTML."""
        return self._table().html()

    def __repr__(self) -> str:
        return f"<Devices: {', '.join(str(one.device) for one in self.here)}>"


def devices() -> Devices:
    """Show every device that is here, real or simulated, and what each can do."""
    panel = Devices([describe_device(device) for device in bench()])
    panel.show()
    return panel
