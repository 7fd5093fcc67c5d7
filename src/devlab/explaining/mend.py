"""The smallest change that brings a tensor to where it was needed, as a line of the learner's own code."""

import ast
from dataclasses import replace

import torch

from devlab.explaining import flow, reach
from devlab.explaining.bring import at_use, inside_line, rebuilt, together
from devlab.explaining.edit import Mend, in_statement, line_of, reference, remade, rewritten, with_argument
from devlab.explaining.lookup import MISSING
from devlab.explaining.meeting import Operand, operands, written
from devlab.explaining.scope import Scope
from devlab.explaining.story import LOADED, MADE, MOVED, NUMPY, Story
from devlab.explaining.uses import serves_others

_REGISTERED = (reach.PARAMETER, reach.BUFFER)


def mend(operand: Operand, home: str) -> Mend | None:
    """Return the change that brings the culprit to `home`, the device of the others."""
    story = operand.story
    if story.held == reach.STATE or (story.path and any(s.kind == reach.STATE for s in story.path.steps)):
        return _state(operand)
    if story.held == reach.BUFFER and story.write is not None:
        return _given_anew(story)
    if home == "cpu" and any(written(other) for other in operands(operand.scope)):
        return inside_line(operand, home)
    if (
        change := _registered_at_once(operand)
        or rebuilt(operand, home)
        or (story.held not in _REGISTERED and together(operand, home))
    ):
        return change
    if story.held == reach.ATTRIBUTE and isinstance(story.owner, torch.nn.Module):
        return _attribute(operand, home)
    if story.held == reach.ATTRIBUTE:
        return _at_making(story, home, certain=True) or at_use(operand, home)
    return _at_making(story, home) or at_use(operand, home)


def _at_making(story: Story, home: str, certain: bool = False) -> Mend | None:
    """Make it on the right device in the first place."""
    call, scope = story.node, story.scope
    if story.joined is not None or any(
        serves_others(hop, story.device) for hop in story.trail if hop.scope.mine
    ):
        return None
    if story.end not in (MADE, NUMPY, MOVED, LOADED) or not isinstance(call, ast.Call) or not scope.mine:
        return None
    ref = reference(scope, call.lineno, home)
    if certain and ref.startswith('"'):
        return None
    return line_of(scope, call, in_statement(scope, call, remade(call, scope, ref, story.end)))


def _given_anew(story: Story) -> Mend:
    """A registered tensor takes new values where it is, not a new tensor."""
    write, scope = story.write, story.write_scope
    target = f"{scope.parameters()[0]}.{story.attr}"
    code = with_argument(write.value, scope, "device", f"{target}.device")
    return Mend(scope.where(write.line), in_statement(scope, write.value, code))


def _attribute(operand: Operand, home: str) -> Mend | None:
    story = operand.story
    write, scope = story.write, story.write_scope
    name = story.attr
    value = vars(story.owner).get(name, MISSING)
    owner = scope.parameters()[0] if scope and scope.parameters() else "self"
    initial = (
        scope is not None
        and not isinstance(scope.node, ast.ClassDef)
        and (scope.name == "__init__" or scope.name not in ("forward", "__call__"))
    )
    if write is None and isinstance(value, torch.Tensor):
        hop = next(hop for hop in story.trail if hop.text.endswith(f".{name}"))
        base = hop.text.removesuffix(f".{name}")
        return Mend(
            f"the __init__ of {type(story.owner).__name__}", f'{base}.register_buffer("{name}", {hop.text})'
        )
    if write is None or not initial or write.how not in ("assign", "item"):
        return _use_or_making(operand, home)
    where = scope.where(write.line)
    text = scope.text(write.value)
    if isinstance(value, torch.Tensor) and write.how == "assign":
        if scope.function is None:  # assigned from outside the class, perhaps after the move
            if story.end in (MADE, NUMPY, MOVED) and story.joined is None and story.scope is scope:
                ref = reference(scope, write.line, home)
                made = remade(story.node, scope, ref, story.end)
                text = rewritten(scope.source, write.value, (story.node, made))
            target = scope.text(write.statement).partition("=")[0].strip().rpartition(".")[0]
            return Mend(where, f'{target}.register_buffer("{name}", {text})')
        return Mend(where, f'{owner}.register_buffer("{name}", {text})')
    if isinstance(value, list | tuple | dict) and _filled_lazily(value, operand, scope):
        return _use_or_making(operand, home)
    nn = "nn" if scope.globals.get("nn") is torch.nn else "torch.nn"
    change = container(f"{owner}.{name}", name, owner, value, where, text, write.how)
    if change is not None:
        return replace(change, code=change.code.replace("torch.nn", nn))
    change = at_use(operand, home)
    advice = (
        f"{owner}.register_buffer(...) for each, under a name of its own, and {owner}.{name} by those names"
    )
    return replace(change, otherwise=advice) if change and scope.name == "__init__" else change


def _registered_at_once(operand: Operand) -> Mend | None:
    """Register all the tensors that one line `self.a, self.b = ...` gives to a module."""
    story = operand.story
    statement = story.write.statement if story.held == reach.ATTRIBUTE and story.write else None
    targets = getattr(statement, "targets", [None])[0]
    values = getattr(statement, "value", None)
    if (
        statement is None
        or not isinstance(story.owner, torch.nn.Module)
        or story.write_scope.name != "__init__"
    ):
        return None
    if not (isinstance(targets, ast.Tuple) and isinstance(values, ast.Tuple)):
        return None
    own, lines = vars(story.owner), []
    for target, value in zip(targets.elts, values.elts, strict=True):
        text, given = story.write_scope.text(target), story.write_scope.text(value)
        owner, _, name = text.rpartition(".")
        tensor = isinstance(own.get(name), torch.Tensor)
        lines.append(f'{owner}.register_buffer("{name}", {given})' if tensor else f"{text} = {given}")
    return Mend(story.write_scope.where(statement.lineno), "; ".join(lines))


def _filled_lazily(value, operand: Operand, scope: Scope) -> bool:
    return scope.name not in ("__init__", "__post_init__", "build", "_build", "setup", "reset_parameters")


def container(target: str, name: str, owner: str, value, where: str, text: str, how: str) -> Mend | None:
    """Return the line that registers what a plain list or dict of a module holds."""
    if isinstance(value, torch.nn.Module):
        return Mend(where, f"{target} = {text}")
    if not isinstance(value, list | tuple | dict):
        return None
    items = list(value.values() if isinstance(value, dict) else value)
    named = isinstance(value, dict)
    if any(isinstance(item, torch.nn.Module) for item in items):
        kind = "ModuleDict" if named else "ModuleList"
        filled = text if how == "assign" else "{}" if named else "[]"
        return Mend(where, f"{target} = torch.nn.{kind}({'' if filled in ('[]', '{}') else filled})")
    if any(isinstance(item, torch.nn.Parameter) for item in items):
        kind = "ParameterDict" if named else "ParameterList"
        return Mend(where, f"{target} = torch.nn.{kind}({text if how == 'assign' else ''})")
    return None


def _use_or_making(operand: Operand, home: str) -> Mend | None:
    story = operand.story
    if operand.suffix:
        return at_use(operand, home)
    made = story.end in (MADE, NUMPY) and isinstance(story.node, ast.Call)
    if made and flow.keyword(story.node, "device") is None:
        return _at_making(story, home, certain=True) or at_use(operand, home)
    return at_use(operand, home)


def _state(operand: Operand) -> Mend | None:
    path = operand.story.path
    if path is None:
        return None
    state = next(i for i, step in enumerate(path.steps) if step.kind == reach.STATE)
    name = path.steps[state - 1].path if state else path.root
    code = f"{name}.load_state_dict({name}.state_dict())"
    return Mend(path.scope.where(), code, before=True)
