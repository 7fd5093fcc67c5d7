"""Two devices, or two dtypes, in one operation: which tensor is to blame, and why it is where it is."""

import ast
import re
from typing import NamedTuple

import torch

from devlab.checks.values import SHORT_DTYPES
from devlab.explaining import flow, reach
from devlab.explaining import report as kinds
from devlab.explaining.culprit import (
    Operand,
    aliases,
    culprit,
    find_meeting,
    identify,
    nearest_mine,
    operands,
    origin,
    raises,
    written,
)
from devlab.explaining.flow import devices_of, dtype_of
from devlab.explaining.frames import Scope, argument_for
from devlab.explaining.reach import CLOSURE, Path, Step, find_all
from devlab.explaining.report import Explanation, Met, Problem
from devlab.explaining.story import ARGUMENT, COMPUTED, MADE, MOVED, UNKNOWN

_MOST_SHOWN = 6


def innermost_mine(scopes: list[Scope]) -> Scope | None:
    """Return the learner's own frame that is nearest to the error.

    A frame that failed by a `raise` of its own counts only where no other is the learner's; where no frame is
    the learner's, the innermost of all stands for it.
    """
    mine = [scope for scope in reversed(scopes) if scope.mine]
    calm = [scope for scope in mine if not raises(scope)]
    return next(iter(calm or mine or scopes[::-1]), None)


def describe(operand: Operand, gone: str = "no longer there") -> str:
    """Return the dtype and shape of an operand; the words given if the tensor is gone."""
    tensor = operand.tensor
    dtype = None if tensor is None else SHORT_DTYPES.get(tensor.dtype, _short(tensor.dtype))
    return gone if tensor is None else f"{dtype}[{','.join(map(str, tensor.shape))}]"


def place_of_failure(report: Explanation, scopes: list[Scope]) -> None:
    """Say in which of the learner's expressions the error arose."""
    scope = innermost_mine(scopes)
    if scope is None:
        return
    inside = f", in {scope.name}" if scope.name != "<module>" else ""
    report.where = scope.where() + inside
    if scope.source is None:
        report.operation = "a line whose text cannot be read here"
    else:
        node = scope.failing
        text = scope.text(node) if node is not None else scope.source.lines[scope.line - 1].strip()
        report.operation = text if len(text) <= 100 else text[:99] + "…"


def show_operands(report: Explanation, found: list[Operand], wrong: Operand | None) -> None:
    """Fill the table of tensors, the culprit among them."""
    shown: list[Operand] = []
    for operand in found:
        twin = any(o.name == operand.name and o.device == operand.device for o in shown)
        if operand.device and not (twin and operand is not wrong):
            shown.append(operand)
    shown = sorted(shown[:_MOST_SHOWN] + [o for o in shown[_MOST_SHOWN:] if o is wrong], key=found.index)
    report.met = [
        Met(o.name, describe(o), o.device, "" if o is wrong else origin(o, False), o is wrong) for o in shown
    ]


def home_of(wrong: Operand, found: list[Operand]) -> str:
    """Return the device of the others: where the culprit should have been."""
    return next((o.device for o in found if o.device and not flow.same(o.device, wrong.device)), "")


def explain_mismatch(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """Fill a report about an error in which two devices met."""
    found = find_meeting(scopes, problem)
    wrong = culprit(found)
    for operand in found:
        if operand.device:
            identify(operand, scopes)
    if wrong is None:
        show_operands(report, found, None)
        return
    home = home_of(wrong, found)
    index, table = _index(found, wrong, problem), wrong
    if index is not None:
        wrong, home = index, "cpu"
    report.known, report.culprit, report.origin = True, wrong.name, origin(wrong)
    report.aliases = aliases(wrong)
    path = wrong.story.path
    by_path = path is not None and path.steps and not path.of_optimizer
    finding = stayed_behind(wrong, scopes, home) if index is None and (wrong.registered or by_path) else None
    if finding is not None:
        report.culprit, report.origin = finding
        report.aliases = [wrong.name] if wrong.name not in (finding.name, "") else report.aliases
    report.headline = f"{report.culprit} is on {wrong.device}, and the operation needs it on {home}"
    if index is not None:
        report.headline = f"{index.name} is on {index.device} and indexes {table.name}, which is on the CPU"
    show_operands(report, found, wrong)


def _index(found: list[Operand], wrong: Operand, problem: Problem) -> Operand | None:
    """Return the index that should come to the CPU, if what it indexes has good reason to be there."""
    if problem.kind != kinds.INDEX or wrong.device != "cpu":
        return None
    table = wrong.story
    index = next((o for o in found if o is not wrong and o.device and o.device != "cpu"), None)
    drawn = index is not None and index.story.end in (MADE, MOVED) and index.story.scope is index.scope
    kept = table.held == reach.ATTRIBUTE and not hasattr(table.owner, "register_buffer") and drawn
    result = table.end in (ARGUMENT, UNKNOWN, COMPUTED) and not table.held
    if not (kept or result or table.end == MOVED or table.held == "global"):
        return None
    return index


class Finding(NamedTuple):
    """What was found about a module: its name, and why it stayed behind."""

    name: str
    origin: str


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
        if path.stray is not None and (finding := _unregistered(path, path.stray)):
            return finding
    # The largest tree of modules tells most, and a name of one's own more than a step through a closure.
    for path in sorted(found, key=lambda path: (_through_function(path), -len(_modules(path)))):
        if finding := _unmoved(path, operand.device) or _given_late(path, operand, home):
            return finding
    return _made_in_call(operand, scopes)


def _modules(path: Path) -> list[tuple[str, torch.nn.Module]]:
    places = [(path.root, path.value), *((step.path, step.value) for step in path.steps)]
    return [(text, value) for text, value in places if isinstance(value, torch.nn.Module)]


def _unmoved(path: Path, device: str) -> Finding | None:
    modules = _modules(path)
    whole = [(text, module) for text, module in modules if devices_of(module) == {device}]
    if not whole:
        return None
    (text, module), (rest, model) = whole[0], modules[0]
    kind, others = type(module).__name__, " and ".join(sorted(devices_of(model) - {device}))
    if text == rest:
        return Finding(text, f"a {kind} whose parameters and buffers are on {device}: it was not moved")
    there = f"a {kind} on {device}, while the rest of {rest} is on {others}"
    return Finding(text, f"{there}: it was added or made after the move")


def _given_late(path: Path, operand: Operand, home: str) -> Finding | None:
    """A parameter that a module was given when its other ones had moved."""
    owner = path.steps[-1].holder if path.steps else None
    if path.stray or not isinstance(owner, torch.nn.Module) or not operand.registered:
        return None
    there = {str(tensor.device) for tensor in owner.parameters(recurse=False)}
    if home not in there and len(path.steps) == 1:
        return None
    text = path.text.rpartition(".")[0]
    origin = f"a {path.steps[-1].kind} of {text} that was made or given after the move"
    return Finding(path.text, origin)


def _unregistered(path: Path, step: Step) -> Finding | None:
    """Something that hangs in a plain attribute of a module, where `.to` does not find it."""
    after = path.steps[path.steps.index(step) :]
    inner = next((s for s in after if isinstance(s.value, torch.nn.Module)), None)
    between = after[: after.index(inner) + 1] if inner else []
    if inner is None or any(one.kind == CLOSURE or one.text == ".__self__" for one in between):
        return None  # a tensor, of which the story tells more, or what no text reaches from here
    kind, holder = type(step.value).__name__, type(step.holder).__name__
    if inner is step:
        return Finding(step.path, f"{holder} does not have it registered, and .to passes it over")
    if not isinstance(step.value, list | tuple | dict):
        where = f"{step.path} is a plain {kind}, and .to does not look for modules in it"
        return Finding(inner.path, where)
    why = f"a plain {kind} of {holder}, and .to moves only what a module has registered"
    return Finding(path.text, f"it hangs in {step.path}, {why}")


def _through_function(path: Path) -> bool:
    return any(step.kind == CLOSURE for step in path.steps)


def _made_in_call(operand: Operand, scopes: list[Scope]) -> Finding | None:
    """A module made in the very expression that calls it: `nn.Linear(3, 3)(x)` inside `forward`."""
    scope = nearest_mine(scopes)
    node = scope.failing if scope is not None else None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Call):
        return None
    made = node.func
    origin = f"a new module, made on {operand.device} at {scope.where(made.lineno)} each time this runs"
    return Finding(scope.text(made), origin)


_TO_LONG = re.compile(
    r"expected scalar type Long|must be long|scalar types: Long|dtype to be Long|Expected dtype int32"
    r"|only applicable to index tensor"
)
_TO_BOOL = re.compile(r"boolean mask|boolean tensor|dtype to be Bool")
_TO_FLOAT = re.compile(r"could not infer output dtype|only supports? floating.point")
_IN_PLACE = re.compile(r"can't be cast to the desired output type")
_BY_INDEX = ("gather", "scatter", "index_", "take_along")


def used_as(node: ast.AST, scope: Scope) -> tuple[ast.AST, Scope | None]:
    """Return the learner's own expression that a library's operand is the value of, with its scope."""
    while not scope.mine:
        if not isinstance(node, ast.Name) or (passed := argument_for(scope, node.id)) is None:
            return node, None
        node, scope = passed
    return node, scope


def explain_dtype(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """Two dtypes in one operation that takes only one, or one that it does not take."""
    found, wrong, goal = _meeting(scopes, problem.message)
    for operand in found:
        identify(operand, scopes)
    if wrong is None or goal is None:
        return
    use, scope = used_as(wrong.node, wrong.scope)
    if scope is not None and use is not wrong.node and dtype_of(use, scope) in (None, _dtype(wrong)):
        lifted = Operand(use, scope, wrong.tensor, wrong.device)
        identify(lifted, scopes)
        found, wrong = [lifted if o is wrong else o for o in found], lifted
    if not isinstance(wrong.node, ast.Name | ast.Attribute | ast.Subscript) and wrong.scope.mine:
        wrong.name = wrong.text
    own, needs = _short(_dtype(wrong)), _short(goal)
    report.known, report.culprit, report.origin = True, wrong.name, origin(wrong)
    report.aliases = [name for name in aliases(wrong) if name != wrong.name]
    report.headline = f"{wrong.name} is {own}, and the operation needs {needs}"
    for one in found[:6]:
        what, place = describe(one, _short(_dtype(one))), "" if one is wrong else origin(one, False)
        report.met.append(Met(one.name, what, one.device, place, one is wrong))
    if written(wrong):
        report.headline = f"{wrong.name} is {own}, and cannot take a result in {needs} in place"


def _short(dtype: torch.dtype | None) -> str:
    return str(dtype).removeprefix("torch.")


def _dtype(operand: Operand) -> torch.dtype | None:
    return operand.tensor.dtype if operand.tensor is not None else dtype_of(operand.node, operand.scope)


def _meeting(scopes: list[Scope], message: str) -> tuple[list[Operand], Operand | None, torch.dtype | None]:
    """Return the tensors of the innermost frame that shows the fault, which one to change, and to what."""
    for scope in reversed(scopes):
        found = [o for o in operands(scope) if _dtype(o) is not None]
        for operand in found:
            identify(operand, scopes)
        wrong, goal = _odd_one(found, scope, message)
        if wrong is not None:
            return found, wrong, goal
    return [], None, None


def _odd_one(found: list[Operand], scope: Scope, message: str) -> tuple[Operand | None, torch.dtype | None]:
    index = _indices(found, scope)
    if _TO_LONG.search(message):
        floats = [
            o for o in index or found if _dtype(o) not in (torch.int64, torch.bool) and not o.registered
        ]
        return (floats[-1] if floats and (scope.mine or len(found) > 1) else None), torch.int64
    if _TO_BOOL.search(message):
        return next((o for o in found if not (_dtype(o) or torch.bool).is_floating_point), None), torch.bool
    if _TO_FLOAT.search(message):
        whole = [o for o in found if not _dtype(o).is_floating_point]
        return (whole or [None])[0], torch.get_default_dtype()
    found = [o for o in found if o not in index]
    into = [o for o in found if written(o)]
    if into and _IN_PLACE.search(message) and not _dtype(into[0]).is_floating_point:
        return into[0], torch.get_default_dtype()
    by_index = scope.failing is not None and bool(index)
    fixed = into or [o for o in found if o.registered] or found[:1] * by_index
    free = sorted((o for o in found if o not in fixed), key=lambda o: _width(_dtype(o)))
    module = scope.evaluate(scope.failing.func) if isinstance(scope.failing, ast.Call) else None
    own = module.parameters() if isinstance(module, torch.nn.Module) else ()
    of_module = [p.dtype for p in own if p.dtype.is_floating_point][:1]
    goals = [_dtype(o) for o in fixed] or of_module or [_dtype(o) for o in free]
    wrong = next((o for o in reversed(free) if _dtype(o) not in goals[:1]), None) if goals else None
    return wrong, goals[0] if goals else None


def _width(dtype: torch.dtype) -> int:
    """Return how much has to give way: the narrowest float stays, integers follow floats."""
    return 16 if not dtype.is_floating_point and not dtype.is_complex else dtype.itemsize


def _indices(found: list[Operand], scope: Scope) -> list[Operand]:
    """Return the operands that stand where an operation takes indices."""
    node = scope.failing
    if isinstance(node, ast.Subscript):
        return [o for o in found if any(part is o.node for part in ast.walk(node.slice))]
    name = getattr(node.func, "attr", "") if isinstance(node, ast.Call) else ""
    if not name.startswith(_BY_INDEX):
        return []
    place = (0 if name.startswith("index_put") else 1) + flow.is_torchs(node, scope)
    given = [flow.keyword(node, "index"), *node.args[place : place + 1]]
    return [o for o in found if any(part is o.node for one in given if one for part in ast.walk(one))]


def explain_no_dtype(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """A dtype that the device has not, as float64 on Apple's GPU."""
    named = re.search(r"not implemented for '(\w+)'", problem.message)
    dtype = getattr(torch, named[1].lower(), None) if named else None
    meant = (dtype,) if isinstance(dtype, torch.dtype) else (torch.float64, torch.float16)
    device = "mps" if "MPS" in problem.message else "the device"
    device = next((d for d in problem.devices if d != "cpu"), device)
    report.headline = f"{device} has no such dtype"
    wrong = next((o for s in reversed(scopes) for o in operands(s) if _dtype(o) in meant), None)
    scope = innermost_mine(scopes)
    if wrong is not None:
        identify(wrong, scopes)
        report.known, report.culprit, report.origin = True, wrong.name, origin(wrong)
        report.met = [Met(wrong.name, describe(wrong, _short(_dtype(wrong))), wrong.device, "", True)]
        by = f"{device} does not compute with" if not named else "the operation does not take"
        report.headline = f"{wrong.name} is {_short(_dtype(wrong))}, which {by}"
    elif scope is not None and isinstance(scope.failing, ast.Call):
        report.known, report.culprit = True, scope.text(scope.failing)
        report.origin = f"asks for a dtype that {device} has not"
