"""`devlab.explain`: after an error about devices, say which tensor was where, who made it, what to change."""

import contextlib
import re
import sys

from devlab.checks.calls import name_cells_as_in
from devlab.explaining import report as kinds
from devlab.explaining.culprit import named_in, operands
from devlab.explaining.frames import Scope, scopes_of
from devlab.explaining.mismatch import explain_mismatch, innermost_mine, place_of_failure
from devlab.explaining.report import Explanation, Problem, cause_of
from devlab.explaining.special import SPECIAL
from devlab.explaining.told import told

__all__ = ["Explanation", "explain"]
_OUTSIDE = r"index out of range|[Tt]arget -?\d+ is out of bounds|index -?\d+ is out of bounds"


def explain(error: BaseException | None = None) -> Explanation:
    """Show and return an explanation of an error: the last one, or the one given.

    What is known is shown at once. Then changes are tried on the program, run again where nothing that it
    does lasts, and one that runs is shown; Ctrl-C ends the trials. It never raises, never replaces the error,
    and says so when it does not know.

    >>> import torch
    >>> weight = torch.ones(2, requires_grad=True)
    >>> try:
    ...     weight.numpy()
    ... except RuntimeError as error:
    ...     report = explain(error)  # doctest: +ELLIPSIS
    devlab explains: weight carries a gradient graph, and NumPy knows no gradients
      failed in   weight.numpy()   (...)
      ...
    >>> report.culprit
    'weight'
    """
    error = error if error is not None else last_error()
    report = known_of(error)
    if isinstance(error, BaseException) and cause_of(error)[1].kind not in kinds.UNTRIED:
        report.untried = "trying changes …"
    report.show_while(lambda: _propose(report, error))
    return report


def last_error() -> BaseException | None:
    """Return the error being handled, or else the last one that reached the top."""
    return sys.exception() or getattr(sys, "last_value", None) or getattr(sys, "last_exc", None)


def explained(error: BaseException | None) -> Explanation:
    """Return what `explain` shows, without showing it; never raises."""
    report = known_of(error)
    _propose(report, error)
    return report


def _propose(report: Explanation, error: BaseException | None) -> None:
    from devlab.explaining.choice import propose  # `devlab.start()` need not wait for what an error needs

    with name_cells_as_in(error) if isinstance(error, BaseException) else contextlib.nullcontext():
        propose(report, error)


def known_of(error: BaseException | None) -> Explanation:
    """Return what the traceback tells of an error, without a change; never raises."""
    if not isinstance(error, BaseException):
        return Explanation("there is no error to explain yet", note="run what fails, then devlab.explain()")
    try:
        with name_cells_as_in(error) as run:
            report = read(*cause_of(error))
        if run and report.where and f"In[{run}]" not in report.where:
            report.where += f", run by Cell In[{run}]"
        return report
    except Exception as own:  # an instrument that fails would hide the learner's own error
        return Explanation(
            "I do not know this one",
            operation=_message(error),
            note=f"my reading of it failed ({type(own).__name__}: {own}); the error itself is unchanged",
        )


def _message(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def read(error: BaseException, problem: Problem) -> Explanation:
    """Return what can be said about an error."""
    scopes = scopes_of(error)
    scopes += told(scopes, problem.message)
    report = Explanation(problem.kind or "this error is not about devices, as far as I can see")
    place_of_failure(report, scopes)
    if problem.kind in SPECIAL:
        SPECIAL[problem.kind](report, scopes, problem)
    elif problem.kind in (kinds.MISMATCH, kinds.INDEX) or _devices_differ(scopes, problem):
        report.headline = kinds.MISMATCH if not problem.kind else report.headline
        explain_mismatch(report, scopes, problem)
    if not (report.known or report.note):
        _unknown(report, scopes, problem)
    return report


def _devices_differ(scopes: list[Scope], problem: Problem) -> bool:
    """Tell whether two devices met although the message, about some backend, does not say so."""
    about = re.search(r"device|backend|storage|cuda|kernel", problem.message, re.IGNORECASE)
    return bool(about) and any(len({o.device for o in operands(s)} - {""}) > 1 for s in scopes[-2:])


def _unknown(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    if not problem.kind and re.search(_OUTSIDE, problem.message):
        report.headline = "an index or a label is outside of what it points into; devices have no part in it"
        report.note = "compare its `.min()` and `.max()` with the number of rows, embeddings or classes"
        return
    if not problem.kind and report.headline.startswith("this error"):
        report.note = "devlab.explain reads errors about devices, dtypes and missing operators"
        return
    if problem.kind == kinds.AMP:
        report.note = "the message itself says what to use instead"
        return
    report.headline = f"{problem.kind or kinds.MISMATCH}, but I do not know which tensor is to blame"
    inner = innermost_mine(scopes)
    if inner is not None and inner.source is not None and inner.failing is not None and len(report.met) < 2:
        report.met = list(dict.fromkeys(named_in(inner.failing, inner))) or report.met
    if inner is not None and inner.source is None:
        report.note = "the source of the code that failed cannot be read here"
    elif "from user code" in problem.message:
        report.note = "compiled code leaves nothing to read here; run it once without torch.compile"
    elif inner is not None and ".backward(" in report.operation:
        report.note = (
            "it happened in the backward pass; run it again inside "
            "torch.autograd.set_detect_anomaly(True), which names the forward operation"
        )
    else:
        report.note = "print the device of each tensor in that line, and look for the odd one out"
