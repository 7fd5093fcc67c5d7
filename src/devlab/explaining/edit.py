"""Small edits of the learner's own text: a device added to a call, a statement with one part replaced."""

import ast
import itertools
from dataclasses import dataclass

import torch

from devlab.explaining import flow
from devlab.explaining.lookup import MISSING
from devlab.explaining.scope import Scope, argument_for
from devlab.explaining.source import Source
from devlab.explaining.story import LOADED, MOVED


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
    if source is None or node not in source.parents:
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
