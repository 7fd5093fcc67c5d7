"""Whose rules the simulated accelerator follows: CUDA's, or for a while those of Apple's MPS."""

from devlab.sim import clock, limits, placement, specs
from devlab.sim.allocator import allocators

_SETS = {"cuda": (specs.CUDA_LIKE, 2), "mps": (specs.MPS_LIKE, 1)}


class rules:
    """A block in which the simulated accelerator follows another device's rules: `"cuda"` or `"mps"`.

    Under `"mps"` there is one device, no float64, and the operators that MPS lacks are missing. Tensors made
    before the block stay as they are.

    Raises:
        ValueError: when there is no such rule set.

    >>> import torch, devlab.sim
    >>> devlab.sim.enable()
    >>> with devlab.sim.rules("mps"):
    ...     print(devlab.sim.device_count(), torch.sim.get_device_name())
    1 simulated accelerator, mps-like
    """

    def __init__(self, name: str):
        """Remember the set."""
        if name not in _SETS:
            raise ValueError(f"no rule set is called {name!r}; there are {', '.join(map(repr, _SETS))}")
        self.name = name

    def __enter__(self):
        """Follow it."""
        self._outer = (placement.device_count(), placement.current(), list(limits.active))
        self._specs = [engines.spec for engines in clock.devices]
        spec, count = _SETS[self.name]
        placement.set_count(count)
        placement.set_current(min(placement.current(), count - 1))
        for engines, allocator in zip(clock.devices, allocators, strict=True):
            engines.spec = spec
            allocator.resize(spec.capacity)
        limits.active[:] = [limits.refuse_dtype] if self.name == "mps" else []
        return self

    def __exit__(self, *error):
        """Follow the earlier one again."""
        count, current, refusals = self._outer
        placement.set_count(count)
        placement.set_current(current)
        limits.active[:] = refusals
        for engines, allocator, spec in zip(clock.devices, allocators, self._specs, strict=True):
            engines.spec = spec
            allocator.resize(spec.capacity)


def following() -> str:
    """Return the name of the rule set in force."""
    return "mps" if limits.active else "cuda"
