"""`devlab.memory_limit`: run out of a device's memory without filling the device."""

import contextlib
from collections.abc import Iterator

import torch

from devlab import sim


@contextlib.contextmanager
def memory_limit(device: torch.device, size: int) -> Iterator[None]:
    """Run a block in which PyTorch takes no more than `size` bytes of a device's memory, for this process.

    What PyTorch has taken already counts. A simulated device gets a memory of that size. For a real one
    PyTorch's own `set_per_process_memory_fraction` is used, so that nothing of other programs is touched.

    >>> import torch, devlab
    >>> devlab.sim.enable()
    >>> with devlab.memory_limit(torch.device("sim:1"), 64 << 20):
    ...     torch.sim.mem_get_info("sim:1")[1] >> 20
    64
    """
    module = torch.get_device_module(device)
    whole = module.mem_get_info(device)[1]
    if device.type == "sim":
        sim.memory.set_capacity(size, device)
        try:
            yield
        finally:
            sim.memory.set_capacity(whole, device)
        return
    before = module.get_per_process_memory_fraction(device)
    module.set_per_process_memory_fraction(min(1.0, size / whole), device)
    try:
        yield
    finally:
        module.set_per_process_memory_fraction(before, device)
