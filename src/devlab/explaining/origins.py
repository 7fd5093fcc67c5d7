"""Where a tensor came from: followed from the expression that failed back to the line that made it."""

import ast

import torch

from devlab.explaining import flow, reach, writers
from devlab.explaining.lookup import MISSING, registered
from devlab.explaining.scope import Scope, argument_for, same_as_passed
from devlab.explaining.source import Write, writes
from devlab.explaining.story import (
    ARGUMENT,
    BATCH,
    CLOSURE,
    COMPUTED,
    GLOBAL,
    LOADED,
    MADE,
    MOVED,
    NUMPY,
    UNKNOWN,
    Hop,
    Story,
)

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
            node
            for node in nodes
            if isinstance(node, ast.expr) and flow.same(flow.infer(node, scope) or "?", self.device)
        ]
        apart = {ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else node for node in there}
        if scope.mine and len(apart) > 1 and self.story.joined is None:
            self.story.joined = len(self.story.trail)
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
            if write is None and line == scope.line:
                write = writers.later_in_loop(name, line, scope, self.device)
            if write is None and given:
                return self.parameter(node, scope, depth)
            write = write or scope.write_before(name, _ANYWHERE)
            return self.write(write, node, scope, depth) if write else self.story.finish(UNKNOWN, node, scope)
        if scope.source is None:
            return self.story.finish(UNKNOWN, node, scope)
        if name in scope.free:
            return self.outer(node, scope, depth)
        self.hold(GLOBAL)
        return self.written_in(scope.source.tree, node, writers.module_scope(scope), depth)

    def likely(self, before: list[Write], scope: Scope) -> Write | None:
        """The last write that may have put it on the device: one on a branch not taken is passed over."""
        for write in before:
            if write.how != "assign" or flow.same(flow.infer(write.value, scope) or self.device, self.device):
                return write
        return before[0] if before else None

    def outer(self, node: ast.Name, scope: Scope, depth: int) -> bool:
        """A name of the function around this one, which may be gone."""
        self.hold(CLOSURE)
        for outer in writers.around(scope):
            if outer.is_local(node.id):
                return self.written_in(outer.node, node, outer, depth)
        return self.story.finish(UNKNOWN, node, scope)

    def written_in(self, tree: ast.AST, node: ast.Name, scope: Scope, depth: int) -> bool:
        found = [write for write in writes(tree, node.id) if write.how != "item"]
        best = self.best(found, scope)
        if best is not None:
            return self.write(best, node, scope, depth)
        for write, cell in writers.in_other_cells(node.id, scope)[:1] if isinstance(tree, ast.Module) else ():
            return self.write(write, node, cell, depth)
        return self.story.finish(ARGUMENT if node.id in scope.parameters() else UNKNOWN, node, scope)

    def best(self, found: list[Write], scope: Scope) -> Write | None:
        """Of several places that give a value, the last one that gives a value on the device in question."""
        fits = [w for w in found if flow.same(flow.infer(w.value, scope) or "?", self.device)]
        return (fits or found or [None])[-1]

    def parameter(self, node: ast.Name, scope: Scope, depth: int) -> bool:
        passed = argument_for(scope, node.id)
        if passed is not None:
            if writers.is_methods(scope):
                self.story.outside = True
            return self.expression(passed[0], passed[1], passed[1].line, depth)
        return self.story.finish(ARGUMENT, node, scope)

    def write(self, write: Write, node: ast.AST, scope: Scope, depth: int) -> bool:
        if self.story.write is None:
            self.story.write, self.story.write_scope = write, scope
        line = write.line
        if write.how == "each":
            return self.iterated(write, scope, line, depth)
        if write.how == "part":
            value = scope.evaluate(write.value)
            if isinstance(write.value, ast.Call) and not writers.is_next(write.value):
                return self.call(write.value, scope, line, depth, write.position)
            if value is not MISSING or isinstance(write.value, ast.Name):
                return self.expression(write.value, scope, line, depth)
            return self.story.finish(BATCH, write.value, scope)
        return self.expression(write.value, scope, line, depth)

    def iterated(self, write: Write, scope: Scope, line: int, depth: int) -> bool:
        source = writers.iterable(write)
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
                self.again(owner, name, scope)
                return self.story.finish(self.story.held, node, scope)
            if type(owner).__module__.startswith("torch."):  # a list of its own parameters, as an RNN keeps
                self.hold(reach.PARAMETER, owner, name)
                return self.story.finish(reach.PARAMETER, node, scope)
        for value, inner in writers.computed_attribute(owner, name, scope):
            return self.expression(value, inner, _ANYWHERE, depth)
        first = self.story.held != reach.ATTRIBUTE
        self.hold(reach.ATTRIBUTE, owner, name)
        found = writers.written_attribute(owner, name, scope)
        found = [(w, s) for w, s in found if not isinstance(w.value, ast.Constant)]  # `= None` made nothing
        # `self.mean = 0.9 * self.mean + …` says nothing of where it began.
        text = ast.unparse(node)
        found = [(w, s) for w, s in found if text not in ast.unparse(w.value)] or found
        fits = [(w, s) for w, s in found if self.fits(w, s, key)]
        if not (fits or found):
            return self.story.finish(UNKNOWN, node, scope)
        items = [(w, s) for w, s in found if w.how == "item"] if key is not MISSING else []
        write, inner = (fits or items or found)[-1]
        if first:
            self.story.write, self.story.write_scope = write, inner
        value, home = writers.dug(write, key, inner)
        return self.expression(value, home, write.line if home is inner else _ANYWHERE, depth)

    def again(self, owner, name: str, scope: Scope) -> None:
        """Note the method that gave a registered tensor a new value on the device in question."""
        found = [(w, s) for w, s in writers.written_attribute(owner, name, scope) if s.name != "__init__"]
        fits = [
            (w, s)
            for w, s in found
            if flow.is_call_of(w.value, s, flow.FACTORIES) and self.fits(w, s, MISSING)
        ]
        if fits:
            self.story.write, self.story.write_scope = fits[-1]

    def fits(self, write: Write, scope: Scope, key) -> bool:
        put = scope.evaluate(write.key) if write.key is not None else MISSING
        if isinstance(put, str | int) and isinstance(key, str | int) and put != key:
            return False
        value, scope = writers.dug(write, key, scope)
        return flow.same(flow.infer(value, scope) or "?", self.device)

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
            home = scope if scope.is_local(node.id) or not scope.source else writers.module_scope(scope)
            found = writes(home.node, node.id) if home.node is not None else []
            before = [w for w in found if (home is not scope or w.line <= line) and w.how != "each"]
            fits = [w for w in before if self.fits(w, home, key)]
            if fits:
                write = fits[-1]
                self.story.write, self.story.write_scope = write, home
                value, home = writers.dug(write, key, home)
                if key is MISSING and len(getattr(write.value, "elts", ())) > 1:
                    self.story.joined = len(self.story.trail)  # the next element would fail likewise
                return self.expression(value, home, write.line if home is scope else _ANYWHERE, depth)
        return self.expression(node, scope, line, depth)

    def call(self, node: ast.Call, scope: Scope, line: int, depth: int, position: int = -1) -> bool:
        if writers.is_next(node):
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
        inside = flow.returned(function, scope, node)
        for expression, inner in inside:
            if isinstance(expression, ast.Tuple) and 0 <= position < len(expression.elts):
                expression = expression.elts[position]
            if flow.same(flow.infer(expression, inner) or "?", self.device):
                return self.expression(expression, inner, _ANYWHERE, depth)
        candidates = [*node.args, *(k.value for k in node.keywords)]
        if isinstance(node.func, ast.Attribute):
            if node.func.attr == "get" and node.args and isinstance(scope.evaluate(node.func.value), dict):
                self.hop(node, scope, line)
                return self.container(node.func.value, scope.evaluate(node.args[0]), scope, line, depth)
            if node.func.attr != "setdefault":
                candidates.insert(0, node.func.value)
        if (
            inside
            or isinstance(function, torch.nn.Module)
            or isinstance(node.func, ast.Call)
            or flow.is_unknown(node, function)
        ):
            return self.story.finish(COMPUTED, node, scope)
        return self.one_of(candidates, node, scope, line, depth)
