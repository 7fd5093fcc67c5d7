"""How long the device works, by events in its own stream."""

import contextlib
import itertools
import sys
import types
from collections.abc import Callable, Iterator

import torch

from devlab.checks import expect, verbs
from devlab.lessons import lesson_07_asynchrony as kit
from devlab.lessons.lesson_07_asynchrony import lesson

event_time = lesson.exercise(
    "event_time(fn, device)",
    ("Y6",),
    "You need two marks in the device's own stream, one before the work and one after it. When may you ask "
    "for the time between them?",
    "Call fn once as a warm-up. Make `torch.Event(device=device, enable_timing=True)` twice, "
    "`record(stream)` each in its place, and wait for the second with `synchronize()`. Without a stream, "
    "`record()` marks the current device's; `torch.accelerator.current_stream(device)` is yours.",
    "`return start.elapsed_time(end) / 1000`: events count in milliseconds.",
)


HOSTS_CLOCK = "measured by the host's clock, not by events"
SHORT = 0.5  # of what the work takes: so little lies between two events in another stream
ALIKE = 1e-6  # how much two readings of the same events may differ, as a share


class _Marks:
    """The events of an answer: which were recorded after how many calls of fn, and which were asked.

    They are seen as Python calls their methods, whether those are written in C, as a GPU's are, or not.
    """

    def __init__(self):
        self.work: kit.Work | None = None
        self.recorded: dict[int, int] = {}  # calls of fn before, by the event's id
        self.events: dict[int, object] = {}
        self.asked: list[object] = []

    @contextlib.contextmanager
    def note_calls(self, work: kit.Work) -> Iterator[None]:
        """Note what a block does to events, beside the calls of the work."""
        self.work, before = work, sys.getprofile()
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _note(self, frame: types.FrameType, what: str, function: object) -> None:
        if what == "c_call":
            name, event = function.__name__, getattr(function, "__self__", None)
        elif what == "call":
            name, event = frame.f_code.co_name, frame.f_locals.get("self")
        else:
            return
        if name not in ("record", "record_event", "elapsed_time"):
            return
        # The arguments of a function in C are not seen; what it is called with stands in its caller's names.
        named = (event, *frame.f_locals.values())
        self.events |= {id(one): one for one in named if isinstance(one, torch.Event)}
        if id(event) in self.events and name == "record":
            self.recorded[id(event)] = self.work.calls
        if id(event) in self.events and name == "elapsed_time":
            self.asked.append(event)

    def fault(self, device: torch.device, got: float, wanted: float) -> str:
        """Return what is wrong with the events whose time is the answer, "" where nothing is seen."""
        if not self.asked:
            return HOSTS_CLOCK
        if (there := self.asked[-1].device) != device:
            return f"the events were recorded in a stream of {there}, and fn works on {device}"
        pairs = []
        for start, end in itertools.product(self.asked, self.events.values()):
            if start is end:
                continue
            with contextlib.suppress(RuntimeError, ValueError):  # an event that was never recorded
                apart = start.elapsed_time(end)
                other = abs(apart - 1e3 * got) > ALIKE * abs(apart)
                pairs.append((other, self._between(start, end) != 1, abs(apart - 1e3 * got), start, end))
        if not pairs:
            return ""
        other, *_, start, end = min(pairs, key=lambda pair: pair[:3])
        between = self._between(start, end)
        if between is not None and between < 0:
            return "the two events were asked the wrong way round: `start.elapsed_time(end)`"
        if between not in (None, 1):
            lie = {0: "no call of fn lies"}.get(between, f"{between} calls of fn lie")
            return f"{lie} between the two events, and it is one call that is measured"
        if self.work.calls > 1 and self.recorded.get(id(start)) == 0:
            return "the first call, which is slow, was measured: call fn once before the first event"
        if other:
            apart = start.elapsed_time(end)
            return f"the events are {apart:.6g} ms apart, and that is another number of seconds"
        if got < SHORT * wanted:
            return "the events were recorded in another stream than the one that fn works in"
        return ""

    def _between(self, start: torch.Event, end: torch.Event) -> int | None:
        """Return how many calls of fn lie between two events, None where that was not seen."""
        first, last = self.recorded.get(id(start)), self.recorded.get(id(end))
        return None if first is None or last is None else last - first


def _expect_time(
    trial, seconds: Callable[[int], float], wanted: float, otherwise: str = "", backlog: float = 0.0
) -> kit.Work:
    """Expect the time of one call, by events; where it is wrong, say what is wrong with the events.

    Without `otherwise` the events alone are looked at, and the call takes `wanted` at least.
    """
    marks = _Marks()
    got, work = kit.time_answer(trial, seconds, backlog=backlog, note=marks.note_calls)
    torch.accelerator.synchronize(trial.device)
    fault = marks.fault(trial.device, got, kit.length_of(trial, wanted))
    # A real device that is busy takes longer, and its events say how long.
    if fault or (otherwise and kit.is_modelled(trial)):
        kit.expect_seconds(trial, got, wanted, fault or otherwise, plain=bool(fault))
    if fault:
        expect.fail(fault, "the `elapsed_time` between two events, with one call between them", f"{got:.6f}")
    return work


@event_time.row("the seconds that the work takes", only="accelerator")
@kit.patiently
def event_seconds(trial):
    otherwise, asked = "that is not the time of one call", "a warm-up, then one run"
    for length in (
        0.43 * kit.LENGTH,
        4 * kit.LENGTH,
    ):  # rounded to tenths of a millisecond the first is another
        work = _expect_time(trial, lambda call, length=length: length, length, otherwise)
        expect.that(work.calls >= 2, "fn was called once: there was no warm-up", asked, "1 call")
        if work.calls > 4:  # a second warm-up does no harm; an average of many runs is another task
            headline = f"fn was called {work.calls} times: it is one call that is measured"
            expect.fail(headline, asked, f"{work.calls} calls")


@event_time.row("one run, after a warm-up", only="accelerator")
@kit.patiently
def event_warmed(trial):
    _expect_time(trial, kit.slow_call(1), kit.LENGTH, "the first call, which is slow, was measured")
    # Each call takes three times as long as the last: a mean of several is the time of none.
    _expect_time(trial, lambda call: kit.LENGTH * 3 ** min(call, 5), kit.LENGTH)


@event_time.row("nothing of what was launched before", only="accelerator")
@kit.patiently
def event_alone(trial):
    _expect_time(
        trial, kit.slow_call(0), kit.LENGTH, "work from before the first mark was counted", backlog=kit.SLOW
    )


@event_time.row("on the device asked for, current or not", only="accelerator")
@kit.patiently
def event_device(trial):
    with torch.Stream(trial.device):
        _expect_time(trial, kit.slow_call(0), kit.LENGTH, "another stream than the current one was measured")
    with verbs.current(other := trial.second()):
        kit.Work(other, lambda call: kit.SLOW)()  # on that one nothing is measured
        _expect_time(trial, kit.slow_call(0), kit.LENGTH, "another device's stream was measured")
