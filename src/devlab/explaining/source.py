"""Source text as a tree: the expression that failed, and every place where a name is given a value."""

import ast
import functools
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_FILLERS = frozenset({"append", "add", "insert", "extend", "appendleft", "setdefault", "update"})


@dataclass(frozen=True)
class Write:
    """One place that gives a name a value: the statement, the expression, and in what manner.

    `how` is "assign", "part" (one of several, at `position`), "each" (an element of a loop's iterable),
    "item" (an element put into a container) or "with".
    """

    statement: ast.AST
    value: ast.expr
    how: str
    position: int = -1
    key: ast.expr | None = None

    @property
    def line(self) -> int:
        """Return the line on which the statement begins."""
        return self.statement.lineno


class Source:
    """A parsed file or notebook cell."""

    def __init__(self, filename: str, text: str):
        self.filename = filename
        self.text = text
        self.lines = text.splitlines()
        self.tree = ast.parse(text)
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def segment(self, node: ast.AST) -> str:
        """Return the text of a node on one line."""
        if node not in self.parents and node is not self.tree:  # parsed from elsewhere
            return ast.unparse(node)
        return " ".join((ast.get_source_segment(self.text, node) or ast.unparse(node)).split())

    def enclosing(self, node: ast.AST, kinds: tuple) -> ast.AST | None:
        """Return the nearest node of one of the kinds around a node."""
        node = self.parents.get(node)
        while node is not None and not isinstance(node, kinds):
            node = self.parents.get(node)
        return node

    def statement(self, node: ast.AST) -> ast.stmt:
        """Return the statement that a node belongs to."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def function(self, code: CodeType) -> ast.AST:
        """Return the function that a code object was compiled from; the whole file for a module's code."""
        first = code.co_firstlineno
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == code.co_name:
                if first == min([node.lineno, *(d.lineno for d in node.decorator_list)]):
                    return node
            elif isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == first:
                names = [argument.arg for argument in parameters(node)]
                if tuple(names) == code.co_varnames[: len(names)]:
                    return node
        return self.tree

    def failing(self, code: CodeType, instruction: int) -> ast.AST | None:
        """Return the expression or statement that an instruction of a code object was compiled from."""
        positions = next((p for i, p in enumerate(code.co_positions()) if i == instruction // 2), (None,) * 4)
        if None in positions:
            return None
        line, end_line, column, end_column = positions
        found = [
            node
            for node in ast.walk(self.tree)
            if getattr(node, "end_lineno", None) == end_line and node.end_col_offset == end_column
        ]
        exact = [node for node in found if (node.lineno, node.col_offset) == (line, column)]
        # Newer Pythons place a call on a chain's last line from the method's name on.
        wider = [
            node
            for node in found
            if isinstance(node, ast.Call) and (node.lineno, node.col_offset) <= (line, column)
        ]
        return (exact or wider or [None])[-1]


@functools.lru_cache(maxsize=128)
def _parsed(filename: str, text: str) -> Source | None:
    try:
        return Source(filename, text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def source_of(filename: str) -> Source | None:
    """Return a file's or a notebook cell's source, or None where there is none to read."""
    text = "".join(linecache.getlines(filename))
    return _parsed(filename, text) if text else None


def parameters(function: ast.AST) -> list[ast.arg]:
    """Return a function's parameters in the order of `co_varnames`."""
    if not isinstance(function, FUNCTIONS):
        return []
    a = function.args
    return [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Walk a function's own nodes in the order of the text, leaving out functions and classes inside it."""
    for child in ast.iter_child_nodes(function):
        yield child
        if not isinstance(child, (*FUNCTIONS, ast.ClassDef)):
            yield from own_nodes(child)


def writes(function: ast.AST, text: str) -> list[Write]:
    """Return every place in a function's own code that gives `text`, a name or `self.name`, a value.

    >>> tree = ast.parse("x, y = batch\\nx = x + 1")
    >>> [(write.how, write.line) for write in writes(tree, "x")]
    [('part', 1), ('assign', 2)]
    """
    return [write for node in own_nodes(function) for write in _writes_of(node, text)]


def _writes_of(node: ast.AST, text: str) -> Iterator[Write]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _targets(node, target, node.value, text)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        yield from _targets(node, node.target, node.value, text)
    elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        place = node if isinstance(node, ast.stmt) else node.target
        for write in _targets(place, node.target, node.iter, text):
            yield Write(place, node.iter, "each", write.position)
    elif isinstance(node, ast.With):
        for item in node.items:
            if item.optional_vars is not None and ast.unparse(item.optional_vars) == text:
                yield Write(node, item.context_expr, "with")
    elif _fills(node) and ast.unparse(node.func.value) == text:
        key = node.args[0] if len(node.args) > 1 else None
        yield Write(node, node.args[-1], "item", key=key)


def _fills(node: ast.AST) -> bool:
    """Tell whether a node is a call such as `cache.append(x)`."""
    method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return method and node.func.attr in _FILLERS and bool(node.args)


def _targets(statement: ast.AST, target: ast.expr, value: ast.expr, text: str) -> Iterator[Write]:
    if isinstance(target, ast.Tuple | ast.List):
        for position, element in enumerate(target.elts):
            if isinstance(element, ast.Starred):
                element = element.value
            whole = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
            inner = list(_targets(statement, element, value.elts[position] if whole else value, text))
            for write in inner:
                how = "part" if write.how == "assign" and not whole else write.how
                yield Write(statement, write.value, how, position if not whole else write.position)
    elif isinstance(target, ast.Subscript) and ast.unparse(target.value) == text:
        yield Write(statement, value, "item", key=target.slice)
    elif ast.unparse(target) == text:
        yield Write(statement, value, "assign")
