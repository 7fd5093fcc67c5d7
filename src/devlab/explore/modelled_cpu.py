"""The time that some work takes the reference machine's CPU, to set beside the simulated accelerator.

The CPU of the machine that runs the course is real, and would not be the same in two places.
"""

from dataclasses import dataclass

import torch

from devlab.sim.specs import HALF, HOST


@dataclass(frozen=True)
class Work:
    """What an operation asks of a processor: calls of an operator, arithmetic, and bytes read and written."""

    calls: float
    operations: float
    traffic: float


def seconds(work: Work, dtype: torch.dtype) -> float:
    """Return how long some work takes: its arithmetic or its traffic, whichever is more, and its calls.

    >>> seconds(Work(calls=1, operations=384e9, traffic=0), torch.float32)
    1.000001
    """
    rate = HOST.half_rate if dtype in HALF else HOST.rate
    return work.calls * HOST.call + max(work.operations / rate, work.traffic / HOST.bandwidth)
