"""The numbers to know: what common work takes on the reference machine, computed from its specs.

Each time is a model's: the launch, the shortest kernel, and the bytes or the arithmetic at the peak rate. The
drawing of lesson 00 shows them.
"""

from dataclasses import dataclass

from devlab.sim.specs import CUDA_LIKE, HOST

KB, MB, GB = 1e3, 1e6, 1e9
SIDE = 4096  # of the square matrices in the large product


@dataclass(frozen=True)
class Number:
    """How many seconds some work takes, and who does it: the host, the device, or a transfer between them."""

    work: str
    by: str
    seconds: float


def transfer(size: float, rate: float) -> float:
    """Return the seconds from the start of a transfer of some bytes to its end.

    >>> round(transfer(1e6, 4e9) * 1e6)
    257
    """
    return CUDA_LIKE.launch + CUDA_LIKE.shortest + size / rate


def kernel(operations: float = 0.0, moved: float = 0.0, rate: float = CUDA_LIKE.rate) -> float:
    """Return the seconds that a kernel takes on the device, its launch included."""
    started = CUDA_LIKE.product if operations else CUDA_LIKE.launch
    return started + CUDA_LIKE.shortest + max(operations / rate, moved / CUDA_LIKE.bandwidth)


def numbers() -> list[Number]:
    """Return the numbers to know, the shortest first within each group."""
    product = 2 * SIDE**3
    found = [
        Number("a call of PyTorch on the CPU", "host", HOST.call),
        Number("launching one kernel", "host", CUDA_LIKE.launch),
        Number("the smallest kernel, running", "device", CUDA_LIKE.shortest),
        Number("one number to the host: x.item()", "transfer", transfer(4, CUDA_LIKE.pageable)),
    ]
    for size, name in ((KB, "1 KB"), (MB, "1 MB"), (GB, "1 GB")):
        found += [
            Number(f"transfer of {name}, pinned", "transfer", transfer(size, CUDA_LIKE.pinned)),
            Number(f"transfer of {name}, pageable", "transfer", transfer(size, CUDA_LIKE.pageable)),
        ]
    return [
        *found,
        Number("the device reads 1 GB of its memory", "device", kernel(moved=GB)),
        Number("the CPU reads 1 GB of its memory", "host", HOST.call + GB / HOST.bandwidth),
        Number(
            f"product of {SIDE} × {SIDE}, GPU, 16 bits", "device", kernel(product, rate=CUDA_LIKE.half_rate)
        ),
        Number(f"product of {SIDE} × {SIDE}, GPU", "device", kernel(product)),
        Number(f"product of {SIDE} × {SIDE}, CPU", "host", HOST.call + product / HOST.rate),
    ]
