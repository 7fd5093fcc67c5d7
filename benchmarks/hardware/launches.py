"""What starting work costs: the host's time for a launch, and the device's for the smallest kernel."""

import time

import torch

from devlab.sim import clock
from devlab.watching.timing import time_op

LAUNCHES = 1000


def record(device: torch.device) -> dict[str, float]:
    """Return seconds: of the host for one launch, of the device for the smallest kernels, of one wait."""
    x = torch.ones(1, device=device)
    square = torch.ones(256, 256, device=device)
    with clock.virtual():
        host = clock.now if device.type == "sim" else time.perf_counter
        return {
            "host, one launch of x.add_(1)": _launching(device, host, lambda: x.add_(1)),
            "host, one launch of a matrix product": _launching(device, host, lambda: square @ square),
            "device, x.add_(1)": time_op(lambda: x.add_(1), device, show=False).median,
            "host, synchronize with nothing to do": _waiting(device, host),
        }


def _launching(device: torch.device, host, launch) -> float:
    for _ in range(20):
        launch()
    torch.accelerator.synchronize(device)
    begun = host()
    for _ in range(LAUNCHES):
        launch()
    took = host() - begun
    torch.accelerator.synchronize(device)
    return took / LAUNCHES


def _waiting(device: torch.device, host) -> float:
    torch.accelerator.synchronize(device)
    begun = host()
    for _ in range(LAUNCHES):
        torch.accelerator.synchronize(device)
    return (host() - begun) / LAUNCHES
