"""Code that left no frame behind: a worker's or compiled code's, of which only the error's message tells."""

import ast
import inspect
import re
import types
from collections import deque
from dataclasses import replace

from devlab.checks.calls import is_learners
from devlab.explaining import flow
from devlab.explaining.culprit import nearest_mine, operand_nodes
from devlab.explaining.frames import Scope, Source, called, own_nodes, source_of
from devlab.explaining.reach import children, roots

# A frame as Python prints a traceback: file, line, function; the line's text, and the signs under its part.
_FRAME = re.compile(
    r'^ *File "(.+?)", line (\d+), in (.+)$(?:\n( *)(?! |File ")(.+)$(?:\n( *)([~^]+)$)?)?', re.MULTILINE
)
_MOST = 20_000


def told(scopes: list[Scope], message: str) -> list[Scope]:
    """Return the learner's functions that a message tells of, outermost first, with what is known of each."""
    compiled = message.partition("from user code")[2]
    found: list[Scope] = []
    for frame in _FRAME.finditer(compiled or message.partition("Original Traceback")[2]):
        filename, number, name = frame[1], int(frame[2]), frame[3].rpartition(".")[2]
        source = source_of(filename) if is_learners(filename) else None
        if source is None or number > len(source.lines):
            continue
        caller = found[-1] if found else nearest_mine(scopes) if compiled else None
        function = _find_function(source, number, name, scopes)
        inner = called(function, caller, caller.failing if caller else None) if function else None
        if inner is None:
            inner = _unseen(source, number, name, scopes)
        inner = replace(inner, line=number, mine=True)
        found.append(replace(inner, failing=_failing(source, inner, frame)))
    return found


def _find_function(source: Source, line: int, name: str, scopes: list[Scope]) -> object:
    """Return the function or bound method that the frames lead to and that has a line; None for none."""
    queue = deque(value for scope in reversed(scopes) for _, value in roots(scope))
    seen: set[int] = set()
    while queue and len(seen) < _MOST:
        value = queue.popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        function = value
        if not isinstance(value, types.FunctionType):
            function = inspect.getattr_static(type(value), name, None)
        code = getattr(function, "__code__", None)
        named = code is not None and (code.co_filename, code.co_name) == (source.filename, name)
        if named and code.co_firstlineno <= line <= getattr(source.function(code), "end_lineno", 0):
            return function if function is value else types.MethodType(function, value)
        queue.extend(item for _, _, item in children(value))
    return None


def _unseen(source: Source, line: int, name: str, scopes: list[Scope]) -> Scope:
    """Return the scope of a function that no frame leads to: its text is known, and no value."""
    wide = next((scope.globals for scope in scopes if scope.filename == source.filename), {})
    around = [n for n in source.parents if getattr(n, "name", "<lambda>") == name and hasattr(n, "args")]
    node = next((n for n in reversed(around) if n.lineno <= line <= n.end_lineno), source.tree)
    return Scope(name, source.filename, line, source, node, {}, wide)


def _failing(source: Source, scope: Scope, frame: re.Match) -> ast.AST | None:
    """Return the expression that failed: what the signs are under, or the operation in which devices meet."""
    line = source.lines[scope.line - 1]
    here = [n for n in own_nodes(scope.node) if getattr(n, "lineno", 0) == scope.line]
    if frame[7]:
        start = len(line) - len(line.lstrip()) + len(frame[6]) - len(frame[4])
        span = (start, start + len(frame[7]))
        exact = [n for n in here if (getattr(n, "col_offset", -1), getattr(n, "end_col_offset", -1)) == span]
        return (exact or [None])[-1]
    known = [{flow.infer(n, scope) for n in operand_nodes(one, scope)} - {""} for one in here]
    mixed = [one for one, devices in zip(here, known, strict=True) if len(devices) > 1]
    half = [
        one
        for one, devices in zip(here, known, strict=True)
        if devices and len(operand_nodes(one, scope)) > 1
    ]
    return (mixed or half or [None])[-1]
