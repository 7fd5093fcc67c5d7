"""The CPU against an accelerator: the same operation on both, with the data there already or on its way."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from devlab import sim
from devlab.explore import modelled_cpu
from devlab.explore.modelled_cpu import Work
from devlab.explore.stopwatch import lap


def _row_by_row(x: torch.Tensor) -> torch.Tensor:
    for row in x:
        row += 1
    return x


@dataclass(frozen=True)
class Operation:
    """What is done with a square matrix, and the work that this is at side n with elements of some bytes."""

    run: Callable[[torch.Tensor], torch.Tensor]
    work: Callable[[int, int], Work]


# An addition waits for memory: its arithmetic takes no time of its own.
OPERATIONS = {
    "x @ x": Operation(lambda x: x @ x, lambda n, width: Work(1, 2 * n**3, 3 * n * n * width)),
    "x + 1": Operation(lambda x: x + 1, lambda n, width: Work(1, 0, 2 * n * n * width)),
    "x + 1, row by row": Operation(_row_by_row, lambda n, width: Work(n, 0, 2 * n * n * width)),
}
DTYPES = {"float32": torch.float32, "float16": torch.float16, "float64": torch.float64}
STAYS, COMES, RETURNS = "is there already", "comes from the CPU", "comes, and the result goes back"
SIDES = [round(8 * 2 ** (step / 2)) for step in range(15)]  # 8 to 1024
SIMULATED_SIDE = 512  # the CPU computes what a simulated device is asked for, and the reader waits
SLOW_SIDE = 128  # a CPU without 16-bit arithmetic takes seconds for the larger products in float16


def sides(operation: str, dtype: str, simulated: bool) -> list[int]:
    """Return the sides of matrices that every CPU gets through in a moment.

    >>> [sides(*what)[-1] for what in (("x @ x", "float32", False), ("x @ x", "float16", True))]
    [1024, 128]
    """
    most = SLOW_SIDE if (operation, dtype) == ("x @ x", "float16") else SIDES[-1]
    return [side for side in SIDES if side <= most and (side <= SIMULATED_SIDE or not simulated)]


def take(place: str, operation: str, dtype: str, data: str, side: int) -> float:
    """Time an operation on a device in seconds: by the stopwatch, on `sim` by its model."""
    run = OPERATIONS[operation].run
    here = torch.ones(side, side, dtype=DTYPES[dtype], device="cpu")  # whatever the default device is
    there = here.to(place)
    ways = {
        STAYS: lambda: run(there),
        COMES: lambda: run(here.to(place)),
        RETURNS: lambda: run(here.to(place)).cpu(),
    }
    # Five digits: many launches add up the rounding of a simulated clock that has run for long.
    return float(f"{lap(ways[data], place).done:.5g}")


@functools.lru_cache(maxsize=1024)
def _taken(place: str, operation: str, dtype: str, data: str, side: int, rules: str) -> float:
    """Keep what was timed, for each set of rules that the simulated device may follow."""
    return take(place, operation, dtype, data, side)


def on(place: str, operation: str, dtype: str, data: str, wanted: list[int]) -> dict[int, float]:
    """Return the seconds for each side, up to the largest that the device has room for."""
    found = {}
    for side in wanted:
        try:
            found[side] = _taken(place, operation, dtype, data, side, sim.following())
        except torch.OutOfMemoryError:
            break
    return found


def modelled(operation: str, dtype: str) -> dict[int, float]:
    """Return the seconds that a modelled CPU takes for each side.

    >>> round(1e6 * modelled("x + 1", "float32")[512])
    42
    """
    work, kind = OPERATIONS[operation].work, DTYPES[dtype]
    return {
        n: modelled_cpu.seconds(work(n, kind.itemsize), kind) for n in sides(operation, dtype, simulated=True)
    }


def crossing(cpu: dict[int, float], device: dict[int, float]) -> float | None:
    """Return the size from which on the device stays ahead; None where it never does, 0 where it always is.

    It is the size that the fewest of the times contradict, so a single time that something disturbed decides
    nothing. Of two that as many contradict, it is the one whose contradictions stand out more.

    >>> round(crossing({10: 1.0, 100: 10.0}, {10: 2.0, 100: 5.0}), 1)
    31.6
    """
    common, lead = _leads(cpu, device)
    first = _first_ahead(lead)
    if first == 0:
        return 0.0
    if first == len(common):
        return None
    share = -lead[first - 1] / (lead[first] - lead[first - 1])
    return common[first - 1] * (common[first] / common[first - 1]) ** share


def exceptions(cpu: dict[int, float], device: dict[int, float]) -> list[int]:
    """Return the sizes whose times contradict the crossing.

    >>> exceptions({1: 1, 2: 3, 4: 1, 8: 3, 16: 3, 32: 1}, dict.fromkeys((1, 2, 4, 8, 16, 32), 2))
    [2, 32]
    """
    common, lead = _leads(cpu, device)
    first = _first_ahead(lead)
    return [side for place, side in enumerate(common) if (lead[place] > 0) != (place >= first)]


def _leads(cpu: dict[int, float], device: dict[int, float]) -> tuple[list[int], list[float]]:
    """Return the sizes that both have, and for each the logarithm of how many times as fast the device is."""
    common = sorted(cpu.keys() & device.keys())
    return common, [math.log(cpu[side] / device[side]) for side in common]


def _first_ahead(lead: list[float]) -> int:
    """Return the place from which on the device counts as ahead, by the fewest contradictions."""

    def stands_out(place: int) -> float:
        beside = lead[max(place - 1, 0) : place] + lead[place + 1 : place + 2] or lead
        return abs(lead[place] - sum(beside) / len(beside))

    def doubts(first: int) -> tuple[int, float, int]:
        wrong = [place for place, by in enumerate(lead) if (by > 0) != (place >= first)]
        return len(wrong), -sum(map(stands_out, wrong)), -first

    return min(range(len(lead) + 1), key=doubts)
