"""Which copies wait for the work in front of them, by their kind and size."""

import torch
from hardware.measured import copies
from hardware.synchronizations import SIDES, waits

from devlab.sim import clock

SIZES = (2048, 4096)  # KiB: the driver's staging of pageable memory ends between them
PRODUCTS = 40  # they must take longer than the staging of 4 MiB would


def record(device: torch.device) -> dict[str, bool]:
    """Return whether each copy waits, under the names of `held_by_copies` in the measured table."""
    side, table = SIDES.get(device.type, 4096), {}
    work = torch.ones(side, side, device=device)
    with clock.virtual():
        for size in SIZES:
            for name, copy in copies(device, size).items():
                copy()
                table[f"{name}, {size} KiB"] = waits(device, work, copy, PRODUCTS)
    return table


def by_time(figures: dict[str, float]) -> dict[str, bool]:
    """Return the same of measured seconds: a copy waits that keeps the host for most of the work's time."""
    work = figures["seconds of the work in front"]
    names = [name for name in figures if name.rpartition(", ")[2] in {f"{size} KiB" for size in SIZES}]
    return {name: figures[name] > work / 2 for name in names}
