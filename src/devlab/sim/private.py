"""Every private name of PyTorch that the simulator stands on, found once and checked on enabling.

A future torch may take one away. Importing this module must still work then, so that the course opens on
the CPU; `require` says which name is gone.
"""

import contextlib
import ctypes
import sys
from collections.abc import Iterator
from functools import partial, reduce

import torch
import torch.utils._device
import torch.utils.backend_registration
import torch.utils.dlpack
from torch.utils._python_dispatch import TorchDispatchMode

_missing: list[str] = []


def _find(path: str):
    """Return the object at a dotted path below `torch`, or note that it is missing."""
    try:
        return reduce(getattr, path.split("."), torch)
    except AttributeError:
        _missing.append(f"torch.{path}")
        return None


setup_backend = _find("utils.backend_registration._setup_privateuseone_for_python_backend")
backend_name = _find("_C._get_privateuse1_backend_name")
open_library = _find("_C._dispatch_library")
operator_names = _find("_C._dispatch_get_all_op_names")
find_schema = _find("_C._get_schema")
operators_of = _find("_C._dispatch_get_registrations_for_dispatch_key")
has_kernel = _find("_C._dispatch_has_kernel_for_dispatch_key")
to_dlpack = _find("_C._to_dlpack")
from_dlpack = _find("_C._from_dlpack")
neg_view = _find("_neg_view")
swap_contents = _find("_C._swap_tensor_impl")
device_constructors = _find("utils._device._device_constructors")
DeviceContext = _find("utils._device.DeviceContext")
function_modes = _find("overrides._get_current_function_mode_stack")
without = _find("_C._ExcludeDispatchKeyGuard")
DispatchKeySet = _find("_C.DispatchKeySet")
AutocastKey = _find("_C.DispatchKey.AutocastPrivateUse1")
AUTOCAST_KEYS = DispatchKeySet and DispatchKeySet(AutocastKey)
jit_builtins = _find("jit._builtins")
run_backward = _find("autograd.graph._engine_run_backward")
has_compatible_contents = _find("_has_compatible_shallow_copy_type")
CPU_KEY = _find("_C.DispatchKey.CPU")
COMPOSITE_KEY = _find("_C.DispatchKey.CompositeExplicitAutograd")
DeviceGuard = _find("_C._acc.DeviceGuard")
DeviceType = _find("_C._autograd.DeviceType")
GeneratorBase = _find("_C.Generator")
TensorBase = _find("_C.TensorBase")
measure_for_printing = _find("_tensor_str.tensor_totype")
EXTENSION_IN_DLPACK = _find("utils.dlpack.DLDeviceType.kDLExtDev")
functions = _find("_C._VariableFunctions")
InductorBackend = _find("_TorchCompileInductorWrapper")
uninitialized = _find("nn.parameter.UninitializedTensorMixin")

# A DLPack capsule as the 64-bit words of the struct that it points to.
capsule_words = ctypes.PYFUNCTYPE(ctypes.POINTER(ctypes.c_int64), ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)

# Raise the error that Python has noted and nobody has raised yet, where C++ calls Python regardless. Any
# function of Python's own does so after it was called through ctypes; this one does nothing else.
raise_pending = ctypes.PYFUNCTYPE(ctypes.c_int)(("Py_IsInitialized", ctypes.pythonapi))

# Which of those words is the device: its kind in the lower half, its index in the upper.
DEVICE_WORD = 1
# Where in a Python object its own fields begin. A capsule's first one is the pointer that it carries.
_FIELDS = object.__basicsize__
_pointer_at = ctypes.POINTER(ctypes.c_int64).from_address


def _words_by_address(capsule):
    return _pointer_at(id(capsule) + _FIELDS)


def _words_by_call(capsule):
    return capsule_words(capsule, b"dltensor")


def _quickest_words():
    """Return what finds a capsule's words: by address where this Python lays capsules out so.

    Asking Python for a capsule's pointer takes three times as long as reading it, on every operator.
    """
    if sys.implementation.name != "cpython" or to_dlpack is None:
        return _words_by_call
    capsule = to_dlpack(torch.empty(1, device="cpu"))
    pointer = ctypes.addressof(capsule_words(capsule, b"dltensor").contents)
    fields = (ctypes.c_int64 * 1).from_address(id(capsule) + _FIELDS)
    return _words_by_address if fields[0] == pointer else _words_by_call


# The words of a DLPack capsule's struct; they may be read and written.
words = _quickest_words()


def overload(name: str):
    """Return the operator of a full name, such as `aten::add.Tensor`."""
    namespace, _, rest = name.partition("::")
    packet, _, suffix = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), suffix or "default")


def schema_of(op):
    """Return an operator's schema."""
    return op._schema


def caller_of(op):
    """Return what calls an operator with the least ceremony."""
    return op._op


def public_function(name: str):
    """Return the function of tensors or the method that an operator such as `aten::add_` is public under."""
    short = name.removeprefix("aten::")
    return getattr(TensorBase if short.endswith("_") else functions, short)


def caller_under(op, key):
    """Return what calls the kernel that an operator has under a dispatch key, wherever its tensors are."""
    return partial(op._op_dk, key)


def address_of(generator) -> int:
    """Return what tells one generator from another, whichever Python object names it."""
    return generator._cdata


def replace_backward(run_backward) -> None:
    """Put another function in the place of the one through which every backward goes."""
    torch.autograd.graph._engine_run_backward = torch.autograd._engine_run_backward = run_backward


def replace_print_dtype(make) -> None:
    """Replace the function that turns a tensor's values into those that printing measures."""
    torch._tensor_str.tensor_totype = make(measure_for_printing)


def replace_compatible(has_compatible_contents) -> None:
    """Replace the function that lets `module.to` exchange a tensor's contents."""
    torch._has_compatible_shallow_copy_type = has_compatible_contents


def allow_on_uninitialized(*functions) -> None:
    """Let the parameters of lazy modules, which hold no data, take what replaces PyTorch's own functions."""
    uninitialized._allowed_methods.extend(functions)


def require() -> None:
    """Raise an error that names what this torch lacks.

    Raises:
        RuntimeError: when a private name that the simulator needs is gone.
    """
    if _missing:
        raise RuntimeError(
            f"the simulated accelerator does not work on torch {torch.__version__}, which no longer has "
            f"{', '.join(_missing)}. The course runs on the CPU; torch 2.11 to 2.15 can be simulated on."
        )


def keep_builtin(function, replacement) -> None:
    """Let TorchScript, which PyTorch's own decompositions use, take `replacement` for `function`."""
    # The table is made when TorchScript is first used, and then finds the replacement by itself.
    table = jit_builtins._builtin_table
    if table is not None and id(function) in table:
        table[id(replacement)] = table[id(function)]


class OperatorMode(TorchDispatchMode):
    """A TorchDispatchMode that is called directly.

    By default PyTorch puts a switch for its compiler around each call, which costs more than the call and
    loads the compiler. Under such a mode nothing is compiled either way.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


# The two structs that a capsule may point to, and the 64-bit word at which the tensor in it begins:
# address, device, dimensions and dtype, shape, strides, offset.
_BEGINS = {b"dltensor": 0, b"dltensor_versioned": 4}
_DIMENSIONS, _SHAPE, _STRIDES = 2, 3, 4
_READER = "_from_dlpack"


@contextlib.contextmanager
def negative_strides_refused() -> Iterator[None]:
    """Let `torch.from_dlpack` raise BufferError, in the block, for memory that is read backwards.

    >>> import numpy
    >>> with negative_strides_refused():
    ...     torch.from_dlpack(numpy.arange(3)[::-1])
    Traceback (most recent call last):
    ...
    BufferError: negative strides: PyTorch has no such tensors, and torch.from_dlpack may end the process
    """
    original = getattr(torch._C, _READER, None)
    if original is None:  # a torch that reads capsules in another way
        yield
        return

    def reader(capsule):
        if any(step < 0 for step in _steps(capsule)):
            raise BufferError(
                "negative strides: PyTorch has no such tensors, and torch.from_dlpack may end the process"
            )
        return original(capsule)

    setattr(torch._C, _READER, reader)
    try:
        yield
    finally:
        setattr(torch._C, _READER, original)


def _steps(capsule: object) -> list[int]:
    """Return the strides that lead from element to element; none where there is at most one element."""
    for name, begin in _BEGINS.items():
        try:
            words = capsule_words(capsule, name)
        except (ValueError, ctypes.ArgumentError):  # the other struct, or no capsule at all
            continue
        if not words[begin + _STRIDES]:  # none given: the elements lie side by side
            return []
        shape, strides = (
            ctypes.cast(words[begin + part], ctypes.POINTER(ctypes.c_int64)) for part in (_SHAPE, _STRIDES)
        )
        dimensions = range(words[begin + _DIMENSIONS] & 0xFFFFFFFF)
        if any(shape[place] == 0 for place in dimensions):
            return []
        return [strides[place] for place in dimensions if shape[place] > 1]
    return []
