"""Which tensors met in the operation that failed, which of them is to blame, and the name of the culprit."""

import ast
import re
from dataclasses import dataclass

import torch

from devlab.explaining import flow, reach
from devlab.explaining import report as kinds
from devlab.explaining.frames import (
    MISSING,
    Scope,
    argument_for,
    elements,
    in_torch,
    registered,
)
from devlab.explaining.reach import Path, find
from devlab.explaining.report import Met, Problem
from devlab.explaining.story import (
    ARGUMENT,
    BATCH,
    CACHE,
    CLOSURE,
    COMPUTED,
    GLOBAL,
    LOADED,
    MADE,
    MOVED,
    NUMPY,
    UNKNOWN,
    Story,
    follow,
)

_MOST = 64


@dataclass(eq=False)
class Operand:
    """One tensor that took part: the expression, the tensor if it still exists, and its device."""

    node: ast.expr
    scope: Scope
    tensor: torch.Tensor | None
    device: str
    suffix: str = ""
    story: Story | None = None
    name: str = ""

    @property
    def registered(self) -> bool:
        """Tell whether a module has registered the operand, as a parameter or a buffer."""
        return self.story is not None and self.story.registered

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


def named_in(node: ast.AST, scope: Scope) -> list[Met]:
    """Return what code names: its tensors, and the parameters and buffers of its modules by device."""
    value = scope.evaluate(node)
    if isinstance(value, torch.Tensor):
        return [Met(scope.text(node), f"{list(value.shape)}", str(value.device), "")]
    if not isinstance(value, torch.nn.Module):
        return [row for part in ast.iter_child_nodes(node) for row in named_in(part, scope)]
    places: dict[str, list[str]] = {}
    for name, tensor in (*value.named_parameters(), *value.named_buffers()):
        places.setdefault(str(tensor.device), []).append(name)
    return [
        Met(scope.text(node), ", ".join(names[:4]) + ", …" * (len(names) > 4), device, "")
        for device, names in places.items()
    ]


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
        _complete(found, problem)
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
        if known and scope is nearest_mine(scopes) and not in_torch(scope):
            break
    return first


def _complete(found: list[Operand], problem: Problem) -> None:
    """Give an operand that is known to be on some device of a kind the index that the message tells."""
    exact = {operand.device for operand in found}
    for operand in found:
        kind = operand.device + ":"
        told = [device for device in problem.devices if device.startswith(kind) and device not in exact]
        if operand.device not in ("", "cpu") and len(told) == 1:
            operand.device = told[0]


def nearest_mine(scopes: list[Scope]) -> Scope | None:
    """Return the learner's own frame that is nearest to the error, whether the frame raised it or not."""
    return next((scope for scope in reversed(scopes) if scope.mine), None)


_SUSPICION = {MADE: 6, MOVED: 6, NUMPY: 6, LOADED: 5, BATCH: 3, ARGUMENT: 2, COMPUTED: 1.5, UNKNOWN: 2}
_HELD = {reach.ATTRIBUTE: 5.5, reach.ITEM: 5, reach.STATE: 5, CACHE: 6.5}
_HELD |= {reach.PARAMETER: 1, reach.BUFFER: 1.2}


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
    """Tell whether a library made the tensor for its own use, beside its arguments."""
    given = any(hop.scope.mine for hop in story.trail) or (story.scope is not None and story.scope.mine)
    return not given and not story.registered


def culprit(found: list[Operand]) -> Operand | None:
    """Return the operand most likely in the wrong place, each followed to where it came from."""
    located = [operand for operand in found if operand.device]
    if len({operand.device for operand in located}) < 2:
        return None
    accelerated = any(operand.device != "cpu" for operand in located)
    for operand in located:
        operand.story = operand.story or follow(operand.node, operand.scope, operand.device)
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
    """Return the minority, if the majority has the target of a write in place or none is on the CPU."""
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
    return any(o.device == "cpu" and o.registered for o in suspects)


def _free_scalar(operand: Operand) -> bool:
    """Tell whether an operand may be on the CPU among others that are not: a single number may."""
    return operand.tensor is not None and operand.tensor.dim() == 0 and operand.device == "cpu"


_LONGEST = 70


def identify(operand: Operand, scopes: list[Scope]) -> None:
    """Give an operand its story and the name that the learner knows it by."""
    operand.story = story = operand.story or follow(operand.node, operand.scope, operand.device)
    is_registered = story.registered
    hops = [hop for hop in story.trail if hop.scope.mine]
    if operand.tensor is not None and (is_registered or not hops):
        for scope in reversed(scopes):
            if scope.mine and (path := find(operand.tensor, scope)):
                if not is_registered:
                    operand.story = story = _followed(path, operand)
                story.path = path
                break
        hops = [hop for hop in story.trail if hop.scope.mine] if not is_registered else hops
    if operand.scope.mine and isinstance(operand.node, ast.Name | ast.Attribute | ast.Subscript) and hops:
        operand.name = hops[0].text + (
            operand.suffix if hops[0].text == operand.scope.text(operand.node) else ""
        )
    elif not hops and story.end in (MADE, NUMPY, MOVED) and story.scope.mine and story.held != CACHE:
        operand.name = story.scope.text(story.node)
    elif (
        operand.scope.mine
        and isinstance(operand.node, ast.Call)
        and flow.is_torchs(operand.node, operand.scope)
    ):
        operand.name = operand.text
    elif hops and not (is_registered and story.path):
        operand.name = hops[0].text
    elif story.path:
        operand.name = story.path.text
    else:
        operand.name = operand.text if operand.scope.mine else _name_in_torch(operand, scopes)
    if len(operand.name) > _LONGEST:
        operand.name = operand.name[: _LONGEST - 1] + "…"


def _name_in_torch(operand: Operand, scopes: list[Scope]) -> str:
    """Name a tensor of PyTorch's own code: as the learner passed it, or as the attribute of its module."""
    node, scope = operand.node, operand.scope
    while isinstance(node, ast.Name) and not scope.mine and (passed := argument_for(scope, node.id)):
        node, scope = passed
    if scope.mine:
        return scope.text(node)
    for module in (scope.values.get("self") for scope in reversed(scopes) if in_torch(scope)):
        for kind, table in zip((reach.PARAMETER, reach.BUFFER), registered(module)[:2], strict=True):
            for name, tensor in table.items():
                if tensor is operand.tensor:
                    operand.story = Story(operand.device, held=kind, owner=module, attr=name)
                    return f"{name} of {type(module).__name__}"
    owner = operand.scope.values.get("self")
    of = type(owner).__name__ if isinstance(owner, torch.nn.Module) else f"PyTorch's {operand.scope.name}"
    return f"{operand.text} of {of}"


def _followed(path: Path, operand: Operand) -> Story:
    """Return the story of a tensor that was found by its path, told from the path's own names."""
    try:
        node = ast.parse(path.text, mode="eval").body
    except SyntaxError:  # the path goes through something that has no text
        return operand.story
    node = ast.increment_lineno(node, path.scope.line - 1)
    story = follow(node, path.scope, operand.device)
    return story if story.held or story.end != UNKNOWN else operand.story


def aliases(operand: Operand) -> list[str]:
    """Return the other names that the tensor went by on its way, each with its function."""
    seen, told = {operand.name}, []
    for hop in operand.story.trail if operand.story else ():
        if hop.scope.mine and hop.text not in seen:
            seen.add(hop.text)
            told.append(f"{hop.text} in {hop.scope.name}" if hop.scope.name != "<module>" else hop.text)
    return told[:3]


def origin(operand: Operand, wrong: bool = True) -> str:
    """Return in a few words where a tensor came from."""
    story = operand.story
    if story is None:
        return ""
    words = [held(operand), ending(story)]
    return "; ".join(word for word in words if word) or (
        "its origin is not to be seen from here" if wrong else ""
    )


def held(operand: Operand) -> str:
    """Return how the learner's code holds a tensor, in words; "" for one in a local variable."""
    story = operand.story
    kind = story.held
    owner = story.owner if isinstance(story.owner, type) else type(story.owner)
    owner = owner.__name__
    if kind == reach.PARAMETER:
        return f"parameter {story.attr!r} of {owner}"
    if kind == reach.BUFFER:
        return f"registered buffer {story.attr!r} of {owner}"
    if kind == reach.ATTRIBUTE:
        value = vars(story.owner).get(story.attr) if hasattr(story.owner, "__dict__") else None
        inside = f"in the {type(value).__name__} " if isinstance(value, list | tuple | dict) else ""
        if isinstance(story.owner, torch.nn.Module):
            return f"{inside}plain attribute {story.attr!r} of {owner}, which .to does not move"
        return f"{inside}attribute {story.attr!r} of {owner}"
    if story.path and story.path.of_optimizer:
        return "optimizer state, made before the parameters moved"
    if kind == CACHE:
        return f"remembered by the cache of {story.attr} from an earlier call"
    if kind == CLOSURE:
        return "captured from the function around this one (a closure)"
    if kind == GLOBAL:
        return "a global variable"
    return "an element of a list or dict" if kind == reach.ITEM and story.end not in (BATCH,) else ""


_ENDINGS = {
    MADE: "made {place} by {text}{why}",
    NUMPY: "made from NumPy {place} by {text}, and so on the CPU",
    MOVED: "put on {device} {place} by {text}",
    LOADED: "loaded {place} by {text}",
    COMPUTED: "computed {place} by {text}",
    ARGUMENT: "an argument of {name}",
    BATCH: "an element of {text}, {where}",
}
_LOADER = re.compile(r"load|batch|data|next\(|train|test", re.IGNORECASE)


def ending(story: Story) -> str:
    """Return in words what made a tensor, and at which line."""
    scope, node = story.scope, story.node
    theirs = story.end in (COMPUTED, BATCH) and scope is not None and not scope.mine
    if scope is None or node is None or story.registered or theirs:
        return ""
    text, where = scope.text(node), scope.where(story.line)
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    if story.end == BATCH and _LOADER.search(text):
        return f"part of the batch from {text}, {where}"
    now = flow.infer(node, scope) if story.end in (MADE, MOVED, COMPUTED) else ""
    if now and story.held and not flow.same(now, story.device):  # the line ran before, with other values
        text += f" in an earlier call, for now that would be on {now}"
    explicit = story.end != MADE or flow.device_argument(node, scope)[0] is not None
    why = "" if explicit or story.device != "cpu" else ", which stays on the CPU unless told a device"
    place = f"in {scope.name}, {where}" if scope.name != "<module>" else f"at {where}"
    words = {"place": place, "text": text, "why": why, "where": where}
    return _ENDINGS.get(story.end, "").format(device=story.device, name=scope.name, **words)
