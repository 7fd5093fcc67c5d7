"""Every private name of PyTorch that the simulator stands on, found once and checked on enabling.

A future torch may take one away. Importing this module must still work then, so that the course opens on
the CPU; `require` says which name is gone.
"""

import contextlib
import ctypes
import functools
import sys
from collections.abc import Callable, Iterator
from operator import attrgetter

import torch
import torch.utils._device
import torch.utils._pytree
import torch.utils.backend_registration
import torch.utils.dlpack
from torch.utils._python_dispatch import TorchDispatchMode

_missing: list[str] = []


def _find(path: str):
    """Return the object at a dotted path below `torch`, or note that it is missing."""
    try:
        return functools.reduce(getattr, path.split("."), torch)
    except AttributeError:
        _missing.append(f"torch.{path}")
        return None


def _place(path: str) -> tuple:
    """Return the owner and the name of a function of PyTorch's that the simulator replaces."""
    _find(path)
    owner, _, name = path.rpartition(".")
    return _find(owner) if owner else torch, name


BACKWARD = _place("autograd.graph._engine_run_backward")  # runs every backward pass
BACKWARD_IMPORTED = _place("autograd._engine_run_backward")
COMPATIBLE = _place("_has_compatible_shallow_copy_type")  # may `module.to` exchange a tensor's contents?
PRINTED = _place("_tensor_str.tensor_totype")  # the values of a tensor as printing measures them
COMPILE = _place("_TorchCompileInductorWrapper.__call__")
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
number_of = _find("ops.aten._local_scalar_dense.default")  # the only element, as a Python number
swap_contents = _find("_C._swap_tensor_impl")
device_constructors = _find("utils._device._device_constructors")
DeviceContext = _find("utils._device.DeviceContext")
function_modes = _find("overrides._get_current_function_mode_stack")
without = _find("_C._ExcludeDispatchKeyGuard")
DispatchKeySet = _find("_C.DispatchKeySet")
AutocastKey = _find("_C.DispatchKey.AutocastPrivateUse1")
AUTOCAST_KEYS = DispatchKeySet and DispatchKeySet(AutocastKey)
CPU_AUTOCAST_KEYS = DispatchKeySet and DispatchKeySet(_find("_C.DispatchKey.AutocastCPU"))
convolution_backend = _find("_C._select_conv_backend")
jit_builtins = _find("jit._builtins")
compiled_frames = _find("_C._dynamo.eval_frame")
CPU_KEY = _find("_C.DispatchKey.CPU")
COMPOSITE_KEYS = (
    _find("_C.DispatchKey.CompositeExplicitAutograd"),
    _find("_C.DispatchKey.CompositeExplicitAutogradNonFunctional"),
)
IMPLICIT_KEY = _find("_C.DispatchKey.CompositeImplicitAutograd")
DeviceGuard = _find("_C._acc.DeviceGuard")
DeviceType = _find("_C._autograd.DeviceType")
GeneratorBase = _find("_C.Generator")
TensorBase = _find("_C.TensorBase")
EXTENSION_IN_DLPACK = _find("utils.dlpack.DLDeviceType.kDLExtDev")
functions = _find("_C._VariableFunctions")
uninitialized = _find("nn.parameter.UninitializedTensorMixin")
device_index = _find("accelerator._utils._get_device_index")
tree_leaves = _find("utils._pytree.tree_leaves")
tree_map = _find("utils._pytree.tree_map")

# A DLPack capsule as the 64-bit words of the struct that it points to.
capsule_words = ctypes.PYFUNCTYPE(ctypes.POINTER(ctypes.c_int64), ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)

# C++ may call Python although an error is noted that was not raised yet. This function raises such an error,
# as does every function of Python's own that is called through ctypes, and does nothing else.
raise_pending = ctypes.PYFUNCTYPE(ctypes.c_int)(("Py_IsInitialized", ctypes.pythonapi))

# The word that holds the device: its kind in the lower half, its index in the upper half.
DEVICE_WORD = 1
# The offset of a Python object's own fields. The first field of a capsule is the pointer.
_FIELDS = object.__basicsize__
_pointer_at = ctypes.POINTER(ctypes.c_int64).from_address


def _words_by_address(capsule):
    return _pointer_at(id(capsule) + _FIELDS)


def _words_by_call(capsule):
    return capsule_words(capsule, b"dltensor")


def _quickest_words():
    """Return the function that finds a capsule's words: by address where this Python lays capsules out so.

    Every operator needs the words, and to ask Python for the pointer takes three times as long as to read it.
    """
    if sys.implementation.name != "cpython" or to_dlpack is None:
        return _words_by_call
    capsule = to_dlpack(torch.empty(1, device="cpu"))
    pointer = ctypes.addressof(capsule_words(capsule, b"dltensor").contents)
    field = ctypes.c_int64.from_address(id(capsule) + _FIELDS)
    return _words_by_address if field.value == pointer else _words_by_call


# The words of a DLPack capsule's struct; they may be read and written.
words = _quickest_words()


def overload(name: str):
    """Return the operator of a full name, such as `aten::add.Tensor`."""
    namespace, _, rest = name.partition("::")
    packet, _, suffix = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), suffix or "default")


schema_of = attrgetter("_schema")  # of an operator
caller_of = attrgetter("_op")  # the quickest function that calls an operator
address_of = attrgetter("_cdata")  # of a generator, the same for all its Python objects


def public_function(name: str):
    """Return the function of tensors or the method that an operator such as `aten::add_` is public under."""
    short = name.removeprefix("aten::")
    return getattr(TensorBase if short.endswith("_") else functions, short)


def caller_under(op, key):
    """Return the function that calls an operator's kernel under a dispatch key, wherever the tensors are."""
    return functools.partial(op._op_dk, key)


def composite_of(name: str):
    """Return the function that makes an operator up of others, None where PyTorch has none for it."""
    keys = (key for key in COMPOSITE_KEYS if has_kernel(name, key.name))
    return next((caller_under(overload(name), key) for key in keys), None)


def replace(owner, name: str, make) -> None:
    """Put `make(original)` in the place of the function `owner.name`."""
    original = getattr(owner, name)
    replacement = functools.wraps(original)(make(original))
    # PyTorch's own decompositions are TorchScript, whose table of functions must know the replacement. The
    # table is made when TorchScript is first used: a table that is not made yet will find the replacement by
    # itself.
    table = jit_builtins._builtin_table
    if table is not None and id(original) in table:
        table[id(replacement)] = table[id(original)]
    setattr(owner, name, replacement)


def replaces(owner, name: str):
    """Return a decorator that puts a function, given the original first, in the place of `owner.name`."""

    def put(function):
        replace(owner, name, lambda original: lambda *args, **kwargs: function(original, *args, **kwargs))
        return function

    return put


def allow_on_uninitialized() -> None:
    """Let the parameters of lazy modules, which hold no data, take two of the replaced functions."""
    uninitialized._allowed_methods.extend((torch.Tensor.to, torch._has_compatible_shallow_copy_type))


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


class OperatorMode(TorchDispatchMode):
    """A TorchDispatchMode that is called directly.

    By default PyTorch puts a switch for the compiler around each call, which costs more than the call and
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
    """Return the strides along dimensions of more than one element; none if there is no element at all."""
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


def keep_storages_private() -> None:
    """Have a storage that is made for several processes be this process's own: no file holds it."""
    own = classmethod(lambda cls, size, *, device="cpu": cls(size, device=device))
    torch.UntypedStorage._new_shared = own


def leave_uncompiled(function: Callable) -> None:
    """Keep `torch.compile` from compiling a function's frame and those within; imports no compiler."""
    skip = compiled_frames._FrameAction.SKIP
    compiled_frames.set_code_exec_strategy(function.__code__, compiled_frames._FrameExecStrategy(skip, skip))
