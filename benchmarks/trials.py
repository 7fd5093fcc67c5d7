"""How long `devlab.explain` takes to show a change, and the memory of the process that trials fork from.

The first error pays for the start of that process, the later ones do not.
"""

import statistics
import time

import torch

import devlab
from devlab.explaining import choice, explained

TIMES = 5


def broken(device):
    table = torch.linspace(0, 1, 4)
    layer = torch.nn.Linear(4, 4).to(device)
    return layer(torch.ones(2, 4, device=device)) + table


def seconds(device) -> float:
    try:
        broken(device)
    except RuntimeError as error:
        began = time.perf_counter()
        report = explained(error)
        assert report.changes, report.text()
        return time.perf_counter() - began
    raise AssertionError("nothing failed")


def mebibytes(pid: int) -> float:
    """Return a process's share of memory: its own, and its part of what several share."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        share = next(line for line in file if line.startswith("Pss:"))
    return int(share.split()[1]) / 1024


def main() -> None:
    device = devlab.start()
    torch.set_num_threads(1)
    first = seconds(device)
    later = statistics.median(seconds(device) for _ in range(TIMES))
    print(f"first change {first:.1f} s, later ones {later:.1f} s (median of {TIMES})")
    print(f"the process that trials are forked from: {mebibytes(choice._template[0].process):.0f} MiB")


if __name__ == "__main__":
    main()
