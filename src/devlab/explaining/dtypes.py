"""Errors about dtypes: two that met, and one that an operation or a device has not."""

import ast
import re

import torch

from devlab.explaining import flow, reach
from devlab.explaining.bring import used_as
from devlab.explaining.dtype_flow import dtype_of
from devlab.explaining.edit import closed, in_statement, moved, with_argument
from devlab.explaining.error import Problem
from devlab.explaining.meeting import Operand, operands, written
from devlab.explaining.mismatch import describe, innermost_mine
from devlab.explaining.report import Explanation, Met
from devlab.explaining.scope import Scope
from devlab.explaining.source import own_nodes
from devlab.explaining.story import MADE, NUMPY, Hop
from devlab.explaining.telling import aliases, identify, origin
from devlab.explaining.uses import rebindable

_TO_LONG = re.compile(
    r"expected scalar type Long|must be long|scalar types: Long|dtype to be Long|Expected dtype int32"
    r"|only applicable to index tensor"
)
_TO_BOOL = re.compile(r"boolean mask|boolean tensor|dtype to be Bool")
_TO_FLOAT = re.compile(r"could not infer output dtype|only supports? floating.point")
_IN_PLACE = re.compile(r"can't be cast to the desired output type")
_NAMED = {
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Double": torch.float64,
    "Bool": torch.bool,
    "Long": torch.int64,
    "Int": torch.int32,
    "Byte": torch.uint8,
}
_BY_INDEX = ("gather", "scatter", "index_", "take_along")


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
    report.met = [
        Met(o.name, _describe(o), o.device, "" if o is wrong else origin(o, False), o is wrong)
        for o in found[:6]
    ]
    if written(wrong):
        report.headline = f"{wrong.name} is {own}, and cannot take a result in {needs} in place"
        report.mend, report.mend_where = _out_of_place(wrong), wrong.scope.where()
    else:
        _change(report, wrong, goal)


def _short(dtype: torch.dtype | None) -> str:
    return str(dtype).removeprefix("torch.")


def _dtype(operand: Operand) -> torch.dtype | None:
    return operand.tensor.dtype if operand.tensor is not None else dtype_of(operand.node, operand.scope)


def _describe(operand: Operand) -> str:
    dtype = _dtype(operand)
    return describe(operand) if operand.tensor is not None or dtype is None else _short(dtype)


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
    index = _index(found, scope)
    if _TO_LONG.search(message):
        floats = [o for o in index or found if _dtype(o) not in (torch.int64, torch.bool) and not _fixed(o)]
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
    fixed = into or [o for o in found if _fixed(o)] or found[:1] * by_index
    free = sorted((o for o in found if o not in fixed), key=lambda o: _width(_dtype(o)))
    goals = [_dtype(o) for o in fixed] or _of_module(scope) or [_dtype(o) for o in free]
    wrong = next((o for o in reversed(free) if _dtype(o) not in goals[:1]), None) if goals else None
    return wrong, goals[0] if goals else None


def _of_module(scope: Scope) -> list[torch.dtype]:
    """Return the dtype of the module that a frame was calling, as a list of none or one."""
    module = scope.evaluate(scope.failing.func) if isinstance(scope.failing, ast.Call) else None
    own = module.parameters() if isinstance(module, torch.nn.Module) else ()
    return [p.dtype for p in own if p.dtype.is_floating_point][:1]


def _fixed(operand: Operand) -> bool:
    """Tell whether an operand sets the dtype: a module's own."""
    return operand.story.held in (reach.PARAMETER, reach.BUFFER)


def _width(dtype: torch.dtype) -> int:
    """Return how much has to give way: the narrowest float stays, integers follow floats."""
    return 16 if not dtype.is_floating_point and not dtype.is_complex else dtype.itemsize


def _index(found: list[Operand], scope: Scope) -> list[Operand]:
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


def _out_of_place(operand: Operand) -> str:
    """Return the statement that makes a new tensor instead of writing into the old one; "" for none."""
    scope, node = operand.scope, operand.scope.failing
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name | ast.Attribute):
        sign = scope.text(node)[len(scope.text(node.target)) :].split("=")[0].strip()
        target, value = scope.text(node.target), scope.text(node.value)
        return (
            f"{target} = {target} {sign} {value if isinstance(node.value, ast.Constant) else closed(value)}"
        )
    name = scope.text(operand.node)
    if isinstance(node, ast.Call) and isinstance(scope.source.parents.get(node), ast.Expr):
        text = scope.text(node)
        return f"{name} = {text.replace(node.func.attr + '(', node.func.attr.rstrip('_') + '(', 1)}"
    return ""


def _change(report: Explanation, wrong: Operand, goal: torch.dtype) -> None:
    """Give a report the change: where it was made, under its own name before the line, or inside the line."""
    story, scope, node = wrong.story, wrong.scope, wrong.node
    hop = next((hop for hop in story.trail if hop.scope.mine), None)
    if not scope.mine and hop is not None and not hop.holds_many:
        scope, node = hop.scope, hop.node
    if isinstance(node, ast.Name) and scope.mine and not _used_elsewhere(node, scope):
        made, there = story.node, story.scope
        alone = there is not None and there.mine and there.source is not None and isinstance(made, ast.Call)
        alone = alone and isinstance(there.source.parents.get(made), ast.Assign | ast.keyword | ast.Return)
        if alone and story.end in (MADE, NUMPY) and dtype_of(made, there) in (None, _dtype(wrong)):
            report.mend = in_statement(there, made, _remade(made, there, goal))
            report.mend_where = there.where(there.source.statement(made).lineno)
            return
        hop = Hop(node.id, scope, scope.line, node)
        if rebindable(hop):
            report.mend, report.mend_before = f"{node.id} = {node.id}.to({goal})", True
            report.mend_where = scope.where()
            return
    if scope.mine and isinstance(getattr(node, "ctx", None), ast.Load | None):
        text = ast.unparse(node)
        alike = [n for n in ast.walk(scope.failing or node) if ast.unparse(n) == text and n is not node]
        changes = [(one, _remade(one, scope, goal)) for one in [node, *alike]]
        report.mend, report.mend_where = in_statement(scope, *changes[0], *changes[1:]), scope.where()
        if not report.mend and rebindable(Hop(text, scope, scope.line, node)):
            report.mend, report.mend_before = f"{text} = {changes[0][1]}", True


def _remade(node: ast.AST, scope: Scope, goal: torch.dtype) -> str:
    """Return an expression's text with the dtype in it."""
    told = flow.FACTORIES - {"from_numpy", "Tensor", "FloatTensor", "LongTensor", "BoolTensor"}
    if flow.is_call_of(node, scope, told) and (goal.is_floating_point or not _drawn(node)):
        return with_argument(node, scope, "dtype", str(goal))
    return moved(scope.text(node), str(goal))


def _drawn(call: ast.Call) -> bool:
    return getattr(call.func, "attr", getattr(call.func, "id", "")) in ("rand", "randn", "normal")


def _used_elsewhere(name: ast.Name, scope: Scope) -> bool:
    """Tell whether other expressions of the function have used the name for more than its shape."""
    if scope.source is None or scope.node is None:
        return False
    here = set(ast.walk(scope.source.statement(scope.failing or name)))
    return any(
        isinstance(node, ast.Name) and node.id == name.id and node not in here and node.lineno <= scope.line
        for node in own_nodes(scope.node)
        if isinstance(getattr(node, "ctx", None), ast.Load)
        and not isinstance(scope.source.parents.get(node), ast.Attribute)
    )


def explain_no_dtype(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """A dtype that the device has not, as float64 on Apple's GPU."""
    scope = innermost_mine(scopes)
    if scope is None:
        return
    found = operands(scope) or [o for s in reversed(scopes) for o in operands(s)]
    named = re.search(r"not implemented for '(\w+)'", problem.message)
    meant = (_NAMED[named[1]],) if named and named[1] in _NAMED else (torch.float64, torch.float16)
    doubles = [o for o in found if _dtype(o) in meant]
    call = scope.failing
    device = next(
        (d for d in problem.devices if d != "cpu"), "mps" if "MPS" in problem.message else "the device"
    )
    report.headline = f"{device} has no such dtype"
    if doubles:
        wrong = doubles[0]
        identify(wrong, scopes)
        report.known, report.culprit, report.origin = True, wrong.name, origin(wrong)
        report.met = [Met(wrong.name, _describe(wrong), wrong.device, "", True)]
        by = f"{device} does not compute with" if not named else "the operation does not take"
        report.headline = f"{wrong.name} is {_short(_dtype(wrong))}, which {by}"
        here = [o.node for o in doubles if o.scope is wrong.scope and not o.suffix]
        changes = [(node, _remade(node, wrong.scope, torch.float32)) for node in here or [wrong.node]]
        report.mend = in_statement(wrong.scope, *changes[0], *changes[1:])
        report.mend_where = wrong.scope.where()
    elif isinstance(call, ast.Call):
        report.known, report.culprit = True, scope.text(call)
        report.origin = f"asks for a dtype that {device} has not"
        report.mend = in_statement(scope, call, with_argument(call, scope, "dtype", "torch.float32"))
        report.mend_where = scope.where()
