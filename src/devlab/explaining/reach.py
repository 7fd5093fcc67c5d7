"""Where a tensor hangs: the path of attributes, elements and registrations from a name to the tensor."""

import functools
import types
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from devlab.explaining.frames import Scope, captured, registered

PARAMETER, BUFFER, MODULE, ATTRIBUTE = "parameter", "buffer", "module", "attribute"
ITEM, STATE, CLOSURE = "item", "optimizer state", "closure"
_MODULES_OWN = frozenset(vars(torch.nn.Module()))
_LISTS = (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict)
_MOST, _DEEPEST = 20_000, 8


@dataclass(frozen=True)
class Step:
    """One step on the way: how the holder holds it (`kind`), the holder, the text, and what is there."""

    kind: str
    holder: object
    text: str
    value: object
    path: str


@dataclass(frozen=True)
class Path:
    """The way from a name in some scope to a tensor."""

    root: str
    value: object
    steps: tuple[Step, ...]
    scope: Scope

    @property
    def text(self) -> str:
        """Return the whole path as the learner would write it."""
        return self.steps[-1].path if self.steps else self.root

    @property
    def stray(self) -> Step | None:
        """Return the step at which the path leaves what a module registered, or None if it never does."""
        for step in self.steps:
            if step.kind == ATTRIBUTE and isinstance(step.holder, torch.nn.Module):
                return step
        return None

    @property
    def of_optimizer(self) -> bool:
        """Tell whether the path leads through an optimizer's state."""
        return any(step.kind == STATE for step in self.steps)


def find(tensor: torch.Tensor, scope: Scope) -> Path | None:
    """Return the shortest path from a name of a scope to a tensor, or to one that it is a view of."""
    exact = _search(scope, lambda value: value is tensor)
    if exact is not None:
        return exact
    memory = _memory(tensor)
    return _search(scope, lambda value: _memory(value) == memory) if memory else None


def _memory(tensor: torch.Tensor) -> tuple | None:
    try:
        pointer = tensor.untyped_storage().data_ptr()
    except Exception:  # no storage: sparse, or a wrapper
        return None
    return (str(tensor.device), pointer) if pointer else None


def roots(scope: Scope) -> Iterator[tuple[str, object]]:
    """Yield the names that a scope's code can see, its own first, with their values."""
    own = {name: value for name, value in scope.values.items() if not name.startswith(("__", ".", "@"))}
    yield from own.items()
    for name in scope.names:
        if name in scope.globals and name not in own:
            yield name, scope.globals[name]


def find_all(tensor: torch.Tensor, scope: Scope) -> list[Path]:
    """Return the shortest path to a tensor from each name of a scope that leads to it."""
    found = [_walk([pair], scope, lambda value: value is tensor) for pair in roots(scope)]
    return [path for path in found if path is not None]


def _search(scope: Scope, matches) -> Path | None:
    return _walk(list(roots(scope)), scope, matches)


def _walk(starting: list[tuple[str, object]], scope: Scope, matches) -> Path | None:
    starts = dict(starting)
    queue = deque((name, value, ()) for name, value in starting)
    seen: set[int] = set()
    while queue and len(seen) < _MOST:
        name, value, steps = queue.popleft()
        if isinstance(value, torch.Tensor):
            if matches(value):
                return Path(name, starts[name], steps, scope)
            continue
        if id(value) in seen or len(steps) >= _DEEPEST:
            continue
        seen.add(id(value))
        path = steps[-1].path if steps else name
        for kind, text, inner in children(value):
            queue.append((name, inner, (*steps, Step(kind, value, text, inner, path + text))))
    return None


def children(value: object) -> Iterator[tuple[str, str, object]]:
    """Yield what an object holds: how it holds it, the text that reaches it, and the thing itself."""
    if isinstance(value, torch.nn.Module):
        yield from _of_module(value)
    elif isinstance(value, torch.optim.Optimizer):
        yield from _of_optimizer(value)
    elif isinstance(value, list | tuple):
        fields = getattr(value, "_fields", None)
        for position, item in enumerate(value):
            yield ITEM, f".{fields[position]}" if fields else f"[{position}]", item
    elif isinstance(value, dict):
        for key, item in list(value.items()):
            yield ITEM, f"[{key!r}]" if isinstance(key, str | int) else "[…]", item
    elif isinstance(value, functools.partial):
        yield ITEM, ".keywords", value.keywords
        yield ITEM, ".args", value.args
    elif isinstance(value, types.FunctionType | types.MethodType):
        yield from _of_function(value)
    elif own := _own_attributes(value):
        for name, item in list(own.items()):
            yield ATTRIBUTE, f".{name}", item


def _of_module(module: torch.nn.Module) -> Iterator[tuple[str, str, object]]:
    parameters, buffers, modules = registered(module)
    for kind, table in ((PARAMETER, parameters), (BUFFER, buffers), (MODULE, modules)):
        for name, item in table.items():
            listed = kind == MODULE and isinstance(module, _LISTS)
            yield kind, (f"[{name if name.isdigit() else repr(name)}]" if listed else f".{name}"), item
    for name, item in list(vars(module).items()):
        if name not in _MODULES_OWN:
            yield ATTRIBUTE, f".{name}", item


def _of_optimizer(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, str, object]]:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for parameter, state in list(optimizer.state.items()):
        place = next((i for i, p in enumerate(parameters) if p is parameter), "…")
        for name, item in state.items() if isinstance(state, dict) else ():
            yield STATE, f".state[parameter {place}][{name!r}]", item


def _of_function(function: types.FunctionType) -> Iterator[tuple[str, str, object]]:
    if isinstance(function, types.MethodType):
        yield ATTRIBUTE, ".__self__", function.__self__
        return
    for name, value in captured(function):
        yield CLOSURE, f".{name}", value


def _own_attributes(value: object) -> dict:
    """Return the attributes in an object's own dictionary, without asking the object; {} for none."""
    if isinstance(value, type | types.ModuleType | torch.Generator | torch.device):
        return {}
    if str(type(value).__module__).split(".")[0] in ("numpy", "devlab", "asyncio"):
        return {}
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return own if isinstance(own, dict) else {}
