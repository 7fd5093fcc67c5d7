"""Which dtype the value of an expression has, or must have had, read from values and source text."""

import ast

import numpy
import torch

from devlab.explaining import flow
from devlab.explaining.lookup import MISSING
from devlab.explaining.scope import Scope

_METHODS = {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "long": torch.int64,
    "int": torch.int32,
    "bool": torch.bool,
    "byte": torch.uint8,
    "argmax": torch.int64,
    "argmin": torch.int64,
    "argsort": torch.int64,
    "one_hot": torch.int64,
    "nonzero": torch.int64,
    "eq": torch.bool,
    "ne": torch.bool,
    "gt": torch.bool,
    "lt": torch.bool,
    "isnan": torch.bool,
}
_INTEGERS = frozenset({"randint", "randperm", "tril_indices", "triu_indices", "LongTensor"})
_ROUNDED = frozenset({"softmax", "sqrt", "exp", "log", "sigmoid", "tanh", "sin", "cos", "mean"})
_DEEPEST = 12


def dtype_of(node: ast.AST, scope: Scope, depth: int = 0) -> torch.dtype | None:
    """Return the dtype of the tensor that an expression is, or made; None where it cannot be known."""
    if depth > _DEEPEST:
        return None
    value = scope.evaluate(node)
    if isinstance(value, torch.Tensor):
        return value.dtype
    if value is not MISSING:
        return None
    if isinstance(node, ast.Compare):
        return torch.bool
    if isinstance(node, ast.BinOp):
        found = promoted([node.left, node.right], scope, depth + 1)
        whole = found is not None and not found.is_floating_point
        return torch.get_default_dtype() if isinstance(node.op, ast.Div) and whole else found
    if isinstance(node, ast.Subscript | ast.Starred | ast.NamedExpr):
        return dtype_of(node.value, scope, depth + 1)
    if isinstance(node, ast.Attribute):
        return dtype_of(node.value, scope, depth + 1) if node.attr in ("T", "mT", "data", "values") else None
    if isinstance(node, ast.UnaryOp):
        return dtype_of(node.operand, scope, depth + 1)
    if isinstance(node, ast.Name):
        write = scope.write_before(node.id, 1 << 30)
        return dtype_of(write.value, scope, depth + 1) if write and write.how == "assign" else None
    return _of_call(node, scope, depth + 1) if isinstance(node, ast.Call) else None


def promoted(nodes: list, scope: Scope, depth: int = 0) -> torch.dtype | None:
    """Return the dtype that the operands of an expression are promoted to."""
    found = None
    for node in nodes:
        dtype = dtype_of(node, scope, depth)
        if (
            dtype is None
            and isinstance(scope.evaluate(node), float)
            and found
            and not found.is_floating_point
        ):
            dtype = torch.get_default_dtype()
        if dtype is not None:
            found = dtype if found is None else torch.promote_types(found, dtype)
    return found


def named_dtype(call: ast.Call, scope: Scope) -> torch.dtype | None:
    """Return the dtype that a call is told, as `dtype=...` or as an argument of `.to`."""
    given = [flow.keyword(call, "dtype"), *call.args]
    values = [scope.evaluate(node) for node in given if node is not None]
    return next((value for value in values if isinstance(value, torch.dtype)), None)


def _of_call(call: ast.Call, scope: Scope, depth: int) -> torch.dtype | None:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if told := named_dtype(call, scope):
        return told
    if flow.is_call_of(call, scope, flow.FACTORIES):
        return _made(call, name, scope)
    function = scope.evaluate(call.func)
    if isinstance(function, torch.nn.Module):
        first = next(iter(function.parameters()), None)
        return (
            first.dtype if first is not None else dtype_of(call.args[0], scope, depth) if call.args else None
        )
    method = isinstance(call.func, ast.Attribute) and not flow.is_torchs(call, scope)
    if name in _METHODS and (method or flow.is_torchs(call, scope)):
        return _METHODS[name]
    for expression, inner in flow.returned(function, scope, call):
        if found := dtype_of(expression, inner, depth):
            return found
    found = dtype_of(call.func.value, scope, depth) if method else promoted(call.args, scope, depth)
    whole = found is not None and not found.is_floating_point and not found.is_complex
    return torch.get_default_dtype() if name in _ROUNDED and whole else found


def _made(call: ast.Call, name: str, scope: Scope) -> torch.dtype | None:
    first = scope.evaluate(call.args[0]) if call.args else MISSING
    if isinstance(first, numpy.ndarray | numpy.generic):
        return torch.from_numpy(numpy.zeros(1, first.dtype)).dtype
    if name in _INTEGERS:
        return torch.int64
    if name in ("tensor", "as_tensor", "asarray", "full", "arange"):
        numbers = [n.value for a in call.args for n in ast.walk(a) if isinstance(n, ast.Constant)]
        numbers = numbers[-1:] if name == "full" else numbers
        if not numbers or not all(isinstance(n, int | float) for n in numbers):
            return None
        if all(isinstance(n, bool) for n in numbers):
            return torch.bool
        return torch.get_default_dtype() if any(isinstance(n, float) for n in numbers) else torch.int64
    return None if name in ("from_numpy", "Tensor", "normal", "complex") else torch.get_default_dtype()
