"""How long the device works, by the host's clock."""

import statistics

from devlab.checks import expect, verbs
from devlab.lessons import lesson_07_asynchrony as kit
from devlab.lessons.lesson_07_asynchrony import lesson

UNEVEN = [
    one * kit.LENGTH for one in (1, 10, 0.45, 0.3, 0.6, 4, 30)
]  # seconds of calls; LENGTH is their median
EVEN = (
    kit.LENGTH,
    3 * kit.LENGTH,
    0.3 * kit.LENGTH,
    kit.SLOW,
)  # the same for four calls: two are in the middle
COUNTED = "the first call, which is slow, was counted: call fn once before the calls that are measured"
RUNNING = "the first call was still running when the clock started: wait for the device before you start it"
EITHER = f"{COUNTED.partition(':')[0]}, or {RUNNING}"  # by measured times the two look alike

time_op = lesson.exercise(
    "time_op(fn, device, repeats)",
    ("Y1", "Y3", "Y4", "Y5"),
    "A launch takes hardly any time, and it is not what is asked. What has to be over when you start the "
    "clock, and what when you stop it?",
    "Call fn once or more without a clock. Then `repeats` times: wait for `device`, look at the clock, call, "
    "wait, look again, and keep the difference. The CPU has nothing to wait for.",
    "`wait = (lambda: None) if device.type == 'cpu' else lambda: torch.accelerator.synchronize(device)`, "
    "`time.perf_counter()` for the clock, and `statistics.median(times)` at the end.",
)


def _name_other_times(work: kit.Work, repeats: int) -> dict[str, float]:
    """Return what else people take for the time of one call, of the calls that came last."""
    times = work.lengths[-repeats:]
    asked, median = "and the median is asked", statistics.median(times)
    return {
        f"that is the mean of the measured calls, {asked}": statistics.fmean(times),
        f"that is the sum of the measured calls, {asked}": sum(times),
        f"that is the slowest of the measured calls, {asked}": max(times),
        f"that is the fastest of the measured calls, {asked}": min(times),
        "that is the time below the middle one, which is the median": sorted(times)[max(0, repeats // 2 - 1)],
        "that is the middle of the times in the order in which they came: sort them first": (
            times[repeats // 2]
        ),
        "that is the first of the measured calls, and the median is asked": times[0],
        "that is the last of the measured calls, and the median is asked": times[-1],
        "that is the median divided by `repeats`, and it is the time of one call": median / repeats,
    }


def _expect_calls(work: kit.Work, repeats: int, warm: int = 0) -> None:
    """Expect a call for each repeat, and so many more for a warm-up."""
    if work.calls < repeats + warm:
        missing = ": none is left for a warm-up" if work.calls == repeats else ""
        called = f"fn was called {work.calls} times for {repeats} repeats{missing}"
        expect.fail(called, f"{repeats} measured calls, after a warm-up", f"{work.calls} calls in all")


@time_op.row("the time of the work, in seconds")
@kit.patiently
def the_time(trial):
    for length, repeats in (
        (1.3 * kit.LENGTH, 5),
        (3 * kit.LENGTH, 4),
    ):  # no whole number of milliseconds first
        got, work = kit.time_answer(trial, lambda call, length=length: length, (repeats,))
        known = {
            "that is the time of all measured calls together, and the median of one is asked": (
                repeats * length
            ),
            "the time of one call was divided by `repeats`, which one call does not need": length / repeats,
            "the time was rounded to whole milliseconds": round(length, 3),
        }
        kit.expect_seconds(trial, got, length, "that is not the time of one call", known)
        _expect_calls(work, repeats)


@time_op.row("the first call is a warm-up and does not count")
@kit.patiently
def first_is_warm_up(trial):
    for repeats in (1, 2):
        got, work = kit.time_answer(trial, kit.slow_call(1), (repeats,))
        otherwise = COUNTED if kit.is_modelled(trial) else EITHER
        kit.expect_seconds(trial, got, kit.LENGTH, otherwise, {RUNNING: kit.SLOW + kit.LENGTH})
        _expect_calls(work, repeats, warm=1)


@time_op.row("work from before is over when the clock starts", only="accelerator")
@kit.patiently
def nothing_older(trial):
    got, _ = kit.time_answer(trial, kit.slow_call(0), (1,), backlog=kit.SLOW)
    otherwise = "work from before was counted: wait for the device before the clock is started"
    kit.expect_seconds(trial, got, kit.LENGTH, otherwise)


@time_op.row("on the device asked for, current or not", only="accelerator")
@kit.patiently
def on_that_device(trial):
    with verbs.current(trial.second()):
        got, _ = kit.time_answer(trial, kit.slow_call(0), (1,))
    kit.expect_seconds(trial, got, kit.LENGTH, "another device was waited for")


@time_op.row("one slow call among many changes nothing")
@kit.patiently
def slow_call_changes_nothing(trial):
    # Each call takes twice as long as the one before it, so more than one measured call gives another time.
    got, work = kit.time_answer(trial, lambda call: kit.LENGTH * 2 ** min(call, 6), (1,))
    more = "that is not the time of the last call: of one repeat one call is measured, the others warm up"
    kit.expect_seconds(trial, got, work.lengths[-1], more, plain=True)
    otherwise = "that is not the median of the measured calls"
    moved = "one slow call of many has moved the result, which it does not do to the median"
    # Whatever the warm-up took, seven calls in a row have each of the uneven lengths. After one call, two or
    # three the median is in one of the two cases neither the first nor the last nor the one between.
    cases = [
        (lambda call: UNEVEN[call % 7], 7, otherwise),
        (lambda call: UNEVEN[(call + 1) % 7], 7, otherwise),
        (kit.slow_call(4), 5, moved),
        (kit.slow_call(4), 9, moved),
    ]
    for seconds, repeats, words in cases:
        got, work = kit.time_answer(trial, seconds, (repeats,))
        _expect_calls(work, repeats, warm=1)
        kit.expect_seconds(trial, got, kit.LENGTH, words, _name_other_times(work, repeats))
    # Of an even number there are two in the middle: either of them will do, and what lies between.
    got, work = kit.time_answer(trial, lambda call: EVEN[call % 4], (4,))
    _expect_calls(work, 4, warm=1)
    pairs = [sorted(lengths)[1:3] for lengths in _list_possible_times(work, 4)]
    if not any(kit.length_of(trial, low) <= got <= kit.length_of(trial, high) for low, high in pairs):
        low, high = pairs[0]
        nearest = low if got < kit.length_of(trial, low) else high
        kit.expect_seconds(trial, got, nearest, otherwise, _name_other_times(work, 4))


def _list_possible_times(work: kit.Work, repeats: int) -> list[list[float]]:
    """Return the calls that an answer may have measured: the last ones, or with warm-ups between them."""
    latest = work.lengths[::-1]
    return [latest[::step][:repeats] for step in range(1, work.calls // repeats + 1)]
