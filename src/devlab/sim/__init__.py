"""A simulated accelerator for machines without a GPU: two devices, `sim:0` and `sim:1`, with real data."""

from devlab.sim import accounts as memory
from devlab.sim.data import device_count
from devlab.sim.install import enable, enabled
from devlab.sim.rule import following, rules

__all__ = ["device_count", "enable", "enabled", "following", "memory", "rules"]
