"""The story of a tensor: the names it went by, what held it, and what made it."""

import ast
from dataclasses import dataclass, field

import torch

from devlab.explaining import reach
from devlab.explaining.scope import Scope
from devlab.explaining.source import Write

MADE, MOVED, NUMPY, LOADED = "made", "moved", "from NumPy", "loaded"
BATCH, ARGUMENT, COMPUTED, UNKNOWN = "batch", "argument", "computed", "unknown"
CLOSURE, GLOBAL = "closure", "global"


@dataclass(frozen=True)
class Hop:
    """A name or expression that the tensor went by, with the function in which it did."""

    text: str
    scope: Scope
    line: int
    node: ast.AST

    @property
    def holds_many(self) -> bool:
        """Tell whether the name stands for a container or a module, not for the tensor itself."""
        return isinstance(self.scope.evaluate(self.node), list | tuple | dict | torch.nn.Module)


@dataclass
class Story:
    """How a tensor came to where it failed: the names it went by, what held it, and what made it.

    `joined` counts the names after which it had met others of its device: moving one of them is not enough.
    """

    device: str
    trail: list[Hop] = field(default_factory=list)
    held: str = ""
    owner: object = None
    attr: str = ""
    write: Write | None = None
    write_scope: Scope | None = None
    end: str = UNKNOWN
    node: ast.AST | None = None
    scope: Scope | None = None
    outside: bool = False
    joined: int | None = None
    path: reach.Path | None = None

    def finish(self, end: str, node: ast.AST, scope: Scope) -> bool:
        """Note how the trail ends, and where."""
        self.end, self.node, self.scope = end, node, scope
        return True

    @property
    def line(self) -> int:
        """Return the line on which the trail ends."""
        return getattr(self.node, "lineno", 0)
