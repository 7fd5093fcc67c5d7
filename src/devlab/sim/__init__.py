"""A simulated accelerator for machines without a GPU: two devices, `sim:0` and `sim:1`, with real data."""

from devlab.sim.placement import device_count
from devlab.sim.register import enable, enabled
from devlab.sim.rule_sets import following, rules

__all__ = ["device_count", "enable", "enabled", "following", "rules"]
