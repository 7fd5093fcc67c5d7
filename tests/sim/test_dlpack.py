"""`torch.from_dlpack` of memory that is read backwards is refused, and the process lives on."""

import numpy
import pytest
import torch
from torch.utils.dlpack import from_dlpack

from devlab.sim.private import negative_strides_refused

GRID = numpy.arange(12.0).reshape(3, 4)
original = torch._C._from_dlpack


@pytest.mark.parametrize("array", [GRID[::-1], GRID[:, ::-2], GRID.T[1:, ::-1]])
@pytest.mark.parametrize(
    "road",
    [torch.from_dlpack, from_dlpack, lambda array: torch.from_dlpack(array.__dlpack__())],
    ids=["array", "name imported before", "capsule"],
)
def test_negative_strides_are_refused(road, array):
    """By every road from an array to PyTorch's reader."""
    with negative_strides_refused(), pytest.raises(BufferError, match="negative strides"):
        road(array)
    assert torch._C._from_dlpack is original


@pytest.mark.parametrize(
    "array",
    [GRID, GRID.T, GRID[::2, 1:], GRID[:0, ::-1], GRID[::-3, :], numpy.array(1.5), torch.ones(2, 3).t()],
    ids=["whole", "transposed", "steps", "empty", "one row", "single", "a tensor"],
)
def test_all_others_pass(array):
    """Strides of dimensions with one element or none do no harm."""
    with negative_strides_refused():
        shared = torch.from_dlpack(array)
        assert torch.equal(
            shared, torch.as_tensor(array.copy() if isinstance(array, numpy.ndarray) else array)
        )


def test_what_is_no_capsule_is_the_readers_own_affair(device):
    """PyTorch's own errors, and the simulated device, are not touched."""
    with negative_strides_refused():
        with pytest.raises(Exception, match=r"(?i)dlpack"):
            torch.from_dlpack(object())
        assert torch.ones(3, device=device).flip(0).sum().item() == 3
