"""A limit for each call of a learner's code: an endless loop ends in a verdict, not in a hang.

A thread beside the judgement raises `TooLong` in the learner's code, again and again until the call has
ended, because code that catches everything catches it, too. What waits inside of C, as the `get` of an empty
queue does, does not see it; in the main thread of POSIX systems an interrupt ends that wait.
"""

import contextlib
import ctypes
import signal
import threading
import time
from collections.abc import Iterator

# Right answers take milliseconds, on a slow machine with a busy disk a second.
SECONDS = 10.0
STEP = 0.05
INTERRUPT = 1.0  # seconds after which a wait inside of C is interrupted

_active: "_Watcher | None" = None


class TooLong(BaseException):
    """The learner's code was still running when its time was over; no `except Exception` keeps it."""


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Let `limited` end calls that take too long, in a block, of this thread."""
    global _active
    before, watcher = _active, _Watcher()
    _active = watcher
    watcher.start()
    try:
        yield
    finally:
        _active = before
        watcher.over.set()
        watcher.disarm()


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Run a learner's code in a block; raises TooLong there when SECONDS are over, if somebody watches."""
    watcher = _active
    if watcher is None or watcher.target != threading.get_ident():
        yield
        return
    around = watcher.deadline  # of a call that this one is a part of
    watcher.acted = False
    watcher.deadline = time.monotonic() + SECONDS
    try:
        yield
    except BaseException as error:
        if watcher.acted:  # what comes of an exception in the middle of anything may be another one
            raise TooLong().with_traceback(error.__traceback__) from None
        raise
    finally:
        watcher.disarm()
        watcher.deadline = around


class _Watcher(threading.Thread):
    """Looks every STEP whether the call under way has to end."""

    def __init__(self):
        super().__init__(name="devlab's limit for a call", daemon=True)
        self.target = threading.get_ident()
        self.over = threading.Event()
        self.deadline: float | None = None
        self.acted = False
        self._acting = threading.Lock()

    def run(self) -> None:
        """Wait for the end, and end calls that are over their time."""
        while not self.over.wait(STEP):
            late = time.monotonic() - (self.deadline or float("inf"))
            if late > 0:
                with self._acting:
                    if self.deadline:
                        self._end(late)

    def _end(self, late: float) -> None:
        self.acted = True
        if late > INTERRUPT and hasattr(signal, "pthread_kill") and self._may_interrupt():
            signal.pthread_kill(self.target, signal.SIGINT)
        else:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.target), ctypes.py_object(TooLong))

    def _may_interrupt(self) -> bool:
        """Tell whether an interrupt would raise KeyboardInterrupt where the call runs."""
        handled = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        return handled and self.target == threading.main_thread().ident

    def disarm(self) -> None:
        """Let nothing be raised any more, nor what was to be raised already."""
        while True:
            try:
                with self._acting:
                    self.deadline = None
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.target), None)
                time.sleep(0)  # an interrupt that has come already is raised here
                return
            except TooLong:
                continue
            except KeyboardInterrupt:
                if not self.acted:
                    raise
