"""What a tensor is called in the learner's code, and in a few words where it came from."""

import ast

import torch

from devlab.explaining import births, flow, reach
from devlab.explaining.meeting import Operand
from devlab.explaining.origins import follow
from devlab.explaining.reach import Path, find
from devlab.explaining.scope import Scope
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
    Story,
)

_LONGEST = 70


def identify(operand: Operand, scopes: list[Scope]) -> None:
    """Give an operand its story and the name that the learner knows it by."""
    if operand.story is None:
        operand.story = follow(operand.node, operand.scope, operand.device)
    story = operand.story
    registered = story.held in (reach.PARAMETER, reach.BUFFER)
    hops = [hop for hop in story.trail if hop.scope.mine]
    if operand.tensor is not None and (registered or not hops):
        for scope in reversed(scopes):
            if scope.mine and (path := find(operand.tensor, scope)):
                if not registered:
                    operand.story = story = _followed(path, operand)
                story.path = path
                break
        hops = [hop for hop in story.trail if hop.scope.mine] if not registered else hops
    if operand.scope.mine and isinstance(operand.node, ast.Name | ast.Attribute | ast.Subscript) and hops:
        operand.name = hops[0].text + (
            operand.suffix if hops[0].text == operand.scope.text(operand.node) else ""
        )
    elif not hops and story.end in (MADE, NUMPY, MOVED) and story.scope.mine:
        operand.name = story.scope.text(story.node)
    elif (
        operand.scope.mine
        and isinstance(operand.node, ast.Call)
        and flow.is_torchs(operand.node, operand.scope)
    ):
        operand.name = operand.text
    elif hops and not (registered and story.path):
        operand.name = hops[0].text
    elif story.path:
        operand.name = story.path.text
    else:
        operand.name = operand.text
    if len(operand.name) > _LONGEST:
        operand.name = operand.name[: _LONGEST - 1] + "…"


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
    known = births.birth_of(operand.tensor) if operand.tensor is not None else None
    if (
        known
        and story.end not in (MADE, NUMPY, MOVED, LOADED)
        and story.held not in (reach.PARAMETER, reach.BUFFER)
    ):
        words[1] = f"made at {known}"
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
        anew = f", given a new tensor at {story.write_scope.where(story.write.line)}" if story.write else ""
        return f"registered buffer {story.attr!r} of {owner}{anew}"
    if kind == reach.ATTRIBUTE:
        value = vars(story.owner).get(story.attr) if hasattr(story.owner, "__dict__") else None
        inside = f"in the {type(value).__name__} " if isinstance(value, list | tuple | dict) else ""
        if isinstance(story.owner, torch.nn.Module):
            return f"{inside}plain attribute {story.attr!r} of {owner}, which .to does not move"
        return f"{inside}attribute {story.attr!r} of {owner}"
    if story.path and any(step.kind == reach.STATE for step in story.path.steps):
        return "optimizer state, made before the parameters moved"
    if kind == CLOSURE:
        return "captured from the function around this one (a closure)"
    if kind == GLOBAL:
        return "a global variable"
    return "an element of a list or dict" if kind == reach.ITEM and story.end not in (BATCH,) else ""


def ending(story: Story) -> str:
    """Return in words what made a tensor, and at which line."""
    scope, node = story.scope, story.node
    if scope is None or node is None or story.held in (reach.PARAMETER, reach.BUFFER):
        return ""
    where = scope.where(story.line)
    inside = f"in {scope.name}, " if scope.name != "<module>" else ""
    text = scope.text(node)
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    if story.end == MADE:
        explicit = flow.device_argument(node, scope)[0] is not None
        why = "" if explicit or story.device != "cpu" else ", which stays on the CPU unless told a device"
        return f"made {inside or 'at '}{where} by {text}{why}"
    if story.end == NUMPY:
        return f"made from NumPy {inside or 'at '}{where} by {text}, and so on the CPU"
    if story.end == MOVED:
        return f"put on {story.device} {inside or 'at '}{where} by {text}"
    if story.end == LOADED:
        return f"loaded {inside or 'at '}{where} by {text}"
    if story.end == BATCH:
        loader = any(word in text.lower() for word in ("load", "batch", "data", "next(", "train", "test"))
        return f"part of the batch from {text}, {where}" if loader else f"an element of {text}, {where}"
    if story.end == ARGUMENT:
        return f"an argument of {scope.name}"
    if story.end == COMPUTED and isinstance(node, ast.AST) and scope.mine:
        return f"computed {inside or 'at '}{where} by {text}"
    return ""
