"""Reading what a tensor holds, for a comparison, at little cost."""

import sys

import torch

# By device: to ask PyTorch for its type takes longer than all else here.
_types: dict[torch.device, str] = {}


def on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's elements in the host's memory; they may share it with the tensor.

    A simulated device's memory is read where it lies, and shows no copy to anyone; the host waits for the
    device as a copy would.

    >>> on_cpu(torch.ones(2, requires_grad=True))
    tensor([1., 1.])
    """
    if tensor.is_cpu:
        return tensor.detach()
    return _read(tensor, wait=True) if simulated(tensor) else tensor.detach().cpu()


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of what a tensor holds, without waiting for its device: on a real one it stays there.

    >>> copied(torch.ones(2, requires_grad=True))
    tensor([1., 1.])
    """
    return (_read(tensor, wait=False) if simulated(tensor) else tensor.detach()).clone()


def simulated(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor is on a simulated device.

    >>> simulated(torch.ones(2))
    False
    """
    if tensor.is_cpu:
        return False
    device = tensor.device
    kind = _types.get(device)
    if kind is None:
        kind = _types[device] = device.type
    return kind == "sim"


def _read(tensor: torch.Tensor, wait: bool) -> torch.Tensor:
    # Looked up, not imported: `import` takes as long as all else here. Where the tensor is, the simulator is.
    return sys.modules["devlab.sim.crossing"].read(tensor, wait)
