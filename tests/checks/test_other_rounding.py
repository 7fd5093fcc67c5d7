"""The mode that stands for another device's rounding moves what is rounded, and nothing else."""

import torch
from other_rounding import OtherRounding

from devlab import sim

sim.enable()
SIM = torch.device("sim", 0)


def moved(compute, *tensors: torch.Tensor) -> torch.Tensor:
    """Return by how many units in the last place the mode moves a result, for each of its numbers."""
    there = [one.to(SIM) for one in tensors]
    plain = compute(*there).cpu()
    with OtherRounding():
        other = compute(*there).cpu()
    unit = torch.finfo(plain.dtype).eps * 2.0 ** plain.double().abs().log2().floor()
    return ((other.double() - plain.double()).abs() / unit).round()


def test_inexact_results_move_by_one_unit():
    """A product of matrices, a softmax and a sum of random numbers, in each floating dtype."""
    x = torch.randn(6, 6, generator=torch.Generator().manual_seed(3))
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        for compute in (torch.matmul, lambda x, y: torch.softmax(x @ y, 0), lambda x, y: (x / 3).sum(0)):
            units = moved(compute, x.to(dtype), x.to(dtype))
            assert 0 < float(units.max()) <= 8, dtype


def test_exact_results_stay():
    """Sums of whole numbers are the same everywhere, and so are single sums, quotients and conversions."""
    whole = torch.arange(12.0).view(3, 4)
    for compute in (torch.sum, lambda x: x @ x.t(), lambda x: x / 3 + 1, lambda x: x.half().float()):
        assert not moved(compute, whole + 1).any()
