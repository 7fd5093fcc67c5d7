"""Copies between devices as PyTorch makes them: how many bytes, from what memory, and who waits."""

from collections.abc import Iterator
from typing import NamedTuple

import torch

from devlab import sim
from devlab.sim.crossing import crossing
from devlab.sim.waits import MASKS, fills_mask
from devlab.watching.operators import Kind, new_bytes

_CPU = torch.device("cpu")


class Copy(NamedTuple):
    """One copy from device to device, before anyone noted where in the program it was made."""

    source: torch.device
    target: torch.device
    bytes: int
    pinned: bool
    blocking: bool
    non_blocking: bool
    cause: str

    @property
    def awaits_result(self) -> bool:
        """Tell whether the host waits for the accelerator's earlier work, to have its result."""
        return self.blocking and self.target.type == "cpu"


def copies(kind: Kind, args: tuple, kwargs: dict, result) -> Iterator[Copy]:
    """Yield the copies between devices that one operator made."""
    if kind.role == "copy":
        source, target = (args[1], args[0]) if kind.name == "copy_" else (args[0], result)
        if source.device != target.device:
            asked = bool(kwargs.get("non_blocking") or (kind.name == "copy_" and len(args) > 2 and args[2]))
            yield _between(source, target, asked, "copy_()" if kind.name == "copy_" else ".to()")
    elif kind.role == "read":
        yield Copy(args[0].device, _CPU, args[0].itemsize, False, True, False, ".item()")
    elif kind.role == "arrive":
        yield _arriving(args[0].device, new_bytes(args[0]), "torch.tensor()")
    elif kind.role == "index" and not args[0].is_cpu:
        for index in args[1]:
            if index is not None and index.is_cpu:
                yield _arriving(args[0].device, _index_bytes(index), "index from the CPU")
        if len(args) > 2 and args[2].is_cpu and not fills_mask(args):
            yield _arriving(args[0].device, new_bytes(args[2]), "number from the CPU")


def _arriving(target: torch.device, size: int, cause: str) -> Copy:
    return Copy(_CPU, target, size, False, True, False, cause)


def _between(source: torch.Tensor, target: torch.Tensor, non_blocking: bool, cause: str) -> Copy:
    """Return the copy that brings `source` into `target`."""
    here = source if source.is_cpu else target
    pinned = here.is_cpu and here.is_pinned()
    kinds = (source.device.type, target.device.type)
    mps = "mps" in kinds or ("sim" in kinds and sim.following() == "mps")
    way = crossing(source, target, non_blocking, pinned, mps)
    return Copy(source.device, target.device, way.bytes, way.pinned, way.blocking, non_blocking, cause)


def _index_bytes(index: torch.Tensor) -> int:
    """Return what a CPU index takes on its way: a mask is turned into positions first."""
    if index.dtype in MASKS:
        return int(index.count_nonzero()) * index.dim() * 8
    return index.numel() * 8
