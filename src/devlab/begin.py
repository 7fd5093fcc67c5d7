"""`devlab.start`: say what is here, and stand by to explain errors."""

import torch

from devlab import devices


def start() -> torch.device:
    """Say in one line what is here, return the device the lessons use, and stand by to explain errors.

    The device is the first accelerator, real or simulated, or the CPU when there is neither. In a notebook an
    error about devices gets an explanation under it from now on, as `devlab.explain()` gives it.
    """
    from devlab.instruments.explain.automatic import explain_errors

    device = devices.start()
    explain_errors(device)
    return device
