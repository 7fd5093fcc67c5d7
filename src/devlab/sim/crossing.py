"""How PyTorch copies between devices: which dtype travels, from what memory, and whether the host waits.

The dtype and the temporary tensors are those of `copy_kernel_cuda` and `copy_requires_temporaries` in
PyTorch's `aten/src/ATen/native/cuda/Copy.cu`, and of `mps/operations/Copy.mm` for MPS. There a blocking copy
is `cudaMemcpyAsync` followed by a wait for the stream; a non-blocking copy is `cudaMemcpyAsync` alone. What
that call does with pageable memory is in NVIDIA's CUDA documentation, "API synchronization behavior": towards
the device it returns once the bytes are in the driver's staging memory, towards the host once they have
arrived. (The documentation lets the driver wait for the stream before it stages; the model does not.)
"""

from typing import NamedTuple

import torch


class Crossing(NamedTuple):
    """One copy between two devices.

    `bytes` is what travels; `pinned` tells whether the host's end of the copy is pinned memory, `blocking`
    whether the host waits until the stream has done the copy, `converts_there` whether an accelerator changes
    the dtype.
    """

    bytes: int
    pinned: bool
    blocking: bool
    converts_there: bool


def crossing(
    source: torch.Tensor, target: torch.Tensor, non_blocking: bool, pinned: bool, mps: bool = False
) -> Crossing:
    """Return how PyTorch copies `source` into `target`, which is on another device.

    `pinned` tells whether the tensor on the CPU is in pinned memory, `mps` whether the accelerator is
    Apple's or follows Apple's rules.

    >>> wide = torch.ones(3, dtype=torch.float64, device="meta")
    >>> [crossing(torch.ones(3), wide, non_blocking, False).bytes for non_blocking in (False, True)]
    [24, 12]
    """
    converts = source.dtype != target.dtype
    count = target.numel()  # a smaller source is expanded before it leaves
    if not source.is_cpu and not target.is_cpu:
        return Crossing(count * target.itemsize, False, False, converts)
    into = source.is_cpu
    converts_there = converts and (non_blocking if not mps else not into)
    travels = source if into == converts_there else target
    here = source if into else target
    # Where the two cannot be copied as one run of memory, a temporary tensor takes the place of the tensor on
    # the CPU, and that one is pageable.
    as_it_is = not converts and _one_run(source, target)
    as_it_is = as_it_is or (
        (non_blocking or not converts) and here.is_contiguous() and source.shape == target.shape
    )
    pinned = pinned and as_it_is
    blocking = not non_blocking or not (mps or into or pinned)
    return Crossing(count * travels.itemsize, pinned, blocking, converts_there)


def _one_run(source: torch.Tensor, target: torch.Tensor) -> bool:
    """Tell whether both tensors hold their elements in the same order and without gaps."""
    if source.shape != target.shape:
        return False
    length = 1
    axes = zip(target.stride(), source.stride(), target.shape, strict=True)
    for *strides, size in sorted(axis for axis in axes if axis[-1] != 1):
        if strides != [length, length]:
            return False
        length *= size
    return True
