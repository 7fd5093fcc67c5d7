"""Bytes per second between host and device: over size, each way, pinned and pageable, and staged."""

import statistics
import time

import torch

from devlab.sim import clock
from devlab.watching.timing import time_op

SIZES = [1 << power for power in range(10, 29, 2)]  # 1 KiB to 256 MiB
REHEARSED = 6  # of them, where the device is simulated


def record(device: torch.device) -> dict[str, dict[str, float]]:
    """Return, for each direction and size, the median seconds of a copy and the bytes per second."""
    table = {}
    for size in SIZES[:REHEARSED] if device.type == "sim" else SIZES:
        there = torch.empty(size, dtype=torch.uint8, device=device)
        pageable = torch.empty(size, dtype=torch.uint8)
        for kind, here in (("pageable", pageable), ("pinned", pageable.pin_memory())):
            for way, target, origin in (("to the device", there, here), ("to the host", here, there)):
                seconds = _copying(device, target, origin, kind == "pinned")
                table[f"{kind} {way}, {size} bytes"] = {"seconds": seconds, "bytes/s": size / seconds}
        seconds = _staging(device, there, pageable)
        table[f"staging, {size} bytes"] = {"seconds": seconds, "bytes/s": size / seconds}
    return table


def _staging(device: torch.device, target: torch.Tensor, origin: torch.Tensor) -> float:
    """Return the median seconds for which a non-blocking copy from pageable memory keeps the host."""
    times = []
    with clock.virtual():
        now = clock.now if device.type == "sim" else time.perf_counter
        for _ in range(20):
            torch.accelerator.synchronize(device)
            begun = now()
            target.copy_(origin, non_blocking=True)
            times.append(now() - begun)
        torch.accelerator.synchronize(device)
    return statistics.median(times)


def _copying(device: torch.device, target: torch.Tensor, origin: torch.Tensor, early: bool) -> float:
    return time_op(lambda: target.copy_(origin, non_blocking=early), device, repeats=20, show=False).median
