"""How tensors on a simulated device are saved, loaded, and sent to other processes."""

import io
from multiprocessing.reduction import ForkingPickler

import torch
from torch.multiprocessing.reductions import reduce_tensor

from devlab.sim import placement
from devlab.sim.storage import on_device


def install() -> None:
    """Teach `torch.save`, `torch.load` and PyTorch's processes about the simulated devices."""
    torch.serialization.register_package(9, location, at_location)
    for kind in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(kind, send)


def location(storage) -> str | None:
    """Return where a storage being saved lives, if that is a simulated device."""
    return str(storage.device) if storage.device.type == placement.NAME else None


def at_location(storage, place: str):
    """Return a loaded storage on the simulated device that `place` names, if it names one."""
    if place.partition(":")[0] != placement.NAME:
        return None
    host = torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)
    return on_device(host.clone(), placement.index_of(place)).untyped_storage()


def send(tensor):
    """Return how to make a tensor again in another process: a simulated device's travels as a copy."""
    if tensor.device.type != placement.NAME:
        return reduce_tensor(tensor)
    file = io.BytesIO()
    torch.save(tensor.detach().cpu(), file)
    return receive, (file.getvalue(), str(tensor.device), tensor.requires_grad, type(tensor))


def receive(saved: bytes, device: str, requires_grad: bool, kind: type) -> torch.Tensor:
    """Make a tensor that was sent, on the simulated device of this process."""
    from devlab.sim.register import enable

    enable()
    tensor = torch.load(io.BytesIO(saved), weights_only=True).to(device)
    if kind is torch.nn.Parameter:
        return torch.nn.Parameter(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_(requires_grad)
