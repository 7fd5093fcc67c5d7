"""Late copies: on a real device, a copy to the host that nothing waits for arrives late, as it may anywhere.

On a fast GPU a small copy has arrived before the next line reads it, so an answer that does not wait is right
by luck: on an H200 four such answers passed. Work that is queued in front of each copy takes that luck away.
"""

import contextlib
from collections.abc import Iterable

import torch
from torch.overrides import TorchFunctionMode

# Bytes of modelled work, which last a millisecond on the simulated device and no time on the host.
MODELLED_WORK = 300_000_000


def keep_busy(device: torch.device) -> None:
    """Give a device work that lasts milliseconds, so that a copy out of it has to wait its turn.

    >>> keep_busy(torch.device("cpu"))
    """
    if device.type == "sim":
        from devlab.sim import clock  # here, so that importing devlab does not import the simulator

        clock.launch(device.index, MODELLED_WORK)
    elif device.type != "cpu":
        x = torch.ones(2048, 2048, device=device)
        for _ in range(20):
            x = x @ x


class LateCopies(TorchFunctionMode):
    """A block in which a non-blocking copy to the CPU comes after other work in its stream."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if name in ("to", "copy_") and (kwargs.get("non_blocking") or any(one is True for one in args)):
            rest = (*args[1:], *kwargs.values())
            source, targets = (rest[0], args[:1]) if name == "copy_" else (args[0], rest)
            places = (one.device if isinstance(one, torch.Tensor) else one for one in targets)
            if any(str(place).startswith("cpu") for place in places):
                keep_busy(source.device)
        return function(*args, **kwargs)


def delay_copies(devices: Iterable[torch.device]) -> contextlib.AbstractContextManager:
    """Return a block with late copies where one of the devices is real; simulated copies are late anyway.

    >>> with delay_copies([torch.device("cpu")]):
    ...     torch.ones(1).to("cpu", non_blocking=True)
    tensor([1.])
    """
    real = any(device.type not in ("cpu", "sim") for device in devices)
    return LateCopies() if real else contextlib.nullcontext()
