"""What the CPU does and CUDA does not: dtypes of an operator, and results that could differ from run to run.

The pairs of operator and dtype are those of OpInfo, the tables behind PyTorch's own tests, in the pinned
version. The operators without a deterministic form are those of `torch.use_deterministic_algorithms`. The
words are those of the CUDA sources.
"""

import warnings
from collections.abc import Callable

import torch

from devlab.sim import data, rule

WHOLE = frozenset({torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64})
_HALF = (torch.float16, torch.bfloat16)
# What C++ calls a dtype, which its messages say.
_SCALAR_TYPES = {
    torch.bool: "Bool",
    torch.uint8: "Byte",
    torch.int8: "Char",
    torch.int16: "Short",
    torch.int32: "Int",
    torch.int64: "Long",
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.float32: "Float",
    torch.float64: "Double",
}
# For each operator: the dtypes of its first tensor that CUDA refuses, and its kernel's name in the message.
_PAIRS = {
    "mm": (WHOLE, "addmm_cuda"),
    "addmm": (WHOLE, "addmm_cuda"),
    "addbmm": (WHOLE, "addmm_cuda"),
    "mv": (WHOLE, "addmv_impl_cuda"),
    "addmv": (WHOLE, "addmv_impl_cuda"),
    "bmm": (WHOLE, "baddbmm_cuda"),
    "baddbmm": (WHOLE, "baddbmm_cuda"),
    "dot": (WHOLE, "dot"),
    "vdot": (WHOLE, "dot"),
    "avg_pool2d": ((torch.int64,), "avg_pool2d_out_cuda_frame"),
    "avg_pool3d": ((torch.int64,), "avg_pool3d_out_cuda"),
    "max_pool2d_with_indices": (WHOLE, "max_pool2d_with_indices_out_cuda_frame"),
    "max_pool3d_with_indices": (WHOLE, "max_pool3d_with_indices_out_frame"),
    "upsample_bilinear2d": ((torch.uint8,), "upsample_bilinear2d_out_frame"),
    "upsample_bicubic2d": ((torch.uint8,), "upsample_bicubic2d_out_frame"),
    "_upsample_bilinear2d_aa": ((torch.uint8,), "upsample_bilinear2d_out_frame"),
    "_upsample_bicubic2d_aa": ((torch.uint8,), "upsample_bilinear2d_out_frame"),
    "igamma": (_HALF, "igamma_cuda"),
    "igammac": (_HALF, "igammac_cuda"),
    "angle": (_HALF, "angle_cuda"),
    "histc": (_HALF, "histc"),
    "_trilinear": (WHOLE, "baddbmm_cuda"),
    "native_dropout_backward": (WHOLE | {torch.bool}, "masked_scale"),
}
_SCATTER = "cuda_scatter_gather_base_kernel_func"
# cuDNN speaks before the kernels of PyTorch do.
_CONVOLUTIONS = frozenset({"convolution", "convolution_overrideable"})
# These have no kernel for CUDA at all.
_HOST_ALONE = frozenset(
    {
        "histogram",
        "_histogramdd_bin_edges",
        "_histogramdd_from_bin_cts",
        "_histogramdd_from_bin_tensors",
    }
)


# By operator, the name under which its CUDA kernel says that it has no deterministic form.
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
    "histc": "_histc_cuda",
    "bincount": "_bincount_cuda",
    "median.dim": "median CUDA with indices output",
    "nanmedian.dim": "median CUDA with indices output",
    "kthvalue": "kthvalue CUDA",
}


def guarded(name: str, run: Callable) -> Callable:
    """Return an operator's kernel so that it refuses, under CUDA's rules, what CUDA refuses.

    Raises:
        NotImplementedError: by the kernel, for a dtype that the operator's CUDA kernel lacks.
        RuntimeError: by the kernel, for a convolution of integers, as cuDNN refuses them, and where
            deterministic algorithms are asked for and CUDA has none.
    """
    whole = name.removeprefix("aten::")
    base = whole.partition(".")[0]
    if base in _HOST_ALONE:
        words = (
            f"Could not run '{name}' with arguments from the '{data.NAME}' backend: CUDA has no kernel for "
        )
        run = _refusing(run, None, NotImplementedError, words + "it either. Run it on the CPU.")
    elif base in _CONVOLUTIONS:
        words = "getCudnnDataTypeFromScalarType() not supported for {}"
        run = _refusing(run, {torch.int64}, RuntimeError, words)
    elif base in _PAIRS:
        dtypes, kernel = _PAIRS[base]
        run = _refusing(run, set(dtypes), NotImplementedError, f"\"{kernel}\" not implemented for '{{}}'")
    elif base in ("scatter_reduce", "scatter_reduce_"):
        run = _refusing_bools(run)
    caller = _NOT_DETERMINISTIC.get(base, _NOT_DETERMINISTIC.get(whole.removesuffix("_values")))
    return _alerting(caller, run, weighted=base == "bincount") if caller else run


def _refusing(run: Callable, dtypes: set[torch.dtype] | None, error: type[Exception], words: str) -> Callable:
    """Return a kernel that refuses first tensors of these dtypes on a simulated device; None means all."""
    limited = rule.active

    def refusing(first, *args, **kwargs):
        if (dtypes is None or first.dtype in dtypes) and not limited and first.get_device() >= 0:
            raise error(words.format(_SCALAR_TYPES.get(first.dtype, first.dtype)))
        return run(first, *args, **kwargs)

    return refusing


def _refusing_bools(run: Callable) -> Callable:
    """Return the kernel of `scatter_reduce` so that it only adds up tensors of bool, as on CUDA."""
    add_alone = _refusing(
        run, {torch.bool}, NotImplementedError, f"\"{_SCATTER}\" not implemented for '{{}}'"
    )

    def scatter(first, dim, index, source, reduce, **kwargs):
        kernel = run if reduce == "sum" else add_alone
        return kernel(first, dim, index, source, reduce, **kwargs)

    return scatter


def _alerting(caller: str, run: Callable, weighted: bool) -> Callable:
    """Return a kernel that raises, or warns, where deterministic algorithms are asked for."""

    def alerting(first, *args, **kwargs):
        # bincount adds up in any order only where it has weights to add.
        adds = not weighted or (args and args[0] is not None) or kwargs.get("weights") is not None
        if adds and torch.are_deterministic_algorithms_enabled() and first.get_device() >= 0:
            said = f"{caller} does not have a deterministic implementation, but you set "
            said += "'torch.use_deterministic_algorithms(True"
            if not torch.is_deterministic_algorithms_warn_only_enabled():
                raise RuntimeError(
                    f"{said})'. You can turn off determinism just for this operation, or you can use the "
                    "'warn_only=True' option, if that's acceptable for your application."
                )
            warnings.warn(
                f"{said}, warn_only=True)'.", stacklevel=3
            )  # past the kernel built on its first call
        return run(first, *args, **kwargs)

    return alerting
