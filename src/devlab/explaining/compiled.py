"""Compiled code leaves no frames in a traceback; its message names the line, and the rest is looked up."""

import ast
import re
from dataclasses import replace

import torch

from devlab.explaining import flow
from devlab.explaining.meeting import operand_nodes
from devlab.explaining.scope import Scope, called
from devlab.explaining.source import own_nodes

_LINES = re.compile(r'File "(.+?)", line (\d+), in ')


def compiled(scopes: list[Scope], message: str) -> list[Scope]:
    """Return the scope of the compiled function in which two devices met, as a list of none or one."""
    lines = _LINES.findall(message.partition("from user code")[2])
    outer = next((scope for scope in reversed(scopes) if scope.mine), None)
    call = outer.failing if outer is not None else None
    if not lines or not isinstance(call, ast.Call):
        return []
    node = call.args[0] if isinstance(call.func, ast.Call) and call.func.args else None
    node = node if isinstance(call.func, ast.Call) else call.func
    function = outer.evaluate(node) if node is not None else None
    if isinstance(function, torch.nn.Module):
        function = function._modules.get("_orig_mod", function)
    inner = called(getattr(function, "_torchdynamo_orig_callable", function), outer, call)
    line = next((int(number) for name, number in lines if inner and name == inner.filename), None)
    if line is None:
        return []
    inner = replace(inner, line=line)
    met = [n for n in own_nodes(inner.node) if getattr(n, "lineno", 0) == line and _mixed(n, inner)]
    return [replace(inner, failing=met[-1])] if met else []


def _mixed(node: ast.AST, scope: Scope) -> bool:
    return len({device for n in operand_nodes(node, scope) if (device := flow.infer(n, scope))}) > 1
