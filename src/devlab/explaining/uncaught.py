"""Errors after `devlab.start()`: explained where they reach the top, without the simulator's own frames."""

import os
import sys
import types

import torch

from devlab.checks.calls import PACKAGE
from devlab.explaining import explain
from devlab.explaining.report import worth_explaining
from devlab.panel import notebook_shell


def explain_errors(home: torch.device) -> None:
    """Explain from now on, in a notebook, each error about devices under its traceback.

    Where `home` is simulated, uncaught errors are shown without the simulator's own frames, in a notebook or
    not.
    """
    if home.type == "sim":
        shorten_uncaught()
    shell = notebook_shell()
    if shell is not None and _after_cell not in shell.events.callbacks["post_run_cell"]:
        shell.events.register("post_run_cell", _after_cell)


def _after_cell(result) -> None:
    """Show an explanation after the traceback that IPython has shown; whatever goes wrong stays silent."""
    try:
        error = result.error_in_exec
        if error is not None and worth_explaining(error):
            explain(error)
    except Exception:  # the learner's own error is there, and nothing may come between
        return


_OWN = tuple(str(PACKAGE / part) for part in ("sim", "watching"))
_DISPATCHER = os.path.join(torch.__path__[0], "_ops.py")
_LEFT_OUT = "devlab's own frames are left out; {} shows them."
_SETTING = "DEVLAB_TRACEBACK"


def without_simulator(trace: types.TracebackType | None) -> types.TracebackType | None:
    """Return a traceback without the simulator's frames; the very same one if it has none of them."""
    kept, left_out = [], False
    entry = trace
    while entry is not None:
        filename = entry.tb_frame.f_code.co_filename
        inside = filename.startswith(_OWN) or (left_out and filename == _DISPATCHER)
        left_out = left_out or inside
        if not inside:
            kept.append(entry)
        entry = entry.tb_next
    if not (left_out and kept):
        return trace
    short = None
    for entry in reversed(kept):
        short = types.TracebackType(short, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return short


def shorten_uncaught() -> None:
    """Show uncaught errors from now on without the simulator's frames, in a notebook or a script.

    Errors that are chained or grouped, and all that did not pass through the simulator, are shown as ever.
    """
    shell = notebook_shell()
    if shell is not None:
        if not shell.custom_exceptions:
            shell.set_custom_exc((Exception,), _in_notebook)
    elif sys.excepthook is not _in_script:
        _previous[:] = [sys.excepthook]
        sys.excepthook = _in_script


_previous: list = []


def shortened(error: BaseException, trace: types.TracebackType | None) -> types.TracebackType | None:
    """Return an error's traceback as a learner is shown it; the very same one where nothing is left out."""
    chained = error.__cause__ is not None or (
        error.__context__ is not None and not error.__suppress_context__
    )
    whole = os.environ.get(_SETTING) == "whole" or chained
    single = isinstance(error, Exception) and not isinstance(error, ExceptionGroup | SyntaxError)
    return without_simulator(trace) if single and not whole else trace


def _in_notebook(shell, kind, error, trace, tb_offset=None) -> None:
    short = shortened(error, trace)
    shell.showtraceback((kind, error, short), tb_offset=tb_offset)
    sys.last_traceback = trace  # what `%tb` shows
    if short is not trace:
        print(_LEFT_OUT.format("`%tb`"))


def _in_script(kind, error, trace) -> None:
    short = shortened(error, trace)
    if short is trace:
        _previous[0](kind, error, trace)
        return
    error.__traceback__ = short
    try:
        _previous[0](kind, error, short)
        print(_LEFT_OUT.format(f"{_SETTING}=whole in the environment"), file=sys.stderr)
    finally:
        error.__traceback__ = trace
