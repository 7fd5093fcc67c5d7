"""What CUDA computes and the CPU does not: computed here in a wider dtype or in another way, or refused.

The simulator computes on the CPU. PyTorch's tables of operators say which pairs of operator and dtype have a
kernel for CUDA alone; `tests/sim/test_operators.py` asks them.
"""

import re
import threading
from collections.abc import Callable

import torch

from devlab.sim import data, kernels, private, rule, specs

_WHOLE = dict.fromkeys(rule.WHOLE, torch.float64)  # float64 holds each count and each smaller bound exactly
_BOOL = {torch.bool: torch.uint8}
_HALF = dict.fromkeys(specs.HALF, torch.float32)
_COMPLEX = {torch.complex32: torch.complex64}
_MOVED = {**_COMPLEX, torch.uint16: torch.int32}
_FFT = {torch.float16: torch.float32, **_COMPLEX}
# The operators, written in place or not; the dtypes of theirs that the CPU lacks; where to compute instead.
_LACKS = {
    "acos acosh angle asin asinh atan atanh cos cosh div exp ldexp lerp log logaddexp logsumexp nansum pow "
    "prod rsqrt sigmoid sigmoid_backward sin sinh sqrt sum tan tanh tanh_backward": _COMPLEX,
    "_fft_c2c _fft_c2r _fft_r2c": _FFT,
    "_upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward avg_pool3d avg_pool3d_backward "
    "multi_margin_loss multi_margin_loss_backward multilabel_margin_loss_forward "
    "multilabel_margin_loss_backward rrelu_with_noise rrelu_with_noise_backward": _HALF,
    "abs median nanmedian": _BOOL,
    "histc max_unpool2d max_unpool3d": _WHOLE,
    "channel_shuffle count_nonzero equal eye flip gather index_select isin native_channel_shuffle "
    "pixel_shuffle pixel_unshuffle scatter": _MOVED,
    "trace": _BOOL | _MOVED,
}
_WIDER = {name: wider for names, wider in _LACKS.items() for name in names.split()}
# The dtypes of a result in the wider dtype's family, for each narrow dtype among the operands.
_BACK = {
    torch.float16: {torch.float32: torch.float16, torch.complex64: torch.complex32},
    torch.bfloat16: {torch.float32: torch.bfloat16},
    torch.complex32: {torch.float32: torch.float16, torch.complex64: torch.complex32},
    torch.bool: {torch.uint8: torch.bool},
    torch.uint16: {torch.int32: torch.uint16},
    **{dtype: {torch.float64: dtype} for dtype in rule.WHOLE},
}


def nansum(x, dim=None, keepdim=False, **named):
    """Add up what is not NaN, in complex numbers too."""
    if x.is_complex():
        return torch.sum(torch.where(x.isnan(), 0, x), dim, keepdim, **named)
    return torch.nansum(x, dim, keepdim, **named)


def indices(name: str) -> Callable:
    """Return the function that lists the places of a triangle, on CUDA in any dtype."""
    op = private.overload(f"aten::{name}")
    return lambda *form, dtype=None, **named: op(*form, **named).to(dtype)


# Functions of CPU tensors that stand in for an operator.
_STAND_INS = {
    **{f"aten::{name}": function for name, function in kernels.FUSED.items()},
    **{f"aten::{name}": indices(name) for name in ("tril_indices", "triu_indices")},
    "aten::nansum": nansum,
    "aten::nansum.out": nansum,
}
_is_autocast_enabled = torch.is_autocast_enabled
_KEYS = ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")


def caller(name: str) -> Callable:
    """Return the function of CPU tensors that computes the operator of that full name.

    Raises:
        NotImplementedError: by the function, for an operator that has no kernel for the CPU.

    >>> caller("aten::fmod.Tensor")(torch.tensor([5]), torch.tensor([0])).dtype
    torch.int64
    """
    if name not in _STAND_INS and not any(private.has_kernel(name, key) for key in _KEYS):
        return _kernel_that_refuses(name)
    op = private.overload(name)
    call = _STAND_INS.get(name, private.caller_of(op))
    base = name.removeprefix("aten::").partition(".")[0]
    wider = _WIDER.get(base) or _WIDER.get(base.removesuffix("_"))
    if re.match(r"aten::(fmod|remainder|floor_divide|div_?\.\w+_mode)", name):
        call = _by_zero(call)
    if wider:
        call = _widen(call, private.schema_of(op), wider)
    return _of_powers_of_two(call) if base.startswith("_fft_") else call


def uncast(name: str, call: Callable) -> Callable:
    """Return an operator's caller so that `torch.autocast("cpu")` does not cast the tensors of a device.

    It would cast in the operator itself, or in another one that the operator calls.
    """
    if private.has_kernel(name, "CPU") and not private.has_kernel(name, "AutocastCPU"):
        return call

    def run(*args, **kwargs):
        if not _is_autocast_enabled("cpu"):
            return call(*args, **kwargs)
        with private.without(private.CPU_AUTOCAST_KEYS):
            return call(*args, **kwargs)

    return run


def _by_zero(call: Callable) -> Callable:
    """Return the caller of a remainder or a quotient so that whole numbers can be divided by zero.

    The CPU raises an error. CUDA's result is undefined; NVIDIA's GPUs give a number whose bits are all set,
    or half of them for an int64 that is not negative, says PyTorch's test of the remainders.
    """

    def run(x, divisor, **named):
        whole = torch.result_type(x, divisor) in rule.WHOLE and named.get("rounding_mode", "floor")
        zero = torch.as_tensor(divisor if whole else 1) == 0
        if not zero.any():
            return call(x, divisor, **named)
        negative = torch.as_tensor(x) < 0
        other = torch.where(zero, 1, divisor) if isinstance(divisor, torch.Tensor) else 1
        result = call(x, other, **named)
        least = 255 if result.dtype is torch.uint8 else -1
        set_bits = torch.where(negative, least, 0xFFFFFFFF if result.dtype is torch.int64 else least)
        return result.copy_(torch.where(zero, set_bits.to(result.dtype), result))

    return run


def _kernel_that_refuses(name: str) -> Callable:
    declared = rule.declarations().get(name)
    words = f"Could not run '{name}' with arguments from the '{data.NAME}' backend"
    if declared is not None and declared.on_cuda:
        words = (
            f"'{name}' runs on CUDA; the simulator computes on the CPU, which has no kernel for this "
            "operator. Use other operators for the same result"
        )

    def refuse(*args, **kwargs):
        raise NotImplementedError(f"{words}.")

    return refuse


def _widen(call: Callable, schema: torch.FunctionSchema, wider: dict) -> Callable:
    """Return `call` so that it computes in a wider dtype what the CPU has no kernel for; indices stay."""
    arguments = list(enumerate(schema.arguments))
    written = [(place, a.name) for place, a in arguments if a.alias_info and a.alias_info.is_write]
    indices = [place for place, a in arguments if a.name == "indices"]

    def run(*args, **kwargs):
        try:
            return call(*args, **kwargs)
        except RuntimeError:
            given = private.tree_leaves((args, kwargs))
            dtypes = [getattr(value, "dtype", value) for value in given]
            narrow = next((d for d in dtypes if isinstance(d, torch.dtype) and d in wider), None)
            if narrow is None:
                raise
        host, named = _cast((list(args), kwargs), wider)
        for place in indices:
            host[place] = args[place]
        out = call(*host, **named)
        for place, key in written:
            target, value = (args[place], host[place]) if place < len(args) else (kwargs[key], named[key])
            if target is not value:
                target.resize_(value.shape).copy_(value)
        return _cast(out, _BACK[narrow])

    return run


def _cast(values, dtypes: dict):
    """Return nested values with the tensors, and the mentions, of some dtypes in other dtypes."""

    def cast(value):
        if isinstance(value, torch.Tensor):
            return value.to(dtypes.get(value.dtype, value.dtype))
        return dtypes.get(value, value) if isinstance(value, torch.dtype) else value

    return private.tree_map(cast, values)


class _Narrow(threading.local):
    signals = False  # whether a Fourier transform of 16-bit floats is being computed in 32-bit floats


_narrow = _Narrow()


def transform(name: str) -> Callable:
    """Return the kernel of a composite Fourier transform, which takes float16 on CUDA alone.

    The composite asks for the kind of the device, so it is given 32-bit floats.
    """
    composite = private.caller_under(private.overload(f"aten::{name}"), private.IMPLICIT_KEY)

    def run(x, *args, **kwargs):
        _refuse_bfloat16(name, x)
        if x.dtype is not torch.float16:
            return composite(x, *args, **kwargs)
        before, _narrow.signals = _narrow.signals, True
        try:
            return _cast(composite(x.float(), *args, **kwargs), _BACK[torch.float16])
        finally:
            _narrow.signals = before

    return run


def _refuse_bfloat16(name: str, x: torch.Tensor) -> None:
    """Refuse a Fourier transform that CUDA computes in bfloat16 since PyTorch 2.14, and the CPU does not."""
    if x.dtype is torch.bfloat16 and hasattr(torch, "bcomplex32"):
        raise NotImplementedError(
            f"{name} of bfloat16 runs on CUDA; the simulator computes on the CPU, which has no kernel for "
            "it. Give it x.float()."
        )


def attention() -> Callable:
    """Return attention as PyTorch composes it, but refusing a mask that CUDA's fused kernel refuses."""
    op = private.overload("aten::scaled_dot_product_attention")
    composite = private.caller_under(op, private.IMPLICIT_KEY)

    def run(query, key, value, mask=None, *args, **kwargs):
        fused = query.dim() == 4 and query.dtype in (torch.float32, *specs.HALF) and query.shape[-1] % 8 == 0
        if mask is not None and fused and mask.device != query.device and not data.refusals:
            method = "wrapper_CUDA___scaled_dot_product_efficient_attention"
            raise rule.elsewhere("attn_bias", mask.device, query.device, method)
        return composite(query, key, value, mask, *args, **kwargs)

    return run


def composites() -> dict[str, Callable]:
    """Return the kernels of composites that behave in another way on CUDA than on the CPU, by name."""
    kinds, forms = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"), ("", "2", "n")
    transforms = [f"fft_{kind}{form}" for kind in kinds for form in forms]
    return {name: transform(name) for name in transforms} | {"scaled_dot_product_attention": attention()}


def _of_powers_of_two(call: Callable) -> Callable:
    """Return the caller of a Fourier transform so that it refuses 16-bit signals that cuFFT refuses.

    The last argument is the length of the signal's last dimension where the spectrum does not say it.
    """

    def run(x, dimensions, normalization, last, **named):
        _refuse_bfloat16("The Fourier transform", x)
        if _narrow.signals or x.dtype in _FFT:
            sizes = [x.shape[place] for place in dimensions]
            if type(last) is int:
                sizes[-1] = last
            if any(size & (size - 1) for size in sizes):
                raise RuntimeError(
                    "cuFFT only supports dimensions whose sizes are powers of two when computing in half "
                    f"precision, but got a signal size of{sizes}"
                )
        return call(x, dimensions, normalization, last, **named)

    return run
