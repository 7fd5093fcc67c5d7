"""How PyTorch copies between devices, case by case, after its own source and CUDA's documentation."""

import pytest
import torch

from devlab.sim.crossing import plan_copy

HERE, THERE = torch.ones(4, 6), torch.ones(4, 6, device="meta")
HALF, HALF_THERE = HERE.half(), THERE.half()
# As many bytes as the driver stages at once on an H200, and one byte more.
STAGED, STAGED_THERE = (torch.empty(2 << 20, dtype=torch.uint8, device=place) for place in ("cpu", "meta"))
LARGE, LARGE_THERE = (torch.empty(STAGED.nbytes + 1, dtype=torch.uint8, device=it) for it in ("cpu", "meta"))


@pytest.mark.parametrize(
    ("source", "target", "non_blocking", "pinned", "wanted"),
    [
        # to the device: bytes, from pinned memory, the host waits for the stream, converted on the device
        (HERE, THERE, False, False, (96, False, True, False)),
        (HERE, THERE, True, False, (96, False, False, False)),
        (HERE, THERE, False, True, (96, True, True, False)),
        (HERE, THERE, True, True, (96, True, False, False)),
        (HERE, HALF_THERE, False, True, (48, False, True, False)),
        (HERE, HALF_THERE, True, True, (96, True, False, True)),
        (HALF, THERE, False, False, (96, False, True, False)),
        (HALF, THERE, True, False, (48, False, False, True)),
        (STAGED, STAGED_THERE, True, False, (2 << 20, False, False, False)),
        (LARGE, LARGE_THERE, True, False, ((2 << 20) + 1, False, True, False)),
        (LARGE, LARGE_THERE, True, True, ((2 << 20) + 1, True, False, False)),
        # to the CPU
        (THERE, HERE, False, False, (96, False, True, False)),
        (THERE, HERE, True, False, (96, False, True, False)),
        (THERE, HERE, True, True, (96, True, False, False)),
        (THERE, HALF, False, True, (96, False, True, False)),
        (THERE, HALF, True, True, (48, True, False, True)),
        # from device to device: converted before it leaves
        (THERE, HALF_THERE, False, False, (48, False, False, True)),
        # what is not one run of memory goes through a temporary tensor
        (HERE.t(), THERE.t(), True, True, (96, True, False, False)),
        (HERE[:, ::2], THERE[:, ::2].contiguous(), True, True, (48, False, False, False)),
        (HERE.t(), HALF_THERE.t(), True, True, (96, False, False, True)),
        (THERE, HERE.t().contiguous().t(), True, True, (96, False, True, False)),
        (HERE[:1], THERE, True, True, (96, False, False, False)),
    ],
)
def test_on_cuda(source, target, non_blocking, pinned, wanted):
    """Each case is a branch of `copy_kernel_cuda` or `copy_requires_temporaries`."""
    assert plan_copy(source, target, non_blocking, pinned) == wanted


@pytest.mark.parametrize(
    ("source", "target", "non_blocking", "wanted"),
    [
        (HERE, THERE, False, (96, False, True, False)),
        (HERE, THERE, True, (96, False, False, False)),
        (HERE, HALF_THERE, True, (48, False, False, False)),
        (THERE, HALF, False, (48, False, True, True)),
        (THERE, HERE, True, (96, False, False, False)),
    ],
)
def test_on_mps(source, target, non_blocking, wanted):
    """Nothing is staged, so the flag alone decides who waits; the dtype changes before the transfer."""
    assert plan_copy(source, target, non_blocking, pinned=False, mps=True) == wanted
