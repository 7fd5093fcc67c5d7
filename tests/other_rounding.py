"""Another device's rounding: results of simulated devices move by one unit in the last place."""

import numpy
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from devlab.sim.data import on_host

# Operators whose results PyTorch does not promise to round alike on every device: they add many numbers, in
# an order that is the device's own, or come from a library of functions. IEEE 754 rounds a single sum,
# product, quotient or square root in one way.
PRODUCTS = "mm bmm addmm baddbmm addmv mv dot vdot addbmm convolution linalg_matrix_exp"
REDUCTIONS = "cumsum prod sum mean var std var_mean std_mean norm linalg_vector_norm cumprod logsumexp"
FUNCTIONS = "exp exp2 expm1 log log1p log2 sin cos tan tanh sigmoid erf rsqrt pow gelu silu mish softplus"
LAYERS = "_softmax _log_softmax native_layer_norm nll_loss_forward mse_loss binary_cross_entropy"
BACKWARD = "gelu_backward _softmax_backward_data _log_softmax_backward_data native_layer_norm_backward"
INEXACT = frozenset(" ".join((PRODUCTS, REDUCTIONS, FUNCTIONS, LAYERS, BACKWARD)).split())
COARSE = 1 << 10  # float64 numbers that are multiples of 1 / COARSE are taken for exact


class OtherRounding(TorchDispatchMode):
    """A block in which `sim` computes as a GPU of another make might: each inexact result is its neighbour.

    A result that can be represented is left alone, for every device gives it. Any other number lies between
    two that can be represented, and the mode gives the one that the kernel did not.
    """

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        made = func(*args, **kwargs)
        if func.overloadpacket.__name__ not in INEXACT or func._schema.name.endswith("_"):
            return made
        results = [one for one in tree_leaves(made) if _is_rounded(one)]
        if results:
            true = tree_leaves(func(*tree_map(_wide, args), **tree_map(_wide, kwargs)))
            exact = [one for one in true if isinstance(one, torch.Tensor) and one.is_floating_point()]
            for one, wanted in zip(results, exact, strict=True):
                _move(on_host(one.detach()), wanted)
        return made


def _is_rounded(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "sim" and value.is_floating_point()


def _wide(value: object) -> object:
    """Return float64 on the host for floating numbers of a simulated device, and for their dtypes."""
    if isinstance(value, torch.Tensor) and value.device.type == "sim":
        host = on_host(value.detach()).clone()
        return host.double() if host.is_floating_point() else host
    floating = isinstance(value, torch.dtype) and value.is_floating_point
    return torch.float64 if floating else torch.device("cpu") if isinstance(value, torch.device) else value


def _move(result: torch.Tensor, true: torch.Tensor) -> None:
    """Move each number of a result to its neighbour on the other side of the true number."""
    if result.dtype is torch.float64:
        toward = torch.where(result * COARSE == (result * COARSE).round(), result, torch.inf)
    else:
        toward = torch.where(true > result.double(), torch.inf, -torch.inf)
        toward = torch.where((true == result.double()) | ~result.isfinite(), result.double(), toward)
    if result.dtype is torch.float16:
        moved = numpy.nextafter(result.numpy(), toward.half().numpy())
        result.copy_(torch.from_numpy(numpy.asarray(moved)))
    else:
        result.copy_(torch.nextafter(result, toward.to(result.dtype)))
