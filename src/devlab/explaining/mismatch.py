"""Two devices in one operation: which tensor is in the wrong place, and what brings it to the right one."""

import torch

from devlab.checks.describe import SHORT_DTYPES
from devlab.explaining import error as kinds
from devlab.explaining import flow, modules, reach
from devlab.explaining.edit import moved
from devlab.explaining.error import Problem
from devlab.explaining.meeting import Operand, culprit, find_meeting, raises
from devlab.explaining.mend import mend
from devlab.explaining.report import Explanation, Met
from devlab.explaining.scope import Scope
from devlab.explaining.story import ARGUMENT, COMPUTED, MADE, MOVED, UNKNOWN
from devlab.explaining.telling import aliases, identify, origin

_MOST_SHOWN = 6


def innermost_mine(scopes: list[Scope]) -> Scope | None:
    """Return the learner's own frame that is nearest to the error."""
    mine = [scope for scope in reversed(scopes) if scope.mine]
    calm = [scope for scope in mine if not raises(scope)]
    return next(iter(calm or mine or scopes[::-1]), None)


def describe(operand: Operand) -> str:
    """Return the dtype and shape of an operand, if the tensor is still there."""
    tensor = operand.tensor
    if tensor is None:
        return "no longer there"
    dtype = SHORT_DTYPES.get(tensor.dtype, str(tensor.dtype).removeprefix("torch."))
    return f"{dtype}[{','.join(map(str, tensor.shape))}]"


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
    wrong = culprit(found, problem)
    for operand in found:
        if operand.device:
            identify(operand, scopes)
    if wrong is None:
        show_operands(report, found, None)
        return
    home = home_of(wrong, found)
    index = _index(found, wrong, problem)
    if index is not None:
        show_operands(report, found, index)
        _index_to_cpu(report, index, wrong, home)
        return
    report.known, report.culprit, report.origin = True, wrong.name, origin(wrong)
    report.aliases = aliases(wrong)
    report.headline = f"{wrong.name} is on {wrong.device}, and the operation needs it on {home}"
    anew = wrong.story.held == reach.BUFFER and wrong.story.write is not None
    by_path = wrong.story.path is not None and wrong.story.path.steps and not _state(wrong)
    registered = modules.held_by_module(wrong) or by_path
    finding = modules.stayed_behind(wrong, scopes, home) if registered and not anew else None
    if finding is not None:
        report.culprit, report.origin, change = finding.name, finding.origin, finding.mend
        if wrong.name not in (finding.name, ""):
            report.aliases = [wrong.name]
        report.headline = f"{finding.name} is on {wrong.device}, and the operation needs it on {home}"
    else:
        change = mend(wrong, home)
    show_operands(report, found, wrong)
    if change is not None:
        report.otherwise = change.otherwise or _without_the_library(wrong, home)
        report.mend, report.mend_where, report.mend_before = change.code, change.where, change.before
    if alike := [name for name in _alike(wrong) if f"{name}.to(" not in report.mend]:
        report.note = f"on {wrong.device} too, and next in line: {', '.join(alike)}"
    if problem.kind == kinds.INDEX:
        others = [o for o in found if o is not wrong and o.device and not flow.same(o.device, wrong.device)]
        if others and wrong.device == "cpu":
            report.otherwise = f"{others[0].name}.cpu(), if {wrong.name} is to stay on the CPU"


def _without_the_library(wrong: Operand, home: str) -> str:
    """Return what to write in one's own code where the code to change is a library's."""
    scope = wrong.story.write_scope
    if scope is None or scope.mine or wrong.story.path is None:
        return ""
    name = wrong.story.path.text
    return f'{name} = {name}.to("{home}") after the move, where the library is not yours to change'


def _alike(wrong: Operand) -> list[str]:
    """Return the other plain attributes of the culprit's owner that are as misplaced as it is."""
    story = wrong.story
    if story.held != reach.ATTRIBUTE or not hasattr(story.owner, "__dict__"):
        return []
    base = next(
        (hop.text.rpartition(".")[0] for hop in story.trail if hop.text.endswith("." + story.attr)), ""
    )
    return [
        f"{base}.{name}" if base else name
        for name, value in vars(story.owner).items()
        if isinstance(value, torch.Tensor)
        and name not in (story.attr, "_param")
        and str(value.device) == wrong.device
    ][:4]


def _state(operand: Operand) -> bool:
    return any(step.kind == reach.STATE for step in operand.story.path.steps)


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


def _index_to_cpu(report: Explanation, index: Operand, table: Operand, home: str) -> None:
    report.known, report.culprit, report.origin = True, index.name, origin(index)
    report.aliases = aliases(index)
    report.headline = f"{index.name} is on {index.device} and indexes {table.name}, which is on the CPU"
    scope = index.scope
    report.mend = f"{table.name}[{index.name}.cpu()]"
    report.mend_where = scope.where()
    report.otherwise = f"{moved(table.text, home)}, if {table.name} is used there often"
