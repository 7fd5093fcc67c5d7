"""A generator of random numbers that belongs to another device than the numbers."""

import ast
import re

import torch

from devlab.explaining import flow
from devlab.explaining.blame import blame
from devlab.explaining.edit import in_statement, reference
from devlab.explaining.error import Problem
from devlab.explaining.meeting import Operand
from devlab.explaining.mismatch import innermost_mine
from devlab.explaining.origins import follow
from devlab.explaining.report import Explanation, Met
from devlab.explaining.scope import Scope
from devlab.explaining.source import own_nodes


def explain_generator(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """A generator of random numbers on another device than the numbers."""
    wanted = re.search(r"Expected a '?(\w+)'? device type for generator but found '?(\w+)", problem.message)
    wants, has = (wanted[1], wanted[2]) if wanted else ("", "")
    scope = innermost_mine(scopes)
    if scope is None:
        return
    loading = any("utils/data" in s.filename.replace("\\", "/") for s in scopes)
    node, home = _generator_expression(scopes)
    report.known = True
    if node is not None:
        operand = Operand(node, home, None, has)
        blame(
            report,
            scopes,
            operand,
            "the generator {} is on " + f"{has}, and the numbers are drawn on {wants}",
        )
        value = home.evaluate(node)
        report.met = [Met(operand.name, "Generator", str(getattr(value, "device", has)), "", True)]
    else:
        report.culprit, report.origin = "generator", f"the loader's own generator, on {has}"
        report.headline = f"a generator on {has}, while the numbers are drawn on {wants}"
    made = _maker(report, scopes, node, home)
    at = (made[1], made[0].lineno) if made is not None else (scope, scope.line)
    device = reference(*at, _device_of_kind(wants, scopes))
    new = "torch.Generator()" if wants == "cpu" else f"torch.Generator(device={device})"
    if made is not None and not (loading and wants != "cpu"):
        call, inner = made
        report.mend, report.mend_where = in_statement(inner, call, new) or new, inner.where(call.lineno)
    else:
        report.mend = f"generator={new}"
        report.mend_where = "the DataLoader or sampler" if loading else scope.where()
    if loading and wants == "cpu":
        report.note = "a loader draws its order on the CPU, so its generator stays there"
    elif loading:
        report.note = "the default device is an accelerator, so the loader draws its order there"


def _device_of_kind(kind: str, scopes: list[Scope]) -> str:
    """Return the device of that kind that the failing code works on, with its index where one is seen."""
    return next((d for s in reversed(scopes) for d in _devices_in(s) if d.partition(":")[0] == kind), kind)


def _devices_in(scope: Scope) -> list[str]:
    return [str(v.device) for v in scope.values.values() if isinstance(v, torch.Tensor)]


def _generator_expression(scopes: list[Scope]) -> tuple[ast.expr | None, Scope | None]:
    for scope in reversed(scopes):
        if scope.mine and isinstance(scope.failing, ast.Call):
            given = flow.keyword(scope.failing, "generator")
            if given is not None:
                return given, scope
            for node in scope.failing.args:
                if isinstance(scope.evaluate(node), torch.Generator):
                    return node, scope
    for scope in reversed(scopes):
        if scope.mine and scope.node is not None:
            for node in own_nodes(scope.node):
                if isinstance(node, ast.Call) and (given := flow.keyword(node, "generator")) is not None:
                    return given, scope
    return None, None


def _maker(report: Explanation, scopes: list[Scope], node, home: Scope | None):
    if node is None:
        return None
    story = follow(node, home, report.met[0].device)
    made = flow.is_call_of(story.node, story.scope, frozenset({"Generator"})) if story.scope else ""
    if not made and isinstance(story.node, ast.Call) and story.scope:
        inner = [n for n in ast.walk(story.node) if flow.is_call_of(n, story.scope, frozenset({"Generator"}))]
        return (inner[0], story.scope) if inner else None
    return (story.node, story.scope) if made else None
