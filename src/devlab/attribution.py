"""Warnings name a line that a learner can change, where one of devlab's functions stands in between.

A warning of PyTorch's C++ names the line of Python that runs. While devlab simulates an accelerator, that
line is devlab's: a replaced `torch.tensor` calls the original one.
"""

import sys
import warnings
from pathlib import Path

_OURS = str(Path(__file__).parent)
_SHOW = "_showwarnmsg"  # Python calls it with each warning that the filters let pass


def point_at_callers() -> None:
    """Let each warning that names a line of devlab's name the nearest line outside, from now on.

    Nothing is looked at until a warning is to be shown. Python's filters are then asked again, about that
    line.

    >>> point_at_callers()
    """
    show = getattr(warnings, _SHOW, None)
    if show is None or hasattr(show, "points_at_callers"):
        return

    def show_at_caller(said: warnings.WarningMessage) -> None:
        frame = sys._getframe(1) if said.filename.startswith(_OURS) else None
        while frame is not None and frame.f_code.co_filename.startswith(_OURS):
            # Python has noted that this line warned; the line may have to warn again, for another caller.
            frame.f_globals.get("__warningregistry__", {}).clear()
            frame = frame.f_back
        if frame is None:
            show(said)
            return
        warnings.onceregistry.pop((str(said.message), said.category), None)
        names, place = frame.f_globals, (frame.f_code.co_filename, frame.f_lineno)
        noted = names.setdefault("__warningregistry__", {})
        warnings.warn_explicit(
            said.message, said.category, *place, names.get("__name__"), noted, source=said.source
        )

    show_at_caller.points_at_callers = True
    setattr(warnings, _SHOW, show_at_caller)
