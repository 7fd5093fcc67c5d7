"""Modules that stayed behind: never moved, added after the move, or kept where `.to` cannot see them."""

import ast
from dataclasses import replace

import torch

from devlab.explaining import flow, reach
from devlab.explaining.edit import Mend, in_statement, moved, reference
from devlab.explaining.lookup import MISSING
from devlab.explaining.meeting import Operand
from devlab.explaining.mend import container
from devlab.explaining.reach import CLOSURE, Path, Step, find_all
from devlab.explaining.scope import Scope
from devlab.explaining.writers import written_attribute


class Finding:
    """What was found about a module: its name, why it stayed, where that is to be seen, and the change."""

    def __init__(self, name: str, origin: str, mend: Mend | None):
        self.name = name
        self.origin = origin
        self.mend = mend


def paths(tensor: torch.Tensor, scopes: list[Scope]) -> list[Path]:
    """Return the ways to a tensor from each of the learner's frames, the innermost first."""
    found = []
    for scope in reversed(scopes):
        if scope.mine:
            here = find_all(tensor, scope)
            found += sorted(here, key=lambda path: len(path.steps))
    return found


def stayed_behind(operand: Operand, scopes: list[Scope], home: str) -> Finding | None:
    """Say why a parameter or buffer is where it is; None where no module of the learner's holds it."""
    found = paths(operand.tensor, scopes) if operand.tensor is not None else []
    for path in found:
        if path.stray is not None and (finding := _unregistered(path, path.stray, home)):
            return finding
    # The largest tree of modules tells most, and a name of one's own more than a step through a closure.
    for path in sorted(found, key=lambda path: (_through_function(path), -len(_modules(path)))):
        if finding := _unmoved(path, operand.device, home) or _given_late(path, operand, home):
            return finding
    return _made_in_call(operand, scopes, home)


def _modules(path: Path) -> list[tuple[str, torch.nn.Module]]:
    places = [(path.root, path.value), *((step.path, step.value) for step in path.steps)]
    return [(text, value) for text, value in places if isinstance(value, torch.nn.Module)]


def devices_of(module: torch.nn.Module) -> set[str]:
    """Return the devices of everything that a module registered."""
    return {str(tensor.device) for tensor in [*module.parameters(), *module.buffers()]}


def _unmoved(path: Path, device: str, home: str) -> Finding | None:
    modules = _modules(path)
    whole = [(text, module) for text, module in modules if devices_of(module) == {device}]
    if not whole:
        return None
    text, module = whole[0]
    scope = path.scope
    ref = reference(scope, scope.line, home)
    change = Mend(scope.where(), f"{text}.to({ref})", before=True)
    kind = type(module).__name__
    if text == modules[0][0]:
        return Finding(
            text, f"a {kind} whose parameters and buffers are on {device}: it was not moved", change
        )
    rest = modules[0][0]
    others = " and ".join(sorted(devices_of(modules[0][1]) - {device}))
    why = (
        f"a {kind} on {device}, while the rest of {rest} is on {others}: it was added or made after the move"
    )
    return Finding(text, why, change)


def _given_late(path: Path, operand: Operand, home: str) -> Finding | None:
    """A parameter that a module was given when its other ones had moved."""
    owner = path.steps[-1].holder if path.steps else None
    if path.stray or not isinstance(owner, torch.nn.Module) or not held_by_module(operand):
        return None
    if (
        home not in {str(tensor.device) for tensor in owner.parameters(recurse=False)}
        and len(path.steps) == 1
    ):
        return None
    text = path.text.rpartition(".")[0]
    change = Mend(
        path.scope.where(), f"{text}.to({reference(path.scope, path.scope.line, home)})", before=True
    )
    return Finding(
        path.text, f"a {path.steps[-1].kind} of {text} that was made or given after the move", change
    )


def _unregistered(path: Path, step: Step, home: str) -> Finding | None:
    holder, name = step.holder, step.text.removeprefix(".")
    value = vars(holder).get(name, MISSING)
    inner = next(
        (s for s in path.steps[path.steps.index(step) :] if isinstance(s.value, torch.nn.Module)), None
    )
    if not isinstance(value, torch.nn.Module | list | tuple | dict):
        return _inside_another(path, step, inner, home) if inner is not None else None
    written = [(w, s) for w, s in written_attribute(holder, name, path.scope) if w.how == "assign"]
    if isinstance(value, torch.Tensor):
        return None
    if not written and isinstance(value, torch.nn.Module):
        change = Mend(
            path.scope.where(), f"{step.path}.to({reference(path.scope, path.scope.line, home)})", True
        )
        return Finding(
            step.path, f"{type(holder).__name__} does not have it registered, and .to passes it over", change
        )
    if not written:
        return None
    write, scope = written[-1]
    owner = scope.parameters()[0] if scope.parameters() else "self"
    change = container(
        f"{owner}.{name}", name, owner, value, scope.where(write.line), scope.text(write.value), write.how
    )
    tensors = isinstance(value, list | tuple | dict) and isinstance(step_after(path, step), torch.Tensor)
    if tensors:
        return None
    if change is None or isinstance(value, torch.nn.Module):
        change = Mend(
            path.scope.where(), f"{step.path}.to({reference(path.scope, path.scope.line, home)})", True
        )
    holds = (
        f"a plain {type(value).__name__}" if isinstance(value, list | tuple | dict) else "a plain attribute"
    )
    change = change and replace(change, code=change.code.replace("torch.nn.", _nn(scope)))
    origin = (
        f"it hangs in {step.path}, {holds} of {type(holder).__name__}, "
        "and .to moves only what a module has registered"
    )
    return Finding(path.text, origin, change)


def _inside_another(path: Path, step: Step, inner: Step, home: str) -> Finding | None:
    """A module that a plain object, which `.to` does not look into, holds for another one."""
    between = path.steps[path.steps.index(step) : path.steps.index(inner) + 1]
    if any(one.kind == CLOSURE or one.text == ".__self__" for one in between):
        return None  # no text reaches it from here
    change = Mend(
        path.scope.where(), f"{inner.path}.to({reference(path.scope, path.scope.line, home)})", True
    )
    kind = type(step.value).__name__
    return Finding(
        inner.path, f"{step.path} is a plain {kind}, and .to does not look for modules in it", change
    )


def step_after(path: Path, step: Step) -> object:
    """Return what the step after a given one leads to."""
    place = path.steps.index(step) + 1
    return path.steps[place].value if place < len(path.steps) else None


def _through_function(path: Path) -> bool:
    return any(step.kind == CLOSURE for step in path.steps)


def _nn(scope: Scope) -> str:
    return "nn." if scope.globals.get("nn") is torch.nn else "torch.nn."


def _made_in_call(operand: Operand, scopes: list[Scope], home: str) -> Finding | None:
    """A module made in the very expression that calls it: `nn.Linear(3, 3)(x)` inside `forward`."""
    for scope in reversed(scopes):
        if not scope.mine:
            continue
        node = scope.failing
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Call):
            made = node.func
            ref = reference(scope, scope.line, home)
            given = [a for a in node.args if flow.same(flow.infer(a, scope) or "?", home)]
            if given and isinstance(given[0], ast.Name):
                ref = f"{given[0].id}.device"
            code = in_statement(scope, made, moved(scope.text(made), ref))
            origin = (
                f"a new module, made on {operand.device} at {scope.where(made.lineno)} each time this runs"
            )
            return Finding(scope.text(made), origin, Mend(scope.where(), code))
        return None
    return None


def held_by_module(operand: Operand) -> bool:
    """Tell whether an operand is something that a module registered."""
    return operand.story is not None and operand.story.held in (reach.PARAMETER, reach.BUFFER)
