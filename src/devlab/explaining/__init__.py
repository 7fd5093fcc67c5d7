"""`devlab.explain`: after an error about devices, say which tensor was where, who made it, what to change."""

import sys

from devlab.explaining.error import problem_of
from devlab.explaining.read import read
from devlab.explaining.report import Explanation

__all__ = ["Explanation", "explain"]


def explain(error: BaseException | None = None) -> Explanation:
    """Show and return an explanation of an error: the last one, or the one given.

    It never raises, never replaces the error, and says so when it does not know.

    >>> import torch
    >>> weight = torch.ones(2, requires_grad=True)
    >>> try:
    ...     weight.numpy()
    ... except RuntimeError as error:
    ...     report = explain(error)  # doctest: +ELLIPSIS
    devlab explains: weight carries a gradient graph, and NumPy knows no gradients
      failed in   weight.numpy()   (...)
      ...
    >>> report.mend
    'weight.detach().cpu().numpy()'
    """
    report = explained(error if error is not None else last_error())
    report.show()
    return report


def last_error() -> BaseException | None:
    """Return the error being handled, or else the last one that reached the top."""
    return sys.exception() or getattr(sys, "last_value", None) or getattr(sys, "last_exc", None)


def explained(error: BaseException | None) -> Explanation:
    """Return what `explain` shows, without showing it; never raises."""
    if not isinstance(error, BaseException):
        return Explanation("there is no error to explain yet", note="run what fails, then devlab.explain()")
    try:
        return read(error, problem_of(error))
    except Exception as own:  # an instrument that fails would hide the learner's own error
        return Explanation(
            "I do not know this one",
            operation=_message(error),
            note=f"my reading of it failed ({type(own).__name__}: {own}); the error itself is unchanged",
        )


def _message(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
