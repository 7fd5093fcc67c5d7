"""A limit for each call of a learner's code: an endless loop ends in a verdict, not in a hang.

A thread beside the judgement raises `TooLong` in the learner's code, again and again until the call has
ended, because code that catches everything catches it, too. What waits inside of C, as the `get` of an empty
queue does, does not see it; in the main thread of POSIX systems an interrupt ends that wait.
"""

import contextlib
import ctypes
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

# A right answer takes milliseconds, on a slow machine a second. The first limit counts seconds of computing,
# the second seconds of the clock on the wall, which goes on while other programs compute. Both begin anew
# where a module was imported: the first optimizer that is made imports some eight hundred.
SECONDS = 10.0
ON_THE_WALL = 30.0
SPEAKS = 3.0  # after so many seconds of computing, or six times as many on the wall, a learner is told
STEP = 0.05
PAUSE = 0.4  # between two exceptions, so that the second does not interrupt the clean-up after the first
set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc

_active: "_Watcher | None" = None


class TooLong(BaseException):
    """The learner's code was still running after `seconds`; no `except Exception` keeps it."""

    def __init__(self, seconds: float = 0.0):
        super().__init__(f"still running after {seconds:g} seconds")
        self.seconds = seconds


@contextlib.contextmanager
def watch_calls(speak: Callable[[], None] | None = None) -> Iterator[None]:
    """Let `limited` end calls that take too long, in a block, of this thread.

    `speak` is called once, from another thread, when a call has computed for SPEAKS seconds; never after the
    block. A call that waits, as for other processes, may take longer.
    """
    global _active
    before, watcher = _active, _Watcher(speak)
    with _interruptible():
        _active = watcher
        with contextlib.suppress(RuntimeError):  # the program may have all the threads that the system allows
            watcher.start()
        try:
            yield
        finally:
            _active = before
            watcher.over.set()
            watcher.disarm()
            if speak and watcher.ident:
                watcher.join()


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let an interrupt arrive in a block, also where the program ignores it, as in the background."""
    main = threading.current_thread() is threading.main_thread()
    ignored = main and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        if ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Run a learner's code in a block; raises TooLong there when its time is over, within `watch_calls`."""
    watcher = _active
    if watcher is None or watcher.target != threading.get_ident():
        yield
        return
    around, began = watcher.call, time.monotonic()  # of a call around this call
    watcher.acted = False
    watcher.call = Budget()
    try:
        yield
    except BaseException as error:
        if watcher.acted:  # raised in the middle of other code, TooLong may come out as another exception
            seconds = round(time.monotonic() - began, 1)
            raise TooLong(seconds).with_traceback(error.__traceback__) from None
        raise
    finally:
        watcher.disarm()
        watcher.call = around


def disarm() -> None:
    """Let nothing be raised any more in the block of `watch_calls`: the call that took too long has ended."""
    if _active:
        _active.disarm()


class Budget:
    """The time that is left to a call."""

    def __init__(self):
        self.imported = len(sys.modules)
        self._computed = time.process_time() + SECONDS
        self._wall = time.monotonic() + ON_THE_WALL

    def overdue(self) -> float:
        """Return the seconds since the time was over; negative while some is left."""
        return max(time.process_time() - self._computed, time.monotonic() - self._wall)

    def takes_long(self) -> bool:
        """Tell whether a learner should hear that the call still runs."""
        computed = time.process_time() - self._computed + SECONDS
        return computed > SPEAKS or time.monotonic() - self._wall + ON_THE_WALL > 6 * SPEAKS


class _Watcher(threading.Thread):
    """Looks every STEP whether the call under way has to end."""

    def __init__(self, speak: Callable[[], None] | None):
        super().__init__(name="devlab's limit for a call", daemon=True)
        self.speak = speak
        self.target = threading.get_ident()
        self.over = threading.Event()
        self.call: Budget | None = None
        self.acted = self._interrupted = False
        self._acting = threading.Lock()

    def run(self) -> None:
        """Wait for the end, and end calls that are over their time."""
        pause = STEP
        while not self.over.wait(pause):
            with self._acting:
                pause = STEP
                if self.call and self.call.imported != len(sys.modules):
                    self.call = Budget()
                elif self.call and self.call.overdue() > 0:
                    self._end()
                    pause = PAUSE
            if self.speak and (call := self.call) and call.takes_long():
                self.speak, speak = None, self.speak
                speak()

    def _end(self) -> None:
        """Raise TooLong in the call; where that has not helped, interrupt what it waits for, in turns."""
        interrupts, self.acted = self.acted and not self._interrupted, True
        self._interrupted = interrupts
        if interrupts and self._may_interrupt():
            with contextlib.suppress(OSError):  # a sandbox may refuse the signal
                signal.pthread_kill(self.target, signal.SIGINT)
        else:
            set_exception(ctypes.c_ulong(self.target), ctypes.py_object(TooLong))

    def _may_interrupt(self) -> bool:
        """Tell whether an interrupt would raise KeyboardInterrupt where the call runs."""
        handled = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        return handled and hasattr(signal, "pthread_kill") and self.target == threading.main_thread().ident

    def disarm(self) -> None:
        """Let nothing be raised any more, nor what was to be raised already.

        An exception that is taken back leaves the interpreter looking for it. CPython 3.11 then stays for
        ever at the entrance of a function where a profile or a trace is on (`DO_TRACING` in its
        Python/ceval.c). So TooLong is raised here a last time, and nothing written in Python runs before it.
        """
        ended = False
        while True:
            try:
                with self._acting:
                    self.call = None
                if self.acted and not ended:  # this is rare, and the next lines take as long as a short call
                    set_exception(ctypes.c_ulong(self.target), None)
                    time.sleep(0)  # an interrupt that has come already is raised here
                    ended = True
                    if threading.get_ident() == self.target:
                        set_exception(ctypes.c_ulong(self.target), ctypes.py_object(TooLong))
                        time.sleep(0)
                return
            except TooLong:
                continue
            except KeyboardInterrupt:
                if not self.acted:
                    raise
