"""Errors raised in a backward pass, brought home: PyTorch's engine ends the process over some of them.

The engine restores its device while such an error is on its way, which for a device written in Python calls
Python, and Python cannot be called with an error pending. So the guard that is called then, in `register`,
takes the error, lets the engine unwind, and it is raised again when the engine has returned.
"""

import threading

_waiting = threading.local()


def wait(error: BaseException) -> None:
    """Keep an error until the backward pass has ended; the first one counts."""
    _waiting.error = getattr(_waiting, "error", None) or error


def taken() -> BaseException | None:
    """Return the error that waits, if one does, and let it wait no longer."""
    error, _waiting.error = getattr(_waiting, "error", None), None
    return error
