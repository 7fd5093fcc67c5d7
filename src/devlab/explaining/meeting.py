"""Which tensors met in the operation that failed: the operands, and the frame in which they did."""

import ast
from dataclasses import dataclass

import torch

from devlab.explaining import error as kinds
from devlab.explaining import flow, reach
from devlab.explaining.error import Problem
from devlab.explaining.lookup import MISSING
from devlab.explaining.origins import follow
from devlab.explaining.scope import Scope, elements, in_torch
from devlab.explaining.story import ARGUMENT, BATCH, COMPUTED, LOADED, MADE, MOVED, NUMPY, UNKNOWN, Story

_MOST = 64


@dataclass(eq=False)
class Operand:
    """One tensor that took part: the expression, the tensor where it is still there, and its device."""

    node: ast.expr
    scope: Scope
    tensor: torch.Tensor | None
    device: str
    suffix: str = ""
    story: Story | None = None
    name: str = ""

    @property
    def text(self) -> str:
        """Return the operand as its own frame writes it."""
        return self.scope.text(self.node) + self.suffix


def operand_nodes(node: ast.AST, scope: Scope) -> list[ast.expr]:
    """Return the expressions whose values an operation works on."""
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.AugAssign):
        return [node.target, node.value]
    if isinstance(node, ast.Subscript | ast.Attribute):
        stored = []
        if isinstance(node.ctx, ast.Store) and scope.source:
            statement = scope.source.statement(node)
            stored = [statement.value] if getattr(statement, "value", None) is not None else []
        if isinstance(node, ast.Attribute):
            return [node, *stored] if stored else [node.value]
        keys = [n for part in elements(node.slice) for n in _slice_parts(part)]
        return [node.value, *keys, *stored]
    if isinstance(node, ast.Call):
        given = [*node.args, *(k.value for k in node.keywords)]
        if isinstance(node.func, ast.Attribute):
            receiver = scope.evaluate(node.func.value)
            if isinstance(receiver, torch.Tensor) or (
                receiver is MISSING and flow.infer(node.func.value, scope)
            ):
                given.insert(0, node.func.value)
        return [part for value in given for part in elements(value)]
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    return []


def _slice_parts(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Slice):
        return [part for part in (node.lower, node.upper, node.step) if part is not None]
    return [node]


def operands(scope: Scope) -> list[Operand]:
    """Return the tensors that a frame's failing expression works on, those in lists and dicts too."""
    node = scope.failing
    if node is None or raises(scope):
        return []
    found = []
    for expression in operand_nodes(node, scope):
        value = scope.evaluate(expression)
        if isinstance(value, torch.Tensor):
            found.append(Operand(expression, scope, value, str(value.device)))
        elif isinstance(value, list | tuple | dict):
            found += [
                Operand(expression, scope, tensor, str(tensor.device), suffix)
                for suffix, tensor in inside(value)
            ]
        elif value is MISSING:
            found.append(Operand(expression, scope, None, flow.infer(expression, scope)))
    return found


def raises(scope: Scope) -> bool:
    """Tell whether a frame failed by a `raise` of its own."""
    node = scope.failing
    return isinstance(node, ast.Raise) or bool(
        scope.source and node is not None and isinstance(scope.source.parents.get(node), ast.Raise)
    )


def inside(value: object, suffix: str = "", depth: int = 0) -> list[tuple[str, torch.Tensor]]:
    """Return the tensors in nested lists, tuples and dicts, each with the text that reaches it.

    >>> [suffix for suffix, _ in inside({"x": [torch.ones(1), torch.ones(1)]})]
    ["['x'][0]", "['x'][1]"]
    """
    if isinstance(value, torch.Tensor):
        return [(suffix, value)]
    if not isinstance(value, list | tuple | dict) or depth > 4:
        return []
    found = []
    for _, text, item in list(reach.children(value))[:_MOST]:
        found += inside(item, suffix + text, depth + 1)
    return found


def find_meeting(scopes: list[Scope], problem: Problem) -> list[Operand]:
    """Return the operands of the innermost frame in which two devices are seen to meet."""
    first: list[Operand] = []
    for scope in reversed(scopes):
        found = operands(scope)
        if any(operand.device == "meta" for operand in found) and "meta" not in problem.message:
            continue  # what the frame had was put back since, as `functional_call` puts parameters back
        known = {operand.device for operand in found if operand.device}
        unknown = [operand for operand in found if not operand.device]
        if len(known) > 1:
            return found
        others = [device for device in problem.devices if not any(flow.same(device, k) for k in known)]
        if len(known) == 1 and unknown and (others or problem.kind == kinds.INDEX):
            for operand in unknown:
                operand.device = others[0] if others else ""
            return found
        if known and not first:
            first = found
        if scope.mine and not in_torch(scope) and scope is _innermost_mine(scopes) and known:
            break
    return first


def _innermost_mine(scopes: list[Scope]) -> Scope | None:
    return next((scope for scope in reversed(scopes) if scope.mine), None)


_SUSPICION = {MADE: 6, MOVED: 6, NUMPY: 6, LOADED: 5, BATCH: 3, ARGUMENT: 2, COMPUTED: 1.5, UNKNOWN: 2}
_HELD = {reach.ATTRIBUTE: 5.5, reach.ITEM: 5, reach.STATE: 5, reach.PARAMETER: 1, reach.BUFFER: 1.2}


def suspicion(operand: Operand, accelerated: bool) -> float:
    """Return how likely an operand is the one in the wrong place.

    Something on the CPU where others are not, something made on the way, and something that `.to` cannot
    see are likelier than a registered parameter, or a result of the model.
    """
    story = operand.story
    if operand.device != "cpu" and story is not None and _librarys_own(story):
        return 0.5
    score = _HELD.get(story.held) if story else None
    if score is None:
        score = _SUSPICION.get(story.end, 2) if story else 2
        if story and story.outside:
            score = min(score, 3)
    return score + (3 if accelerated and operand.device == "cpu" else 0)


def _librarys_own(story: Story) -> bool:
    """Tell whether a library made the tensor for itself, beside what it was given."""
    given = any(hop.scope.mine for hop in story.trail) or (story.scope is not None and story.scope.mine)
    return not given and story.held not in (reach.PARAMETER, reach.BUFFER)


def culprit(found: list[Operand], problem: Problem) -> Operand | None:
    """Return the operand most likely in the wrong place, each followed to where it came from."""
    located = [operand for operand in found if operand.device]
    if len({operand.device for operand in located}) < 2:
        return None
    accelerated = any(operand.device != "cpu" for operand in located)
    told: dict[str, Operand] = {}
    for operand in located:
        if operand.story is None:
            operand.story = follow(operand.node, operand.scope, operand.device)
        told.setdefault(operand.device, operand)
    last = {id(operand): place for place, operand in enumerate(located)}
    suspects = [operand for operand in located if not _free_scalar(operand)]
    if len({operand.device for operand in suspects}) < 2:
        suspects = located
    if outvoted := _outvoted(suspects):
        suspects = outvoted
    elif accelerated and not _home_is_cpu(suspects):
        suspects = [operand for operand in suspects if operand.device == "cpu"] or suspects
    return max(suspects, key=lambda o: (suspicion(o, accelerated), last[id(o)] and -last[id(o)]))


def _outvoted(suspects: list[Operand]) -> list[Operand]:
    """Return the fewer ones, where most are with the target of a write in place, or no CPU is in play."""
    groups: dict[str, list[Operand]] = {}
    for operand in suspects:
        groups.setdefault(operand.device, []).append(operand)
    most = max(groups.values(), key=len)
    rest = [operand for operand in suspects if operand.device != most[0].device]
    alone = len(most) > len(rest) and ("cpu" not in groups or any(written(operand) for operand in most))
    return rest if alone else []


def written(operand: Operand) -> bool:
    """Tell whether the operation changes the operand in place."""
    failing = operand.scope.failing
    if isinstance(failing, ast.AugAssign):
        return operand.node is failing.target
    if isinstance(failing, ast.Subscript) and isinstance(failing.ctx, ast.Store):
        return operand.node is failing.value
    while isinstance(failing, ast.Call) and isinstance(failing.func, ast.Attribute):
        if failing.func.attr.endswith("_"):
            return any(node is operand.node for node in ast.walk(failing.func.value))
        failing = failing.func.value
    return False


def _home_is_cpu(suspects: list[Operand]) -> bool:
    """Tell whether the model itself is on the CPU, so that an accelerator's tensor may be the stray one."""
    return any(o.device == "cpu" and o.story.held in (reach.PARAMETER, reach.BUFFER) for o in suspects)


def _free_scalar(operand: Operand) -> bool:
    """Tell whether an operand may be on the CPU among others that are not: a single number may."""
    return operand.tensor is not None and operand.tensor.dim() == 0 and operand.device == "cpu"
