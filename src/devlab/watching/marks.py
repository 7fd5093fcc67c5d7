"""When things happen: the host's time, and on each device the time between two marks in its queue."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from devlab.sim import clock


def host_clock(kind: str) -> Callable[[], float]:
    """Return the clock that goes with a kind of device: on the simulator, the modelled one.

    >>> host_clock("cuda") is time.perf_counter
    True
    """
    return clock.now if kind == "sim" else time.perf_counter


class Mark(NamedTuple):
    """A mark in a simulated stream: when it is free, and when the work before the mark began, in seconds."""

    free_at: float
    began_at: float


def mark(device: torch.device) -> Any:
    """Return a mark at the end of what the device's current stream has to do.

    On the simulator it holds modelled times; elsewhere an event in the
    stream, or None where the device has none, or while a CUDA graph is captured, which must stay as it is.
    """
    if device.type == "sim":
        queue = clock.current.queues[device.index]
        return Mark(max(clock.now(), queue.free_at), queue.began_at)
    module = torch.get_device_module(device)
    if not hasattr(module, "Event") or not hasattr(module, "current_stream"):
        return None
    capturing = getattr(module, "is_current_stream_capturing", None)
    if capturing is not None and capturing():
        return None
    event = module.Event(enable_timing=True)
    event.record(module.current_stream(device))
    return event
