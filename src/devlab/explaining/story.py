"""The story of a tensor: followed from the expression that failed back to the line that made it."""

import ast
import inspect
import linecache
import types
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch

from devlab.explaining import flow, reach
from devlab.explaining.flow import returned
from devlab.explaining.frames import (
    FUNCTIONS,
    MISSING,
    Scope,
    Write,
    argument_for,
    called,
    called_name,
    own_nodes,
    registered,
    same_as_passed,
    source_of,
    writes,
)

MADE, MOVED, NUMPY, LOADED = "made", "moved", "from NumPy", "loaded"
BATCH, ARGUMENT, COMPUTED, UNKNOWN = "batch", "argument", "computed", "unknown"
CLOSURE, GLOBAL, CACHE = "closure", "global", "cache"


@dataclass(frozen=True)
class Hop:
    """A name or expression that the tensor went by, with the function in which it did."""

    text: str
    scope: Scope
    line: int
    node: ast.AST


@dataclass
class Story:
    """How a tensor came to where it failed: the names it went by, what held it, and what made it."""

    device: str
    trail: list[Hop] = field(default_factory=list)
    held: str = ""
    owner: object = None
    attr: str = ""
    end: str = UNKNOWN
    node: ast.AST | None = None
    scope: Scope | None = None
    outside: bool = False
    path: reach.Path | None = None

    def finish(self, end: str, node: ast.AST, scope: Scope) -> bool:
        """Note how the trail ends, and where."""
        self.end, self.node, self.scope = end, node, scope
        return True

    @property
    def registered(self) -> bool:
        """Tell whether a module has registered the tensor, as a parameter or a buffer."""
        return self.held in (reach.PARAMETER, reach.BUFFER)

    @property
    def line(self) -> int:
        """Return the line on which the trail ends."""
        return getattr(self.node, "lineno", 0)


def module_scope(scope: Scope) -> Scope:
    """Return the scope of the file or cell that a function was written in."""
    tree = scope.source.tree if scope.source else None
    return replace(
        scope, name="<module>", node=tree, values=scope.globals, free=(), failing=None, caller=None
    )


def written_attribute(owner: object, name: str, scope: Scope) -> list[tuple[Write, Scope]]:
    """Return the places in an object's class, and in the traceback, that give an attribute its value."""
    found = []
    for kind in (owner if isinstance(owner, type) else type(owner)).__mro__:
        if kind.__module__.split(".")[0] == "torch":
            continue
        functions = [getattr(f, "__func__", f) for f in vars(kind).values()]
        functions = [f for f in functions if isinstance(f, types.FunctionType)]
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


def _constructed(owner: object, name: str, scope: Scope) -> list[tuple[Write, Scope]]:
    """Find `Class(name=value)`, for dataclasses, whose `__init__` Python wrote."""
    found = []
    fields = list(getattr(type(owner), "__dataclass_fields__", None) or getattr(type(owner), "_fields", ()))
    for outer in _chain(scope):
        for node in ast.walk(outer.node) if fields and outer.node is not None else ():
            if isinstance(node, ast.Call) and called_name(node) == type(owner).__name__:
                given = {k.arg: k.value for k in node.keywords} | dict(zip(fields, node.args, strict=False))
                if name in given:
                    found.append((Write(node, given[name], "assign"), replace(outer, line=node.lineno)))
    return found


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


def _in_other_functions(name: str, found: list, scope: Scope) -> list[tuple[Write, Scope]]:
    """Return what the other functions of the learner's files give an attribute of that name."""
    known, others = {write.statement for write, _ in found}, []
    for place in {s.source: s for s in (*(s for _, s in found), scope) if s.source and s.mine}.values():
        for node in ast.walk(place.source.tree):
            if not isinstance(node, ast.Assign) or node in known or isinstance(node.value, ast.Constant):
                continue
            if any(getattr(target, "attr", "") == name for target in node.targets):
                function = place.source.enclosing(node, FUNCTIONS) or place.source.tree
                named = getattr(function, "name", "<module>")
                inner = replace(module_scope(place), name=named, node=function)
                others.append((Write(node, node.value, "assign"), inner))
    return others


def _same_key(write: Write, scope: Scope, key: object) -> bool:
    """Tell whether a write may be of an element under a key; keys of one type are compared."""
    put = scope.evaluate(write.key) if write.key is not None else MISSING
    return not (isinstance(put, str | int) and isinstance(key, str | int) and put != key)


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
        isinstance(source, ast.Call) and source.args and called_name(source) in ("enumerate", "zip", "tqdm")
    ):
        many = called_name(source) == "zip" and 0 <= position < len(source.args)
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
    if (
        isinstance(value, ast.List | ast.Tuple)
        and isinstance(key, int)
        and -len(value.elts) <= key < len(value.elts)
    ):
        return value.elts[key]
    if isinstance(value, ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp):
        return getattr(value, "elt", None) or value.value
    return value


def is_next(node: ast.AST) -> bool:
    """Tell whether an expression is `next(...)` or `iter(...)`, as of a loader."""
    return isinstance(node, ast.Call) and called_name(node) in ("next", "iter")


def is_methods(scope: Scope) -> bool:
    """Tell whether a scope is a module's own method, so that its arguments come from outside the module."""
    names = scope.parameters()
    return bool(names) and isinstance(scope.values.get(names[0]), torch.nn.Module)


_LOAD = frozenset({"load"})
_DEEPEST = 30
_ANYWHERE = 1 << 30


def follow(node: ast.expr, scope: Scope, device: str, line: int | None = None) -> Story:
    """Return the story of the tensor on `device` that an expression of a scope stands for."""
    story = Story(device)
    follower = _Follower(story)
    if isinstance(node, ast.Name) and isinstance(scope.evaluate(node), list | tuple | dict):
        follower.hop(node, scope, line or scope.line)
        follower.container(node, MISSING, scope, line or scope.line, 0)
    else:
        follower.expression(node, scope, line or scope.line, 0)
    return story


class _Follower:
    def __init__(self, story: Story):
        self.story = story
        self.device = story.device
        self.seen: set = set()

    def hop(self, node: ast.AST, scope: Scope, line: int) -> None:
        self.story.trail.append(Hop(scope.text(node), scope, min(line, node.end_lineno), node))

    def hold(self, kind: str, owner: object = None, attr: str = "") -> None:
        # An attribute says more than a name does; what it was made from has attributes of its own.
        if self.story.held in ("", reach.ITEM, CLOSURE, GLOBAL):
            self.story.held, self.story.owner, self.story.attr = kind, owner, attr

    def expression(self, node: ast.AST, scope: Scope, line: int, depth: int) -> bool:
        key = (id(node), id(scope), line)
        if depth > _DEEPEST or key in self.seen:
            return False
        self.seen.add(key)
        if isinstance(node, ast.Name):
            self.hop(node, scope, line)
            return self.name(node, scope, line, depth + 1)
        if isinstance(node, ast.Attribute):
            return self.attribute(node, scope, line, depth + 1)
        if isinstance(node, ast.Subscript):
            return self.subscript(node, scope, line, depth + 1)
        if isinstance(node, ast.Call):
            return self.call(node, scope, line, depth + 1)
        if isinstance(node, ast.NamedExpr | ast.Starred | ast.Await):
            return self.expression(node.value, scope, line, depth + 1)
        return self.one_of(list(ast.iter_child_nodes(node)), node, scope, line, depth + 1)

    def one_of(self, nodes: list, whole: ast.AST, scope: Scope, line: int, depth: int) -> bool:
        """Go on with the operand that is on the device in question."""
        there = [
            node for node in nodes if isinstance(node, ast.expr) and flow.is_on(node, scope, self.device)
        ]
        if not there:
            return self.story.finish(COMPUTED, whole, scope)
        return self.expression(there[0], scope, line, depth)

    def name(self, node: ast.Name, scope: Scope, line: int, depth: int) -> bool:
        name = node.id
        if scope.is_local(name) or scope.node is None:
            given = name in scope.parameters()
            if given and same_as_passed(scope, name):
                return self.parameter(node, scope, depth)
            write = self.likely(scope.writes_before(name, line), scope)
            if write is None and given:
                return self.parameter(node, scope, depth)
            write = write or scope.write_before(name, _ANYWHERE)
            return self.write(write, node, scope, depth) if write else self.story.finish(UNKNOWN, node, scope)
        if scope.source is None:
            return self.story.finish(UNKNOWN, node, scope)
        if name in scope.free:
            self.hold(CLOSURE)
            return self.story.finish(UNKNOWN, node, scope)
        self.hold(GLOBAL)
        return self.written_in(scope.source.tree, node, module_scope(scope), depth)

    def likely(self, before: list[Write], scope: Scope) -> Write | None:
        """The last write that may have put the tensor on the device, on a branch that was taken."""
        for write in before:
            if write.how != "assign" or flow.same(flow.infer(write.value, scope) or self.device, self.device):
                return write
        return before[0] if before else None

    def written_in(self, tree: ast.AST, node: ast.Name, scope: Scope, depth: int) -> bool:
        found = [write for write in writes(tree, node.id) if write.how != "item"]
        best = self.best(found, scope)
        if best is not None:
            return self.write(best, node, scope, depth)
        for write, cell in in_other_cells(node.id, scope)[:1] if isinstance(tree, ast.Module) else ():
            return self.write(write, node, cell, depth)
        return self.story.finish(ARGUMENT if node.id in scope.parameters() else UNKNOWN, node, scope)

    def best(self, found: list[Write], scope: Scope) -> Write | None:
        """The last of several writes that gives a value on the device in question; else the last of all."""
        fits = [w for w in found if flow.is_on(w.value, scope, self.device)]
        return (fits or found or [None])[-1]

    def parameter(self, node: ast.Name, scope: Scope, depth: int) -> bool:
        passed = argument_for(scope, node.id)
        if passed is not None:
            self.story.outside |= is_methods(scope)
            return self.expression(passed[0], passed[1], passed[1].line, depth)
        return self.story.finish(ARGUMENT, node, scope)

    def write(self, write: Write, node: ast.AST, scope: Scope, depth: int) -> bool:
        line = write.line
        if write.how == "each":
            return self.iterated(write, scope, line, depth)
        if write.how == "part":
            value = scope.evaluate(write.value)
            if isinstance(write.value, ast.Call) and not is_next(write.value):
                return self.call(write.value, scope, line, depth, write.position)
            if value is not MISSING or isinstance(write.value, ast.Name):
                return self.expression(write.value, scope, line, depth)
            return self.story.finish(BATCH, write.value, scope)
        return self.expression(write.value, scope, line, depth)

    def iterated(self, write: Write, scope: Scope, line: int, depth: int) -> bool:
        source = iterable(write)
        value = scope.evaluate(source)
        if isinstance(value, torch.Tensor):
            return self.expression(source, scope, line, depth)
        holder = isinstance(source, ast.Attribute) and isinstance(
            scope.evaluate(source.value), torch.nn.Module
        )
        tensors = isinstance(value, list | tuple | dict) and all(
            isinstance(v, torch.Tensor | torch.nn.Module)
            for v in (value.values() if isinstance(value, dict) else value)
        )
        if holder or tensors:
            return self.container(source, MISSING, scope, line, depth)
        return self.story.finish(BATCH, source, scope)

    def attribute(self, node: ast.Attribute, scope: Scope, line: int, depth: int) -> bool:
        owner = scope.evaluate(node.value)
        if isinstance(owner, torch.Tensor) or (owner is MISSING and node.attr in ("T", "mT", "data", "real")):
            if node.attr == "grad":
                return self.story.finish(COMPUTED, node, scope)
            return self.expression(node.value, scope, line, depth)
        if owner is MISSING and flow.infer(node.value, scope):
            return self.expression(node.value, scope, line, depth)
        self.hop(node, scope, line)
        if owner is MISSING:
            return self.story.finish(UNKNOWN, node, scope)
        return self.attribute_of(owner, node, scope, line, depth, MISSING)

    def attribute_of(self, owner, node: ast.Attribute, scope: Scope, line: int, depth: int, key) -> bool:
        name = node.attr
        if isinstance(owner, torch.nn.Module):
            parameters, buffers, _ = registered(owner)
            if name in parameters or name in buffers:
                self.hold(reach.PARAMETER if name in parameters else reach.BUFFER, owner, name)
                return self.story.finish(self.story.held, node, scope)
            if type(owner).__module__.startswith("torch."):  # a list of its own parameters, as an RNN keeps
                self.hold(reach.PARAMETER, owner, name)
                return self.story.finish(reach.PARAMETER, node, scope)
        for value, inner in computed_attribute(owner, name, scope):
            return self.expression(value, inner, _ANYWHERE, depth)
        self.hold(reach.ATTRIBUTE, owner, name)
        found = written_attribute(owner, name, scope)
        found = [(w, s) for w, s in found if not isinstance(w.value, ast.Constant)]  # `= None` made nothing
        # `self.mean = 0.9 * self.mean + …` says nothing of where it began.
        text = ast.unparse(node)
        found = [(w, s) for w, s in found if text not in ast.unparse(w.value)] or found
        fits = [(w, s) for w, s in found if self.fits(w, s, key)]
        others = _in_other_functions(name, found, scope) if not fits else []
        fits = fits or [(w, s) for w, s in others if self.fits(w, s, key)]
        if not (fits or found):
            return self.story.finish(UNKNOWN, node, scope)
        items = [(w, s) for w, s in found if w.how == "item"] if key is not MISSING else []
        write, inner = (fits or items or found)[-1]
        value, home = dug(write, key, inner)
        return self.expression(value, home, write.line if home is inner else _ANYWHERE, depth)

    def fits(self, write: Write, scope: Scope, key) -> bool:
        value, home = dug(write, key, scope)
        return _same_key(write, scope, key) and flow.is_on(value, home, self.device)

    def subscript(self, node: ast.Subscript, scope: Scope, line: int, depth: int) -> bool:
        container = scope.evaluate(node.value)
        held = isinstance(container, list | tuple | dict) or isinstance(scope.evaluate(node), torch.Tensor)
        if isinstance(container, torch.Tensor) or not held:
            return self.expression(node.value, scope, line, depth)
        self.hop(node, scope, line)
        return self.container(node.value, scope.evaluate(node.slice), scope, line, depth)

    def container(self, node: ast.expr, key, scope: Scope, line: int, depth: int) -> bool:
        """An element of a list, tuple or dict: find where it was put in."""
        if isinstance(node, ast.Attribute):
            owner = scope.evaluate(node.value)
            if owner is not MISSING and not isinstance(owner, torch.Tensor):
                self.hop(node, scope, line)
                return self.attribute_of(owner, node, scope, line, depth, key)
        self.hold(reach.ITEM)
        if isinstance(node, ast.Name):
            home = scope if scope.is_local(node.id) or not scope.source else module_scope(scope)
            found = writes(home.node, node.id) if home.node is not None else []
            before = [w for w in found if (home is not scope or w.line <= line) and w.how != "each"]
            items = [w for w in before if w.how == "item" and _same_key(w, home, key)]
            fits = [w for w in before if self.fits(w, home, key)] or items
            if fits:
                value, inner = dug(fits[-1], key, home)
                line = fits[-1].line if inner is scope else _ANYWHERE
                return self.expression(value, inner, line, depth)
        return self.expression(node, scope, line, depth)

    def call(self, node: ast.Call, scope: Scope, line: int, depth: int, position: int = -1) -> bool:
        if is_next(node):
            return self.story.finish(BATCH, node, scope)
        if flow.is_call_of(node, scope, _LOAD):
            return self.story.finish(LOADED, node, scope)
        if flow.is_call_of(node, scope, flow.FACTORIES):
            return self.story.finish(NUMPY if flow.from_numpy(node, scope) else MADE, node, scope)
        if (target := flow.moved_to(node, scope)) and flow.same(target, self.device):
            return self.story.finish(MOVED, node, scope)
        if flow.device_argument(node, scope)[1] and flow.is_call_of(node, scope, flow.LIKE):
            return self.story.finish(MADE, node, scope)
        function = scope.evaluate(node.func)
        if hasattr(function, "cache_info"):
            self.hold(CACHE, function, called_name(node))
        inside = flow.returned(function, scope, node)
        for expression, inner in inside:
            if isinstance(expression, ast.Tuple) and 0 <= position < len(expression.elts):
                expression = expression.elts[position]
            if flow.is_on(expression, inner, self.device):
                return self.expression(expression, inner, _ANYWHERE, depth)
        candidates = [*node.args, *(k.value for k in node.keywords)]
        if isinstance(node.func, ast.Attribute):
            if node.func.attr == "get" and node.args and isinstance(scope.evaluate(node.func.value), dict):
                self.hop(node, scope, line)
                return self.container(node.func.value, scope.evaluate(node.args[0]), scope, line, depth)
            if node.func.attr != "setdefault":
                candidates.insert(0, node.func.value)
        unknown = function is MISSING and isinstance(node.func, ast.Name)
        if inside or unknown or isinstance(function, torch.nn.Module) or isinstance(node.func, ast.Call):
            return self.story.finish(COMPUTED, node, scope)
        return self.one_of(candidates, node, scope, line, depth)
