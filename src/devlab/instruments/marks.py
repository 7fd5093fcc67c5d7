"""When things happen: the host's time, and on each device the time between two marks in its queue."""

import time
from collections.abc import Callable
from typing import Any

import torch

from devlab.sim import clock


def host_clock(kind: str) -> Callable[[], float]:
    """Return the clock that goes with a kind of device: on the simulator, the modelled one.

    >>> host_clock("cuda") is time.perf_counter
    True
    """
    return clock.now if kind == "sim" else time.perf_counter


def mark(device: torch.device) -> Any:
    """Return a mark at the end of what the device's current stream has to do.

    On the simulator it is the modelled time at which the stream will be done; elsewhere an event in the
    stream, or None where the device has none, or while a CUDA graph is captured, which must stay as it is.
    """
    if device.type == "sim":
        return max(clock.now(), clock.current.queues[device.index].free_at)
    module = torch.get_device_module(device)
    if not hasattr(module, "Event") or not hasattr(module, "current_stream"):
        return None
    capturing = getattr(module, "is_current_stream_capturing", None)
    if capturing is not None and capturing():
        return None
    event = module.Event(enable_timing=True)
    event.record(module.current_stream(device))
    return event
