"""Code outside the traceback that gave something its value: methods, enclosing functions, other cells."""

import ast
import inspect
import linecache
import types
from collections.abc import Iterator
from dataclasses import replace

import torch

from devlab.explaining.flow import infer, returned, same
from devlab.explaining.lookup import MISSING
from devlab.explaining.scope import Scope, called
from devlab.explaining.source import FUNCTIONS, Write, own_nodes, source_of, writes


def module_scope(scope: Scope) -> Scope:
    """Return the scope of the file or cell that a function was written in."""
    tree = scope.source.tree if scope.source else None
    return replace(
        scope, name="<module>", node=tree, values=scope.globals, free=(), failing=None, caller=None
    )


def around(scope: Scope) -> Iterator[Scope]:
    """Yield the scopes of the functions around one, the nearest first; what the closure holds is known."""
    node = scope.node
    while scope.source is not None and node is not None:
        node = scope.source.enclosing(node, FUNCTIONS)
        if node is not None:
            name = getattr(node, "name", "<lambda>")
            captured = {free: scope.values[free] for free in scope.free if free in scope.values}
            yield replace(
                scope, name=name, node=node, values=captured, free=(), failing=None, caller=None, call=None
            )


def written_attribute(owner: object, name: str, scope: Scope) -> list[tuple[Write, Scope]]:
    """Return the places in an object's class, and in the traceback, that give an attribute its value."""
    found = []
    for kind in (owner if isinstance(owner, type) else type(owner)).__mro__:
        if kind.__module__.split(".")[0] == "torch":
            continue
        functions = [getattr(f, "__func__", f) for f in vars(kind).values()]
        functions = [f for f in functions if isinstance(f, types.FunctionType)]
        if name in vars(kind) and functions:
            found += _in_class_body(functions[0], name, scope)
        for function in functions:
            found += _in_method(function, owner, name, scope)
    found += _constructed(owner, name, scope)
    found += _from_outside(owner, name, scope)
    return found


def _in_method(function, owner: object, name: str, scope: Scope) -> list[tuple[Write, Scope]]:
    inner = called(types.MethodType(function, owner), scope, None)
    if inner is None or not inner.parameters():
        return []
    inner.caller = None
    text = f"{inner.parameters()[0]}.{name}"
    return [(write, inner) for write in writes(inner.node, text)]


def computed_attribute(owner: object, name: str, scope: Scope) -> list[tuple[ast.expr, Scope]]:
    """Return what a property returns, with its scope; nothing for an attribute that is no property."""
    found = inspect.getattr_static(type(owner), name, None)
    if not isinstance(found, property) or found.fget is None:
        return []
    return returned(types.MethodType(found.fget, owner), scope, None)


def _in_class_body(method, name: str, scope: Scope) -> list[tuple[Write, Scope]]:
    """Find `name = value` in the body of the class that a method belongs to."""
    inner = called(method, scope, None)
    body = inner.source.enclosing(inner.node, (ast.ClassDef,)) if inner and inner.source else None
    if body is None:
        return []
    place = replace(module_scope(inner), name=body.name, node=body, mine=inner.mine)
    return [(write, place) for write in writes(body, name)]


def _constructed(owner: object, name: str, scope: Scope) -> list[tuple[Write, Scope]]:
    """Find `Class(name=value)`, for dataclasses, whose `__init__` nobody wrote."""
    found = []
    fields = list(getattr(type(owner), "__dataclass_fields__", None) or getattr(type(owner), "_fields", ()))
    for outer in _chain(scope):
        for node in ast.walk(outer.node) if fields and outer.node is not None else ():
            if isinstance(node, ast.Call) and _called_name(node) == type(owner).__name__:
                given = {k.arg: k.value for k in node.keywords} | dict(zip(fields, node.args, strict=False))
                if name in given:
                    found.append((Write(node, given[name], "assign"), replace(outer, line=node.lineno)))
    return found


def _called_name(node: ast.Call) -> str:
    return getattr(node.func, "id", getattr(node.func, "attr", ""))


def _from_outside(owner: object, name: str, scope: Scope) -> list[tuple[Write, Scope]]:
    """Find `model.name = value`, and what fills `model.name`, in the functions of the traceback."""
    found = []
    for outer in _chain(scope):
        if outer.node is None:
            continue
        bases = {
            ast.unparse(node.value): node.value
            for node in own_nodes(outer.node)
            if isinstance(node, ast.Attribute) and node.attr == name
        }
        for text, base in bases.items():
            if outer.evaluate(base) is owner:
                found += [(write, outer) for write in writes(outer.node, f"{text}.{name}")]
    return found


def _chain(scope: Scope) -> Iterator[Scope]:
    while scope is not None:
        if scope.mine:
            yield scope
            if scope.source is not None and scope.node is not scope.source.tree:
                yield module_scope(scope)
        scope = scope.caller


def other_cells(filename: str) -> list[str]:
    """Return the other notebook cells whose source is still known, the newest first."""
    if "ipykernel" not in filename and "ipython-input" not in filename:
        return []
    cells = [name for name in linecache.cache if "ipykernel" in name or "ipython-input" in name]
    return [name for name in reversed(cells) if name != filename]


def in_other_cells(name: str, scope: Scope) -> list[tuple[Write, Scope]]:
    """Return the places in other notebook cells that give a global name its value, the newest first."""
    found = []
    for filename in other_cells(scope.filename):
        source = source_of(filename)
        if source is not None:
            cell = replace(module_scope(scope), filename=filename, source=source, node=source.tree, mine=True)
            found += [(write, cell) for write in writes(source.tree, name) if write.how != "item"]
    return found


def iterable(write: Write) -> ast.expr:
    """Return what a loop's variable is really an element of, inside `enumerate`, `zip` and `.values()`."""
    source, position = write.value, write.position
    while (
        isinstance(source, ast.Call) and source.args and _called_name(source) in ("enumerate", "zip", "tqdm")
    ):
        many = _called_name(source) == "zip" and 0 <= position < len(source.args)
        source, position = source.args[position if many else 0], -1
    method = isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute) and not source.args
    return source.func.value if method and source.func.attr in ("values", "items") else source


def dug(write: Write, key: object, scope: Scope) -> tuple[ast.expr, Scope]:
    """Return the expression of an element that a write put into a container, and the scope it is read in."""
    if write.how == "item":
        return write.value, scope
    value = dig(write.value, key, scope)
    if isinstance(value, ast.Call):
        for expression, inner in returned(scope.evaluate(value.func), scope, value):
            if isinstance(expression, ast.Name) and (made := inner.write_before(expression.id, 1 << 30)):
                expression = made.value
            part = dig(expression, key, inner)
            if part is not expression:
                return part, inner
    return value, scope


def dig(value: ast.expr, key: object, scope: Scope) -> ast.expr:
    """Return the part of a literal list or dict, or of a comprehension, that an element comes from."""
    if key is MISSING:
        literal = isinstance(value, ast.List | ast.Tuple) and value.elts
        if literal:
            return value.elts[0]
    if isinstance(value, ast.Dict):
        for name, item in zip(value.keys, value.values, strict=True):
            if name is not None and scope.evaluate(name) == key:
                return item
        return value.values[0] if key is MISSING and value.values else value
    if isinstance(value, ast.Call) and _called_name(value) == "dict" and value.keywords:
        return next((k.value for k in value.keywords if k.arg == key), value)
    if (
        isinstance(value, ast.List | ast.Tuple)
        and isinstance(key, int)
        and -len(value.elts) <= key < len(value.elts)
    ):
        return value.elts[key]
    if isinstance(value, ast.ListComp | ast.GeneratorExp | ast.SetComp):
        return value.elt
    if isinstance(value, ast.DictComp):
        return value.value
    if isinstance(value, ast.Call) and _called_name(value) in ("list", "tuple", "deque") and value.args:
        return dig(value.args[0], key, scope)
    return value


def is_next(node: ast.AST) -> bool:
    """Tell whether an expression is `next(...)` or `iter(...)`, as of a loader."""
    return isinstance(node, ast.Call) and _called_name(node) in ("next", "iter")


def is_methods(scope: Scope) -> bool:
    """Tell whether a scope is a module's own method, so that its arguments come from outside the module."""
    names = scope.parameters()
    return bool(names) and isinstance(scope.values.get(names[0]), torch.nn.Module)


def later_in_loop(name: str, line: int, scope: Scope, device: str) -> Write | None:
    """Return a write further down, or on the line itself, in a loop around it, that may give the device."""
    if scope.node is None or not isinstance(scope.values.get(name), torch.Tensor):
        return None
    loops = [
        node
        for node in ast.walk(scope.node)
        if isinstance(node, ast.For | ast.While) and node.lineno <= line <= node.end_lineno
    ]
    for write in scope.writes_before(name, 1 << 30):
        likely = same(infer(write.value, scope) or device, device)
        if (
            likely
            and write.how != "each"
            and any(loop.lineno < write.line <= loop.end_lineno for loop in loops)
        ):
            return write
    return None
