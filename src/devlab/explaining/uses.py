"""Whether a tensor's other uses let it live elsewhere, and whether its name can be given another tensor."""

import ast
import dataclasses
import inspect
import types

import torch

from devlab.explaining import flow
from devlab.explaining.lookup import MISSING, registered
from devlab.explaining.scope import Scope
from devlab.explaining.source import own_nodes
from devlab.explaining.story import Hop

_COMPREHENSIONS = (ast.GeneratorExp, ast.ListComp, ast.DictComp, ast.SetComp)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def serves_others(hop: Hop, device: str) -> bool:
    """Tell whether the function of a hop has used its name where only a tensor on `device` serves."""
    scope, name = hop.scope, hop.node
    if not isinstance(name, ast.Name) or scope.source is None or scope.node is None:
        return False
    loops = [
        n for n in ast.walk(scope.node) if isinstance(n, _LOOPS) and n.lineno <= hop.line <= n.end_lineno
    ]
    turns = scope.source.enclosing(name, _COMPREHENSIONS) if name in scope.source.parents else None
    if (loops or turns) and device != "cpu":  # each turn may want another accelerator
        return True
    last = max([hop.line, *(loop.end_lineno for loop in loops)]) if device == "cpu" else 1 << 30
    return any(
        isinstance(node, ast.Name) and node.id == name.id and node is not name and node.lineno <= last
        for node in own_nodes(scope.node)
        if isinstance(getattr(node, "ctx", None), ast.Load) and _needs(node, scope, device)
    )


def _needs(node: ast.AST, scope: Scope, device: str) -> bool:
    """Tell whether the operation around an expression works only with a tensor on `device`."""
    parent = scope.source.parents.get(node)
    if isinstance(parent, ast.Starred | ast.Tuple | ast.List | ast.keyword):
        return _needs(parent, scope, device)
    if isinstance(parent, ast.Subscript):  # an index on the CPU serves any table
        index = node is not parent.value
        return (index or device != "cpu") and _with([parent.value if index else parent.slice], scope, device)
    if isinstance(parent, ast.Attribute):
        call = scope.source.parents.get(parent)
        if not isinstance(call, ast.Call) or call.func is not parent:
            return parent.attr in ("T", "mT", "data") and _needs(parent, scope, device)
        return parent.attr == "numpy" or _with([*call.args, *(k.value for k in call.keywords)], scope, device)
    if isinstance(parent, ast.BinOp):
        return _with([parent.right if node is parent.left else parent.left], scope, device)
    if isinstance(parent, ast.AugAssign) and node is parent.value:
        return _with([parent.target], scope, device)
    if isinstance(parent, ast.Compare):
        return _with([o for o in (parent.left, *parent.comparators) if o is not node], scope, device)
    if not isinstance(parent, ast.Call) or node is parent.func:
        return False
    function = scope.evaluate(parent.func)
    if isinstance(function, torch.nn.Module):
        first = next(iter(function.parameters()), None)
        return first is not None and flow.same(str(first.device), device)
    if (
        str(getattr(function, "__module__", "") or "").startswith("numpy")
        or type(function).__name__ == "ufunc"
    ):
        return True
    if isinstance(function, types.FunctionType | types.MethodType) and not flow.is_torchs(parent, scope):
        return True
    others = [*parent.args, *(k.value for k in parent.keywords)]
    return flow.is_torchs(parent, scope) and _with([o for o in others if o is not node], scope, device)


def _with(others: list, scope: Scope, device: str) -> bool:
    """Tell whether any of some expressions is a tensor on the device, and no single number."""
    for node in others:
        value = scope.evaluate(node)
        number = isinstance(value, torch.Tensor) and value.dim() == 0
        if not number and flow.same(flow.infer(node, scope) or "?", device):
            return True
    return False


def rebindable(hop: Hop) -> bool:
    """Tell whether a line `name = name.to(...)` before the hop's line gives the name another tensor."""
    node, scope = hop.node, hop.scope
    if isinstance(scope.node, ast.Lambda):
        return False
    if isinstance(node, ast.Name):
        found = scope.writes_before(node.id, 1 << 30) if scope.node is not None else []
        drawn = bool(found) and not any(isinstance(w.statement, ast.stmt | ast.NamedExpr) for w in found)
        given = node.id in scope.parameters()
        parameter = isinstance(scope.evaluate(node), torch.nn.Parameter)
        return (scope.node is None or scope.is_local(node.id)) and (given or not drawn) and not parameter
    if isinstance(node, ast.Subscript):
        return isinstance(scope.evaluate(node.value), list | dict)
    return isinstance(node, ast.Attribute) and takes(scope.evaluate(node.value), node.attr)


def takes(owner: object, name: str) -> bool:
    """Tell whether an object's attribute can be given another tensor."""
    if owner is MISSING or isinstance(owner, torch.Tensor | tuple):
        return False
    if isinstance(owner, torch.distributions.Distribution):
        return name not in owner.arg_constraints
    if isinstance(owner, torch.nn.Module):
        return name not in registered(owner)[0]
    if dataclasses.is_dataclass(owner) and owner.__dataclass_params__.frozen:
        return False
    found = inspect.getattr_static(type(owner), name, None)
    return not isinstance(found, property) or found.fset is not None
