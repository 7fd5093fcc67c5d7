"""The reference machine: the one table of every rate and size that simulator, lessons and explorers use.

Rates and bandwidths are the makers' published peaks, rounded; copies and launches are what such machines
usually show. Starting a product takes 1.6 times as long as starting an elementwise operator, as on an NVIDIA
H200 (`benchmarks/recorded/h200/measured.json`: 12.6 µs for one of 64 × 64, and 7.9 µs for `x + 1`). The
capacity is far below the real chip's, so that running out of memory is cheap to practise.
"""

import math
from dataclasses import dataclass

import torch

NAME = "sim"  # PyTorch's name for the kind of device
COUNT = 2

GIB = 1 << 30


@dataclass(frozen=True)
class Spec:
    """One chip: seconds, bytes, and operations per second."""

    name: str
    resembles: str
    launch: float  # host seconds that starting one operator takes
    product: float  # host seconds that starting a product of matrices, or a convolution, takes
    shortest: float  # device seconds that even an empty kernel takes
    rate: float  # operations per second in 32-bit floats
    half_rate: float  # operations per second in 16-bit floats
    bandwidth: float  # bytes per second of the device's own memory
    pinned: float  # bytes per second between the host's pinned memory and the device
    staging: float  # bytes per second that the host copies into the driver's pinned buffer, or out of it
    peer: float  # bytes per second between two such devices
    capacity: int  # bytes of device memory
    processors: int = 40  # streaming multiprocessors
    threads: int = 1024  # the most that a multiprocessor holds

    @property
    def pageable(self) -> float:
        """Return the bytes per second between pageable host memory and the device: staged, then copied.

        >>> round(CUDA_LIKE.pageable / 1e9, 3)
        4.0
        """
        return 1 / (1 / self.staging + 1 / self.pinned)


@dataclass(frozen=True)
class HostSpec:
    """The CPU beside the accelerator: seconds a call, operations per second, bytes per second."""

    resembles: str
    call: float  # seconds that one operator's call takes
    rate: float  # operations per second in 32-bit floats
    half_rate: float  # operations per second in 16-bit floats
    bandwidth: float  # bytes per second of system memory


CUDA_LIKE = Spec(
    name="simulated accelerator, cuda-like",
    resembles="NVIDIA T4 on PCIe 3.0",
    launch=5e-6,
    product=8e-6,
    shortest=2e-6,
    rate=8.1e12,
    half_rate=65e12,
    bandwidth=300e9,
    pinned=12e9,
    staging=6e9,
    peer=10e9,
    capacity=1 * GIB,
)

MPS_LIKE = Spec(
    name="simulated accelerator, mps-like",
    resembles="Apple M1, memory shared with the host",
    launch=10e-6,
    product=16e-6,
    shortest=4e-6,
    rate=2.6e12,
    half_rate=2.6e12,
    bandwidth=68e9,
    pinned=50e9,
    staging=math.inf,  # the GPU reads the program's own pages
    peer=50e9,
    capacity=1 * GIB,
)

# Four cores at 3 GHz, each with two units for 8 fused multiply-adds (AVX2): 4 × 3e9 × 2 × 8 × 2 operations;
# two channels of DDR4-3200: 2 × 8 × 3.2e9 bytes. Peaks, as for the accelerators. The other two figures were
# measured with torch 2.13 on two cores of an AMD EPYC, which has no instructions for 16-bit floats: a call
# took 1 µs, and products in float16 ran at 0.5 to 4 GFLOP/s where products in float32 reached 60.
HOST = HostSpec(
    resembles="a desktop CPU with four cores", call=1e-6, rate=384e9, half_rate=4e9, bandwidth=51.2e9
)

# The specification of every device while waits are real. No chip is like this: the device is about ten times
# slower than the CPU that computes in its place, so that the CPU's time hides behind the device's, as a
# launch does on a GPU.
SLOW_MOTION = Spec(
    name="simulated accelerator, in slow motion",
    resembles="no chip",
    launch=0.0,
    product=0.0,
    shortest=100e-6,
    rate=5e9,
    half_rate=10e9,
    bandwidth=1e9,
    pinned=400e6,
    staging=240e6,
    peer=300e6,
    capacity=1 * GIB,
)

HALF = (torch.float16, torch.bfloat16)
