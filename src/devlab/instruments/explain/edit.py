"""Small edits of the learner's own text: a device added to a call, a statement with one part replaced."""

import ast

import torch

from devlab.instruments.explain import flow
from devlab.instruments.explain.lookup import MISSING
from devlab.instruments.explain.scope import Scope, argument_for
from devlab.instruments.explain.source import Source

_LONGEST = 150


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
    if isinstance(owner, torch.nn.Module):
        first = next(iter(owner.parameters()), None)
        if first is not None and flow.same(str(first.device), device):
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
    text = scope.text(call)
    given = flow.keyword(call, name)
    if given is not None:
        old = scope.text(given)
        before, found, after = text.rpartition(old)
        return before + value + after if found else text
    body = text[:-1].rstrip().removesuffix(",")
    return f"{body}{'' if body.endswith('(') else ', '}{name}={value})"


def in_statement(scope: Scope, node: ast.AST, new: str) -> str:
    """Return the statement around an expression with its text replaced; the text alone if that is long."""
    source = scope.source
    if source is None:
        return new
    statement = source.statement(node)
    if getattr(statement, "body", None) or _in_lambda_class(source, node):
        return new
    whole = replaced(source, statement, node, new)
    return whole if len(whole) <= _LONGEST else new


def replaced(source: Source, statement: ast.AST, node: ast.AST, new: str) -> str:
    """Return a statement's text on one line, with one expression in it written anew."""
    text = source.segment(statement)
    lines = ast.get_source_segment(source.text, statement) or ""
    if (statement.lineno, statement.end_lineno) == (node.lineno, node.end_lineno):
        raw = lines.encode()
        start = node.col_offset - statement.col_offset
        end = node.end_col_offset - statement.col_offset
        return (raw[:start] + new.encode() + raw[end:]).decode()
    return text.replace(source.segment(node), new, 1)


def _in_lambda_class(source: Source, node: ast.AST) -> bool:
    return isinstance(source.statement(node), ast.ClassDef | ast.FunctionDef)


def moved(text: str, ref: str) -> str:
    """Return an expression's text with `.to(...)` after it.

    >>> moved("a + b", "x.device")
    '(a + b).to(x.device)'
    """
    simple = isinstance(
        ast.parse(text, mode="eval").body, ast.Name | ast.Attribute | ast.Subscript | ast.Call
    )
    return f"{text if simple else f'({text})'}.to({ref})"
