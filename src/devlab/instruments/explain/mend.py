"""The smallest change that brings a tensor to where it was needed, as a line of the learner's own code."""

import ast
from dataclasses import dataclass, replace

import torch

from devlab.instruments.explain import flow, reach
from devlab.instruments.explain.edit import in_statement, moved, reference, replaced, with_argument
from devlab.instruments.explain.lookup import MISSING
from devlab.instruments.explain.meeting import Operand
from devlab.instruments.explain.scope import Scope
from devlab.instruments.explain.source import own_nodes
from devlab.instruments.explain.story import BATCH, LOADED, MADE, MOVED, NUMPY, Hop, Story


@dataclass(frozen=True)
class Mend:
    """A change: where, the line of code, and `before` when the line is to be added, not replaced."""

    where: str
    code: str
    before: bool = False
    otherwise: str = ""


def mend(operand: Operand, home: str) -> Mend | None:
    """Return the change that brings the culprit to `home`, the device of the others."""
    story = operand.story
    if story.held == reach.STATE or (story.path and any(s.kind == reach.STATE for s in story.path.steps)):
        return _state(operand)
    if story.held == reach.BUFFER and story.write is not None:
        return _given_anew(story)
    if story.held == reach.ATTRIBUTE and isinstance(story.owner, torch.nn.Module):
        return _attribute(operand, home)
    if story.held == reach.ATTRIBUTE:
        return _at_making(story, home, certain=True) or _at_use(operand, home)
    return _at_making(story, home) or _at_use(operand, home)


def _at_making(story: Story, home: str, certain: bool = False) -> Mend | None:
    """Make it on the right device in the first place."""
    call, scope = story.node, story.scope
    if story.joined is not None:
        return None
    if story.end not in (MADE, NUMPY, MOVED, LOADED) or not isinstance(call, ast.Call) or not scope.mine:
        return None
    ref = reference(scope, call.lineno, home)
    if certain and ref.startswith('"'):
        return None
    return Mend(scope.where(call.lineno), in_statement(scope, call, remade(call, scope, ref, story.end)))


def _given_anew(story: Story) -> Mend:
    """A registered tensor takes new values where it is, not a new tensor."""
    write, scope = story.write, story.write_scope
    target = f"{scope.parameters()[0]}.{story.attr}"
    code = with_argument(write.value, scope, "device", f"{target}.device")
    return Mend(scope.where(write.line), in_statement(scope, write.value, code))


def remade(call: ast.Call, scope: Scope, ref: str, end: str) -> str:
    """Return the call that makes a tensor, making it on the device that `ref` says."""
    if end == MOVED:
        return moved(scope.text(call.func.value), ref)
    if end == LOADED:
        return with_argument(call, scope, "map_location", ref)
    if flow.is_call_of(
        call, scope, frozenset({"from_numpy", "Tensor", "FloatTensor", "LongTensor", "BoolTensor"})
    ):
        return moved(scope.text(call), ref)
    return with_argument(call, scope, "device", ref)


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
                text = replaced(
                    scope.source, write.value, story.node, remade(story.node, scope, ref, story.end)
                )
            target = scope.text(write.statement).partition("=")[0].strip().rpartition(".")[0]
            return Mend(where, f'{target}.register_buffer("{name}", {text})')
        return Mend(where, f'{owner}.register_buffer("{name}", {text})')
    if isinstance(value, list | tuple | dict) and _filled_lazily(value, operand, scope):
        return _use_or_making(operand, home)
    nn = "nn" if scope.globals.get("nn") is torch.nn else "torch.nn"
    change = container(f"{owner}.{name}", name, owner, value, where, text, write.how)
    if change is not None:
        return replace(change, code=change.code.replace("torch.nn", nn))
    change = _at_use(operand, home)
    advice = (
        f"{owner}.register_buffer(...) for each, under a name of its own, and {owner}.{name} by those names"
    )
    return replace(change, otherwise=advice) if change and scope.name == "__init__" else change


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
        return _at_use(operand, home)
    made = story.end in (MADE, NUMPY) and isinstance(story.node, ast.Call)
    if made and flow.keyword(story.node, "device") is None:
        return _at_making(story, home, certain=True) or _at_use(operand, home)
    return _at_use(operand, home)


def _at_use(operand: Operand, home: str) -> Mend | None:
    """Bring it over before it is used, where the learner's own code first had it in hand."""
    story = operand.story
    hops = [hop for hop in story.trail[: story.joined] if hop.scope.mine and not hop.holds_many]
    if not hops:
        return _all_of_it(operand, home)
    cached = story.held in (reach.ATTRIBUTE, reach.ITEM) and story.end != BATCH
    chosen = hops[0] if cached else _best_hop(story, hops)
    scope = chosen.scope
    ref = reference(scope, chosen.line, home, without=chosen.text)
    if thrown := thrown_away(chosen):
        return Mend(scope.where(thrown.lineno), f"{chosen.text} = {scope.text(thrown)}")
    if (
        cached
        and scope.source is not None
        and scope.failing is not None
        and operand.scope is scope
        and not _written(operand)
    ):
        if operand.suffix:
            return _each_moved(operand, ref)
        inside = any(node is chosen.node for node in ast.walk(operand.node))
        part = chosen.node if inside else operand.node
        return Mend(scope.where(), in_statement(scope, part, moved(scope.text(part), ref)))
    if operand.suffix and operand.scope is scope and ast.unparse(operand.node) == ast.unparse(chosen.node):
        return _each_moved(operand, ref)
    if isinstance(chosen.node, ast.Subscript) and isinstance(scope.evaluate(chosen.node.value), tuple):
        whole = scope.text(chosen.node.value)  # a tuple takes no new element
        code = f"{whole} = tuple(value.to({ref}) for value in {whole})"
        return Mend(scope.where(chosen.line), code, before=True)
    return Mend(scope.where(chosen.line), f"{chosen.text} = {chosen.text}.to({ref})", before=True)


def _all_of_it(operand: Operand, home: str) -> Mend | None:
    """Bring over a list, tuple or dict that is passed as one, where no name stands for the tensor alone."""
    hop = next((hop for hop in operand.story.trail if hop.scope.mine), None)
    if hop is None:
        ref = reference(operand.scope, operand.scope.line, home)
        change = f"{operand.name} = {operand.name}.to({ref})"
        return Mend(operand.scope.where(), change, before=True) if operand.scope.mine else None
    code = _each(hop.text, hop.scope.evaluate(hop.node), reference(hop.scope, hop.line, home))
    return Mend(hop.scope.where(hop.line), code, before=True) if code else None


def _each_moved(operand: Operand, ref: str) -> Mend:
    text, scope = operand.scope.text(operand.node), operand.scope
    return Mend(scope.where(), _each(text, scope.evaluate(operand.node), ref), before=True)


def _each(text: str, value: object, ref: str) -> str:
    """Return the line that brings over every tensor of a list, tuple or dict."""
    if isinstance(value, dict):
        return f"{text} = {{key: value.to({ref}) for key, value in {text}.items()}}"
    if isinstance(value, list):
        return f"{text} = [value.to({ref}) for value in {text}]"
    return f"{text} = tuple(value.to({ref}) for value in {text})" if isinstance(value, tuple) else ""


def _written(operand: Operand) -> bool:
    """Tell whether the operation changes the operand in place."""
    failing = operand.scope.failing
    if isinstance(failing, ast.AugAssign):
        return operand.node is failing.target
    while isinstance(failing, ast.Call) and isinstance(failing.func, ast.Attribute):
        if failing.func.attr.endswith("_"):
            return any(node is operand.node for node in ast.walk(failing.func.value))
        failing = failing.func.value
    return False


def _best_hop(story: Story, hops: list[Hop]) -> Hop:
    if story.scope is not None:
        here = [hop for hop in hops if hop.scope is story.scope]
        if here:
            return here[0]
    return hops[-1]


def thrown_away(hop: Hop) -> ast.Call | None:
    """Return a statement `x.to(...)` whose result nobody keeps, if the function has one for this name."""
    for node in own_nodes(hop.scope.node) if hop.scope.node is not None else ():
        call = node.value if isinstance(node, ast.Expr) and node.lineno <= hop.line else None
        method = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        if method and call.func.attr in flow.MOVERS and ast.unparse(call.func.value) == hop.text:
            return call
    return None


def _state(operand: Operand) -> Mend | None:
    path = operand.story.path
    if path is None:
        return None
    state = next(i for i, step in enumerate(path.steps) if step.kind == reach.STATE)
    name = path.steps[state - 1].path if state else path.root
    code = f"{name}.load_state_dict({name}.state_dict())"
    return Mend(path.scope.where(), code, before=True)
