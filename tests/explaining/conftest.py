"""The simulated accelerator is there in every test of explain."""

from devlab import sim

sim.enable()
