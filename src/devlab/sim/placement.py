"""Which simulated devices there are, which one is current, and what a device's name means."""

import torch

from devlab.sim.specs import COUNT, NAME

_current = 0
_count = COUNT


def device_count() -> int:
    """Return how many simulated devices there are.

    >>> import devlab.sim
    >>> devlab.sim.device_count()
    2
    """
    return _count


def set_count(count: int) -> None:
    """Let there be only the first `count` of the devices."""
    global _count
    _count = count


def current() -> int:
    """Return the index that a bare `"sim"` means."""
    return _current


def set_current(index: int) -> None:
    """Make `index` the one that a bare `"sim"` means."""
    global _current
    _current = check(index)


def check(index: int) -> int:
    """Return `index` if there is such a simulated device.

    Raises:
        RuntimeError: when there is none, in the manner of CUDA's "invalid device ordinal".
    """
    if not 0 <= index < _count:
        there = " and ".join(f"{NAME}:{number}" for number in range(_count))
        raise RuntimeError(
            f"{NAME} error: invalid device ordinal: {NAME}:{index} was asked for, simulated here: {there}"
        )
    return index


def index_of(device: torch.device | str | int | None = None) -> int:
    """Return the index that `device` names; None and a bare `"sim"` mean the current one.

    Raises:
        ValueError: when `device` is not a simulated device.
        RuntimeError: when there is no device of that index.
    """
    if device is None:
        return _current
    if isinstance(device, int):
        return check(device)
    if type(device) is not torch.device:
        device = torch.device(device)
    if device.type != NAME:
        raise ValueError(f"Expected a {NAME} device, but got: {device}")
    index = device.index
    return _current if index is None else check(index)


def device_of(index: int) -> torch.device:
    """Return the simulated device of that index."""
    return torch.device(NAME, index)
