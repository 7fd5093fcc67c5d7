"""Edits of a learner's own text: spans of bytes with their new text, and the statements they come to."""

import ast
import itertools
from collections.abc import Iterable, Iterator

from devlab.checks.calls import place
from devlab.explaining.flow import keyword
from devlab.explaining.frames import Source
from devlab.explaining.report import Change

Edit = tuple[int, int, str]


class Text:
    """A source with the bytes at which its lines begin."""

    def __init__(self, source: Source):
        self.source, self.raw = source, source.text.encode()
        lengths = (len(line.encode()) for line in source.text.splitlines(True))
        self.starts = list(itertools.accumulate(lengths, initial=0))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return where a node begins and ends."""
        end = self.starts[node.end_lineno - 1] + node.end_col_offset
        return self.starts[node.lineno - 1] + node.col_offset, end

    def of(self, node: ast.AST) -> str:
        """Return a node's own text."""
        begin, end = self.span(node)
        return self.raw[begin:end].decode()

    def closed(self, node: ast.AST) -> str:
        """Return a node's text so that a method can follow: in parentheses where it needs them."""
        simple = isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
        return self.of(node) if simple else f"({self.of(node)})"

    def before(self, statement: ast.stmt, line: str) -> Edit:
        """Return the edit that adds a line before a statement."""
        first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])
        return (self.starts[first - 1], self.starts[first - 1], f"{' ' * statement.col_offset}{line}\n")

    def after(self, statement: ast.stmt, line: str) -> Edit:
        """Return the edit that adds a line after a statement."""
        block = block_of(self.source, statement)
        later = block[block.index(statement) + 1 :]
        end = self.span(statement)[1]
        return self.before(later[0], line) if later else (end, end, f"\n{' ' * statement.col_offset}{line}")

    def with_argument(self, call: ast.Call, name: str, value: str) -> Edit:
        """Return the edit that sets a keyword argument of a call."""
        given = keyword(call, name)
        if given is not None:
            return (*self.span(given), value)
        body = self.of(call)[:-1].rstrip()
        comma = "" if body.endswith("(") else " " if body.endswith(",") else ", "
        return (*self.span(call), f"{body}{comma}{name}={value})")


def block_of(source: Source, statement: ast.stmt) -> list[ast.stmt]:
    """Return the statements among which a statement stands."""
    blocks = (getattr(source.parents.get(statement), name, None) for name in ("body", "orelse", "finalbody"))
    return next((b for b in blocks if isinstance(b, list) and statement in b), [statement])


def changed(text: str, edits: Iterable[Edit]) -> str:
    """Return a text with edits made, the last one first.

    >>> changed("x = 1", [(4, 5, "2")])
    'x = 2'
    """
    raw = text.encode()
    for begin, end, new in sorted(edits, key=lambda edit: (-edit[0], -edit[1])):
        raw = raw[:begin] + new.encode() + raw[end:]
    return raw.decode()


def shown(file: str, source: str, edits: Iterable[Edit]) -> Iterator[Change]:
    """Yield the changes of whole statements that edits of a file come to, as a reader makes them."""
    text = Text(Source(file, source))
    groups: dict[tuple, list] = {}
    for begin, end, new in edits:
        first = last = text.raw[:begin].count(b"\n") + 1
        added = begin == end == text.starts[first - 1] and new.endswith("\n")
        around = [
            n for n in text.source.parents if isinstance(n, ast.stmt) and n.lineno <= first <= n.end_lineno
        ]
        statement = max(around, key=lambda node: node.lineno, default=None)
        if statement is not None and not added and not hasattr(statement, "body"):
            first, last = statement.lineno, statement.end_lineno
        groups.setdefault((first, last, added), []).append((begin, end, new))
    for (first, last, added), some in sorted(groups.items()):
        start = text.starts[first - 1]
        old = "" if added else text.raw[start : text.starts[last]].decode()
        new = changed(old, [(begin - start, end - start, code) for begin, end, code in some])
        yield Change(f"{place(file)}, line {first}", _level(new), added, _level(old))


def _level(code: str) -> str:
    """Return lines of code without the indentation of the first."""
    indent = len(code) - len(code.lstrip(" "))
    return "\n".join(line.removeprefix(code[:indent]) for line in code.rstrip().splitlines())
