"""Errors about dtypes: two that met, and one that a device has not."""

import ast
import re

import torch

from devlab.instruments.explain import flow, reach
from devlab.instruments.explain.edit import in_statement, with_argument
from devlab.instruments.explain.error import Problem
from devlab.instruments.explain.meeting import Operand, operands
from devlab.instruments.explain.mismatch import describe, innermost_mine
from devlab.instruments.explain.report import Explanation, Met
from devlab.instruments.explain.scope import Scope
from devlab.instruments.explain.story import MADE, NUMPY
from devlab.instruments.explain.telling import aliases, identify, origin

_TO_LONG = re.compile(r"expected scalar type Long|must be long|scalar types: Long|dtype to be Long")


def explain_dtype(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """Two dtypes in one operation that takes only one."""
    found, wrong = _meeting(scopes, bool(_TO_LONG.search(problem.message)))
    for operand in found:
        identify(operand, scopes)
    if wrong is None:
        return
    others = [o for o in found if o is not wrong and o.tensor.dtype != wrong.tensor.dtype]
    goal = "torch.int64" if _TO_LONG.search(problem.message) else str(others[0].tensor.dtype)
    own = str(wrong.tensor.dtype).removeprefix("torch.")
    report.known, report.culprit, report.origin = True, wrong.name, origin(wrong)
    report.aliases = aliases(wrong)
    report.headline = f"{wrong.name} is {own}, and the operation needs {goal.removeprefix('torch.')}"
    report.met = [
        Met(o.name, describe(o), o.device, "" if o is wrong else origin(o, False), o is wrong)
        for o in found[:6]
    ]
    story = wrong.story
    whole = story.scope is not None and story.scope.source is not None and story.scope.mine
    alone = whole and isinstance(
        story.scope.source.parents.get(story.node), ast.Assign | ast.keyword | ast.Return
    )
    if story.end in (MADE, NUMPY) and isinstance(story.node, ast.Call) and alone:
        call, scope = story.node, story.scope
        new = f"{scope.text(call)}.to({goal})"
        if flow.is_call_of(call, scope, flow.FACTORIES - {"from_numpy"}):
            new = with_argument(call, scope, "dtype", goal)
        report.mend, report.mend_where = in_statement(scope, call, new), scope.where(call.lineno)
        return
    hops = [hop for hop in story.trail if hop.scope.mine]
    if hops:
        hop = hops[0]
        report.mend, report.mend_before = f"{hop.text} = {hop.text}.to({goal})", True
        report.mend_where = hop.scope.where(hop.line)


def _meeting(scopes: list[Scope], to_long: bool) -> tuple[list[Operand], Operand | None]:
    for scope in reversed(scopes):
        found = [o for o in operands(scope) if o.tensor is not None]
        floats = any(o.tensor.dtype not in (torch.int64, torch.bool) for o in found)
        if len({o.tensor.dtype for o in found}) > 1 or (to_long and floats and scope.mine):
            return found, _odd_one(found, scopes, to_long)
    return [], None


def _odd_one(found: list[Operand], scopes: list[Scope], to_long: bool) -> Operand | None:
    """The operand whose dtype is out of place: never a parameter, if there is another."""
    for operand in found:
        identify(operand, scopes)
    if to_long:
        floats = [o for o in found if o.tensor.dtype not in (torch.int64, torch.bool)]
        return floats[-1] if floats else None
    free = [o for o in found if o.story.held not in (reach.PARAMETER, reach.BUFFER)]
    fixed = {o.tensor.dtype for o in found if o not in free}
    odd = [o for o in free if o.tensor.dtype not in fixed] if fixed else free
    doubles = [o for o in odd if o.tensor.dtype == torch.float64]
    return (doubles or odd or [None])[-1 if not doubles else 0]


def explain_no_dtype(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """A dtype that the device has not, as float64 on Apple's GPU."""
    scope = innermost_mine(scopes)
    if scope is None:
        return
    found = operands(scope) or [o for s in reversed(scopes) for o in operands(s)]
    doubles = [o for o in found if o.tensor is not None and o.tensor.dtype in (torch.float64, torch.float16)]
    call = scope.failing
    device = next(
        (d for d in problem.devices if d != "cpu"), "mps" if "MPS" in problem.message else "the device"
    )
    report.headline = f"{device} has no such dtype"
    if doubles:
        wrong = doubles[0]
        identify(wrong, scopes)
        report.known, report.culprit, report.origin = True, wrong.name, origin(wrong)
        report.met = [Met(wrong.name, describe(wrong), wrong.device, "", True)]
        report.headline = (
            f"{wrong.name} is {str(wrong.tensor.dtype)[6:]}, which {device} does not compute with"
        )
        text = wrong.scope.text(wrong.node)
        report.mend = in_statement(wrong.scope, wrong.node, f"{text}.float()")
        report.mend_where = wrong.scope.where()
    elif isinstance(call, ast.Call):
        report.known, report.culprit = True, scope.text(call)
        report.origin = f"asks for a dtype that {device} has not"
        report.mend = in_statement(scope, call, with_argument(call, scope, "dtype", "torch.float32"))
        report.mend_where = scope.where()
