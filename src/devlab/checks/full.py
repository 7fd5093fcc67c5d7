"""What to say where a device's memory is full: who holds it, and how to have it back."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch

MIB = 1 << 20
MUCH = 0.5  # of a device's memory


@dataclass(frozen=True)
class Full:
    """A device whose memory is full, and the labelled lines that say of what and what to do."""

    device: torch.device
    lines: tuple[tuple[str, str], ...]


def full(devices: Iterable[torch.device]) -> Full | None:
    """Return the first device whose memory the notebook mostly holds itself, None where there is none.

    >>> full([torch.device("cpu")])
    """
    found = ((device, _held(device)) for device in devices)
    return next((Full(device, lines) for device, lines in found if lines), None)


def _held(device: torch.device) -> tuple[tuple[str, str], ...]:
    module = None if device.type == "cpu" else torch.get_device_module(device)
    if not (hasattr(module, "mem_get_info") and hasattr(module, "memory_allocated")):
        return ()
    held, (_, whole) = module.memory_allocated(device), module.mem_get_info(device)
    if held < MUCH * whole:
        return ()
    words = f"{held // MIB:,} of the {whole // MIB:,} MiB of {device}, by tensors of your notebook"
    return (
        ("held", words),
        ("next", "`del` the names that hold them, or restart the kernel; then run the check again"),
    )
