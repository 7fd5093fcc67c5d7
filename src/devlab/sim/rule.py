"""The device rule: which tensors may meet, what CUDA and MPS lack, and which rule set is in force."""

import re
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch

from devlab.sim import clock, data, private, specs
from devlab.sim.allocator import allocators

# The operator is made of other operators: PyTorch is to run those, and they refuse wrong operands.
COMPOSITE = object()

_INDEXING = frozenset(
    {
        "aten::index",
        "aten::_unsafe_index",
        "aten::_unsafe_masked_index",
        "aten::index_put",
        "aten::index_put_",
        "aten::_unsafe_index_put",
        "aten::_index_put_impl_",
    }
)
# Every operand of these may be a zero-dimensional CPU tensor; other elementwise operators take one of them.
_ANY_HOST_SCALARS = frozenset({"where"})
# Elementwise operators whose tensors must all be on the device, whatever their dimension.
_NO_HOST_SCALARS = frozenset({"binary_cross_entropy", "binary_cross_entropy_backward"})


class Declaration(NamedTuple):
    """What PyTorch's list of native functions says about an operator.

    The entry is read when a property is asked: few operators ever are.
    """

    entry: str

    @property
    def elementwise(self) -> bool:
        """Tell whether a zero-dimensional CPU tensor may meet an accelerator's."""
        return "device_check: NoCheck" in self.entry

    @property
    def makes_room(self) -> bool:
        """Tell whether room for the result is made, and its place checked, before an iterator looks."""
        return self.elementwise and "structured: True" in self.entry and "_inherits:" not in self.entry

    @property
    def structured(self) -> bool:
        """Tell whether the operator's kernels share a check of the operands."""
        return "structured: True" in self.entry or "structured_delegate:" in self.entry

    @property
    def on_cuda(self) -> bool:
        """Tell whether CUDA has a kernel of its own for the operator."""
        return bool(re.search(r"\bCUDA\b.*:|structured_delegate:", self.entry))

    @property
    def on_mps(self) -> bool:
        """Tell whether MPS has a kernel for the operator, or runs the operators that make it up."""
        return bool(re.search(r"\b(MPS|Composite\w+)\b.*:|structured_delegate:", self.entry))


@cache
def declarations() -> dict[str, Declaration]:
    """Return each native function's declaration by name, from the list that torch carries."""
    spec = find_spec("torchgen")
    if spec is None or spec.origin is None:
        return {}
    listing = Path(spec.origin).parent / "packaged" / "ATen" / "native" / "native_functions.yaml"
    if not listing.exists():
        return {}
    entries = f"\n{listing.read_text(encoding='utf-8')}".split("\n- func: ")[1:]
    return {f"aten::{entry.partition('(')[0]}": Declaration(entry) for entry in entries}


# Parts of other operators that MPS has nothing of its own for, where PyTorch's list names no kernel.
_NOT_REBUILT = frozenset({"aten::_linalg_eigvals", "aten::_linalg_eigh"})


def find_missing_on_mps(name: str) -> str | None:
    """Return the name of the kernel that an operator has for CUDA and lacks for MPS, or None.

    A structured operator is run by the one that it delegates to, and that name is in PyTorch's message. Names
    that begin with an underscore are parts of other operators, which MPS builds from parts of its own.

    >>> find_missing_on_mps("aten::mode"), find_missing_on_mps("aten::heaviside")
    ('aten::mode', 'aten::heaviside.out')
    """
    name = f"{name}.out" if name == "aten::linalg_lstsq" else name  # which is composed of this operator
    declared = declarations().get(name)
    if declared is None or (name.startswith("aten::_") and name not in _NOT_REBUILT):
        return None
    if delegate := re.search(r"structured_delegate: (\S+)", declared.entry):
        name = f"aten::{delegate[1]}"
        declared = declarations()[name]
    return name if declared.on_cuda and not declared.on_mps else None


def settle(name: str, schema: torch.FunctionSchema, args: tuple, kwargs: dict):
    """Return the index of the device on which operands from several devices are to meet, or `COMPOSITE`.

    Raises:
        RuntimeError: when they may not meet, in the words that PyTorch uses on CUDA.
    """
    operands = _operands(schema, args, kwargs)
    if schema.name in _INDEXING:
        return _settle_indexing(schema.name, operands)
    if schema.name == "aten::convolution":
        return _convolution(operands, args)
    if schema.name == "aten::masked_fill_":
        return _settle_masked_fill(operands)
    declared = declarations().get(name)
    composite = private.composite_of(name) is not None
    if composite and (declared is None or not declared.on_cuda or "foreach" in name):
        return COMPOSITE
    if declared is None or declared.elementwise:
        return _elementwise(name, declared, operands)
    return _one_device(schema, declared, operands)


def _operands(schema, args, kwargs) -> list[tuple[str, torch.Tensor, bool]]:
    """Return (argument's name, tensor, whether written), outputs first, as PyTorch orders its checks."""
    found = []
    for position, argument in enumerate(schema.arguments):
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        written = argument.alias_info is not None and argument.alias_info.is_write
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(tensor, torch.Tensor):
                found.append((argument.name, tensor, written, argument.is_out))
    found.sort(key=lambda operand: not operand[3])
    return [operand[:3] for operand in found]


def _two_devices(first: torch.device, second: torch.device) -> RuntimeError:
    return RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{first} and {second}!"
    )


def elsewhere(argument: str, device: torch.device, common: torch.device, method: str) -> RuntimeError:
    """Return what CUDA's wrapper of an operator says of an argument that is on another device."""
    return RuntimeError(
        f"Expected all tensors to be on the same device, but got {argument} is on {device}, different from "
        f"other tensors on {common} (when checking argument in method {method})"
    )


def _elementwise(name: str, declared: Declaration | None, operands) -> int:
    if declared is not None and declared.makes_room:
        (_, out, _), (_, tensor, _) = operands[0], operands[-1]
        if tensor.is_cpu:
            raise RuntimeError("CUDAGuardImpl initialized with non-CUDA DeviceType: cpu")
        asked = f"Expected out tensor to have device {tensor.device}"
        raise RuntimeError(f"{asked}, but got {out.device} instead")
    common = next(tensor.device for _, tensor, _ in operands if tensor.device.type == data.NAME)
    base = name.removeprefix("aten::").partition(".")[0]
    scalars = 0
    for _, tensor, written in operands:
        if tensor.is_cpu and tensor.dim() == 0 and not written and base not in _NO_HOST_SCALARS:
            scalars += 1
            if scalars > 1 and base not in _ANY_HOST_SCALARS:
                raise RuntimeError("Trying to pass too many CPU scalars to non-CPU kernel!")
        elif tensor.device != common:
            raise _two_devices(common, tensor.device)
    return common.index


def _one_device(schema, declared: Declaration, operands) -> int:
    common = operands[0][1].device
    for argument, tensor, _ in operands:
        if tensor.device != common:
            raise elsewhere(argument, tensor.device, common, _method(schema, declared, operands))
    return common.index


def _is_cudnns(operands) -> bool:
    """Tell whether cuDNN normalizes a batch: images on the device, scaled and shifted."""
    places = {name: tensor for name, tensor, _ in operands}
    images = places["input"].dim() > 2 and not places["input"].is_cpu
    return images and "weight" in places and "bias" in places


def _method(schema, declared: Declaration, operands) -> str:
    """Return the name that PyTorch's generator gives to the CUDA wrapper of an operator."""
    base = schema.name.removeprefix("aten::")
    if base == "native_batch_norm" and _is_cudnns(operands):
        base = "cudnn_batch_norm"
    out = "_out" if any(argument.is_out for argument in schema.arguments) else ""
    if declared.structured:
        return f"wrapper_CUDA_{base}{out}" + (f"_{schema.overload_name}" if schema.overload_name else "")
    return f"wrapper_CUDA_{schema.overload_name}_{base}{out}"


def _settle_indexing(name: str, operands) -> int:
    """Let CPU indices index a tensor on any device, and let a single value come from elsewhere.

    Where elements are written, PyTorch copies indices from any device to the tensor's.
    """
    own = next(tensor.device for argument, tensor, _ in operands if argument == "self")
    for argument, tensor, _ in operands:
        if argument in ("values", "value") and tensor.device != own and tensor.dim() > 0:
            accelerator, other = sorted((own, tensor.device), key=lambda device: device.type == "cpu")
            raise _two_devices(accelerator, other)
        if not tensor.is_cpu and tensor.device != own:
            if "put" not in name:
                raise RuntimeError(
                    f"indices should be either on cpu or on the same device as the indexed tensor ({own})"
                )
            tensor.to(own)  # for the clock: the CPU reads the original
    return own.index if own.type == data.NAME else -1


def _convolution(operands, args: tuple) -> int:
    """Refuse parameters that are elsewhere than the input, in oneDNN's words where that is on the CPU."""
    own, dense = operands[0][1], ""
    if own.is_cpu:
        host = [data.on_host(x) if isinstance(x, torch.Tensor) and not x.is_cpu else x for x in args]
        if private.convolution_backend(*host).name.startswith("Slow"):
            return COMPOSITE  # the operator of that name looks at the devices by itself
        dense = " or input should be a MKLDNN tensor and {} is a dense tensor"
    for name, tensor, _ in operands[1:]:
        if tensor.device != own.device:
            raise RuntimeError(
                f"Input type ({own.type()}) and {name} type ({tensor.type()}) should be the same"
                + dense.format(name)
            )
    return own.device.index


def _settle_masked_fill(operands) -> int:
    places = {name: tensor for name, tensor, _ in operands}
    own, mask, value = places["self"], places["mask"], places.get("value")
    if value is not None and value.dim() > 0:
        raise RuntimeError(
            "masked_fill_ only supports a 0-dimensional value tensor, "
            f"but got tensor with {value.dim()} dimension(s)."
        )
    if own.is_cpu and value is not None:
        raise RuntimeError("masked_fill_: Expected inputs to be on same device")
    if mask.device != own.device:
        raise RuntimeError(
            f"expected self and mask to be on the same device, but got mask on {mask.device} "
            f"and self on {own.device}"
        )
    return own.device.index


active = data.limits  # not empty while something beside CUDA's plain rules must be asked


def refuse(name: str) -> None:
    """Raise, under MPS's rules, what PyTorch raises for an operator that MPS lacks.

    Raises:
        NotImplementedError: when the operator is missing, in the wording that PyTorch has for MPS.
    """
    if refuse_dtype in data.refusals and (missing := find_missing_on_mps(name)):
        raise lacks_operator(missing)


def lacks_operator(name: str, kind: str = data.NAME) -> NotImplementedError:
    """Return what PyTorch raises for an operator that MPS lacks, here on a kind of device under its rules."""
    return NotImplementedError(
        f"The operator '{name}' is not currently implemented for the {kind} device under MPS's rules. As a "
        "temporary fix, you can run it on the CPU and move the result back; on a real MPS device the "
        "environment variable `PYTORCH_ENABLE_MPS_FALLBACK=1` does so. WARNING: this will be slower than "
        "running natively on MPS."
    )


def refuse_dtype(dtype: torch.dtype, name: str = data.NAME) -> None:
    """Raise what MPS would for a tensor of 64-bit floats, here on a kind of device that follows its rules.

    Raises:
        TypeError: for float64 and complex128.
    """
    if dtype in (torch.float64, torch.complex128):
        kind = str(dtype).removeprefix("torch.")
        raise TypeError(
            f"Cannot convert a {name} Tensor to {kind} dtype as the MPS framework doesn't support "
            f"{kind}. Please use {'float32' if dtype is torch.float64 else 'complex64'} instead."
        )


_SETS = {"cuda": (specs.CUDA_LIKE, 2), "mps": (specs.MPS_LIKE, 1)}


class rules:
    """A block in which the simulated accelerator follows another device's rules: `"cuda"` or `"mps"`.

    Under `"mps"` there is one device, no float64, and the operators that MPS lacks are missing. Tensors made
    before the block stay as they are.

    Raises:
        ValueError: when there is no such rule set.

    >>> import torch, devlab.sim
    >>> devlab.sim.enable()
    >>> with devlab.sim.rules("mps"):
    ...     print(devlab.sim.device_count(), torch.sim.get_device_name())
    1 simulated accelerator, mps-like
    """

    def __init__(self, name: str):
        if name not in _SETS:
            raise ValueError(f"no rule set is called {name!r}; there are {', '.join(map(repr, _SETS))}")
        self.name = name

    def __enter__(self):
        current, specs_now = data.current_index(), [engines.spec for engines in clock.devices]
        self._outer = (data.device_count(), current, list(data.refusals), specs_now)
        spec, count = _SETS[self.name]
        refusals = [refuse for refuse in data.refusals if refuse is not refuse_dtype]
        refusals += [refuse_dtype] if self.name == "mps" else []
        _follow(count, min(current, count - 1), refusals, [spec] * len(specs_now))
        return self

    def __exit__(self, *error):
        _follow(*self._outer)


def _follow(count: int, current: int, refusals: list, specs_of_devices: list[specs.Spec]) -> None:
    data.set_count(count)
    data.set_current_index(current)
    data.refusals[:] = refusals
    data.set_failures([])  # the devices of other rules are others, and have not failed
    for engines, allocator, spec in zip(clock.devices, allocators, specs_of_devices, strict=True):
        engines.spec = spec
        allocator.resize(spec.capacity)


def following() -> str:
    """Return the name of the rule set in force."""
    return "mps" if refuse_dtype in data.refusals else "cuda"


WHOLE = frozenset({torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64})
_COMPLEX = frozenset({torch.complex32, torch.complex64, torch.complex128})
# For each operator: the dtypes of its first tensor that the CPU takes and CUDA refuses, as OpInfo says, the
# tables behind PyTorch's own tests, or an H200, and the name of its CUDA kernel, which stands in the message.
_PAIRS = {
    **dict.fromkeys(("mm", "addmm", "addbmm"), (WHOLE, "addmm_cuda")),
    **dict.fromkeys(("mv", "addmv"), (WHOLE, "addmv_impl_cuda")),
    **dict.fromkeys(("bmm", "baddbmm", "_trilinear"), (WHOLE, "baddbmm_cuda")),
    **dict.fromkeys(("dot", "vdot"), (WHOLE, "dot")),
    "avg_pool2d": ((torch.int64,), "avg_pool2d_out_cuda_frame"),
    "avg_pool3d": ((torch.int64,), "avg_pool3d_out_cuda"),
    "max_pool2d_with_indices": (WHOLE, "max_pool2d_with_indices_out_cuda_frame"),
    "max_pool3d_with_indices": (WHOLE, "max_pool3d_with_indices_out_frame"),
    **dict.fromkeys(
        ("upsample_bilinear2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"),
        ((torch.uint8,), "upsample_bilinear2d_out_frame"),
    ),
    "upsample_bicubic2d": ((torch.uint8,), "upsample_bicubic2d_out_frame"),
    **{name: (specs.HALF, f"{name}_cuda") for name in ("igamma", "igammac")},
    "angle": (() if hasattr(torch, "bcomplex32") else specs.HALF, "angle_cuda"),  # PyTorch 2.14 has them
    "histc": (specs.HALF, "histc"),
    "native_dropout_backward": (WHOLE | _COMPLEX | {torch.bool}, "masked_scale"),
    "addcmul": ((torch.complex32,), "addcmul_cuda"),
    "sort": ((torch.uint16,), "sort"),
    **{
        name: ((torch.uint16,), f"{name}_cuda")
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "roll")
    },
}
# cuDNN is asked before any kernel of PyTorch. It has no name for some dtypes, and for others a name and no
# kernel: PyTorch's issue 152992 has that message.
_CONVOLUTIONS = frozenset({"convolution", "convolution_overrideable"})
_NO_NAME = frozenset({torch.int64, torch.int16, torch.bool, torch.uint16})
_NO_ENGINE = WHOLE - _NO_NAME
_ADDED_ALONE = _COMPLEX | {torch.bool}  # `scatter_reduce` takes the sum of these and nothing else
# What the CUDA kernels of other operators are called, where it is not the CPU's name with another ending.
_KERNELS = {
    **dict.fromkeys(("_softmax", "_log_softmax", "_safe_softmax"), "host_softmax"),
    **dict.fromkeys(("lt", "le", "gt", "ge"), "compare_cuda"),
    **dict.fromkeys(("cholesky", "linalg_cholesky_ex"), "cholesky_cusolver"),
    **dict.fromkeys(("linalg_lu", "linalg_lu_factor_ex"), "lu_factor_cusolver"),
    "adaptive_max_pool2d": "adaptive_max_pool2d_cuda",
    "_adaptive_avg_pool2d": "adaptive_avg_pool2d_cuda",
    "_linalg_svd": "svd_cuda_gesvdjBatched",
    "gelu": "GeluCUDAKernelImpl",
    "log_sigmoid_forward": "log_sigmoid_forward_cuda",
}
# These have no kernel for CUDA at all.
_HOST_ALONE = frozenset(
    {
        "histogram",
        "to_mkldnn",
        "_histogramdd_bin_edges",
        "_histogramdd_from_bin_cts",
        "_histogramdd_from_bin_tensors",
    }
)
# The operators that `torch.use_deterministic_algorithms` names, with the name that their CUDA kernels give.
_NOT_DETERMINISTIC = {
    "avg_pool3d_backward": "avg_pool3d_backward_cuda",
    "_adaptive_avg_pool2d_backward": "adaptive_avg_pool2d_backward_cuda",
    "_adaptive_avg_pool3d_backward": "adaptive_avg_pool3d_backward_cuda",
    "adaptive_max_pool2d_backward": "adaptive_max_pool2d_backward_cuda",
    "fractional_max_pool2d_backward": "fractional_max_pool2d_backward_cuda",
    "fractional_max_pool3d_backward": "fractional_max_pool3d_backward_cuda",
    "max_unpool2d": "max_unpooling2d_forward_out",
    "max_unpool3d": "max_unpooling3d_forward_out",
    "upsample_linear1d_backward": "upsample_linear1d_backward_out_cuda",
    "upsample_bicubic2d_backward": "upsample_bicubic2d_backward_out_cuda",
    "upsample_trilinear3d_backward": "upsample_trilinear3d_backward_out_cuda",
    "reflection_pad1d_backward": "reflection_pad1d_backward_out_cuda",
    "reflection_pad2d_backward": "reflection_pad2d_backward_cuda",
    "reflection_pad3d_backward": "reflection_pad3d_backward_out_cuda",
    "nll_loss2d_forward": "nll_loss2d_forward_out_cuda_template",
    "_ctc_loss_backward": "ctc_loss_backward_gpu",
    "grid_sampler_2d_backward": "grid_sampler_2d_backward_cuda",
    "grid_sampler_3d_backward": "grid_sampler_3d_backward_cuda",
    "histc": "_histc_cuda with floating point input",
    "bincount": "_bincount_cuda",
    "median.dim": "median CUDA with indices output",
    "nanmedian.dim": "median CUDA with indices output",
    "kthvalue": "kthvalue CUDA",
}


def guard(name: str, run: Callable) -> Callable:
    """Return an operator's kernel so that it refuses, under CUDA's rules, what CUDA refuses.

    Raises:
        NotImplementedError: by the kernel, for a dtype that the operator's CUDA kernel lacks.
        RuntimeError: by the kernel, for a convolution of integers, as cuDNN refuses them, and where
            deterministic algorithms are asked for and CUDA has none.
    """
    whole = name.removeprefix("aten::")
    base = whole.partition(".")[0]
    for applies, error, words in _refusals(name, base):
        run = _refuse(run, applies, error, words)
    caller = _NOT_DETERMINISTIC.get(base, _NOT_DETERMINISTIC.get(whole.removesuffix("_values")))
    return _alert(caller, run, weighted=base == "bincount") if caller else run


def _refusals(name: str, base: str) -> Iterator[tuple[Callable, type[Exception], str]]:
    """Yield for which first operands and others CUDA refuses an operator, and what it raises."""
    if base in _HOST_ALONE:
        words = f"Could not run '{name}' with arguments from the '{data.NAME}' backend: CUDA has no "
        yield lambda *given: True, NotImplementedError, words + "kernel for it either. Run it on the CPU."
    elif base in _CONVOLUTIONS:
        words = "getCudnnDataTypeFromScalarType() not supported for {}"
        yield lambda x, args, named: x.dtype in _NO_NAME, RuntimeError, words
        words = "GET was unable to find an engine to execute this computation"
        yield lambda x, args, named: x.dtype in _NO_ENGINE, RuntimeError, words
    elif base in _PAIRS:
        dtypes, kernel = _PAIRS[base]
        words = f"\"{kernel}\" not implemented for '{{}}'"
        # PyTorch refuses operands of a product that differ in dtype before a kernel is chosen.
        unlike = _differ if dtypes is WHOLE else lambda *given: False
        yield lambda x, args, named: x.dtype in dtypes and not unlike(x, args), NotImplementedError, words
    elif base in ("scatter_reduce", "scatter_reduce_"):
        words = "\"cuda_scatter_gather_base_kernel_func\" not implemented for '{}'"
        yield lambda x, args, named: x.dtype in _ADDED_ALONE and args[3] != "sum", NotImplementedError, words
    elif base == "linalg_lstsq":
        words = "torch.linalg.lstsq: `driver` other than `gels` is not supported on CUDA"
        yield lambda x, args, named: named.get("driver") not in (None, "gels"), RuntimeError, words


def _refuse(run: Callable, applies: Callable, error: type[Exception], words: str) -> Callable:
    """Return a kernel that refuses what a refusal applies to, on a simulated device."""
    limited = data.refusals

    def refusing(first, *args, **kwargs):
        if applies(first, args, kwargs) and not limited and first.get_device() >= 0:
            raise error(words.format(scalar_type(first.dtype)))
        return run(first, *args, **kwargs)

    return refusing


def scalar_type(dtype: torch.dtype) -> str:
    """Return what C++ calls a dtype, which its messages say.

    >>> scalar_type(torch.int64), scalar_type(torch.complex32)
    ('Long', 'ComplexHalf')
    """
    return torch.empty(0, dtype=dtype, device="cpu").type().removeprefix("torch.").removesuffix("Tensor")


def _differ(first: torch.Tensor, others: tuple) -> bool:
    return any(isinstance(other, torch.Tensor) and other.dtype != first.dtype for other in others)


def in_cudas_words(name: str, lack: NotImplementedError) -> NotImplementedError:
    """Return the error for a dtype that the CPU has no kernel for either, with the name of CUDA's kernel."""
    base = name.removeprefix("aten::").partition(".")[0]
    kernel = _PAIRS[base][1] if base in _PAIRS else _KERNELS.get(base)
    said = r"\w+" if kernel else r"(\w+?)(?:_vml|_out)?_cpu\w*"
    words = f'"{kernel}"' if kernel else r'"\1_cuda"'
    return NotImplementedError(re.sub(rf'^"{said}"(?= not implemented for)', words, str(lack)))


def _alert(caller: str, run: Callable, weighted: bool) -> Callable:
    """Return a kernel that raises, or warns, where deterministic algorithms are asked for."""

    def alerting(first, *args, **kwargs):
        # Only with weights does bincount add up numbers in any order.
        adds = not weighted or (args and args[0] is not None) or kwargs.get("weights") is not None
        if adds and torch.are_deterministic_algorithms_enabled() and first.get_device() >= 0:
            said = f"{caller} does not have a deterministic implementation, but you set "
            said += "'torch.use_deterministic_algorithms(True"
            if not torch.is_deterministic_algorithms_warn_only_enabled():
                raise RuntimeError(
                    f"{said})'. You can turn off determinism just for this operation, or you can use the "
                    "'warn_only=True' option, if that's acceptable for your application."
                )
            warnings.warn(f"{said}, warn_only=True)'.", stacklevel=1)
        return run(first, *args, **kwargs)

    return alerting
