"""What a device cannot do under MPS's rules, and how PyTorch says so: float64, and some operators."""

import torch

from devlab.sim import mixing, placement, storage

active = storage.refusals  # `refuse_dtype`, while MPS's rules are followed

# Present on CUDA and missing from MPS, beyond what PyTorch's list of native functions says.
_MISSING = frozenset(
    {"aten::linalg_eig", "aten::_linalg_eigvals", "aten::_linalg_eigh", "aten::linalg_lstsq"}
)


def refuse(name: str, *tensors) -> None:
    """Raise what MPS would for an operator that it lacks.

    Raises:
        NotImplementedError: when the operator is missing, in the wording that PyTorch has for MPS.
    """
    if name in _MISSING or mixing.missing_on_mps(name):
        raise NotImplementedError(
            f"The operator '{name}' is not currently implemented for the {placement.NAME} device under MPS's "
            "rules. As a temporary fix, you can run it on the CPU and move the result back; on a real MPS "
            "device the environment variable `PYTORCH_ENABLE_MPS_FALLBACK=1` does so. WARNING: this will be "
            "slower than running natively on MPS."
        )


def refuse_dtype(dtype: torch.dtype) -> None:
    """Raise what MPS would for a tensor of 64-bit floats.

    Raises:
        TypeError: for float64 and complex128.
    """
    if dtype in (torch.float64, torch.complex128):
        kind = str(dtype).removeprefix("torch.")
        raise TypeError(
            f"Cannot convert a {placement.NAME} Tensor to {kind} dtype as the MPS framework doesn't support "
            f"{kind}. Please use {'float32' if dtype is torch.float64 else 'complex64'} instead."
        )
