"""A modelled CPU to set beside the simulated accelerator, so that both come from makers' data sheets.

The CPU of the machine that runs the course is real, and would not be the same in two places.
"""

from dataclasses import dataclass

import torch

from devlab.sim.specs import HALF


@dataclass(frozen=True)
class Work:
    """What an operation asks of a processor: calls of an operator, arithmetic, and bytes read and written."""

    calls: float
    operations: float
    traffic: float


@dataclass(frozen=True)
class ModelledCPU:
    """One CPU: seconds a call, operations per second, bytes per second."""

    call: float
    rate: float
    half_rate: float
    bandwidth: float

    def seconds(self, work: Work, dtype: torch.dtype) -> float:
        """Return how long some work takes: its arithmetic or its traffic, whichever is more, and its calls.

        >>> FOUR_CORES.seconds(Work(calls=1, operations=384e9, traffic=0), torch.float32)
        1.000001
        """
        rate = self.half_rate if dtype in HALF else self.rate
        return work.calls * self.call + max(work.operations / rate, work.traffic / self.bandwidth)


# Four cores at 3 GHz, each with two units for 8 fused multiply-adds (AVX2): 4 × 3e9 × 2 × 8 × 2 operations; two
# channels of DDR4-3200: 2 × 8 × 3.2e9 bytes. Peaks, as for the accelerators in `devlab.sim.specs`. The two others
# were measured with torch 2.13 on two cores of an AMD EPYC, which has no instructions for 16-bit floats: a call
# at 1 µs, products in float16 at 0.5 to 4 Gflop/s where those in float32 reached 60.
FOUR_CORES = ModelledCPU(call=1e-6, rate=384e9, half_rate=4e9, bandwidth=51.2e9)
