"""Errors that the device noticed, and of which the host learns at a line that has no part in them."""

import re

from devlab.explaining.frames import Scope
from devlab.explaining.report import Explanation, Problem

_LOOK = (
    "no single line mends this: compare `.min()` and `.max()` of the indices or labels with the number of "
    "rows, embeddings or classes"
)
_INDICES = r"[Ii]nd(ex|ices)|idx|INDICES|Target|target out of range"
_OF_ANOTHER = "no single line mends this: print the `.min()` and `.max()` of what the culprit is given"
_ON_CUDA = (
    "no single line mends this: an earlier line launched what failed, most likely with an index or a label "
    "out of range. This process cannot use the device any more: restart the kernel. Then run the step on "
    "the CPU, or set CUDA_LAUNCH_BLOCKING=1 before Python starts: the error then comes at its own line"
)


def explain_late(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """An index, a label or a probability was out of range when the device looked at it."""
    failure = problem.failure
    if not any(scope.mine for scope in scopes):  # nothing of the learner's waited: the end of a test did
        report.operation, report.where = "no line of yours: the device was asked when the code had ended", ""
    if failure is None:
        report.note = _ON_CUDA
        return
    operator = failure.operator.removeprefix("aten::").partition(".")[0]
    place, _, source = problem.began.partition(":  ")
    report.known = bool(place)
    report.culprit = source or operator
    report.origin = f"{place or 'some code'} launched `{operator}` and went on; the device: {failure.reason}"
    report.headline = "the device found a value out of range"
    report.note = _LOOK if re.search(_INDICES, failure.reason) else _OF_ANOTHER
    if place and report.where.startswith(place):  # each launch waits
        report.origin = f"`{operator}`: {failure.reason}"
    else:
        report.headline += ", and the host learns of it only here"
        report.otherwise = (
            "on a real GPU, CUDA_LAUNCH_BLOCKING=1, set before Python starts, or the same step on the CPU "
            "leads to the culprit"
        )
    if not failure.once:
        report.note += "; then `devlab.sim.reset()`, where a CUDA device needs a new process"
