"""PyTorch's public entry points that cannot reach a device written in Python, led to the simulator.

Each replacement hands every other device to PyTorch's own function, and is installed once, on enabling.
"""

import functools
import sys
from types import ModuleType

import torch

from devlab.sim import (
    backend,
    generators,
    hooks,
    limits,
    memory,
    pinned,
    placement,
    private,
    saving,
    substitutes,
)
from devlab.sim.storage import on_device, on_host

_accelerator_names = {
    "device_count": backend.device_count,
    "current_device_index": backend.current_device,
    "current_device_idx": backend.current_device,
    "set_device_index": backend.set_device,
    "set_device_idx": backend.set_device,
    "synchronize": backend.synchronize,
    "device_index": backend.device,
    "current_stream": backend.current_stream,
    "set_stream": backend.set_stream,
    "get_device_capability": backend.get_device_capability,
}
# `torch.accelerator` takes these over from its module `memory`, so both hold them.
_memory_names = {
    "get_memory_info": backend.mem_get_info,
    "empty_host_cache": memory.empty_host_cache,
    **{
        name: getattr(backend, name)
        for name in (
            "empty_cache",
            "max_memory_allocated",
            "max_memory_reserved",
            "memory_allocated",
            "memory_reserved",
            "memory_stats",
            "reset_accumulated_memory_stats",
            "reset_peak_memory_stats",
        )
    },
}


def install() -> None:
    """Put every replacement in its place."""
    for name, function in (_accelerator_names | _memory_names).items():
        setattr(torch.accelerator, name, function)
    for name, function in _memory_names.items():
        if hasattr(torch.accelerator.memory, name):  # torch 2.11 has fewer names
            setattr(torch.accelerator.memory, name, function)
    _route_backward()
    _route_data()
    _route_storage()
    _route_classes()
    _route_bare_names()
    _route_beside()
    _route_arrays()
    generators.route_hosts()
    private.replace_print_dtype(_print_dtype)
    pinned.route_factories()
    saving.install()
    substitutes.install()


def _is_sim(device) -> bool:
    """Return whether something given as a device names a simulated one."""
    if isinstance(device, str):
        return device.partition(":")[0] == placement.NAME
    return isinstance(device, torch.device) and device.type == placement.NAME


def _route_backward() -> None:
    """Run backward in the calling thread: the engine's own threads serve only index 0 of such a device."""
    inner = private.run_backward

    @functools.wraps(inner)
    def run_backward(*args, **kwargs):
        result = failure = None
        try:
            with torch.autograd.set_multithreading_enabled(False):
                result = inner(*args, **kwargs)
        except BaseException as error:
            failure = error
        failure = hooks.taken() or failure
        try:
            if failure is not None:
                raise failure
            return result
        finally:
            del failure  # the error holds this frame, and must not be held by it: the graph would outlive it

    private.replace_backward(run_backward)


def _route_data() -> None:
    """Let `tensor.data = ...` and `module.to(...)` keep a tensor's identity, as they do on CUDA.

    PyTorch refuses to exchange the contents of a CPU tensor and one of an extension's device.
    """
    data = private.TensorBase.data
    compatible = private.has_compatible_contents

    def crosses(tensor, other) -> bool:
        return tensor.device.type != other.device.type and placement.NAME in (
            tensor.device.type,
            other.device.type,
        )

    def set_data(tensor, value) -> None:
        if not crosses(tensor, value):
            data.__set__(tensor, value)
            return
        fresh = value.detach().view_as(value).requires_grad_(tensor.requires_grad)
        if tensor.grad is not None:
            fresh.grad = _renamed(tensor.grad, fresh)
        private.swap_contents(tensor, fresh)

    torch.Tensor.data = property(data.__get__, set_data, doc=data.__doc__)

    @functools.wraps(compatible)
    def has_compatible_contents(tensor, other) -> bool:
        return crosses(tensor, other) or compatible(tensor, other)

    private.replace_compatible(has_compatible_contents)


def _renamed(grad: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return a gradient under the name of the device of `like`; `module.to` itself copies it, right after."""
    host = on_host(grad) if _is_sim(grad.device) else grad.detach()
    host = host.to(like.dtype)
    return on_device(host, like.get_device()) if _is_sim(like.device) else host


def _route_storage() -> None:
    """Let a bare storage be made on a simulated device, as copying and loading do."""
    new = torch.UntypedStorage.__new__

    def make(cls, *args, **kwargs):
        if not _is_sim(kwargs.get("device")):
            return new(cls, *args, **kwargs)
        count = args[0] if args else 0
        return torch.empty(count, dtype=torch.uint8, device=kwargs["device"]).untyped_storage()

    torch.UntypedStorage.__new__ = make
    fresh = torch.UntypedStorage.new

    @functools.wraps(fresh)
    def new_beside(self):
        return torch.UntypedStorage(0, device=self.device) if _is_sim(self.device) else fresh(self)

    torch.UntypedStorage.new = new_beside


def _stand_in(name: str, base: type, ours: type) -> type:
    """Return a class that passes for PyTorch's `base` and makes `ours` for a simulated device."""

    class StandIn(type):
        def __call__(cls, *args, **kwargs):
            device = kwargs["device"] if "device" in kwargs else next(iter(args), None)
            of_current = device is None or type(device) is int  # a bare index is one of the accelerator's
            if _is_sim(device) or (of_current and base is not private.GeneratorBase):
                return ours(*args, **kwargs)
            return base(*args, **kwargs)

        def __instancecheck__(cls, instance):
            return isinstance(instance, (base, ours))

        def __subclasscheck__(cls, subclass):
            return issubclass(subclass, (base, ours))

    return StandIn(name, (), {"__doc__": base.__doc__})


def _route_classes() -> None:
    """Let `torch.Generator`, `torch.Stream` and `torch.Event` make those of a simulated device."""
    routed = {}
    for name, ours in (
        ("Generator", generators.Generator),
        ("Stream", backend.Stream),
        ("Event", backend.Event),
    ):
        base = getattr(torch, name)
        routed[base] = _stand_in(name, base, ours)
        setattr(torch, name, routed[base])
    _rename_imported(routed)


def _rename_imported(routed: dict[type, type]) -> None:
    """Let `from torch import Event`, run before the simulator was enabled, mean what `torch.Event` now means.

    PyTorch's classes are left alone in PyTorch's own modules. They cannot be changed themselves: they are
    written in C.
    """
    by_number = {id(base): ours for base, ours in routed.items()}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in ("torch", "torchgen") and module is not private:
            names = vars(module) if isinstance(module, ModuleType) else {}
            names.update(
                {key: by_number[id(one)] for key, one in list(names.items()) if id(one) in by_number}
            )


def _resolved(value):
    """Return a bare `"sim"` as the current device, and anything else as it is."""
    if _is_sim(value) and torch.device(value).index is None:
        return placement.device_of(placement.current())
    return value


def _default_device() -> torch.device | None:
    """Return the device of the innermost `with torch.device(...)`, or else the default one, as named."""
    modes = reversed(private.function_modes())
    return next((mode.device for mode in modes if isinstance(mode, private.DeviceContext)), None)


def _route_bare_names() -> None:
    """Give a bare `"sim"` the current device's index where PyTorch's C++ would take index 0."""

    def routed(function, makes=True):
        @functools.wraps(function)
        def call(*args, **kwargs):
            if placement.current():
                args = tuple(_resolved(value) for value in args)
                if kwargs.get("device") is not None:
                    kwargs["device"] = _resolved(kwargs["device"])
                elif makes and _is_sim(default := _default_device()):
                    kwargs["device"] = _resolved(default)
            return function(*args, **kwargs)

        private.keep_builtin(function, call)
        return call

    # The default device is applied to the functions in this list, which must know the original ones.
    private.device_constructors()
    torch.Tensor.to = routed(private.TensorBase.to, makes=False)
    for name in ("tensor", "as_tensor", "asarray"):
        setattr(torch, name, routed(getattr(torch, name)))


def _route_beside() -> None:
    """Let `x.new_tensor(...)` land beside `x`, not at index 0, and `x.record_stream(...)` take a stream."""
    new_tensor = private.TensorBase.new_tensor
    record_stream = private.TensorBase.record_stream

    @functools.wraps(new_tensor)
    def beside(self, *args, **kwargs):
        if self.device.type == placement.NAME and kwargs.get("device") is None:
            kwargs["device"] = self.device
        return new_tensor(self, *args, **kwargs)

    torch.Tensor.new_tensor = beside

    @functools.wraps(record_stream)
    def noted(self, stream):
        # Results are computed at once, so memory is never handed on while a stream still reads it.
        if self.device.type != placement.NAME:
            record_stream(self, stream)

    torch.Tensor.record_stream = noted


def _route_arrays() -> None:
    """Let `np.array(x)` say what `x.numpy()` says, without NumPy's warning, and DLPack name the device."""
    array, dlpack_device = torch.Tensor.__array__, torch.Tensor.__dlpack_device__

    @functools.wraps(array)
    def to_array(self, *args, **kwargs):
        return self.numpy() if self.device.type == placement.NAME else array(self, *args, **kwargs)

    @functools.wraps(dlpack_device)
    def device_in_dlpack(self):
        if self.device.type == placement.NAME:
            return private.EXTENSION_IN_DLPACK, self.device.index
        return dlpack_device(self)

    torch.Tensor.__array__ = to_array
    torch.Tensor.__dlpack_device__ = device_in_dlpack


def _print_dtype(original):
    """Return what turns values into those that printing measures: 32-bit floats under MPS's rules."""

    @functools.wraps(original)
    def measured(tensor):
        if limits.active and tensor.device.type == placement.NAME:
            return tensor.to(torch.float32)
        return original(tensor)

    return measured
