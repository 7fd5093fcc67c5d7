"""Every private name of PyTorch that the simulator stands on, found once and checked on enabling.

A future torch may take one away. Importing this module must still work then, so that the course opens on
the CPU; `require` says which name is gone.
"""

import ctypes
from functools import reduce

import torch
import torch.utils._device
import torch.utils.backend_registration

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
has_kernel = _find("_C._dispatch_has_kernel_for_dispatch_key")
to_dlpack = _find("_C._to_dlpack")
from_dlpack = _find("_C._from_dlpack")
neg_view = _find("_neg_view")
swap_contents = _find("_C._swap_tensor_impl")
device_constructors = _find("utils._device._device_constructors")
CPU_KEY = _find("_C.DispatchKey.CPU")
COMPOSITE_KEY = _find("_C.DispatchKey.CompositeExplicitAutograd")
DeviceGuard = _find("_C._acc.DeviceGuard")
DeviceType = _find("_C._autograd.DeviceType")
GeneratorBase = _find("_C.Generator")
TensorBase = _find("_C.TensorBase")
StorageBase = _find("_C.StorageBase")

# A DLPack capsule as the 64-bit words of the struct that it points to.
capsule_words = ctypes.PYFUNCTYPE(ctypes.POINTER(ctypes.c_int64), ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


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
