"""What happens on the simulated devices, told to every observer. Without observers, telling costs nothing.

>>> seen = []
>>> observers.append(seen.append)
>>> tell(Synchronization(0, "item"))
>>> observers.clear()
>>> seen
[Synchronization(index=0, cause='item')]
"""

from collections.abc import Callable
from typing import NamedTuple


class Launch(NamedTuple):
    """One operator started on a device, and the time at which the operator will have finished."""

    index: int
    operator: str
    end: float


class Transfer(NamedTuple):
    """One copy of `bytes` bytes between two devices."""

    source: str
    target: str
    bytes: int
    pinned: bool
    blocking: bool
    end: float


class Synchronization(NamedTuple):
    """The host waiting for a device, and the cause of the wait."""

    index: int
    cause: str


class Allocation(NamedTuple):
    """Memory taken on a device: the bytes asked for."""

    index: int
    bytes: int


observers: list[Callable[[tuple], None]] = []


def tell(event: tuple) -> None:
    """Pass `event` to every observer."""
    for observer in list(observers):
        observer(event)
