"""Telling PyTorch about the simulated accelerator: once in a process, and only on request."""

import functools
import io
import re
import sys
import threading
import warnings
from multiprocessing.reduction import ForkingPickler
from types import ModuleType

import torch
from torch.multiprocessing.reductions import reduce_tensor

from devlab.sim import accounts, data, dispatch, kernels, operators, private, random_numbers, rule, torch_sim
from devlab.sim.data import on_device, on_host

_libraries: list = []


def enable() -> None:
    """Register the simulated accelerator `sim` with PyTorch, for the rest of the process.

    A second call does nothing. Afterwards `torch.device("sim")`, `torch.sim` and `torch.accelerator` answer.

    Raises:
        RuntimeError: when CUDA was used before, when another accelerator has taken PyTorch's place for
            extensions, or when this torch lacks something that the simulator needs.

    >>> import torch, devlab.sim
    >>> devlab.sim.enable()
    >>> torch.ones(2, device="sim") + 1
    tensor([2., 2.], device='sim:0')
    """
    if enabled():
        return
    private.require()
    if torch.cuda.is_initialized():
        raise RuntimeError(
            "CUDA was already used in this process, and PyTorch takes one accelerator for the rest of it; "
            "restart the kernel and ask for the simulated accelerator first"
        )
    taken = private.backend_name()
    if taken != "privateuseone":
        raise RuntimeError(
            f"PyTorch has room for one accelerator from outside, and {taken!r} is already registered; "
            "the simulated accelerator needs a fresh Python process"
        )
    from devlab.sim import torch_sim

    private.setup_backend(data.NAME, backend_module=torch_sim, device_guard=_Guard())
    # `import torch.sim` and pickled references find the module as they find torch.cuda.
    sys.modules["torch.sim"] = torch_sim
    sys.modules["torch.sim.memory"] = torch_sim.memory
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=False, for_module=False, for_packed_sequence=False, for_storage=True
    )
    _register_kernels()
    random_numbers.make_defaults()
    _route()


class _Guard(private.DeviceGuard or object):
    """What PyTorch's C++ asks for the kind of device that it is switching to, dozens of times a backward."""

    def type_(self, kind=private.DeviceType and private.DeviceType.PrivateUse1):
        try:
            private.raise_pending()
        except BaseException as error:  # Ctrl-C included
            _keep_error(error)
        return kind


def enabled() -> bool:
    """Return whether the simulated accelerator is registered in this process.

    >>> import devlab.sim
    >>> devlab.sim.enable()
    >>> devlab.sim.enabled()
    True
    """
    return bool(_libraries)


def _register_kernels() -> None:
    library = private.open_library("IMPL", "aten", "PrivateUse1", __file__, 1)
    _libraries.extend(operators.register_autocast(private.open_library))
    on_cpu = private.open_library("IMPL", "aten", "CPU", __file__, 1)
    _libraries.extend((library, on_cpu))
    for key, names in kernels.SPARSE.items():
        _libraries.append(private.open_library("IMPL", "aten", key, __file__, 1))
        for name in names:
            _libraries[-1].impl(name, key, kernels.refuse_sparse, False)
    for name, function in data.OPERATORS.items():
        on_cpu.impl(name, "CPU", function, False)
    special = kernels.SPECIAL | {name: kernels.view(name) for name in kernels.VIEWS}
    for name in private.operator_names():
        namespace, _, short = name.partition("::")
        if namespace != "aten":
            continue
        if short in special:
            library.impl(short, "PrivateUse1", special[short], False)
        elif not _left_to_pytorch(name):
            library.impl(short, "PrivateUse1", dispatch.kernel(name), False)


def _left_to_pytorch(name: str) -> bool:
    """Return whether PyTorch's own kernel serves every device: a composite, or a view."""
    if name in _MIXED_RESULTS:
        return True
    if name in _operators_of("CompositeImplicitAutograd"):
        # A few composites have a kernel for the CPU that rounds otherwise: then that one is wanted.
        return name not in _operators_of("CPU")
    arguments = str(private.find_schema(*name.partition(".")[::2])).rpartition(") -> ")[0]
    if "Tensor" not in arguments:
        # A factory: PyTorch's own makes empty memory and fills it.
        return name in _operators_of("CompositeExplicitAutograd")
    return bool(_VIEW.search(arguments)) or name.removeprefix("aten::").partition(".")[0] in _IN_PLACE_VIEWS


@functools.cache
def _operators_of(key: str) -> frozenset[str]:
    """Return which operators have a kernel for a dispatch key; to ask for each of them takes long."""
    return frozenset(private.operators_of(key))


# An argument that the result shares memory with, and that is not written: `Tensor(a)`, not `Tensor(a!)`.
_VIEW = re.compile(r"Tensor\(\w( -> \*)?\)")

# PyTorch's own composite leaves one result on the host, and checks what has to come from there.
_MIXED_RESULTS = frozenset({"aten::_pack_padded_sequence"})

# They change a tensor's own sizes and strides, and no element.
_IN_PLACE_VIEWS = frozenset(
    {"as_strided_", "detach_", "squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_"}
)


_kept = threading.local()


def _keep_error(error: BaseException) -> None:
    """Keep an error until the backward pass has ended; the first one counts."""
    _kept.error = getattr(_kept, "error", None) or error


def _kept_error() -> BaseException | None:
    """Return the error that waits, if one does, and let it wait no longer."""
    error, _kept.error = getattr(_kept, "error", None), None
    return error


_accelerator_names = {
    "device_count": torch_sim.device_count,
    "current_device_index": torch_sim.current_device,
    "current_device_idx": torch_sim.current_device,
    "set_device_index": torch_sim.set_device,
    "set_device_idx": torch_sim.set_device,
    "synchronize": torch_sim.synchronize,
    "device_index": torch_sim.device,
    "current_stream": torch_sim.current_stream,
    "set_stream": torch_sim.set_stream,
    "get_device_capability": torch_sim.get_device_capability,
}
# `torch.accelerator` takes these over from its module `memory`, so both hold them.
_memory_names = {
    "get_memory_info": torch_sim.mem_get_info,
    "empty_host_cache": accounts.empty_host_cache,
    **{
        name: getattr(torch_sim, name)
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


def _route() -> None:
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
    random_numbers.route_hosts()
    private.replace_print_dtype(_print_dtype)
    data.route_factories()
    _teach_saving()
    _substitute()


def _is_sim(device) -> bool:
    """Return whether something given as a device names a simulated one."""
    if isinstance(device, str):
        return device.partition(":")[0] == data.NAME
    return isinstance(device, torch.device) and device.type == data.NAME


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
        failure = _kept_error() or failure
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
    plain = private.TensorBase.data
    compatible = private.has_compatible_contents

    def crosses(tensor, other) -> bool:
        return tensor.device.type != other.device.type and data.NAME in (
            tensor.device.type,
            other.device.type,
        )

    def set_data(tensor, value) -> None:
        if not crosses(tensor, value):
            plain.__set__(tensor, value)
            return
        fresh = value.detach().view_as(value).requires_grad_(tensor.requires_grad)
        if tensor.grad is not None:
            fresh.grad = _renamed(tensor.grad, fresh)
        private.swap_contents(tensor, fresh)

    torch.Tensor.data = property(plain.__get__, set_data, doc=plain.__doc__)

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
        ("Generator", random_numbers.Generator),
        ("Stream", torch_sim.Stream),
        ("Event", torch_sim.Event),
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
        return data.device_of(data.current_index())
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
            if data.current_index():
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
        if self.device.type == data.NAME and kwargs.get("device") is None:
            kwargs["device"] = self.device
        return new_tensor(self, *args, **kwargs)

    torch.Tensor.new_tensor = beside

    @functools.wraps(record_stream)
    def noted(self, stream):
        # Results are computed at once, so memory is never handed on while a stream still reads it.
        if self.device.type != data.NAME:
            record_stream(self, stream)

    torch.Tensor.record_stream = noted


def _route_arrays() -> None:
    """Let `np.array(x)` say what `x.numpy()` says, without NumPy's warning, and DLPack name the device."""
    array, dlpack_device = torch.Tensor.__array__, torch.Tensor.__dlpack_device__

    @functools.wraps(array)
    def to_array(self, *args, **kwargs):
        return self.numpy() if self.device.type == data.NAME else array(self, *args, **kwargs)

    @functools.wraps(dlpack_device)
    def device_in_dlpack(self):
        if self.device.type == data.NAME:
            return private.EXTENSION_IN_DLPACK, self.device.index
        return dlpack_device(self)

    torch.Tensor.__array__ = to_array
    torch.Tensor.__dlpack_device__ = device_in_dlpack


def _print_dtype(original):
    """Return what turns values into those that printing measures: 32-bit floats under MPS's rules."""

    @functools.wraps(original)
    def measured(tensor):
        if rule.active and tensor.device.type == data.NAME:
            return tensor.to(torch.float32)
        return original(tensor)

    return measured


def _teach_saving() -> None:
    """Teach `torch.save`, `torch.load` and PyTorch's processes about the simulated devices."""
    torch.serialization.register_package(9, location, at_location)
    for kind in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(kind, send)


def location(storage) -> str | None:
    """Return where a storage being saved lives, if that is a simulated device."""
    return str(storage.device) if storage.device.type == data.NAME else None


def at_location(storage, place: str):
    """Return a loaded storage on the simulated device that `place` names, if it names one."""
    if place.partition(":")[0] != data.NAME:
        return None
    host = torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)
    return on_device(host.clone(), data.index_of(place)).untyped_storage()


def send(tensor):
    """Return how to make a tensor again in another process: a simulated device's travels as a copy."""
    if tensor.device.type != data.NAME:
        return reduce_tensor(tensor)
    file = io.BytesIO()
    torch.save(tensor.detach().cpu(), file)
    return receive, (file.getvalue(), str(tensor.device), tensor.requires_grad, type(tensor))


def receive(saved: bytes, device: str, requires_grad: bool, kind: type) -> torch.Tensor:
    """Make a tensor that was sent, on the simulated device of this process."""

    enable()
    tensor = torch.load(io.BytesIO(saved), weights_only=True).to(device)
    if kind is torch.nn.Parameter:
        return torch.nn.Parameter(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_(requires_grad)


NOT_COMPILED = (
    "torch.compile on a simulated device runs the captured graph as it is: nothing is fused, and its "
    "modelled time is that of the single operators."
)
NOT_PARALLEL = (
    "torch.nn.DataParallel is not simulated. PyTorch recommends torch.nn.parallel.DistributedDataParallel in "
    "its place, with one process for each device; it runs here on the CPU with the gloo backend."
)


def _substitute() -> None:
    """Put every substitute in its place."""
    _run_graphs_as_they_are()
    _refuse_data_parallel()
    private.allow_on_uninitialized(torch.Tensor.to, torch._has_compatible_shallow_copy_type)


def _run_graphs_as_they_are() -> None:
    """Let `torch.compile` with its usual backend leave what is on `sim` uncompiled, and say so."""
    compiled = private.InductorBackend.__call__

    @functools.wraps(compiled)
    def call(self, graph, inputs, **options):
        tensors = [*inputs, *graph.parameters(), *graph.buffers()]
        if not any(isinstance(one, torch.Tensor) and one.device.type == data.NAME for one in tensors):
            return compiled(self, graph, inputs, **options)
        warnings.warn(NOT_COMPILED, stacklevel=1)
        return graph.forward

    private.InductorBackend.__call__ = call


def _refuse_data_parallel() -> None:
    """Let `nn.DataParallel` over simulated devices say what to use in its place."""
    make = torch.nn.DataParallel.__init__

    @functools.wraps(make)
    def made(self, module, device_ids=None, *args, **kwargs):
        if torch.accelerator.current_accelerator().type == data.NAME:
            raise NotImplementedError(NOT_PARALLEL)
        make(self, module, device_ids, *args, **kwargs)

    torch.nn.DataParallel.__init__ = made
