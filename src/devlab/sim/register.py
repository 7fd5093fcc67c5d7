"""Telling PyTorch about the simulated accelerator: once in a process, and only on request."""

import functools
import re
import sys

import torch

from devlab.sim import autocast, dispatch, generators, hooks, kernels, pinned, placement, private, routing

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
    from devlab.sim import backend

    private.setup_backend(placement.NAME, backend_module=backend, device_guard=_Guard())
    # `import torch.sim` and pickled references find the module as they find torch.cuda.
    sys.modules["torch.sim"] = backend
    sys.modules["torch.sim.memory"] = backend.memory
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=False, for_module=False, for_packed_sequence=False, for_storage=True
    )
    _register_kernels()
    generators.make_defaults()
    routing.install()


class _Guard(private.DeviceGuard or object):
    """What PyTorch's C++ asks for the kind of device that it is switching to, dozens of times a backward."""

    def type_(self, kind=private.DeviceType and private.DeviceType.PrivateUse1):
        try:
            private.raise_pending()
        except BaseException as error:  # Ctrl-C included
            hooks.wait(error)
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
    _libraries.extend(autocast.register(private.open_library))
    on_cpu = private.open_library("IMPL", "aten", "CPU", __file__, 1)
    _libraries.extend((library, on_cpu))
    for key, names in kernels.SPARSE.items():
        _libraries.append(private.open_library("IMPL", "aten", key, __file__, 1))
        for name in names:
            _libraries[-1].impl(name, key, kernels.refuse_sparse_parts, False)
    for name, function in pinned.OPERATORS.items():
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
