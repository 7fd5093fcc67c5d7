"""Making one operand the culprit of a report, with the change to its own expression."""

import ast
from collections.abc import Callable

from devlab.explaining.edit import in_statement
from devlab.explaining.meeting import Operand, operands
from devlab.explaining.mismatch import describe
from devlab.explaining.report import Explanation, Met
from devlab.explaining.scope import Scope
from devlab.explaining.story import Hop
from devlab.explaining.telling import aliases, identify, origin
from devlab.explaining.uses import rebindable


def blame(report: Explanation, scopes: list[Scope], operand: Operand, headline: str) -> None:
    """Make an operand the culprit of a report."""
    identify(operand, scopes)
    report.known = True
    report.culprit, report.origin, report.aliases = operand.name, origin(operand), aliases(operand)
    report.met = [Met(operand.name, describe(operand), operand.device, "", True)]
    report.headline = headline.format(operand.name)


def suspects(scopes: list[Scope], fits: Callable[[Operand], bool]) -> list[Operand]:
    """Return the operands that fit, of the learner's innermost frame that has any; else of any frame."""
    for mine in (True, False):
        for scope in reversed(scopes):
            if scope.mine is mine and (found := [o for o in operands(scope) if fits(o)]):
                return found
    return []


def change(report: Explanation, operand: Operand, new: str, otherwise: str = "", *more: tuple) -> None:
    """Make a change to an operand's own expression, with `more` ones to its line, the one to make."""
    scope, node = operand.scope, operand.node
    report.mend = in_statement(scope, node, new, *more)
    report.mend_where, report.otherwise = scope.where(), otherwise
    if not report.mend and isinstance(node, ast.Name) and rebindable(Hop(node.id, scope, scope.line, node)):
        report.mend, report.mend_before = f"{node.id} = {new}", True
