"""How long the device works: by the host's clock, and by events."""

import contextlib
from collections.abc import Iterator
from unittest import mock

import torch

from devlab.checks import expect
from devlab.lessons.lesson_07_asynchrony.base import Work, keep_busy, lesson, real_length, simulated_clock
from devlab.sim import streams

LENGTH = 1e-3  # seconds of one call
SLOW = 20e-3  # seconds of a call that should not count
UNEVEN = (LENGTH / 5, SLOW, LENGTH, 1.5 * SLOW, LENGTH / 2)  # seconds of calls whose median is LENGTH
EVEN = (LENGTH / 5, SLOW, LENGTH, 3 * LENGTH)  # the same for four calls: two are in the middle

time_op = lesson.exercise(
    "time_op",
    signature="time_op(fn, device, repeats)",
    facts=("Y1", "Y3", "Y4", "Y5"),
    hints=(
        "Starting work takes no time worth measuring. What has to be over when you start the clock, and what "
        "when you stop it?",
        "Call fn once or more without a clock. Then `repeats` times: wait for `device`, look at the clock, "
        "call, wait, look again, and keep the difference. The CPU has nothing to wait for.",
        "`wait = (lambda: None) if device.type == 'cpu' else lambda: torch.accelerator.synchronize(device)`, "
        "`time.perf_counter()` for the clock, and `statistics.median(times)` at the end.",
    ),
)


def _timed(trial, seconds, repeats: int, backlog: float = 0.0, extra: tuple = ()) -> tuple[object, Work]:
    """Return the answer's time of work whose calls take `seconds(call)`, and that work."""
    work = Work(trial.device, seconds)
    if trial.device.type != "cpu":
        torch.accelerator.synchronize(trial.device)  # what an earlier call left behind is not judged here
    if backlog and trial.device.type == "sim":
        keep_busy(trial.device, backlog)
    if trial.device.type in ("cpu", "sim"):
        with simulated_clock(trial.answer):
            got = trial.call(work, trial.device, *extra)
    else:
        got = trial.call(work, trial.device, *extra)
    expect.kind(got, float, "a float", "the time")
    return got, work


LAUNCH = "that is the time of the launch: the clock was stopped before the work was done"
NOT_TIMED = "hardly any time: is fn called between two looks at a clock such as time.perf_counter?"
ELSEWHERE = "hardly any time: was it another device's queue, or another stream, or the launch alone?"


def _expect_seconds(trial, got: float, wanted: float, otherwise: str, short: str = LAUNCH) -> None:
    """Expect a time; say what was measured instead, where that is plain, else `otherwise`."""
    loose = 1.05 if trial.device.type in ("cpu", "sim") else 3.0
    if wanted / loose <= got <= wanted * loose:
        return
    headline = otherwise
    if got < 0:
        headline = "the time is negative: which reading of the clock came first?"
    elif got < wanted / 10:
        headline = NOT_TIMED if trial.device.type == "cpu" else short
    elif any(wanted / loose <= got / unit <= wanted * loose for unit in (1e3, 1e6, 1e9)):
        headline = "that is no time in seconds"
    expect.fail(headline, f"{wanted:.6f} seconds", f"{got:.6f}")


def _length(trial, seconds: float) -> float:
    return seconds if trial.device.type in ("cpu", "sim") else real_length(trial.device, seconds)


@time_op.row("the time of the work, in seconds")
def the_time(trial):
    for length, repeats in ((LENGTH, 5), (3 * LENGTH, 4)):
        got, work = _timed(trial, lambda call, length=length: length, repeats, extra=(repeats,))
        _expect_seconds(trial, got, _length(trial, length), "that is not the time of one call")
        if work.calls < repeats:
            called = f"fn was called {work.calls} times for {repeats} repeats"
            expect.fail(called, f"{repeats} measured calls, after a warm-up", f"{work.calls} calls in all")


@time_op.row("the first call is a warm-up and does not count")
def warmed(trial):
    for repeats in (1, 2):
        slow_first = lambda call: SLOW if call == 1 else LENGTH  # noqa: E731
        got, work = _timed(trial, slow_first, repeats, extra=(repeats,))
        wanted = _length(trial, LENGTH)
        otherwise = "the first call, which is slow, was counted, or was still running when the clock started"
        _expect_seconds(trial, got, wanted, otherwise)
        if work.calls <= repeats:
            called = f"fn was called {work.calls} times for {repeats} repeats: none is left for a warm-up"
            expect.fail(called, f"more than {repeats} calls", f"{work.calls}")


@time_op.row("work from before is over when the clock starts", only="accelerator")
def nothing_older(trial):
    got, _ = _timed(trial, lambda call: LENGTH, 1, backlog=SLOW, extra=(1,))
    otherwise = "work from before was counted: wait before the clock is started"
    _expect_seconds(trial, got, _length(trial, LENGTH), otherwise)


@time_op.row("one slow call among many changes nothing")
def median(trial):
    for repeats in (5, 9):
        odd = lambda call: SLOW if call == 4 else LENGTH  # noqa: E731
        got, work = _timed(trial, odd, repeats, extra=(repeats,))
        otherwise = "one slow call of many has moved the result: the median would not"
        _expect_seconds(trial, got, _length(trial, LENGTH), otherwise)
        if work.calls < repeats:
            called = f"fn was called {work.calls} times for {repeats} repeats"
            expect.fail(called, f"{repeats} measured calls, after a warm-up", f"{work.calls} calls in all")
    # Whatever the warm-up took, five calls in a row have each of these lengths.
    got, _ = _timed(trial, lambda call: UNEVEN[call % 5], 5, extra=(5,))
    otherwise = "that is not the median of the measured calls"
    _expect_seconds(trial, got, _length(trial, LENGTH), otherwise)
    # Of an even number there are two in the middle: either of them will do, and what lies between.
    got, _ = _timed(trial, lambda call: EVEN[call % 4], 4, extra=(4,))
    low, high = (_length(trial, seconds) for seconds in sorted(EVEN)[1:3])
    if not low <= got <= high:
        _expect_seconds(trial, got, low if got < low else high, otherwise)


event_time = lesson.exercise(
    "event_time",
    signature="event_time(fn, device)",
    facts=("Y6",),
    hints=(
        "Two marks in the device's own queue, one before the work and one after it. When may you ask for "
        "the time between them?",
        "`torch.Event(device=device, enable_timing=True)` twice, `record(stream)` each in its place, wait "
        "for the second with `synchronize()`. A warm-up comes before all of it. Without a stream `record()` "
        "marks the current device's; `torch.accelerator.current_stream(device)` is yours.",
        "`return start.elapsed_time(end) / 1000`: events count in milliseconds.",
    ),
)


@contextlib.contextmanager
def _questions() -> Iterator[list]:
    """Collect the simulated events that are asked how long after them another one was."""
    asked: list = []
    answered = streams.Event.elapsed_time

    def elapsed_time(start: streams.Event, end_event: streams.Event) -> float:
        asked.append(start)
        return answered(start, end_event)

    with mock.patch.object(streams.Event, "elapsed_time", elapsed_time):
        yield asked


@event_time.row("the seconds that the work takes", only="accelerator")
def event_seconds(trial):
    for length in (LENGTH, 4 * LENGTH):
        with _questions() as asked:
            got, work = _timed(trial, lambda call, length=length: length, 1)
        _expect_seconds(trial, got, _length(trial, length), "that is not the time of one call", ELSEWHERE)
        # The simulated host's clock is as exact as events are; a real one is not.
        if trial.device.type == "sim" and not asked:
            headline = "measured by the host's clock, not by events"
            expect.fail(
                headline, "the `elapsed_time` between two events", f"{got:.6f}, and no event was asked"
            )
        if work.calls < 2:
            expect.fail("fn was called once: there was no warm-up", "a warm-up, then one run", "1 call")
        if work.calls > 4:  # a second warm-up does no harm; an average of many runs is another task
            headline = f"fn was called {work.calls} times: it is one call that is measured"
            expect.fail(headline, "a warm-up, then one run", f"{work.calls} calls")


@event_time.row("one run, after a warm-up", only="accelerator")
def event_warmed(trial):
    slow_first = lambda call: SLOW if call == 1 else LENGTH  # noqa: E731
    got, _ = _timed(trial, slow_first, 1)
    _expect_seconds(
        trial, got, _length(trial, LENGTH), "the first call, which is slow, was measured", ELSEWHERE
    )
    if trial.device.type == "sim":  # of a real device it would be a matter of luck
        _expect_one_call(trial)


def _expect_one_call(trial) -> None:
    """Expect the time of one call, where each takes three times as long as the last: no mean of several."""
    lengths = [LENGTH * 3**call for call in range(6)]
    got, work = _timed(trial, lambda call: lengths[min(call, 6) - 1], 1)
    if not any(abs(got - length) <= 0.05 * length for length in lengths[1:]):
        headline = "that is the time of several calls, or their mean: it is one call that is measured"
        expect.fail(headline, "the time of one call, after a warm-up", f"{got:.6f} after {work.calls} calls")


@event_time.row("nothing of what was queued before", only="accelerator")
def event_alone(trial):
    got, _ = _timed(trial, lambda call: LENGTH, 1, backlog=SLOW)
    _expect_seconds(
        trial, got, _length(trial, LENGTH), "work from before the first mark was counted", ELSEWHERE
    )


@event_time.row("on the device asked for, current or not", only="accelerator")
def event_device(trial):
    other = next((one for one in trial.others if one.type == trial.device.type), None)
    if other is not None and trial.device.type == "sim":
        keep_busy(other, SLOW)  # on that one nothing is measured
    got, _ = _timed(trial, lambda call: LENGTH, 1)
    _expect_seconds(trial, got, _length(trial, LENGTH), "another device's queue was measured", ELSEWHERE)
    if trial.device.type == "sim" and torch.accelerator.current_device_index() != 0:
        expect.fail("the current device was changed", "the current device as it was", "another one")
