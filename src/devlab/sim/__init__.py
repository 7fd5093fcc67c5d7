"""A simulated accelerator for machines without a GPU: two devices, `sim:0` and `sim:1`, with real data.

Four modules hold the four ideas:

- `data`: which devices there are, and a tensor's memory, which is the host's memory under a second label.
- `rule`: the device rule, that is which tensors may meet, and what MPS lacks.
- `clock`: when work would have finished. `clock.copy` models the time of a copy, at the rates in `specs`.
- `allocator`: which block of the device's memory a tensor takes; `accounts` answers questions about memory.

The other modules put the ideas to work. `dispatch` runs an operator, `operators` knows what each operator
needs, `kernels` holds the operators that make or share memory, `assertions` knows what fails on the device
and is found out later, and `crossing` copies between devices. `racing` decides what a stream finds in memory
that another stream still writes, while races are visible. A program sees `streams`, `random_numbers` and
`torch_sim` as `torch.sim`. `events` tells observers of all work, `install` registers everything with PyTorch,
and `private` holds the private names of PyTorch that this needs.
"""

from devlab.sim import accounts as memory
from devlab.sim.assertions import reset
from devlab.sim.data import allow_after_fork, device_count
from devlab.sim.install import enable, enabled
from devlab.sim.racing import races
from devlab.sim.rule import following, rules

__all__ = [
    "allow_after_fork",
    "device_count",
    "enable",
    "enabled",
    "following",
    "memory",
    "races",
    "reset",
    "rules",
]
