"""Reading what a tensor holds, for a comparison, at little cost."""

import torch


def on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's elements in the host's memory; they may share it with the tensor.

    A simulated device's memory is read where it lies, and shows no copy to anyone; the host waits for the
    device as a copy would.

    >>> on_cpu(torch.ones(2, requires_grad=True))
    tensor([1., 1.])
    """
    if tensor.is_cpu:
        return tensor.detach()
    return _simulated(tensor, wait=True) if tensor.device.type == "sim" else tensor.detach().cpu()


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of what a tensor holds, without waiting for its device: on a real one it stays there.

    >>> copied(torch.ones(2, requires_grad=True))
    tensor([1., 1.])
    """
    simulated = not tensor.is_cpu and tensor.device.type == "sim"
    return (_simulated(tensor, wait=False) if simulated else tensor.detach()).clone()


def _simulated(tensor: torch.Tensor, wait: bool) -> torch.Tensor:
    from devlab.sim.transfer import read  # here, so that importing devlab does not import the simulator

    return read(tensor, wait)
