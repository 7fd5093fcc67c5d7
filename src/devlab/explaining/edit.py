"""Edits of the learner's own text, and whether a name in it can be given another tensor."""

import ast
import dataclasses
import inspect
import itertools
import types
from dataclasses import dataclass

import torch

from devlab.explaining import flow
from devlab.explaining.frames import MISSING, Scope, Source, argument_for, in_torch, own_nodes, registered
from devlab.explaining.story import LOADED, MOVED, Hop


@dataclass(frozen=True)
class Mend:
    """A change: where, the line of code, and `before` when the line is to be added, not replaced."""

    where: str
    code: str
    before: bool = False
    otherwise: str = ""


def reference(scope: Scope, line: int, device: str, without: str = "") -> str:
    """Return the best way to say `device` at a line of a function: `x.device`, `device`, or its name."""
    given = scope.parameters()
    for name in given:
        if name == without:
            continue
        value = scope.values.get(name, MISSING)
        if isinstance(value, torch.device | str) and _names(value, device):
            return name
        if isinstance(value, torch.Tensor) and flow.same(str(value.device), device):
            return f"{name}.device"
        if value is MISSING and (passed := argument_for(scope, name)):
            found = flow.infer(*passed)
            if found and flow.same(found, device):
                return f"{name}.device"
    local = [(n, v) for n, v in scope.values.items() if n.isidentifier() and _bound(n, scope, line)]
    everywhere = [(n, v) for n, v in scope.globals.items() if not n.startswith("_")]
    for name, value in local:
        if isinstance(value, torch.device | str) and _names(value, device):
            return name
    for name, value in everywhere:
        if isinstance(value, torch.device | str) and "dev" in name.lower() and _names(value, device):
            return name
    for name, value in local:
        if isinstance(value, torch.Tensor) and flow.same(str(value.device), device) and name != without:
            return f"{name}.device"
    for name, value in everywhere:
        if isinstance(value, torch.device | str) and _names(value, device):
            return name
    owner = scope.values.get(given[0]) if given else None
    if isinstance(owner, torch.nn.Module) and flow.same(flow.device_of(owner) or "?", device):
        return f"next({given[0]}.parameters()).device"
    return f'"{device}"'


def _names(value: object, device: str) -> bool:
    try:
        return flow.same(str(torch.device(value)), device)
    except (RuntimeError, TypeError):
        return False


def _bound(name: str, scope: Scope, line: int) -> bool:
    return (
        not scope.is_local(name) or name in scope.parameters() or scope.write_before(name, line) is not None
    )


def with_argument(call: ast.Call, scope: Scope, name: str, value: str) -> str:
    """Return a call's text with a keyword argument set: replaced if it is there, else added at the end."""
    given = flow.keyword(call, name)
    if given is not None:
        return rewritten(scope.source, call, (given, value))
    text = scope.text(call)
    body = text[:-1].rstrip().removesuffix(",")
    return f"{body}{'' if body.endswith('(') else ', '}{name}={value})"


def in_statement(scope: Scope, node: ast.AST, new: str, *more: tuple[ast.AST, str]) -> str:
    """Return the statement around an expression on one line, with it, and `more` of them, written anew.

    "" where that is no line to replace: in the head of a loop, a condition or a function.
    """
    source = scope.source
    if source is None or node not in source.parents or in_torch(scope):
        return ""
    statement = source.statement(node)
    if isinstance(getattr(statement, "body", None), list):
        return ""
    return rewritten(source, statement, (node, new), *more)


def rewritten(source: Source, statement: ast.AST, *changes: tuple[ast.AST, str]) -> str:
    """Return a node's text on one line, with expressions in it written anew; other code of its line stays."""
    starts = list(
        itertools.accumulate((len(line.encode()) for line in source.text.splitlines(True)), initial=0)
    )

    def span(node: ast.AST) -> tuple[int, int]:
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    raw = source.text.encode()
    begin, end = span(statement)
    if isinstance(statement, ast.stmt):
        before = raw[starts[statement.lineno - 1] : begin]
        after = raw[end : starts[statement.end_lineno]].strip()
        begin -= len(before.lstrip())
        if after and not after.startswith(b"#"):
            end = starts[statement.end_lineno]
    text = raw[begin:end]
    for (first, last), new in sorted(((span(node), new) for node, new in changes), reverse=True):
        text = text[: first - begin] + new.encode() + text[last - begin :]
    lines = text.decode().splitlines()
    return lines[0].strip() if len(lines) == 1 else " ".join(" ".join(lines).split())


def moved(text: str, ref: str) -> str:
    """Return an expression's text with `.to(...)` after it.

    >>> moved("a + b", "x.device")
    '(a + b).to(x.device)'
    """
    return f"{closed(text)}.to({ref})"


def closed(text: str) -> str:
    """Return an expression's text so that a method can follow it: in parentheses where it needs them."""
    simple = ast.Name | ast.Attribute | ast.Subscript | ast.Call
    return text if isinstance(ast.parse(text, mode="eval").body, simple) else f"({text})"


def remade(call: ast.Call, scope: Scope, ref: str, end: str) -> str:
    """Return the call that makes a tensor, making it on the device that `ref` says."""
    if end == MOVED:
        return moved(scope.text(call.func.value), ref)
    if end == LOADED:
        return with_argument(call, scope, "map_location", ref)
    if flow.is_call_of(
        call, scope, frozenset({"from_numpy", "Tensor", "FloatTensor", "LongTensor", "BoolTensor"})
    ):
        return moved(scope.text(call), ref)
    return with_argument(call, scope, "device", ref)


def line_of(scope: Scope, node: ast.AST, code: str) -> Mend | None:
    """Return the change that puts `code` in the place of an expression's statement; None for no code."""
    return Mend(scope.where(scope.source.statement(node).lineno), code) if code else None


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
        return flow.same(flow.device_of(function) or "?", device)
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
        if not number and flow.is_on(node, scope, device):
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
