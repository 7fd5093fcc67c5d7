"""Reading what a tensor holds, for a comparison, at little cost."""

import torch


def on_cpu(tensor: torch.Tensor, wait: bool = True) -> torch.Tensor:
    """Return a tensor's elements in the host's memory; they may share it with the tensor.

    A simulated device's memory is read where it lies, and shows no copy to anyone. The host waits for the
    device as a copy would, unless told not to.

    >>> on_cpu(torch.ones(2, requires_grad=True))
    tensor([1., 1.])
    """
    if tensor.is_cpu:
        return tensor.detach()
    if tensor.device.type != "sim":
        return tensor.detach().cpu()
    from devlab.sim.transfer import read  # here, so that importing devlab does not import the simulator

    return read(tensor, wait)
