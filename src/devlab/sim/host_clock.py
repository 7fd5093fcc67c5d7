"""The host's clocks in Python's own modules, which can be made to tell the simulated time."""

import contextlib
import datetime
import inspect
import time
import timeit
import types
from collections.abc import Iterator
from unittest import mock

from devlab.sim import clock

CLOCKS = ("perf_counter", "time", "monotonic", "process_time", "thread_time", "clock_gettime")


class SimulatedDate(datetime.datetime):
    """A date whose `now` is the simulated time, counted from 1970."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
        """Return the simulated time."""
        return cls.fromtimestamp(clock.now(), tz)

    @classmethod
    def utcnow(cls) -> datetime.datetime:
        """Return the simulated time."""
        return cls.now()


@contextlib.contextmanager
def tell_simulated_time(function: types.FunctionType | None) -> Iterator[None]:
    """Let the host's clocks tell the simulated time, under each name that a function's module has for them.

    A clock may also be a parameter's default or in a closure, in timeit as in the function and the functions
    and methods beside it. A decorator from elsewhere, such as `torch.no_grad`, does not hide a function.

    >>> with tell_simulated_time(None):
    ...     time.perf_counter() == time.perf_counter() == clock.now()
    True
    """
    clocks = {name: lambda *_: clock.now() for name in CLOCKS if hasattr(time, name)}  # Windows lacks some
    clocks |= {f"{name}_ns": lambda *_: round(clock.now() * 1e9) for name in clocks}
    stand_ins = {getattr(time, name): stand_in for name, stand_in in clocks.items()}
    stand_ins[datetime.datetime] = SimulatedDate

    def other(held: object) -> object:
        try:
            return stand_ins.get(held, held) if callable(held) else held
        except TypeError:  # what cannot be hashed is no clock
            return held

    theirs = getattr(function, "__globals__", {})
    found = [inspect.unwrap(one) if type(one) is types.FunctionType else one for one in theirs.values()]
    found += [one for held in found if isinstance(held, type) for one in vars(held).values()]
    functions = [one for one in (function, *found) if type(one) is types.FunctionType]
    beside = [one for one in functions if one is function or one.__globals__ is theirs]
    replaced = {name: other(held) for name, held in theirs.items() if other(held) is not held}
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.multiple(time, **clocks))
        stack.enter_context(mock.patch.object(timeit, "default_timer", clock.now))
        stack.enter_context(mock.patch.object(datetime, "datetime", SimulatedDate))
        stack.enter_context(mock.patch.dict(theirs, replaced))
        for changed in (timeit.timeit, timeit.repeat, timeit.Timer.__init__, *beside):
            values, named = changed.__defaults__ or (), changed.__kwdefaults__ or {}
            if any(other(one) is not one for one in (*values, *named.values())):
                stack.callback(setattr, changed, "__defaults__", changed.__defaults__)
                stack.callback(setattr, changed, "__kwdefaults__", changed.__kwdefaults__)
                changed.__defaults__ = tuple(map(other, values))
                changed.__kwdefaults__ = {name: other(one) for name, one in named.items()}
            for cell in changed.__closure__ or ():
                with contextlib.suppress(ValueError):  # a cell that holds nothing yet
                    held = cell.cell_contents
                    stack.callback(setattr, cell, "cell_contents", held)
                    cell.cell_contents = other(held)
        yield
