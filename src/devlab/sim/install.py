"""Telling PyTorch about the simulated accelerator: once in a process, and only on request."""

import contextlib
import functools
import io
import os
import re
import sys
import threading
import warnings
from multiprocessing.reduction import ForkingPickler
from types import ModuleType

import torch
from torch.multiprocessing.reductions import reduce_tensor
from torch.utils.checkpoint import DefaultDeviceType

from devlab.attribution import point_at_callers
from devlab.sim import (
    accounts,
    autocasting,
    beyond_cpu,
    data,
    dispatch,
    kernels,
    operators,
    private,
    random_numbers,
    torch_sim,
)
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
    private.setup_backend(data.NAME, backend_module=torch_sim, device_guard=_Guard())
    # `import torch.sim` and pickled references find the module as they find torch.cuda.
    sys.modules["torch.sim"] = torch_sim
    sys.modules["torch.sim.memory"] = torch_sim.memory
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=False, for_module=False, for_packed_sequence=False, for_storage=True
    )
    _register_kernels()
    random_numbers.make_defaults()
    # PyTorch asks for the kind once and keeps the answer: an earlier checkpoint on the CPU has made it "cpu".
    DefaultDeviceType.set_device_type(data.NAME)
    _route()
    point_at_callers()
    if hasattr(os, "register_at_fork"):  # Windows has no fork
        os.register_at_fork(after_in_child=data.after_fork)


class _Kept(threading.local):
    error: BaseException | None = None  # of the backward pass that runs in this thread


_kept = _Kept()


class _Guard(private.DeviceGuard or object):
    """What PyTorch's C++ asks for the kind of device to switch to, dozens of times in a backward pass.

    An error that is raised inside such a question would end the process, so the guard keeps the first error
    until the backward pass has ended. Ctrl-C arrives in this way, too.
    """

    def type_(self, kind=private.DeviceType and private.DeviceType.PrivateUse1):
        try:
            private.raise_pending()
        except BaseException as error:
            _kept.error = _kept.error or error
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
    _libraries.extend(autocasting.register(private.open_library))
    on_cpu = private.open_library("IMPL", "aten", "CPU", __file__, 1)
    _libraries.extend((library, on_cpu))
    for key, kind in kernels.NOT_SIMULATED.items():
        _libraries.append(private.open_library("IMPL", "_", key, __file__, 1))
        _libraries[-1].fallback(key, kernels.kernel_that_refuses(kind), False)
    rows = private.open_library("IMPL", "aten", "SparseCsrPrivateUse1", __file__, 1)
    _libraries.append(rows)
    for name in kernels.PARTS:
        rows.impl(name, "SparseCsrPrivateUse1", kernels.kernel_that_refuses("sparse"), False)
    for name, function in data.OPERATORS.items():
        on_cpu.impl(name, "CPU", function, False)
    for key in ("AutogradPrivateUse1", "PrivateUse1"):  # the second key counts in inference mode
        _libraries.append(private.open_library("IMPL", "aten", key, __file__, 1))
        for name, function in beyond_cpu.composites().items():
            _libraries[-1].impl(name, key, function, False)
    special = kernels.SPECIAL | {name: kernels.view(name) for name in kernels.VIEWS}
    for name in private.operator_names():
        namespace, _, short = name.partition("::")
        if namespace != "aten":
            continue
        if short in special:
            library.impl(short, "PrivateUse1", special[short], False)
        elif not _is_left_to_pytorch(name):
            library.impl(short, "PrivateUse1", dispatch.kernel(name), False)


def _is_left_to_pytorch(name: str) -> bool:
    """Return whether PyTorch's own kernel serves every device: a composite, or a view."""
    if name in _COMPOSED:
        return True
    if name in _operators_of("CompositeImplicitAutograd"):
        # A few composites have a kernel for the CPU that rounds in another way, and then that kernel counts.
        return name not in _operators_of("CPU")
    arguments = str(private.find_schema(*name.partition(".")[::2])).rpartition(") -> ")[0]
    if "Tensor" not in arguments:
        # A factory: PyTorch's own makes empty memory and fills it.
        return name in _operators_of("CompositeExplicitAutograd")
    return bool(_VIEW.search(arguments)) or operators.short(name) in operators.IN_PLACE_VIEWS


@functools.cache
def _operators_of(key: str) -> frozenset[str]:
    """Return which operators have a kernel for a dispatch key; to ask for each of them takes long."""
    return frozenset(private.operators_of(key))


# An argument that the result shares memory with, and that is not written: `Tensor(a)`, not `Tensor(a!)`.
_VIEW = re.compile(r"Tensor\(\w( -> \*)?\)")

# CUDA runs PyTorch's composite, and what the composite does shows: one result stays on the host, a result is
# a view although the schema does not say so, or the operators within need memory of their own.
_COMPOSED = frozenset(
    f"aten::{name}"
    for name in operators.split_names(
        "_pack_padded_sequence _unsafe_view unsafe_split.Tensor unsafe_split_with_sizes _safe_softmax "
        "_unsafe_masked_index _unsafe_masked_index_put_accumulate allclose binary_cross_entropy_with_logits "
        "cholesky_solve count_nonzero dist isinf ldexp.Tensor linalg_pinv.atol_rtol_tensor logsumexp "
        "logsumexp.out masked_scatter mvlgamma soft_margin_loss soft_margin_loss.out"
    )
)

# The functions that `torch.accelerator` calls. Its module `memory` has some of these names as well.
_accelerator_names = {
    name: getattr(torch_sim, name)
    for name in operators.split_names(
        "current_stream device_count set_stream synchronize empty_cache memory_stats "
        "memory_allocated memory_reserved max_memory_allocated max_memory_reserved reset_peak_memory_stats "
        "reset_accumulated_memory_stats"
    )
}


def _capability(device=None) -> dict[str, set[torch.dtype]]:
    """Return in which dtypes a device can hold tensors, as `torch.accelerator.get_device_capability` does."""
    place = data.device_of(data.index_of(device))
    supported = set()
    for dtype in {value for value in vars(torch).values() if isinstance(value, torch.dtype)}:
        with contextlib.suppress(RuntimeError, TypeError, BufferError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that some dtypes are an experiment of PyTorch's
            torch.empty(0, dtype=dtype, device=place)
            supported.add(dtype)
    return {"supported_dtypes": supported}


_accelerator_names |= {
    "get_device_capability": _capability,
    "current_device_index": torch_sim.current_device,
    "current_device_idx": torch_sim.current_device,
    "device_index": torch_sim.device,
    "empty_host_cache": accounts.empty_host_cache,
    "get_memory_info": torch_sim.mem_get_info,
    "set_device_index": torch_sim.set_device_index,
    "set_device_idx": torch_sim.set_device_index,
}


def _route() -> None:
    """Put every replacement in its place."""
    private.leave_uncompiled(torch_sim.current_stream)  # compiled code calls this function before all else
    for name, function in _accelerator_names.items():
        setattr(torch.accelerator, name, function)
        if hasattr(torch.accelerator.memory, name):  # torch 2.11 has fewer names there
            setattr(torch.accelerator.memory, name, function)
    if hasattr(torch.accelerator.memory, "_snapshot"):  # of torch 2.13, which would ask CUDA
        torch.accelerator.memory._snapshot = accounts._snapshot
    _route_backward()
    _route_data()
    _route_storage()
    _route_classes()
    _route_bare_names()
    _route_methods()
    random_numbers.route_hosts()
    data.route_factories()
    _refuse_and_warn()
    private.allow_on_uninitialized()
    torch.serialization.register_package(9, location, at_location)
    for kind in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(kind, send)


def _is_sim(device) -> bool:
    """Return whether something given as a device names a simulated one."""
    if isinstance(device, str):
        return device.partition(":")[0] == data.NAME
    return isinstance(device, torch.device) and device.type == data.NAME


def _route_backward() -> None:
    """Run backward in the calling thread: the engine's own threads serve only index 0 of such a device."""

    @private.replaces(*private.BACKWARD)
    @private.replaces(*private.BACKWARD_IMPORTED)
    def run_backward(original, *args, **kwargs):
        result = failure = None
        try:
            with torch.autograd.set_multithreading_enabled(False):
                result = original(*args, **kwargs)
        except BaseException as error:
            failure = error
        failure, _kept.error = _kept.error or failure, None
        try:
            if failure is not None:
                raise failure
            return result
        finally:
            del failure  # the error holds this frame; if the frame held the error, the graph would live on


def _route_data() -> None:
    """Let `tensor.data = ...` and `module.to(...)` keep a tensor's identity, as they do on CUDA.

    PyTorch refuses to exchange the contents of a CPU tensor and a tensor of an extension's device.
    """
    plain = private.TensorBase.data

    def crosses(tensor, other) -> bool:
        return {tensor.device.type, other.device.type} == {"cpu", data.NAME}

    def set_data(tensor, value) -> None:
        if not crosses(tensor, value):
            plain.__set__(tensor, value)
            return
        fresh = value.detach().view_as(value).requires_grad_(tensor.requires_grad)
        if tensor.grad is not None:
            fresh.grad = _relabel_gradient(tensor.grad, fresh)
        private.swap_contents(tensor, fresh)

    torch.Tensor.data = property(plain.__get__, set_data, doc=plain.__doc__)

    @private.replaces(*private.COMPATIBLE)
    def has_compatible_contents(original, tensor, other) -> bool:
        return crosses(tensor, other) or original(tensor, other)


def _relabel_gradient(grad: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return a gradient labelled as on the device of `like`; right after, `module.to` copies the gradient."""
    host = on_host(grad) if _is_sim(grad.device) else grad.detach()
    host = host.to(like.dtype)
    return on_device(host, like.get_device()) if _is_sim(like.device) else host


def _route_storage() -> None:
    """Let a bare storage be made on a simulated device, as copying and loading do."""

    @private.replaces(torch.UntypedStorage, "__new__")
    def make(original, cls, *args, **kwargs):
        if not _is_sim(kwargs.get("device")):
            return original(cls, *args, **kwargs)
        form = {"dtype": torch.uint8, "device": kwargs["device"]}
        given = args[0] if args else 0
        made = torch.empty(given, **form) if isinstance(given, int) else torch.tensor(given, **form)
        return made.untyped_storage()

    @private.replaces(torch.UntypedStorage, "resize_")
    def refuse_to_resize(original, storage, size):
        if _is_sim(storage.device) and size != storage.nbytes():
            raise NotImplementedError(
                f"Could not resize a storage on {storage.device}: this is not simulated. Call `resize_` of "
                "the tensor, or make a new tensor."
            )
        return storage if _is_sim(storage.device) else original(storage, size)

    @private.replaces(torch.UntypedStorage, "new")
    def new_beside(original, storage):
        if _is_sim(storage.device):
            return torch.UntypedStorage(0, device=storage.device)
        return original(storage)


def _stand_in(base: type, ours: type) -> type:
    """Return a class that passes for PyTorch's `base` and makes `ours` for a simulated device."""
    ours_type = int(private.DeviceType.PrivateUse1)

    class StandIn(type):
        def __call__(cls, *args, **kwargs):
            device = kwargs["device"] if "device" in kwargs else next(iter(args), None)
            if kwargs.get("device_type", ours_type) != ours_type:
                return base(*args, **kwargs)
            of_current = device is None or type(device) is int  # a bare index means the accelerator
            if _is_sim(device) or (of_current and base is not private.GeneratorBase):
                return ours(*args, **kwargs)
            return base(*args, **kwargs)

        def __instancecheck__(cls, instance):
            return isinstance(instance, (base, ours))

        def __subclasscheck__(cls, subclass):
            return issubclass(subclass, (base, ours))

    return StandIn(base.__name__, (), {"__doc__": base.__doc__})


def _route_classes() -> None:
    """Let `torch.Generator`, `torch.Stream` and `torch.Event` make those of a simulated device."""
    routed = {}
    for ours in (random_numbers.Generator, torch_sim.Stream, torch_sim.Event):
        base = getattr(torch, ours.__name__)
        routed[base] = _stand_in(base, ours)
        setattr(torch, ours.__name__, routed[base])
    _rename_imported(routed)


def _rename_imported(routed: dict[type, type]) -> None:
    """Let `from torch import Event`, run before the simulator was enabled, mean what `torch.Event` now means.

    PyTorch's own modules keep PyTorch's classes. The classes are written in C and cannot be changed.
    """
    by_number = {id(base): ours for base, ours in routed.items()}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in ("torch", "torchgen") and module is not private:
            names = vars(module) if isinstance(module, ModuleType) else {}
            names.update(
                {key: by_number[id(kind)] for key, kind in list(names.items()) if id(kind) in by_number}
            )


def _resolve_device(value):
    """Return a bare `"sim"` as the current device, and anything else as it is."""
    if _is_sim(value) and torch.device(value).index is None:
        return data.device_of(data.current_index())
    return value


def _default_device() -> torch.device | None:
    """Return the device of the innermost `with torch.device(...)`, or else the default device, as named."""
    modes = reversed(private.function_modes())
    return next((mode.device for mode in modes if isinstance(mode, private.DeviceContext)), None)


def _route_bare_names() -> None:
    """Give a bare `"sim"` the current device's index where PyTorch's C++ would take index 0."""

    def routed(function, makes=True):
        def call(*args, **kwargs):
            if data.current_index():
                args = tuple(_resolve_device(value) for value in args)
                if kwargs.get("device") is not None:
                    kwargs["device"] = _resolve_device(kwargs["device"])
                elif makes and _is_sim(default := _default_device()):
                    kwargs["device"] = _resolve_device(default)
            return function(*args, **kwargs)

        return call

    # The default device is applied to the functions in this list, which must hold the original functions.
    private.device_constructors()
    private.replace(torch.Tensor, "to", functools.partial(routed, makes=False))
    for name in ("tensor", "as_tensor", "asarray"):
        private.replace(torch, name, routed)


def _route_methods() -> None:
    """Give a tensor's methods the meaning that they have on CUDA, where PyTorch's own fail or mislead."""

    @private.replaces(torch.Tensor, "new_tensor")
    def beside(original, tensor, *args, **kwargs):
        if _is_sim(tensor.device) and kwargs.get("device") is None:
            kwargs["device"] = tensor.device  # PyTorch's own would make the new tensor at index 0
        return original(tensor, *args, **kwargs)

    @private.replaces(torch.Tensor, "record_stream")
    def noted(original, tensor, stream):
        if _is_sim(tensor.device):
            data.keep_for(tensor, stream._queue)
        else:
            original(tensor, stream)

    @private.replaces(torch.Tensor, "__array__")
    def to_array(original, tensor, *args, **kwargs):
        # `x.numpy()` raises the same error as `np.array(x)`, without NumPy's warning.
        return tensor.numpy() if _is_sim(tensor.device) else original(tensor, *args, **kwargs)

    @private.replaces(torch.Tensor, "__dlpack_device__")
    def device_in_dlpack(original, tensor):
        if _is_sim(tensor.device):
            return private.EXTENSION_IN_DLPACK, tensor.device.index
        return original(tensor)

    @private.replaces(*private.PRINTED)
    def measured(original, tensor):
        # Printing computes in float64, which MPS's rules forbid.
        if data.refusals and _is_sim(tensor.device):
            return tensor.to(torch.float32)
        return original(tensor)


def location(storage) -> str | None:
    """Return where a storage being saved lives, if that is a simulated device."""
    return str(storage.device) if storage.device.type == data.NAME else None


def at_location(storage, place: str):
    """Return a loaded storage on the simulated device that `place` names, or None for another place."""
    if place.partition(":")[0] != data.NAME:
        return None
    storage = getattr(storage, "_untyped_storage", storage)
    host, made = (
        torch.empty(0, dtype=torch.uint8, device="cpu").set_(memory)
        for memory in (storage, torch.UntypedStorage(storage.nbytes()))
    )
    return on_device(made, data.index_of(place)).copy_(host).untyped_storage()  # a transfer, as on CUDA


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


def _refuse_and_warn() -> None:
    """Let `torch.compile` and `nn.DataParallel` say what they do not do on a simulated device."""

    @private.replaces(*private.COMPILE)
    def compile_graph(original, backend, graph, inputs, **options):
        tensors = [*inputs, *graph.parameters(), *graph.buffers()]
        if not any(isinstance(value, torch.Tensor) and _is_sim(value.device) for value in tensors):
            return original(backend, graph, inputs, **options)
        warnings.warn(NOT_COMPILED, stacklevel=1)
        return graph.forward

    @private.replaces(torch.nn.DataParallel, "__init__")
    def make(original, *args, **kwargs):
        if torch.accelerator.current_accelerator().type == data.NAME:
            raise NotImplementedError(NOT_PARALLEL)
        original(*args, **kwargs)
