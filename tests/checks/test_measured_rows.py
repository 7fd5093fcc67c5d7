"""Rows of lesson 07 that go by time on a real device, where no clock is simulated."""

import contextlib
from types import SimpleNamespace

import pytest
import torch
from bank import ANSWERS, load

from devlab.checks import expect
from devlab.checks.exercise import find
from devlab.checks.judge import judge
from devlab.lessons.lesson_07_asynchrony import TRIES, Work, patiently
from devlab.lessons.lesson_07_asynchrony.event_time import HOSTS_CLOCK, _Marks
from devlab.sim import streams

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


def tried(device: torch.device, passes_at: int) -> int:
    """Return how often a row was tried on a device that lets it pass in one try alone."""
    tries = []

    @patiently
    def row(trial):
        tries.append(trial)
        if len(tries) != passes_at:
            expect.fail("too slow")

    with contextlib.suppress(expect.Mismatch):
        row(SimpleNamespace(device=device))
    return len(tries)


def test_a_busy_gpu_gets_another_try():
    """Beside other programs a right answer may be slow once; a wrong one is wrong in every try."""
    assert tried(GPU, passes_at=3) == 3
    assert tried(GPU, passes_at=0) == TRIES


def test_a_simulated_clock_needs_no_other_try():
    """Where time is modelled, a second try says what the first one said."""
    assert tried(CPU, passes_at=0) == 1


def test_what_fails_in_every_try_is_told():
    """The last finding is the row's, not a pass."""
    with pytest.raises(expect.Mismatch, match="too slow"):
        patiently(lambda trial: expect.fail("too slow"))(SimpleNamespace(device=GPU))


def test_prefetcher_is_not_judged_by_times_between_marks(monkeypatch):
    """On an H200 nine right answers were refused, because marks in an idle stream lay too far apart."""
    monkeypatch.setattr(streams.Event, "elapsed_time", lambda *marks: 1e9)
    for name in ("OneAheadByEvents", "ByAThread"):
        answer = next(one for one in load(ANSWERS / "Prefetcher.py") if one.name == name)
        assert (result := judge(find("Prefetcher"), answer.code)).passed, str(result)


def test_methods_written_in_c_are_seen():
    """A GPU's events are C classes: their calls are seen, and those that only a caller's names hold."""
    marks, event, other = _Marks(), torch.Event("cpu"), torch.Event("cpu")
    with marks.note_calls(Work(CPU, lambda call: 0.0)):
        for method, args in ((event.record, ()), (event.elapsed_time, (other,))):
            with contextlib.suppress(RuntimeError, ValueError):  # the CPU records no event
                method(*args)
    assert marks.recorded == {id(event): 0}
    assert marks.asked == [event]
    assert other in marks.events.values()


def test_no_event_asked_is_the_hosts_clock():
    """However right the time is, an answer that asks no event has measured it by another clock."""
    assert _Marks().fault(GPU, 1e-3, 1e-3) == HOSTS_CLOCK
