"""The frames of a traceback as scopes in which an expression can be looked up, never run."""

import ast
import builtins
import functools
import inspect
import types
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from devlab.checks.calls import is_learners, place
from devlab.explaining.lookup import MISSING, attribute, element
from devlab.explaining.source import Source, Write, parameters, source_of, writes

TORCH = str(torch.__path__[0])


@dataclass(eq=False)
class Scope:
    """One function's names and values: of a frame in the traceback, or of a function that has returned.

    `failing` is the expression that a frame was at. `mine` says whether the code is the learner's own.
    """

    name: str
    filename: str
    line: int
    source: Source | None
    node: ast.AST | None
    values: dict
    globals: dict
    failing: ast.AST | None = None
    caller: "Scope | None" = None
    call: ast.AST | None = None
    mine: bool = True
    free: tuple = ()
    function: object = None
    names: tuple = ()
    given: tuple = ()

    def where(self, line: int | None = None) -> str:
        """Return the place as a reader finds it: the cell or file, and the line."""
        return f"{place(self.filename)}, line {line or self.line}"

    def text(self, node: ast.AST) -> str:
        """Return the source text of a node."""
        return self.source.segment(node) if self.source else ast.unparse(node)

    def parameters(self) -> list[str]:
        """Return the names of the function's parameters."""
        return [argument.arg for argument in parameters(self.node)] if self.node else list(self.given)

    def is_local(self, name: str) -> bool:
        """Tell whether the name is given its value in this function, or is one of its parameters."""
        if name in self.free or self.node is None:
            return False
        return name in self.parameters() or bool(writes(self.node, name))

    def lookup(self, name: str) -> object:
        """Return the value of a name, or MISSING."""
        for table in (self.values, self.globals, vars(builtins)):
            if name in table:
                return table[name]
        return MISSING

    def writes_before(self, text: str, line: int) -> list[Write]:
        """Return the places before a line that gave a name its value, the last one first."""
        found = writes(self.node, text) if self.node is not None else []
        before = [w for w in found if w.how != "item" and w.line < line]
        return sorted(before, key=lambda w: -w.line)

    def write_before(self, text: str, line: int) -> Write | None:
        """Return the last place before a line that gave a name its value."""
        return next(iter(self.writes_before(text, line)), None)

    def evaluate(self, node: ast.AST) -> object:
        """Return the value of names, attributes and elements without running anyone's code, or MISSING."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            value = self.lookup(node.id)
            if value is MISSING and self.function is not None and (passed := argument_for(self, node.id)):
                return passed[1].evaluate(passed[0])
            return value
        if isinstance(node, ast.Attribute):
            owner = self.evaluate(node.value)
            return MISSING if owner is MISSING else attribute(owner, node.attr)
        if isinstance(node, ast.Subscript):
            return element(self.evaluate(node.value), self.evaluate(node.slice))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.evaluate(node.operand)
            return -value if type(value) in (int, float) else MISSING
        if isinstance(node, ast.Call) and self.evaluate(node.func) is torch.device:
            values = [self.evaluate(argument) for argument in node.args]
            return torch.device(*values) if values and MISSING not in values else MISSING
        return MISSING


def in_torch(scope: Scope) -> bool:
    """Tell whether a scope's code is PyTorch's own."""
    return scope.filename.startswith(TORCH)


def called(function: object, caller: Scope, call: ast.Call) -> Scope | None:
    """Return the scope of a Python function that was called and has returned, its arguments unknown."""
    bound = function.__self__ if isinstance(function, types.MethodType) else None
    function = function.__func__ if isinstance(function, types.MethodType) else function
    if isinstance(function, torch.nn.Module):
        bound, function = function, type(function).forward
    function = inspect.unwrap(function) if callable(function) else function
    if not isinstance(function, types.FunctionType):
        return None
    code = function.__code__
    source = source_of(code.co_filename)
    if source is None:
        return None
    values = {}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        try:
            values[name] = cell.cell_contents
        except ValueError:
            continue
    node = source.function(code)
    names = [argument.arg for argument in parameters(node)]
    if bound is not None and names:
        values[names[0]] = bound
    return Scope(
        name=code.co_name,
        filename=code.co_filename,
        line=getattr(node, "end_lineno", 0) or 0,
        source=source,
        node=node,
        values=values,
        globals=function.__globals__,
        caller=caller,
        call=call,
        mine=is_learners(code.co_filename),
        free=code.co_freevars,
        function=function,
        names=code.co_names,
    )


def same_as_passed(scope: Scope, name: str) -> tuple[ast.expr, Scope] | None:
    """Return what a caller passed for a parameter, if that very object is still the parameter's value."""
    caller = scope.caller
    call = scope.call or (caller.failing if caller else None)
    value = scope.values.get(name, MISSING)
    if caller is None or not isinstance(value, torch.Tensor | torch.nn.Module | list | tuple | dict):
        return None
    return _passed_as(value, caller, call)


def argument_for(scope: Scope, name: str) -> tuple[ast.expr, Scope] | None:
    """Return the expression that a caller passed for a parameter, with the caller's scope."""
    caller = scope.caller
    while scope.mine and caller is not None and _transforms(caller):  # as vmap does, with the same arguments
        caller = caller.caller
    call = scope.call or (caller.failing if caller else None)
    if caller is None or not isinstance(call, ast.Call):
        return None
    if found := same_as_passed(scope, name):
        return found
    if handed_on(scope, name):
        return None
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value, caller
    a = getattr(scope.node, "args", None)
    positional = [p.arg for p in (*a.posonlyargs, *a.args)] if a else []
    if name not in positional or any(isinstance(p, ast.Starred) for p in call.args):
        return None
    place = positional.index(name)
    if positional and positional[0] in ("self", "cls", "ctx"):
        place -= 1
    function = caller.evaluate(call.func)
    if isinstance(function, functools.partial):
        if name in function.keywords or place < len(function.args):
            return _fixed_by_partial(call, name, place, caller)
        place -= len(function.args)
    return (call.args[place], caller) if 0 <= place < len(call.args) else None


def _transforms(scope: Scope) -> bool:
    return in_torch(scope) and "func" in scope.filename.removeprefix(TORCH)


def handed_on(scope: Scope, name: str) -> bool:
    """Tell whether a module that calls others in turn has given the name their results already."""
    values = (scope.values.get("self"), scope.values.get("module"))
    if not isinstance(values[0], torch.nn.Sequential) or name not in scope.parameters():
        return False
    return len(values[0]) > 0 and values[1] is not values[0][0]


def _fixed_by_partial(call: ast.Call, name: str, place: int, caller: Scope) -> tuple | None:
    """Find the argument that a `functools.partial` fixed when it was made."""
    write = caller.write_before(ast.unparse(call.func), caller.line)
    made = write.value if write is not None and isinstance(write.value, ast.Call) else None
    if made is None:
        return None
    given = [keyword.value for keyword in made.keywords if keyword.arg == name] or made.args[
        place + 1 : place + 2
    ]
    return (given[0], caller) if given else None


def _passed_as(value: object, caller: Scope, call: ast.Call) -> tuple[ast.expr, Scope] | None:
    """Find the expression that passed an object, through functions that only hand on `*args` too."""
    while isinstance(call, ast.Call):
        for expression in passed(call):
            if caller.evaluate(expression) is value:
                return expression, caller
        handed_on = any(isinstance(a, ast.Starred) for a in call.args) or any(
            not k.arg for k in call.keywords
        )
        if not handed_on or caller.caller is None:
            return None
        caller, call = caller.caller, caller.caller.failing
    return None


def passed(call: ast.Call) -> Iterator[ast.expr]:
    """Yield the expressions passed to a call, those inside literal lists and tuples too."""
    for value in (*call.args, *(keyword.value for keyword in call.keywords)):
        yield from elements(value)


def elements(node: ast.expr) -> Iterator[ast.expr]:
    """Yield an expression, or what a literal list, tuple or starred one holds."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        for inner in node.elts:
            yield from elements(inner)
    elif isinstance(node, ast.Starred):
        yield from elements(node.value)
    else:
        yield node
