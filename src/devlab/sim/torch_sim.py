"""The module `torch.sim`: the names of `torch.cuda` with the same meaning, the imported names included."""

import functools
from types import SimpleNamespace

import torch

from devlab.sim import accounts as memory
from devlab.sim import clock, data, private
from devlab.sim.accounts import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from devlab.sim.data import device_count
from devlab.sim.random_numbers import default_generators
from devlab.sim.streams import Event, Stream, current_stream, default_stream, set_stream, stream

__all__ = [
    "Event",
    "OutOfMemoryError",
    "Stream",
    "amp",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]

OutOfMemoryError = torch.OutOfMemoryError
amp = SimpleNamespace(
    autocast=functools.partial(torch.amp.autocast, data.NAME),
    GradScaler=functools.partial(torch.amp.GradScaler, data.NAME),
    custom_fwd=functools.partial(torch.amp.custom_fwd, device_type=data.NAME),
    custom_bwd=functools.partial(torch.amp.custom_bwd, device_type=data.NAME),
)


def is_available() -> bool:
    """Return True: a simulated device is always there."""
    return True


def is_initialized() -> bool:
    """Return whether a tensor was made on a simulated device, which is what starts CUDA."""
    return data.is_initialized() and not _is_in_bad_fork()


def __getattr__(name: str):
    if name == "_initialized":  # `torch.utils.checkpoint` reads this attribute before it keeps random numbers
        return is_initialized()
    raise AttributeError(f"module 'torch.{data.NAME}' has no attribute {name!r}")


def init() -> None:
    """Do nothing: there is nothing to start.

    Raises:
        RuntimeError: in a process that was forked from a process which had used a simulated device.
    """
    if _is_in_bad_fork():
        data.refuse_in_fork()


def _is_in_bad_fork() -> bool:
    return data.refuse_in_fork in data.refusals


def current_device() -> int:
    """Return the index of the current device.

    This is a function of its own: a check that pretends another machine lets it answer something else, and
    what the simulator itself asks, `data.current_index`, must stay true.
    """
    return data.current_index()


def set_device(device) -> None:
    """Make `device` the current device, which a bare `"sim"` means; a negative index changes nothing.

    Raises:
        ValueError: when `device` has no index, or is none of the simulated devices.
    """
    if not isinstance(device, int):
        data.index_of(device)
    set_device_index(device)


def set_device_index(device) -> None:
    """Do the same for `torch.accelerator`, which checks what it is given in its own words."""
    index = private.device_index(device)
    if index >= 0:
        data.set_current_index(index)


class device:
    """A block in which another device is the current device."""

    def __init__(self, device):
        self.idx = data.index_of(device)

    def __enter__(self):
        self._before = current_device()
        data.set_current_index(self.idx)
        return self

    def __exit__(self, *error):
        data.set_current_index(self._before)


def get_device_name(device=None) -> str:
    """Return the device's name, which says that the device is simulated."""
    return clock.devices[data.index_of(device)].spec.name


def get_device_properties(device=None) -> SimpleNamespace:
    """Return the device's name, its memory in bytes, and the chip that its times resemble."""
    index = data.index_of(device)
    spec = clock.devices[index].spec
    total = mem_get_info(index)[1]
    return SimpleNamespace(name=spec.name, total_memory=total, resembles=spec.resembles, simulated=True)


def get_device_capability(device=None) -> tuple[int, int]:
    """Return (0, 0): no kernel is compiled for a simulated device."""
    data.index_of(device)
    return (0, 0)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return True."""
    return True


def synchronize(device=None) -> None:
    """Wait for all work on the device."""
    init()
    index = data.index_of(device)
    clock.synchronize(index, clock.end_of(index), "synchronize")


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Return the types that `torch.autocast("sim")` may compute in."""
    return [torch.float16, torch.bfloat16, torch.float32]


def manual_seed(seed: int) -> None:
    """Seed the current device's generator."""
    default_generators[current_device()].manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed every device's generator."""
    for generator in default_generators:
        generator.manual_seed(int(seed))


def seed() -> None:
    """Seed the current device's generator from the system's entropy."""
    default_generators[current_device()].seed()


def seed_all() -> None:
    """Seed every device's generator alike, from the system's entropy."""
    manual_seed_all(default_generators[0].seed())


def initial_seed() -> int:
    """Return the seed of the current device's generator."""
    return default_generators[current_device()].initial_seed()


def get_rng_state(device="sim") -> torch.Tensor:
    """Return the state of a device's generator, a CPU tensor of bytes."""
    return default_generators[data.index_of(device)].get_state()


def set_rng_state(new_state: torch.Tensor, device="sim") -> None:
    """Set the state of a device's generator."""
    default_generators[data.index_of(device)].set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """Return the state of every device's generator."""
    return [generator.get_state() for generator in default_generators]


def set_rng_state_all(new_states) -> None:
    """Set the state of every device's generator."""
    for generator, state in zip(default_generators, new_states, strict=True):
        generator.set_state(state)
