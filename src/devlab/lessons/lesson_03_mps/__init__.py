"""Lesson 03: MPS and other accelerators: one program for all of them, and what some of them lack."""

import contextlib
from collections.abc import Iterator

import torch
from torch.overrides import TorchFunctionMode

from devlab.checks.exercise import Lesson

lesson = Lesson(
    "03_mps",
    "MPS and other accelerators",
    ("choose_device", "current_accelerator_or_cpu", "supported_dtype", "with_fallback", "portable_randn"),
)

LACKING = ("linalg_matrix_exp", "mode")  # functions that CUDA has and MPS does not


class _Lacking(TorchFunctionMode):
    """Lets an accelerator refuse what MPS refuses: 64-bit floats, and the functions `LACKING`."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in LACKING and not args[0].is_cpu:
            raise NotImplementedError(f"The operator 'aten::{name}' is not implemented (pretended)")
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.dtype == torch.float64 and not result.is_cpu:
            raise TypeError("MPS doesn't support float64 (pretended)")
        return result


@contextlib.contextmanager
def apples_rules(device: torch.device) -> Iterator[None]:
    """Let an accelerator follow Apple's rules: MPS always does, the simulated one by itself."""
    if device.type == "sim":
        from devlab import sim

        with sim.rules("mps"):
            yield
    elif device.type == "mps":
        yield
    else:
        with _Lacking():
            yield
