"""Answers to time_op."""

import datetime
import functools
import statistics
import time
import timeit
from datetime import datetime as date_and_time
from time import perf_counter as tick

import torch
from bank import right, wrong

import devlab


def wait_for(device):
    if torch.device(device).type != "cpu":
        torch.accelerator.synchronize(device)


@right
def plainly(fn, device, repeats):
    fn()
    times = []
    for _ in range(repeats):
        wait_for(device)
        start = time.perf_counter()
        fn()
        wait_for(device)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


@right
def by_the_devices_own_module(fn, device, repeats):
    def done():
        if device.type != "cpu":
            torch.get_device_module(device).synchronize(device)

    for _ in range(3):
        fn()
    done()
    times = []
    for _ in range(repeats):
        start = time.perf_counter_ns()
        fn()
        done()
        times.append((time.perf_counter_ns() - start) / 1e9)
    return sorted(times)[len(times) // 2]


@right
def with_an_imported_clock(fn, device, repeats):
    def once():
        wait_for(device)
        start = tick()
        fn()
        wait_for(device)
        return tick() - start

    once()
    return torch.tensor([once() for _ in range(repeats)], dtype=torch.float64).median().item()


@right
def by_events_where_there_are_some(fn, device, repeats):
    if device.type == "cpu":
        fn()
        times = []
        for _ in range(repeats):
            start = time.monotonic()
            fn()
            times.append(time.monotonic() - start)
        return statistics.median(times)
    fn()
    pairs = []
    stream = torch.accelerator.current_stream(device)
    for _ in range(repeats):
        start = torch.Event(device=device, enable_timing=True)
        end = torch.Event(device=device, enable_timing=True)
        start.record(stream)
        fn()
        end.record(stream)
        pairs.append((start, end))
    torch.accelerator.synchronize(device)
    return statistics.median(start.elapsed_time(end) / 1e3 for start, end in pairs)


@right
def one_more_and_drop_the_first(fn, device, repeats):
    times = []
    for _ in range(repeats + 1):
        wait_for(device)
        start = time.time()
        fn()
        wait_for(device)
        times.append(time.time() - start)
    return statistics.median(times[1:])


@right
def by_timeit(fn, device, repeats):
    def once():
        fn()
        wait_for(device)

    once()
    return statistics.median(timeit.repeat(once, number=1, repeat=repeats))


@right
def by_a_timer(fn, device, repeats):
    def once():
        fn()
        wait_for(device)

    timer = timeit.Timer(once)
    once()
    return statistics.median(timer.timeit(1) for _ in range(repeats))


@right
def by_timeit_once_each(fn, device, repeats):
    def once():
        fn()
        wait_for(device)

    once()
    return statistics.median([timeit.timeit(once, number=1) for _ in range(repeats)])


@right
def with_a_clock_for_a_default(fn, device, repeats, clock=time.perf_counter, *, wait=wait_for):
    fn()
    times = []
    for _ in range(repeats):
        wait(device)
        start = clock()
        fn()
        wait(device)
        times.append(clock() - start)
    return statistics.median(times)


def seconds_of(fn, device, *, clock=time.perf_counter_ns):
    wait_for(device)
    start = clock()
    fn()
    wait_for(device)
    return (clock() - start) / 1e9


@right
def with_a_helper_whose_clock_is_a_default(fn, device, repeats):
    fn()
    return statistics.median(seconds_of(fn, device) for _ in range(repeats))


@wrong("the clock was stopped before the work was done", row="the time of the work, in seconds")
def without_waiting(fn, device, repeats):
    fn()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        fn()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


@wrong("the clock was stopped before the work was done", row="the time of the work, in seconds")
def waits_at_the_start_alone(fn, device, repeats):
    fn()
    times = []
    for _ in range(repeats):
        wait_for(device)
        start = time.perf_counter()
        fn()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


@wrong(
    "the first call was still running when the clock started",
    row="the first call is a warm-up and does not count",
)
def waits_at_the_end_alone(fn, device, repeats):
    fn()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        fn()
        wait_for(device)
        times.append(time.perf_counter() - start)
    return times[0] if repeats == 1 else statistics.median(times)


@wrong("fn was called", row="the first call is a warm-up and does not count")
def without_a_warm_up(fn, device, repeats):
    times = []
    for _ in range(repeats):
        wait_for(device)
        start = time.perf_counter()
        fn()
        wait_for(device)
        times.append(time.perf_counter() - start)
    return min(times) if repeats > 1 else 0.001


@wrong("the first call, which is slow, was counted", row="the first call is a warm-up and does not count")
def the_first_counts(fn, device, repeats):
    times = []
    for _ in range(max(repeats, 2)):
        wait_for(device)
        start = time.perf_counter()
        fn()
        wait_for(device)
        times.append(time.perf_counter() - start)
    return times[0] if repeats == 1 else statistics.median(times)


@wrong("that is the mean of the measured calls", row="one slow call among many changes nothing")
def the_mean(fn, device, repeats):
    fn()
    wait_for(device)
    start = time.perf_counter()
    for _ in range(repeats):
        fn()
    wait_for(device)
    return (time.perf_counter() - start) / repeats


@wrong("that is the fastest of the measured calls", row="one slow call among many changes nothing")
def the_fastest(fn, device, repeats):
    fn()
    return min(seconds_of(fn, device) for _ in range(repeats))


@wrong("the time below the middle one", row="one slow call among many changes nothing")
def the_one_below_the_middle(fn, device, repeats):
    fn()
    return sorted(seconds_of(fn, device) for _ in range(repeats))[max(repeats // 2 - 1, 0)]


@wrong("that is not the median of the measured calls", row="one slow call among many changes nothing")
def the_mean_without_the_slowest(fn, device, repeats):
    fn()
    times = sorted(seconds_of(fn, device) for _ in range(repeats))
    return statistics.mean(times[:-1] or times)


@wrong("wait for the device before you start it", row="the first call is a warm-up and does not count")
def without_a_wait_before_the_clock(fn, device, repeats):
    fn()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        fn()
        wait_for(device)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


@wrong("that is the slowest of the measured calls", row="one slow call among many changes nothing")
def the_slowest(fn, device, repeats):
    fn()
    times = []
    for _ in range(repeats):
        wait_for(device)
        start = time.perf_counter()
        fn()
        wait_for(device)
        times.append(time.perf_counter() - start)
    return max(times)


@wrong("the time is in milliseconds", row="the time of the work, in seconds")
def in_milliseconds(fn, device, repeats):
    return 1000 * plainly(fn, device, repeats)


@wrong(
    "the clock was stopped before the work was done",
    row=("the time of the work, in seconds", "on the device asked for, current or not"),
)
def waits_for_the_current_device(fn, device, repeats):
    fn()
    times = []
    for _ in range(repeats):
        torch.accelerator.synchronize()
        start = time.perf_counter()
        fn()
        torch.accelerator.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


@wrong("that is the time of all", row="the time of the work, in seconds")
def the_sum(fn, device, repeats):
    return repeats * plainly(fn, device, repeats)


@wrong("the time is negative", row="the time of the work, in seconds")
def the_wrong_way_round(fn, device, repeats):
    return -plainly(fn, device, repeats)


@wrong("the time is a list, not a float", row="the time of the work, in seconds")
def all_of_them(fn, device, repeats):
    return [plainly(fn, device, 1) for _ in range(repeats)]


@wrong("is a `return` missing?", row="the time of the work, in seconds")
def no_return(fn, device, repeats):
    plainly(fn, device, repeats)


@right
@torch.no_grad()
def behind_a_decorator(fn, device, repeats):
    def wait():
        if device.type != "cpu":
            torch.accelerator.synchronize(device)

    fn()
    took = []
    for _ in range(repeats):
        wait()
        begun = tick()
        fn()
        wait()
        took.append(tick() - begun)
    return statistics.median(took)


class Stopwatch:
    """Holds its clock as the default of a method."""

    def __init__(self, device, clock=time.perf_counter):
        self.device, self.clock = device, clock

    def time(self, fn):
        wait_for(self.device)
        begun = self.clock()
        fn()
        wait_for(self.device)
        return self.clock() - begun


@right
def with_a_stopwatch(fn, device, repeats):
    fn()
    watch = Stopwatch(device)
    return statistics.median([watch.time(fn) for _ in range(repeats)])


def by(clock):
    """Return a decorator that keeps the clock in a closure."""

    def decorated(measure):
        def timed(fn, device, repeats):
            return measure(clock, fn, device, repeats)

        timed.__name__ = measure.__name__  # which says the exercise
        return timed

    return decorated


@right
@by(time.perf_counter)
def in_a_closure(clock, fn, device, repeats):
    fn()
    took = []
    for _ in range(repeats):
        wait_for(device)
        begun = clock()
        fn()
        wait_for(device)
        took.append(clock() - begun)
    return statistics.median(took)


@right
def by_the_date(fn, device, repeats):
    fn()
    took = []
    for _ in range(repeats):
        wait_for(device)
        begun = datetime.datetime.now()
        fn()
        wait_for(device)
        took.append((datetime.datetime.now() - begun).total_seconds())
    return statistics.median(took)


@right
def by_an_imported_date_and_the_upper_middle(fn, device, repeats):
    fn()
    took = []
    for _ in range(repeats):
        wait_for(device)
        begun = date_and_time.now().timestamp()
        fn()
        wait_for(device)
        took.append(date_and_time.now().timestamp() - begun)
    return sorted(took)[repeats // 2]


@right
def by_a_named_clock(fn, device, repeats):
    if not hasattr(time, "clock_gettime"):
        return by_the_date(fn, device, repeats)
    fn()
    took = []
    for _ in range(repeats):
        wait_for(device)
        begun = time.clock_gettime(time.CLOCK_MONOTONIC)
        fn()
        wait_for(device)
        took.append(time.clock_gettime(time.CLOCK_MONOTONIC) - begun)
    return float(torch.tensor(took).median())


@wrong("that is the slowest of the measured calls", row="one slow call among many changes nothing")
def the_largest_of_an_even_number(fn, device, repeats):
    fn()
    took = []
    for _ in range(repeats):
        wait_for(device)
        begun = time.perf_counter()
        fn()
        wait_for(device)
        took.append(time.perf_counter() - begun)
    return max(took) if repeats % 2 == 0 and repeats > 2 else statistics.median(took)


@wrong("fn was called 8 times for 9 repeats", row="one slow call among many changes nothing")
def seven_times_at_most(fn, device, repeats):
    wait = (lambda: None) if device.type == "cpu" else (lambda: torch.accelerator.synchronize(device))
    fn()
    times = []
    for _ in range(min(repeats, 7)):
        wait()
        start = time.perf_counter()
        fn()
        wait()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


@wrong("devlab.time_op did the work", row="the time of the work, in seconds")
def by_the_courses_own_tool(fn, device, repeats):
    return devlab.time_op(fn, device, repeats=repeats, show=False).median


@wrong("that is the middle of the times", row="one slow call among many changes nothing")
def unsorted_middle(fn, device, repeats):
    fn()
    ts = []
    for _ in range(repeats):
        wait_for(device)
        s = time.perf_counter()
        fn()
        wait_for(device)
        ts.append(time.perf_counter() - s)
    return ts[len(ts) // 2]


@wrong("fn was called 2 times for 5 repeats", row="the time of the work, in seconds")
def ignores_repeats(fn, device, repeats):
    fn()
    wait_for(device)
    s = time.perf_counter()
    fn()
    wait_for(device)
    return time.perf_counter() - s


@wrong("that is the mean of the measured calls", row="one slow call among many changes nothing")
def total_over_repeats(fn, device, repeats):
    fn()
    wait_for(device)
    s = time.perf_counter()
    for _ in range(repeats):
        fn()
    wait_for(device)
    return (time.perf_counter() - s) / repeats


@wrong("was divided by", row="the time of the work, in seconds")
def divided_once_more(fn, device, repeats):
    fn()
    ts = []
    for _ in range(repeats):
        wait_for(device)
        s = time.perf_counter()
        fn()
        wait_for(device)
        ts.append((time.perf_counter() - s) / repeats)
    return statistics.median(ts)


@right
def by_a_tensors_median(fn, device, repeats):
    wait = (
        (lambda: None) if device.type == "cpu" else functools.partial(torch.accelerator.synchronize, device)
    )
    for _ in range(3):
        fn()

    def once():
        wait()
        s = time.monotonic()
        fn()
        wait()
        return time.monotonic() - s

    return float(torch.tensor([once() for _ in range(repeats)], dtype=torch.float64).median())


@right
def by_numpys_median(fn, device, repeats):
    import numpy as np

    fn()
    ts = []
    for _ in range(repeats):
        wait_for(device)
        s = time.perf_counter_ns()
        fn()
        wait_for(device)
        ts.append(time.perf_counter_ns() - s)
    return float(np.median(ts) / 1000000000.0)


@right
def a_warm_up_before_each(fn, device, repeats):
    times = []
    for _ in range(repeats):
        fn()
        times.append(seconds_of(fn, device))
    return statistics.median(times)


@right
def by_pytorchs_own_timer(fn, device, repeats):
    from torch.utils import benchmark

    def once():
        fn()
        wait_for(device)

    once()
    timer = benchmark.Timer("once()", globals={"once": once})
    return statistics.median(timer.timeit(1).median for _ in range(repeats))


@wrong("of one repeat one call is measured", row="one slow call among many changes nothing")
def one_call_more(fn, device, repeats):
    fn()
    return statistics.median(seconds_of(fn, device) for _ in range(repeats + 1))


@wrong("of one repeat one call is measured", row="one slow call among many changes nothing")
def five_times_at_least(fn, device, repeats):
    fn()
    return statistics.median(seconds_of(fn, device) for _ in range(max(5, repeats)))


@wrong("the time was rounded to whole milliseconds", row="the time of the work, in seconds")
def to_three_digits(fn, device, repeats):
    return round(plainly(fn, device, repeats), 3)


@wrong("that is the first of the measured calls", row="one slow call among many changes nothing")
def the_first_of_them(fn, device, repeats):
    fn()
    times = [seconds_of(fn, device) for _ in range(repeats)]
    return times[0]


@wrong("that is the last of the measured calls", row="one slow call among many changes nothing")
def the_last_of_them(fn, device, repeats):
    fn()
    return [seconds_of(fn, device) for _ in range(repeats)][-1]


@wrong("fn was called 9 times for 9 repeats: none is left", row="one slow call among many changes nothing")
def eight_times_at_most(fn, device, repeats):
    fn()
    return statistics.median(seconds_of(fn, device) for _ in range(min(repeats, 8)))
