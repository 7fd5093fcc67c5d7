"""What each device of this machine can do, and how wide the roads to it are, asked or tried."""

import contextlib
import functools
from dataclasses import dataclass

import torch

from devlab import sim
from devlab.devices import has_float64, name_of
from devlab.explore import roads
from devlab.explore.stopwatch import can_pin
from devlab.sim.specs import HOST
from devlab.watching.memory import size

SHARED = "shared with the CPU"


def following(rules: str | None) -> contextlib.AbstractContextManager:
    """Return a block in which the simulated accelerator follows a rule set, or none in particular."""
    return sim.rules(rules) if rules else contextlib.nullcontext()


@dataclass(frozen=True)
class Roads:
    """Bytes per second: in a device's memory, to it from the host, and to a second device; 0 is no road."""

    own: float
    ordinary: float = 0.0
    pinned: float = 0.0
    peer: float = 0.0

    @property
    def pinning_helps(self) -> bool:
        """Tell whether copies from pinned memory are clearly faster."""
        return self.pinned > 1.2 * self.ordinary


@functools.lru_cache(maxsize=32)
def roads_of(device: str, other: str | None, rules: str | None) -> Roads:
    """Measure the roads of a device, by its model where it is simulated.

    Raises torch.OutOfMemoryError where the device is too full to try.
    """
    with following(rules):
        if device == "cpu":
            return Roads(roads.own("cpu"))
        return Roads(
            roads.own(device),
            roads.from_host(device, roads.ORDINARY),
            roads.from_host(device, roads.PINNED) if can_pin(device) else 0.0,
            roads.between(device, other) if other else 0.0,
        )


def modelled_host() -> Roads:
    """Return the roads of the modelled CPU, which stands beside a simulated accelerator."""
    return Roads(HOST.bandwidth)


@functools.lru_cache(maxsize=32)
def facts(device: str, rules: str | None) -> dict[str, str]:
    """Return what is known of a device, in the order in which it is shown.

    >>> facts("cpu", None)["float64"]
    'yes'
    """
    with following(rules):
        where = torch.device(device)
        module = torch.get_device_module(where)
        known = {
            "name": name_of(where),
            "memory": _memory(where, module),
            "index": "none" if where.index is None else f"{where.index}, of {module.device_count()} here",
            "float64": "yes" if has_float64(where) else "none: use float32",
            "torch.linalg.eig": "yes" if has_eig(where) else "missing: run it on the CPU",
        }
        if where.type == "sim":
            known["modelled on"] = module.get_device_properties(where).resembles.partition(",")[0]
        if where.type == "cuda":
            known["capability"] = "{}.{}".format(*module.get_device_capability(where))
        return known


def _memory(where: torch.device, module) -> str:
    if where.type == "cpu":
        return "system memory"
    if where.type == "mps" or (where.type == "sim" and sim.following() == "mps"):
        return SHARED
    return size(module.get_device_properties(where).total_memory)


def has_eig(where: torch.device) -> bool:
    """Tell whether a device has an operator that Apple's GPUs lack: it is tried."""
    try:
        torch.linalg.eig(torch.eye(2, device=where))
    except RuntimeError:  # NotImplementedError is one, and so is a build without the library for it
        return False
    return True
