"""The chips that the simulated devices behave like: the one table of every modelled rate and size.

Rates and bandwidths are the makers' published peaks, rounded; copies and launches are what such machines
usually show. The capacity is far below the real chip's, so that running out of memory is cheap to practise.
"""

from dataclasses import dataclass

import torch

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class Spec:
    """One chip: seconds, bytes, and operations per second."""

    name: str
    resembles: str
    launch: float  # host seconds that starting one operator takes
    shortest: float  # device seconds that even an empty kernel takes
    rate: float  # operations per second in 32-bit floats
    half_rate: float  # operations per second in 16-bit floats
    bandwidth: float  # bytes per second of the device's own memory
    pinned: float  # bytes per second between the host's pinned memory and the device
    pageable: float  # bytes per second between ordinary host memory and the device
    peer: float  # bytes per second between two such devices
    capacity: int  # bytes of device memory


CUDA_LIKE = Spec(
    name="simulated accelerator, cuda-like",
    resembles="NVIDIA T4 on PCIe 3.0",
    launch=5e-6,
    shortest=2e-6,
    rate=8.1e12,
    half_rate=65e12,
    bandwidth=300e9,
    pinned=12e9,
    pageable=4e9,
    peer=10e9,
    capacity=1 * GIB,
)

MPS_LIKE = Spec(
    name="simulated accelerator, mps-like",
    resembles="Apple M1, memory shared with the host",
    launch=10e-6,
    shortest=4e-6,
    rate=2.6e12,
    half_rate=2.6e12,
    bandwidth=68e9,
    pinned=50e9,
    pageable=50e9,
    peer=50e9,
    capacity=1 * GIB,
)

# What every device becomes while waits are real. No chip is like this: it is about ten times slower than the
# CPU that computes for it, so that the CPU's work hides behind the device's, as a launch does on a GPU.
SLOW_MOTION = Spec(
    name="simulated accelerator, in slow motion",
    resembles="no chip",
    launch=0.0,
    shortest=100e-6,
    rate=5e9,
    half_rate=10e9,
    bandwidth=1e9,
    pinned=400e6,
    pageable=150e6,
    peer=300e6,
    capacity=1 * GIB,
)

HALF = (torch.float16, torch.bfloat16)
