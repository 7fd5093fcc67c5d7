"""Answers to event_time."""

import time

import torch
from bank import right, wrong


def marks(device, enable_timing=True):
    """Return the device's current stream and two events to record there."""
    events = (torch.Event(device=device, enable_timing=enable_timing) for _ in range(2))
    return torch.accelerator.current_stream(device), *events


@right
def by_generic_events(fn, device):
    fn()
    stream, start, end = marks(device)
    start.record(stream)
    fn()
    end.record(stream)
    end.synchronize()
    return start.elapsed_time(end) / 1000


@right
def by_the_devices_own_events(fn, device):
    module = torch.get_device_module(device)
    with module.device(device):
        start, end = module.Event(enable_timing=True), module.Event(enable_timing=True)
        fn()
        start.record()
        fn()
        end.record()
    module.synchronize(device)
    return start.elapsed_time(end) * 1e-3


@right
def in_a_named_stream(fn, device):
    stream = torch.accelerator.current_stream(device)
    fn()
    stream.synchronize()
    start, end = (torch.Event(device=device, enable_timing=True) for _ in range(2))
    stream.record_event(start)
    fn()
    stream.record_event(end)
    torch.accelerator.synchronize(device)
    return start.elapsed_time(end) / 1e3


@right
def warmed_three_times(fn, device):
    for _ in range(3):
        fn()
    torch.accelerator.synchronize(device)
    first = torch.Event(device, enable_timing=True)
    second = torch.Event(device, enable_timing=True)
    with torch.accelerator.current_stream(device):  # which makes its device the current one as well
        first.record()
        fn()
        second.record()
    while not second.query():
        pass
    milliseconds = first.elapsed_time(second)
    return milliseconds / 1000.0


@wrong("Both events must be completed", row="the seconds that the work takes")
def asked_too_early(fn, device):
    fn()
    stream, start, end = marks(device)
    start.record(stream)
    fn()
    end.record(stream)
    return start.elapsed_time(end) / 1000


@wrong("your code raised ValueError", row="the seconds that the work takes")
def events_that_cannot_time(fn, device):
    fn()
    stream, start, end = marks(device, enable_timing=False)
    start.record(stream)
    fn()
    end.record(stream)
    end.synchronize()
    return start.elapsed_time(end) / 1000


@wrong("the time is in milliseconds, and seconds are asked", row="the seconds that the work takes")
def in_milliseconds(fn, device):
    return 1000 * by_generic_events(fn, device)


@wrong("fn was called once", row="the seconds that the work takes")
def without_a_warm_up(fn, device):
    stream, start, end = marks(device)
    start.record(stream)
    fn()
    end.record(stream)
    end.synchronize()
    return start.elapsed_time(end) / 1000


@wrong("2 calls of fn lie between the two events", row="the seconds that the work takes")
def the_warm_up_between_the_marks(fn, device):
    stream, start, end = marks(device)
    start.record(stream)
    fn()
    fn()
    end.record(stream)
    end.synchronize()
    return start.elapsed_time(end) / 1000


@wrong("2 calls of fn lie between the two events", row="the seconds that the work takes")
def half_of_two(fn, device):
    stream, start, end = marks(device)
    start.record(stream)
    fn()
    fn()
    end.record(stream)
    end.synchronize()
    return start.elapsed_time(end) / 2000


@wrong("measured by the host's clock, not by events", row="the seconds that the work takes")
def by_the_hosts_clock(fn, device):
    fn()
    start = time.perf_counter()
    fn()
    return time.perf_counter() - start


@wrong("measured by the host's clock, not by events", row="the seconds that the work takes")
def by_the_hosts_clock_and_one_wait(fn, device):
    fn()
    start = time.perf_counter()
    fn()
    torch.accelerator.synchronize(device)
    return (time.perf_counter() - start) / 2


@wrong("measured by the host's clock, not by events", row="the seconds that the work takes")
def by_the_hosts_clock_with_every_wait(fn, device):
    fn()
    torch.accelerator.synchronize(device)
    start = time.perf_counter()
    fn()
    torch.accelerator.synchronize(device)
    return time.perf_counter() - start


@wrong(
    "recorded in a stream of {device}, and fn works on {second}",
    row=("the seconds that the work takes", "on the device asked for, current or not"),
)
def in_whatever_stream_is_current(fn, device):
    fn()
    start, end = (torch.Event(device=device, enable_timing=True) for _ in range(2))
    start.record()
    fn()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000


@wrong(
    "your code raised RuntimeError",
    row=("the seconds that the work takes", "on the device asked for, current or not"),
)
def marked_on_two_devices(fn, device):
    fn()
    start, end = (torch.Event(device=device, enable_timing=True) for _ in range(2))
    start.record()
    fn()
    end.record(torch.accelerator.current_stream(device))
    end.synchronize()
    return start.elapsed_time(end) / 1000


@wrong(
    "recorded in a stream of {device}, and fn works on {second}",
    row=("the seconds that the work takes", "on the device asked for, current or not"),
)
def on_the_current_device(fn, device):
    fn()
    torch.accelerator.synchronize(device)
    start, end = (torch.Event(enable_timing=True) for _ in range(2))
    start.record()
    fn()
    end.record()
    torch.accelerator.synchronize(device)
    end.synchronize()
    return start.elapsed_time(end) / 1000


@wrong("is a `return` missing?", row="the seconds that the work takes")
def no_return(fn, device):
    by_generic_events(fn, device)


@wrong("2 calls of fn lie between the two events", row="the seconds that the work takes")
def the_mean_of_two(fn, device):
    fn()
    stream, start, end = marks(device)
    start.record(stream)
    fn()
    fn()
    end.record(stream)
    end.synchronize()
    return start.elapsed_time(end) / 2000


@wrong("recorded in another stream than the one that fn works in", row="the seconds that the work takes")
def in_a_stream_of_its_own(fn, device):
    fn()
    stream, (_, start, end) = torch.Stream(device), marks(device)
    start.record(stream)
    fn()
    end.record(stream)
    end.synchronize()
    return start.elapsed_time(end) / 1000


@wrong("the two events were asked the wrong way round", row="the seconds that the work takes")
def reversed(fn, device):
    fn()
    st = torch.accelerator.current_stream(device)
    a = torch.Event(device=device, enable_timing=True)
    b = torch.Event(device=device, enable_timing=True)
    a.record(st)
    fn()
    b.record(st)
    b.synchronize()
    return b.elapsed_time(a) / 1000


@wrong("no call of fn lies between the two events", row="the seconds that the work takes")
def both_marks_before(fn, device):
    fn()
    st = torch.accelerator.current_stream(device)
    a = torch.Event(device=device, enable_timing=True)
    b = torch.Event(device=device, enable_timing=True)
    a.record(st)
    b.record(st)
    fn()
    b.synchronize()
    return a.elapsed_time(b) / 1000


@wrong("ms apart, and that is another number of seconds", row="the seconds that the work takes")
def rounded_to_milliseconds(fn, device):
    fn()
    st = torch.accelerator.current_stream(device)
    a = torch.Event(device=device, enable_timing=True)
    b = torch.Event(device=device, enable_timing=True)
    a.record(st)
    fn()
    b.record(st)
    b.synchronize()
    return int(a.elapsed_time(b)) / 1000


@wrong(
    "changed the current device of the whole program",
    row=("the seconds that the work takes", "on the device asked for, current or not"),
)
def goes_there_for_good(fn, device):
    torch.accelerator.set_device_index(device.index)
    fn()
    a = torch.Event(device=device, enable_timing=True)
    b = torch.Event(device=device, enable_timing=True)
    a.record()
    fn()
    b.record()
    b.synchronize()
    return a.elapsed_time(b) / 1000


@right
def with_the_device_made_current(fn, device):
    with torch.accelerator.device_index(device.index or 0):
        fn()
        a = torch.Event(device=device, enable_timing=True)
        b = torch.Event(device=device, enable_timing=True)
        a.record()
        fn()
        b.record()
        torch.accelerator.synchronize()
    return a.elapsed_time(b) * 0.001


@wrong(
    "recorded in another stream than the one that fn works in", row="on the device asked for, current or not"
)
def in_the_default_stream(fn, device):
    fn()
    stream, (_, start, end) = torch.get_device_module(device).default_stream(device), marks(device)
    start.record(stream)
    fn()
    end.record(stream)
    end.synchronize()
    return start.elapsed_time(end) / 1000


@wrong("ms apart, and that is another number of seconds", row="the seconds that the work takes")
def to_four_digits(fn, device):
    return round(by_generic_events(fn, device), 4)


@wrong("ms apart, and that is another number of seconds", row="one run, after a warm-up")
def the_mean_of_two_that_were_timed(fn, device):
    return (by_generic_events(fn, device) + by_generic_events(fn, device)) / 2


@right
def the_least_of_three_that_were_timed(fn, device):
    fn()
    stream = torch.accelerator.current_stream(device)
    pairs = []
    for _ in range(3):
        _, start, end = marks(device)
        start.record(stream)
        fn()
        end.record(stream)
        pairs.append((start, end))
    torch.accelerator.synchronize(device)
    return min(start.elapsed_time(end) for start, end in pairs) / 1000
