"""What to say where a device's memory is full: who holds it, and how to have it back."""

import torch

MIB = 1 << 20
MUCH = 0.5  # of a device's memory


def full(device: torch.device) -> tuple[tuple[str, str], ...]:
    """Return labelled lines about a device whose memory the notebook mostly holds itself; () for others.

    >>> full(torch.device("cpu"))
    ()
    """
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
