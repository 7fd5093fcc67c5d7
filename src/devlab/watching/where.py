"""Which line of the learner's code is running now: cheap enough to ask at every event."""

import sys

from devlab.checks.calls import is_learners
from devlab.watching.events import NOWHERE, Line

_known: dict[str, bool] = {}


def learners_line(owner: int | None = None) -> Line:
    """Return the innermost running line of the learner's code.

    The gradient engine has threads of its own, with no line of the learner's on them; `owner` is the
    identity of the thread to look at then, which waits inside `backward()`.
    """
    line = _innermost(sys._getframe(1))
    if line is NOWHERE and owner is not None:
        line = _innermost(sys._current_frames().get(owner))
    return line


def _innermost(frame) -> Line:
    while frame is not None:
        filename = frame.f_code.co_filename
        learners = _known.get(filename)
        if learners is None:
            learners = _known[filename] = is_learners(filename)
        if learners:
            return Line(filename, frame.f_lineno)
        frame = frame.f_back
    return NOWHERE
