"""How much arithmetic an operator does, for the few whose time is not spent on moving memory."""

from collections.abc import Callable
from itertools import zip_longest
from math import prod

import torch


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


_FORMULAS: dict[str, Callable] = {
    "aten::mm": _matrix_product,
    "aten::bmm": _matrix_product,
    "aten::mv": _matrix_product,
    "aten::dot": _matrix_product,
    "aten::addmm": _matrix_product,
    "aten::addmm_": _matrix_product,
    "aten::baddbmm": _matrix_product,
    "aten::convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention,
}


def formula(operator: str) -> Callable | None:
    """Return the function from (operands, result) to operations, for an operator that has one."""
    return _FORMULAS.get(operator)


def traffic(values) -> int:
    """Return the bytes of all tensors among some values, lists of them included."""
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
