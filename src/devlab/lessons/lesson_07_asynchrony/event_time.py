"""How long the device works, by events in its own stream."""

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple
from unittest import mock

import torch

from devlab.checks import expect
from devlab.lessons.lesson_07_asynchrony import (
    LENGTH,
    SLOW,
    Work,
    expect_seconds,
    keep_busy,
    lesson,
    slow_call,
    timed,
)
from devlab.sim import streams

event_time = lesson.exercise(
    "event_time",
    signature="event_time(fn, device)",
    facts=("Y6",),
    hints=(
        "You need two marks in the device's own stream, one before the work and one after it. When may you "
        "ask for the time between them?",
        "Call fn once as a warm-up. Make `torch.Event(device=device, enable_timing=True)` twice, "
        "`record(stream)` each in its place, and wait for the second with `synchronize()`. Without a stream, "
        "`record()` marks the current device's; `torch.accelerator.current_stream(device)` is yours.",
        "`return start.elapsed_time(end) / 1000`: events count in milliseconds.",
    ),
)


HOSTS_CLOCK = "measured by the host's clock, not by events"


class _Mark(NamedTuple):
    """Where an event was recorded: after how many calls of fn, on which device, in which stream."""

    calls: int
    device: int
    stream: int


class _Questions:
    """The simulated events of an answer: where each was recorded, and which pairs were asked for a time."""

    def __init__(self):
        self.marks: dict[int, _Mark] = {}
        self.asked: list[tuple[streams.Event, streams.Event, float]] = []

    @contextlib.contextmanager
    def noted(self, work: Work) -> Iterator[None]:
        """Note what a block does to events, beside the calls of the work."""
        record, answered = streams.Event.record, streams.Event.elapsed_time

        def recorded(event: streams.Event, stream: streams.Stream | None = None) -> None:
            stream = stream or streams.current_stream()
            record(event, stream)
            self.marks[id(event)] = _Mark(work.calls, stream.device_index, stream.stream_id)

        def elapsed_time(start: streams.Event, end_event: streams.Event) -> float:
            self.asked.append((start, end_event, answered(start, end_event)))
            return self.asked[-1][2]

        with mock.patch.multiple(streams.Event, record=recorded, elapsed_time=elapsed_time):
            yield

    def fault(self, device: torch.device, got: float) -> str:
        """Return what is wrong with the last pair that was asked, "" where nothing is."""
        if not self.asked:
            return HOSTS_CLOCK
        start, end, milliseconds = self.asked[-1]
        first, last = self.marks[id(start)], self.marks[id(end)]
        for mark in (first, last):
            if mark.device != device.index:
                there = f"{device.type}:{mark.device}"
                return f"the events were recorded in a stream of {there}, and fn works on {device}"
            if mark.stream != torch.accelerator.current_stream(device).stream_id:
                return "the events were recorded in another stream than the one that fn works in"
        between = last.calls - first.calls
        if between < 0:
            return "the two events were asked the wrong way round: `start.elapsed_time(end)`"
        if between != 1:
            lie = {0: "no call of fn lies"}.get(between, f"{between} calls of fn lie")
            return f"{lie} between the two events, and it is one call that is measured"
        if not first.calls:
            return "the first call, which is slow, was measured: call fn once before the first event"
        if abs(got - milliseconds / 1000) > 0.01 * abs(got):
            return f"the events lie {milliseconds:g} ms apart, and that is another number of seconds"
        return ""


def _expect_time(
    trial, seconds: Callable[[int], float], wanted: float, otherwise: str, backlog: float = 0.0
) -> Work:
    """Expect the time of one call, by events; where it is wrong, say what is wrong with the events."""
    questions, modelled = _Questions(), trial.device.type == "sim"
    got, work = timed(trial, seconds, backlog=backlog, noted=questions.noted)
    fault = questions.fault(trial.device, got) if modelled else ""
    expect_seconds(trial, got, wanted, fault or otherwise, plain=bool(fault))
    # The simulated host's clock is as exact as events are; a real one is not.
    if modelled and not questions.asked:
        asked = "the `elapsed_time` between two events"
        expect.fail(HOSTS_CLOCK, asked, f"{got:.6f}, and no event was asked")
    return work


@event_time.row("the seconds that the work takes", only="accelerator")
def event_seconds(trial):
    otherwise, asked = "that is not the time of one call", "a warm-up, then one run"
    for length in (0.43 * LENGTH, 4 * LENGTH):  # rounded to tenths of a millisecond the first is another
        work = _expect_time(trial, lambda call, length=length: length, length, otherwise)
        if work.calls < 2:
            expect.fail("fn was called once: there was no warm-up", asked, "1 call")
        if work.calls > 4:  # a second warm-up does no harm; an average of many runs is another task
            headline = f"fn was called {work.calls} times: it is one call that is measured"
            expect.fail(headline, asked, f"{work.calls} calls")


@event_time.row("one run, after a warm-up", only="accelerator")
def event_warmed(trial):
    _expect_time(trial, slow_call(1), LENGTH, "the first call, which is slow, was measured")
    if trial.device.type != "sim":  # of a real device the rest would be a matter of luck
        return
    # Each call takes three times as long as the last: a mean of several is the time of none.
    lengths = [LENGTH * 3**call for call in range(6)]
    got, work = timed(trial, lambda call: lengths[min(call, 6) - 1])
    if not any(abs(got - length) <= 0.05 * length for length in lengths[1:]):
        headline = "that is the time of several calls, or their mean: it is one call that is measured"
        expect.fail(headline, "the time of one call, after a warm-up", f"{got:.6f} after {work.calls} calls")


@event_time.row("nothing of what was launched before", only="accelerator")
def event_alone(trial):
    _expect_time(trial, slow_call(0), LENGTH, "work from before the first mark was counted", backlog=SLOW)


@event_time.row("on the device asked for, current or not", only="accelerator")
def event_device(trial):
    other = next((one for one in trial.others if one.type == trial.device.type), None)
    if other is not None and trial.device.type == "sim":
        keep_busy(other, SLOW)  # on that one nothing is measured
    _expect_time(trial, slow_call(0), LENGTH, "another device's stream was measured")
    with torch.Stream(trial.device):
        _expect_time(trial, slow_call(0), LENGTH, "another stream than the current one was measured")
    now = torch.accelerator.current_device_index()
    if trial.device.type == "sim" and now != 0:
        headline = "your code changed the current device of the whole program"
        expect.fail(headline, f"still {trial.device.type}:0", f"{trial.device.type}:{now}")
