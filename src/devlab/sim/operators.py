"""What the simulator knows of single operators: schemas, waits and arithmetic."""

from collections.abc import Callable
from itertools import zip_longest
from math import prod

import torch

from devlab.sim import beyond_cpu, private
from devlab.sim.data import is_number


def split_names(names: str) -> frozenset[str]:
    """Return the names that a text lists."""
    return frozenset(names.split())


# The commonest operators of one or two tensors. Calling PyTorch's public function of the same name does the
# same and takes less time than calling the operator.
QUICK = split_names(
    "abs ceil clone cos erf exp floor log log1p neg reciprocal relu round rsqrt sigmoid sign sin sqrt tanh "
    "logical_not isnan exp_ neg_ relu_ sigmoid_ sqrt_ tanh_ zero_ sum sum.dim_IntList mean.dim "
    "pow.Tensor_Scalar pow.Tensor_Tensor add.Tensor sub.Tensor mul.Tensor div.Tensor "
    "add_.Tensor sub_.Tensor mul_.Tensor div_.Tensor fill_.Scalar maximum minimum mm bmm addmm cat "
    "eq.Scalar ne.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar "
    "eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor"
)


class Operator:
    """What a kernel needs to know of an operator, read from the schema once."""

    def __init__(self, name: str):
        op = private.overload(name)
        schema = private.schema_of(op)
        arguments = schema.arguments
        self.name = name
        self.schema = schema
        self.call = self.quick = beyond_cpu.uncast(name, beyond_cpu.caller(name))
        if name.removeprefix("aten::") in QUICK:
            self.quick = beyond_cpu.uncast(name, private.public_function(schema.name))
        self.as_composite = private.composite_of(name)
        self.formula = _FORMULAS.get(schema.name)
        self.broadcasts = torch.Tag.pointwise in op.tags or name == "aten::clone"
        self.waits = wait_rule(name, op.tags)
        self.outputs = tuple(a.name for a in arguments if a.is_out)
        self.takes_device = any(a.name == "device" for a in arguments)
        self.generator = next((i for i, a in enumerate(arguments) if a.name == "generator"), None)
        self.draws = torch.Tag.nondeterministic_seeded in op.tags and self.generator is None
        # For each result, the position of the argument that is returned, or None for a new tensor.
        self.returned = tuple(_returned_argument(schema, result) for result in schema.returns)
        tensors = [(i, a) for i, a in enumerate(arguments) if "Tensor" in str(a.type)]
        self.tensors = [i for i, a in tensors if not a.kwarg_only]
        self.keywords = {a.name for _, a in tensors}
        self.lists = any("List[" in str(a.type) for _, a in tensors)

    @property
    def plain(self) -> bool:
        """Whether only the first one or two arguments can be tensors, and one tensor comes back."""
        special = self.outputs or self.takes_device or self.draws or self.lists or self.waits
        return (
            not special
            and self.generator is None
            and len(self.keywords) == len(self.tensors)
            and len(self.returned) == 1
            and str(self.schema.returns[0].type) == "Tensor"
            and (self.tensors == [0] or (self.tensors == [0, 1] and (self.broadcasts or self.formula)))
        )


def _returned_argument(schema, result) -> int | None:
    """Return the position of the argument that a result is, or None for a result that is new."""
    if result.alias_info is None:
        return None
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info and argument.alias_info.before_set == result.alias_info.before_set:
            return position
    return None


MASKS = frozenset({torch.bool, torch.uint8})
INDEXING = split_names("index _unsafe_index index_put index_put_ _index_put_impl_ _unsafe_index_put")

# These operators change a tensor's own sizes and strides, and no element.
IN_PLACE_VIEWS = split_names("as_strided_ detach_ squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_")

_TAGS = frozenset({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape})


def short(name: str) -> str:
    """Return an operator's name without its library and overload.

    >>> short("aten::index.Tensor"), short("aten::cholesky")
    ('index', 'cholesky')
    """
    return name.rpartition("::")[2].partition(".")[0]


def wait_rule(name: str, tags):
    """Return the function that tells from the arguments whether the host waits; None if the host never waits.

    >>> wait_rule("aten::add.Tensor", ()) is None, wait_rule("aten::cholesky", ())((torch.eye(2),), {})
    (True, True)
    """
    return _WAITS.get(short(name)) or (_unless_size_is_given if _TAGS & set(tags) else None)


def _unless_size_is_given(args, kwargs) -> bool:
    """Tell whether the size must be found out: `repeat_interleave` may be given the size."""
    return kwargs.get("output_size") is None


def _by_index(args, kwargs) -> bool:
    """Tell whether a mask has to be counted, or an index or the one number to write has to be copied."""
    if len(args) > 2:
        if fills_mask(args):
            return False
        if args[2].numel() == 1 and (args[2].is_cpu or is_number(args[2])):
            return True
    return any(i is not None and (i.dtype in MASKS or (i.is_cpu and i.dim() > 0)) for i in args[1])


def _compares(args, kwargs) -> bool:
    """Tell whether `equal` must look at elements: not of other shapes, and not of the same memory."""
    x, y = args
    same = x.data_ptr() == y.data_ptr() and x.stride() == y.stride() and x.dtype == y.dtype
    return x.shape == y.shape and x.numel() > 0 and not same


def _finds_range(args, kwargs) -> bool:
    """Tell whether `histc` is given no range, and reads the smallest and the largest value."""
    given = dict(zip(("bins", "min", "max"), args[1:], strict=False)) | kwargs
    return args[0].numel() > 0 and given.get("min", 0) == given.get("max", 0)


def _on_device(values) -> bool:
    return any(isinstance(value, torch.Tensor) and not value.is_cpu for value in values)


# For operators: whether the host waits, as `torch.cuda.set_sync_debug_mode` and PyTorch's source say. It
# learns whether a matrix could be decomposed, or reads what it must check or hand on as a number.
_WAITS: dict[str, Callable] = {
    **dict.fromkeys(INDEXING, _by_index),
    **dict.fromkeys(
        split_names("_linalg_eigh _linalg_eigvals _linalg_svd cholesky linalg_eig linalg_lstsq linalg_pinv"),
        lambda args, kwargs: args[0].numel() > 0,
    ),
    "_linalg_check_errors": lambda args, kwargs: True,
    "linalg_matrix_exp": lambda args, kwargs: args[0].shape[-1] > 1,
    "normal": lambda args, kwargs: _on_device(args[1:2]),
    "linspace": lambda args, kwargs: _on_device(args[:2]),
    "logspace": lambda args, kwargs: _on_device(args[:2]),
    "segment_reduce": lambda args, kwargs: kwargs.get("lengths") is not None and not kwargs.get("unsafe"),
    "histc": _finds_range,
    "equal": _compares,
}


def counts_mask(args) -> bool:
    """Tell whether reading or writing by index has to count the True elements of a mask on the device."""
    if len(args) > 2 and fills_mask(args):
        return False
    return any(i is not None and i.dtype in MASKS and not i.is_cpu for i in args[1])


def fills_mask(args) -> bool:
    """Tell whether `index_put_` writes a single value of the host under one mask, which needs no count.

    >>> fills_mask((torch.ones(2), [torch.tensor([True, False])], torch.tensor(0.0)))
    True
    """
    target, indices, value, *accumulate = args
    given = [index for index in indices if index is not None]
    return (
        value.numel() == 1
        and (value.is_cpu or is_number(value))
        and not any(accumulate[:1])
        and len(given) == 1
        and given[0].dtype in MASKS
        and given[0].device == target.device
    )


def _matrix_product(operands, out) -> float:
    """Two operations for each element of the result and each element of the inner dimension."""
    return 2.0 * out.numel() * operands[-2].shape[-1]


def _convolution(operands, out) -> float:
    weight = operands[1]
    return 2.0 * out.numel() * (weight.numel() // max(1, weight.shape[0]))


def _convolution_backward(operands, out) -> float:
    grad, _, weight = operands[:3]
    return 4.0 * grad.numel() * (weight.numel() // max(1, weight.shape[0]))


def _attention(operands, out) -> float:
    query, key = operands[:2]
    return 4.0 * query.numel() * key.shape[-2]


# Functions from (operands, result) to operations in 32-bit floats.
_FORMULAS: dict[str, Callable] = {
    **{f"aten::{name}": _matrix_product for name in split_names("mm bmm mv dot addmm addmm_ baddbmm")},
    "aten::convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention,
}


def traffic(values) -> int:
    """Return the bytes of all tensors in a list, lists in the list included; a loop is the quickest way."""
    if not isinstance(values, (list, tuple)):
        return 0
    moved = 0
    for value in values:
        if isinstance(value, torch.Tensor):
            moved += value.nbytes
        elif isinstance(value, (list, tuple)):
            moved += traffic(value)
    return moved


def pairs(operands) -> int:
    """Return how many combinations of elements the operands form: broadcasting makes no result larger."""
    product = 1
    for value in operands:
        if isinstance(value, torch.Tensor) and value.dim():
            product *= max(1, value.numel())
    return product


def broadcast_bytes(operands) -> int:
    """Return the bytes of the result to which operands broadcast."""
    tensors = [value for value in operands if isinstance(value, torch.Tensor)]
    shapes = [tuple(reversed(tensor.shape)) for tensor in tensors]
    elements = prod(max(sizes) for sizes in zip_longest(*shapes, fillvalue=1))
    return elements * max(tensor.element_size() for tensor in tensors)


def product_bytes(left: torch.Tensor, right: torch.Tensor) -> int:
    """Return the bytes of the product of two matrices, of stacks of them, or of a matrix and a vector.

    >>> product_bytes(torch.ones(2, 3), torch.ones(3, 5)), product_bytes(torch.ones(3), torch.ones(3))
    (40, 4)
    """
    columns = right.shape[-1] if right.dim() > 1 else 1
    return left.nbytes // max(1, left.shape[-1]) * columns
