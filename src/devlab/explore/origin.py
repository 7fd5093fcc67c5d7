"""Where the numbers of a picture are from: the device that is asked, and whether it is simulated."""

import torch

from devlab.devices import bench, name_of


def first_accelerator() -> str:
    """Return the name of the accelerator that the course uses here; "cpu" where there is none at all."""
    return next((str(device) for device in bench() if device.type != "cpu"), "cpu")


def source(device: str) -> str:
    """Return how every picture says where its numbers are from.

    >>> source("sim:0"), source("cpu")
    ('Simulated', 'Measured on the CPU')
    """
    if device.startswith("sim"):
        return "Simulated"
    if device == "cpu":
        return "Measured on the CPU"
    return f"Measured on {name_of(torch.device(device))} ({device})"
