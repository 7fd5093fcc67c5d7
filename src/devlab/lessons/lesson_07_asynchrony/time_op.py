"""How long the device works, by the host's clock."""

import statistics

from devlab.checks import expect
from devlab.lessons.lesson_07_asynchrony import LENGTH, SLOW, Work, expect_seconds, length_of, lesson, timed

UNEVEN = (0.3 * LENGTH, 0.6 * LENGTH, LENGTH, 1.5 * SLOW, SLOW)  # seconds of calls whose median is LENGTH
EVEN = (0.3 * LENGTH, SLOW, LENGTH, 3 * LENGTH)  # the same for four calls: two are in the middle
COUNTED = "the first call, which is slow, was counted: call fn once before the calls that are measured"
RUNNING = "the first call was still running when the clock started: wait for the device before you start it"

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


def _other_than_the_median(work: Work, repeats: int) -> dict[str, float]:
    """Return what else people take for the time of one call, of the calls that came last."""
    times = work.lengths[-repeats:]
    below = sorted(times)[max(0, repeats // 2 - 1)]
    asked = "and the median is asked"
    return {
        f"that is the mean of the measured calls, {asked}": statistics.fmean(times),
        f"that is the sum of the measured calls, {asked}": sum(times),
        f"that is the slowest of the measured calls, {asked}": max(times),
        f"that is the fastest of the measured calls, {asked}": min(times),
        "that is the time below the middle one, which is the median": below,
        "that is the middle of the times in the order in which they came: sort them first": times[
            repeats // 2
        ],
        "that is the median divided by `repeats`, and it is the time of one call": statistics.median(times)
        / repeats,
    }


@time_op.row("the time of the work, in seconds")
def the_time(trial):
    for length, repeats in ((LENGTH, 5), (3 * LENGTH, 4)):
        got, work = timed(trial, lambda call, length=length: length, (repeats,))
        known = {
            "that is the time of all measured calls together, and the median of one is asked": repeats
            * length,
            "the time of one call was divided by `repeats`, which one call does not need": length / repeats,
        }
        expect_seconds(trial, got, length_of(trial, length), "that is not the time of one call", known)
        _expect_calls(work, repeats)


def _expect_calls(work: Work, repeats: int, warm: int = 0) -> None:
    """Expect a call for each repeat, and so many more for a warm-up."""
    if work.calls < repeats + warm:
        missing = ": none is left for a warm-up" if work.calls == repeats else ""
        called = f"fn was called {work.calls} times for {repeats} repeats{missing}"
        expect.fail(called, f"{repeats} measured calls, after a warm-up", f"{work.calls} calls in all")


@time_op.row("the first call is a warm-up and does not count")
def warmed(trial):
    for repeats in (1, 2):
        slow_first = lambda call: SLOW if call == 1 else LENGTH  # noqa: E731
        got, work = timed(trial, slow_first, (repeats,))
        known = {RUNNING: SLOW + LENGTH}
        expect_seconds(trial, got, length_of(trial, LENGTH), COUNTED, known)
        _expect_calls(work, repeats, warm=1)


@time_op.row("work from before is over when the clock starts", only="accelerator")
def nothing_older(trial):
    got, _ = timed(trial, lambda call: LENGTH, (1,), backlog=SLOW)
    otherwise = "work from before was counted: wait for the device before the clock is started"
    expect_seconds(trial, got, length_of(trial, LENGTH), otherwise)


@time_op.row("one slow call among many changes nothing")
def median(trial):
    otherwise = "that is not the median of the measured calls"
    # Whatever the warm-up took, five calls in a row have each of these lengths.
    got, work = timed(trial, lambda call: UNEVEN[call % 5], (5,))
    _expect_calls(work, 5)
    expect_seconds(trial, got, length_of(trial, LENGTH), otherwise, _other_than_the_median(work, 5))
    for repeats in (5, 9):
        odd = lambda call: SLOW if call == 4 else LENGTH  # noqa: E731
        got, work = timed(trial, odd, (repeats,))
        _expect_calls(work, repeats)
        moved = "one slow call of many has moved the result, which it does not do to the median"
        expect_seconds(trial, got, length_of(trial, LENGTH), moved, _other_than_the_median(work, repeats))
    # Of an even number there are two in the middle: either of them will do, and what lies between.
    got, work = timed(trial, lambda call: EVEN[call % 4], (4,))
    _expect_calls(work, 4)
    low, high = (length_of(trial, seconds) for seconds in sorted(EVEN)[1:3])
    if not low <= got <= high:
        nearest = low if got < low else high
        expect_seconds(trial, got, nearest, otherwise, _other_than_the_median(work, 4))
