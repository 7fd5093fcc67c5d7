"""From which size on the device is quicker than this machine's CPU: with the transfer there, and without."""

import torch

from devlab.watching.timing import time_op

OPERATIONS = {
    "add": lambda x: x + x,
    "exp": torch.exp,
    "matrix product": lambda x: x @ x,
    "sum": torch.sum,
}
SIDES = [1 << power for power in range(4, 12)]  # square matrices, 16 to 2048 a side
REHEARSED = 4  # of them, where the device is simulated: the CPU computes for it
DTYPES = (torch.float32, torch.bfloat16)


def record(device: torch.device) -> dict[str, dict[str, float]]:
    """Return, for each operation, dtype and side, median seconds: CPU, device, and the transfer there."""
    table = {}
    for dtype in DTYPES:
        for side in SIDES[:REHEARSED] if device.type == "sim" else SIDES:
            here = torch.ones(side, side, dtype=dtype)
            there = here.to(device)
            transfer = _timed(lambda here=here: here.to(device), device)
            for name, operation in OPERATIONS.items():
                table[f"{name}, {str(dtype).removeprefix('torch.')}, {side} x {side}"] = {
                    "cpu": _timed(lambda op=operation, x=here: op(x), torch.device("cpu")),
                    "device": _timed(lambda op=operation, x=there: op(x), device),
                    "transfer": transfer,
                }
    return table


def _timed(function, device: torch.device) -> float:
    return time_op(function, device, repeats=10, show=False).median
