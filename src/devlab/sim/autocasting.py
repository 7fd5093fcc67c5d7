"""What `torch.autocast("sim")` casts: the operators and the rules that PyTorch has for CUDA.

The lists are those of `ATen/autocast_mode.h`, with which `tests/sim/test_autocast.py` compares them.
"""

import torch

from devlab.sim import data, operators, private

# Run in autocast's lower precision.
LOWER = operators.split_names(
    "_convolution _convolution.deprecated _scaled_dot_product_flash_attention _thnn_fused_gru_cell "
    "_thnn_fused_lstm_cell addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d conv_tbc "
    "conv_transpose1d conv_transpose2d.input conv_transpose3d.input convolution einsum gru_cell "
    "linalg_multi_dot linalg_vecdot linear lstm_cell matmul mm mv prelu rnn_relu_cell rnn_tanh_cell "
    "scaled_dot_product_attention"
)
# Run in float32.
FLOAT32 = operators.split_names(
    "_upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d _upsample_nearest_exact2d "
    "_upsample_nearest_exact3d acos asin binary_cross_entropy_with_logits cdist cosh "
    "cosine_embedding_loss cosine_similarity dist erfinv exp expm1 frobenius_norm.dim "
    "group_norm hinge_embedding_loss huber_loss kl_div l1_loss layer_norm log log10 log1p log2 logsumexp "
    "margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss native_layer_norm nll_loss "
    "nll_loss2d nuclear_norm nuclear_norm.dim pdist poisson_nll_loss pow.Scalar pow.Tensor_Scalar "
    "pow.Tensor_Tensor reciprocal renorm rms_norm rsqrt sinh smooth_l1_loss soft_margin_loss softplus tan "
    "triplet_margin_loss upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d "
    "upsample_nearest2d upsample_nearest3d upsample_trilinear3d"
)
# Run in float32, unless the program asks for a dtype.
FLOAT32_BY_DEFAULT = operators.split_names(
    "cumprod cumsum linalg_matrix_norm linalg_matrix_norm.str_ord linalg_vector_norm log_softmax.int "
    "norm.Scalar norm.ScalarOpt_dim prod prod.dim_int softmax.int sum sum.dim_IntList"
)
# Run in the widest dtype of the arguments.
WIDEST = operators.split_names(
    "addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put scatter_add tensordot vdot"
)
_KEY = "AutocastPrivateUse1"
_UNSAFE = """\
torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.
Many models use a sigmoid layer right before the binary cross entropy layer.
In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits
or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are
safe to autocast."""


def register(open_library) -> list:
    """Install the casts, and let every other operator pass; return what keeps them installed."""
    every = open_library("IMPL", "_", _KEY, __file__, 1)
    every.fallback(_KEY, torch.library.fallthrough_kernel, False)
    library = open_library("IMPL", "aten", _KEY, __file__, 1)
    rules = (
        (LOWER, lambda values: torch.get_autocast_dtype(data.NAME)),
        (FLOAT32, lambda values: torch.float32),
        (FLOAT32_BY_DEFAULT, _unless_asked),
        (WIDEST, _widest),
    )
    for names, rule in rules:
        for name in names:
            library.impl(name, _KEY, _kernel_that_casts(name, rule), False)
    library.impl("binary_cross_entropy", _KEY, _refuse, False)
    return [every, library]


def _kernel_that_casts(name: str, rule):
    op = private.overload(f"aten::{name}")

    def run(*args, **kwargs):
        wanted = rule((*args, *kwargs.values()))
        with private.without(private.AUTOCAST_KEYS):
            if wanted is None:
                return op(*args, **kwargs)
            return op(
                *(_cast(value, wanted) for value in args),
                **{key: _cast(value, wanted) for key, value in kwargs.items()},
            )

    return run


def _unless_asked(values) -> torch.dtype | None:
    return None if any(isinstance(value, torch.dtype) for value in values) else torch.float32


def _widest(values) -> torch.dtype:
    wide = any(tensor.dtype is torch.float32 and _is_eligible(tensor) for tensor in data.tensors(values))
    return torch.float32 if wide else torch.get_autocast_dtype(data.NAME)


def _refuse(*args, **kwargs):
    raise RuntimeError(_UNSAFE)


def _is_eligible(tensor: torch.Tensor) -> bool:
    """Tell whether autocast casts a tensor: floats on the device, but no double precision."""
    on_device = tensor.is_floating_point() and tensor.device.type == data.NAME
    return on_device and tensor.dtype is not torch.float64


def _cast(value, dtype: torch.dtype):
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if _is_eligible(value) else value
    if isinstance(value, (list, tuple)):
        return [_cast(item, dtype) for item in value]
    return value
