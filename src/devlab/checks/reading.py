"""Reading what a tensor holds, for a comparison, at the least cost to the device that holds it."""

import torch


def on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's elements in the host's memory; they may share it with the tensor.

    A simulated device's memory is read where it lies: a copy would take its time, and be seen.

    >>> on_cpu(torch.ones(2, requires_grad=True))
    tensor([1., 1.])
    """
    tensor = tensor.detach()
    if tensor.device.type != "sim":
        return tensor.cpu()
    from devlab.sim.storage import on_host  # here, so that importing devlab does not import the simulator

    return on_host(tensor)
