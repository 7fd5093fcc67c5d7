"""`devlab.start`: say what is here, make its time visible, and stand by to explain errors."""

import torch

from devlab.devices import start as introduce
from devlab.panel import notebook_shell


def start() -> torch.device:
    """Say in one line what is here, return the device the lessons use, and stand by to explain errors.

    The device is the first accelerator, real or simulated, or the CPU when there is neither. In a notebook,
    from now on, an error about devices gets an explanation under it, as `devlab.explain()` gives it, and the
    waits of a simulated device take real time, so that `time.perf_counter()` sees them. Tracebacks of
    uncaught errors leave out the simulator's own frames, in a notebook and in a script.
    """
    from devlab.explaining.uncaught import explain_errors

    device = introduce()
    explain_errors(device)
    if device.type == "sim" and notebook_shell():
        from devlab.sim import clock

        clock.real_waits()
    return device
