"""Modules and tensors on `meta`, which have shapes and dtypes and no data yet: load them, or fill them."""

import ast

import torch

from devlab.explaining import flow
from devlab.explaining.blame import blame
from devlab.explaining.edit import in_statement, reference, remade, with_argument
from devlab.explaining.error import Problem
from devlab.explaining.meeting import Operand, operands
from devlab.explaining.report import Explanation, Met
from devlab.explaining.scope import Scope
from devlab.explaining.source import own_nodes
from devlab.explaining.story import MADE

_ANEW = "lambda m: m.reset_parameters() if hasattr(m, 'reset_parameters') else None"


def explain_meta(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """What has no data was computed with, moved or read."""
    found = [(scope, *held) for scope in scopes if scope.mine for held in [_module(scope)] if held]
    if found:
        _load(report, *found[0], _home(scopes, problem))
        return
    for scope in reversed(scopes):
        empty = [o for o in operands(scope) if o.device == "meta"] if scope.mine else []
        if empty:
            _fill(report, scopes, empty[0], _home(scopes, problem))
            return


def _module(scope: Scope) -> tuple[str, torch.nn.Module] | None:
    """Return the module without data that a frame was calling or moving, with its name."""
    call = scope.failing
    function = call.func if isinstance(call, ast.Call) else None
    receiver = function.value if isinstance(function, ast.Attribute) else None
    for node in (function, receiver):
        value = scope.evaluate(node) if node is not None else None
        if isinstance(value, torch.nn.Module) and any(_is_empty(t) for t in value.state_dict().values()):
            return scope.text(node), value
    return None


def _is_empty(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "meta"


def _home(scopes: list[Scope], problem: Problem) -> str:
    """Return the device that the others are on: as the message has it, or as the failing lines have it."""
    met = [o.device for s in reversed(scopes) for o in operands(s)]
    asked = [flow.moved_to(s.failing, s) for s in reversed(scopes) if s.failing is not None]
    named = [*problem.devices, *met, *asked]
    here = str(torch.accelerator.current_accelerator()) if torch.accelerator.is_available() else "cpu"
    return next((device for device in named if device not in ("", "meta")), here)


def _load(report: Explanation, scope: Scope, name: str, module: torch.nn.Module, home: str) -> None:
    """A module without data: give it trained values, or fresh ones."""
    state = {key: value for key, value in module.state_dict().items() if isinstance(value, torch.Tensor)}
    empty = [key for key, value in state.items() if _is_empty(value)]
    path = _only(module, empty)
    inner = None if path is None else name + "".join(_step(part) for part in path.split(".") if part)
    report.known, report.culprit = True, inner or name
    some = f": {', '.join(empty[:4])}" if len(empty) < len(state) else ""
    report.headline = f"{report.culprit} is on meta, and holds no data yet{some}"
    report.origin = "made on meta, with shapes and without values, so that .to has nothing to copy"
    report.met = [
        Met(f"{name}.{key}", str(list(state[key].shape)), "meta", "", key == empty[0]) for key in empty[:4]
    ]
    loaded = _loaded(scope, module, set(state))
    ref = reference(scope, scope.line, home)
    if isinstance(loaded, ast.Call):  # a line that copies into what is not there, which does nothing
        report.mend = in_statement(scope, loaded, with_argument(loaded, scope, "assign", "True"))
        report.mend_where = scope.where(loaded.lineno)
    elif loaded:
        report.mend, report.mend_before = f"{name}.load_state_dict({loaded}, assign=True)", True
        report.mend_where = scope.where()
    elif inner and _can_begin(module.get_submodule(path)):
        report.mend, report.mend_before = f"{inner}.to_empty(device={ref}).apply({_ANEW})", True
        report.mend_where = scope.where()
        report.otherwise = f"{name}.load_state_dict(..., assign=True) with a checkpoint, for trained values"
        report.note = (
            "`to_empty` alone gives memory with whatever is in it; `reset_parameters` gives fresh values"
        )
    else:
        report.note = (
            f"no single line mends this: load a checkpoint by {name}.load_state_dict(..., assign=True), or "
            f"{name}.to_empty(device={ref}) and give every parameter and buffer its values"
        )


def _only(module: torch.nn.Module, empty: list[str]) -> str | None:
    """Return the path of the one module below, "" for the module itself, that holds just what is empty."""
    for path, inner in module.named_modules():
        own = [f"{path}.{key}" if path else key for key in inner.state_dict()]
        if sorted(own) == sorted(empty):
            return path
    return None


def _step(part: str) -> str:
    """Return how code reaches a module by one part of its path: `net.0` is no Python."""
    return f"[{part}]" if part.isdigit() else f".{part}"


def _can_begin(module: torch.nn.Module) -> bool:
    """Tell whether every module with values of its own can give itself fresh ones."""
    own = [m for m in module.modules() if [*m.parameters(recurse=False), *m.buffers(recurse=False)]]
    return all(hasattr(m, "reset_parameters") for m in own)


def _loaded(scope: Scope, module: torch.nn.Module, keys: set[str]) -> ast.Call | str:
    """Return the call that was to load the module, or the name of a dictionary with all its keys."""
    for node in own_nodes(scope.node) if scope.source is not None and scope.node is not None else ():
        loads = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "load_state_dict"
        if loads and flow.keyword(node, "assign") is None and scope.evaluate(node.func.value) is module:
            return node
    fits = [n for n, v in scope.values.items() if isinstance(v, dict) and keys <= v.keys()]
    full = [n for n in fits if not any(_is_empty(scope.values[n][key]) for key in keys)]
    return full[0] if full else ""


def _fill(report: Explanation, scopes: list[Scope], operand: Operand, home: str) -> None:
    """A tensor without data: make it where there is memory for it."""
    blame(report, scopes, operand, "{} is on meta: it has a shape and a dtype, and holds no data")
    story = operand.story
    call, scope = story.node, story.scope
    if story.end == MADE and scope.mine and isinstance(call, ast.Call):
        report.mend = in_statement(
            scope, call, remade(call, scope, reference(scope, call.lineno, home), MADE)
        )
        report.mend_where = scope.where(call.lineno)
    report.note = (
        "" if report.mend else "make it on a device with memory; what is on meta cannot be moved or read"
    )
