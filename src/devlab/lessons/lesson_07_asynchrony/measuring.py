"""One measurement by an answer, of work whose length is known, and what its result says."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from unittest import mock

import torch

from devlab.checks import expect
from devlab.lessons.lesson_07_asynchrony import Work, keep_busy, real_length, simulated_clock
from devlab.watching import timing

LENGTH = 1e-3  # seconds of one call
SLOW = 20e-3  # seconds of a call that should not count


def timed(
    trial,
    seconds: Callable[[int], float],
    repeats: tuple = (),
    backlog: float = 0.0,
    noted: Callable[[Work], contextlib.AbstractContextManager] = contextlib.nullcontext,
) -> tuple[float, Work]:
    """Return the answer's time of work whose calls take `seconds(call)`, and that work.

    `repeats` are further arguments; `noted(work)` is entered around the call of the answer.
    """
    work = Work(trial.device, seconds)
    if trial.device.type != "cpu":
        torch.accelerator.synchronize(trial.device)  # what an earlier call left behind is not judged here
    if backlog and trial.device.type == "sim":
        keep_busy(trial.device, backlog)
    clock = simulated_clock(trial.answer) if modelled(trial) else contextlib.nullcontext()
    with _written_by_hand(), clock, noted(work):
        got = trial.call(work, trial.device, *repeats)
    expect.kind(got, float, "a float", "the time")
    return got, work


def modelled(trial) -> bool:
    """Tell whether the length of the work is known: a real device's is measured."""
    return trial.device.type in ("cpu", "sim")


def length_of(trial, seconds: float) -> float:
    """Return how long work of `seconds` takes on the trial's device."""
    return seconds if modelled(trial) else real_length(trial.device, seconds)


@contextlib.contextmanager
def _written_by_hand() -> Iterator[None]:
    """Expect that the answer measures by itself, and leaves the course's own tool alone."""
    with mock.patch.object(timing, "_sampled", wraps=timing._sampled) as tool:
        yield
    if tool.called:
        headline = "devlab.time_op did the work, and the task is to write what it does"
        expect.fail(headline, "your own warm-up, waits and clock", "a call of devlab.time_op")


LAUNCH = "that is the time of the launch: the clock was stopped before the work was done"
NOT_TIMED = "hardly any time: is fn called between two looks at a clock such as time.perf_counter?"
UNITS = {"milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}


def expect_seconds(
    trial,
    got: float,
    wanted: float,
    otherwise: str,
    known: Mapping[str, float] | None = None,
    plain: bool = False,
) -> None:
    """Expect a time; say what was measured instead, where the number tells it, else `otherwise`.

    `known` holds the times that mistakes give; on a real device, whose times vary, they are not looked at.
    `plain` says that `otherwise` is known to be the cause, whatever the number is.
    """
    loose = 1.05 if modelled(trial) else 3.0
    if wanted / loose <= got <= wanted * loose:
        return
    units = [unit for unit, many in UNITS.items() if wanted / loose <= got / many <= wanted * loose]
    found = expect.number(got, known or {}, within=0.01) if modelled(trial) else ""
    headline = found or otherwise
    if not plain and got < 0:
        headline = "the time is negative: which reading of the clock came first?"
    elif units:
        headline = f"the time is in {units[0]}, and seconds are asked"
    elif not (found or plain) and got < wanted / 10:
        headline = NOT_TIMED if trial.device.type == "cpu" else LAUNCH
    expect.fail(headline, f"{wanted:.6f} seconds", f"{got:.6f}")
