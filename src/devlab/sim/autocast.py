"""`torch.autocast("sim")`: which operators compute in the lower precision, and which in 32-bit floats.

The lists are those that PyTorch publishes for CUDA, the operators that a course meets.
"""

import torch

from devlab.sim import placement, private

LOWER = (
    "addbmm",
    "addmm",
    "addmv",
    "baddbmm",
    "bmm",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d.input",
    "conv_transpose3d.input",
    "convolution",
    "gru_cell",
    "linear",
    "lstm_cell",
    "matmul",
    "mm",
    "mv",
    "prelu",
    "scaled_dot_product_attention",
)
FLOAT32 = (
    "binary_cross_entropy_with_logits",
    "cosh",
    "cosine_similarity",
    "cross_entropy_loss",
    "cumprod",
    "cumsum",
    "exp",
    "expm1",
    "group_norm",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_softmax.int",
    "mse_loss",
    "nll_loss",
    "norm.Scalar",
    "norm.ScalarOpt_dim",
    "pow.Scalar",
    "pow.Tensor_Scalar",
    "pow.Tensor_Tensor",
    "prod",
    "prod.dim_int",
    "reciprocal",
    "rsqrt",
    "sinh",
    "smooth_l1_loss",
    "softmax.int",
    "softplus",
    "sum",
    "sum.dim_IntList",
    "tan",
)
KEY = "AutocastPrivateUse1"


def register(open_library) -> list:
    """Install the casts, and let every other operator pass; return what keeps them installed."""
    every = open_library("IMPL", "_", KEY, __file__, 1)
    every.fallback(KEY, torch.library.fallthrough_kernel, False)
    library = open_library("IMPL", "aten", KEY, __file__, 1)
    for name in LOWER:
        library.impl(name, KEY, _casting(name, None), False)
    for name in FLOAT32:
        library.impl(name, KEY, _casting(name, torch.float32), False)
    return [every, library]


def _casting(name: str, dtype: torch.dtype | None):
    op = private.overload(f"aten::{name}")

    def run(*args, **kwargs):
        wanted = dtype or torch.get_autocast_dtype(placement.NAME)
        with private.without(private.AUTOCAST_KEYS):
            return op(
                *(_cast(value, wanted) for value in args),
                **{key: _cast(value, wanted) for key, value in kwargs.items()},
            )

    return run


def _cast(value, dtype: torch.dtype):
    if isinstance(value, torch.Tensor):
        eligible = value.is_floating_point() and value.device.type == placement.NAME
        return value.to(dtype) if eligible and value.dtype is not torch.float64 else value
    if isinstance(value, (list, tuple)):
        return [_cast(item, dtype) for item in value]
    return value
