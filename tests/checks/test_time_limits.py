"""Each endless loop of a learner's ends in a verdict that says where it was, and nothing is left behind."""

import itertools
import queue
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch

from devlab.checks import time_limits
from devlab.checks.exercise import Exercise
from devlab.checks.judge import judge
from devlab.checks.result import Outcome
from devlab.devices import bench

CPU = (torch.device("cpu"),)
STOPPED = re.compile(r"your code was still running after \d+(\.\d)? seconds, and was stopped")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Wait for a tenth of a second of computing, and for little more on the wall."""
    monkeypatch.setattr(time_limits, "SECONDS", 0.1)
    monkeypatch.setattr(time_limits, "ON_THE_WALL", 0.4)


def looping() -> Exercise:
    """Return an exercise with two rows, each of which calls the answer with a list."""
    exercise = Exercise("total", "00_test", "total(losses)", ("D1",), ("first hint", "second hint"))
    exercise.row("the sum")(lambda trial: trial.call([1, 2, 3]))
    exercise.row("of nothing")(lambda trial: trial.call([]))
    return exercise


def forever(losses):
    """Do nothing for ever."""
    while True:
        pass


def counting(losses):
    """Count for ever."""
    x = 0
    while True:
        x = x + 1


def cycling(losses):
    """Begin anew for ever."""
    x = 0
    for loss in itertools.cycle(losses):
        x = loss - x


def catching(losses):
    """Keep every exception for itself."""
    while True:
        try:  # noqa: SIM105
            losses[4]
        except Exception:
            pass


def catching_all(losses):
    """Keep even what is no Exception for itself."""
    while True:
        try:  # noqa: SIM105
            step(losses)
        except:  # noqa: E722
            pass


def step(losses):
    """Do a little."""
    return sum(losses)


def computing(losses):
    """Never leave PyTorch for long."""
    x = torch.zeros(3)
    while x.sum() < 1:
        x = x * 2


@pytest.mark.parametrize("answer", [forever, counting, cycling, catching, catching_all, computing])
def test_an_endless_loop_ends_in_a_verdict(answer):
    """It says how long devlab waited, and at which line the loop begins; other rows were not reached."""
    result = judge(looping(), answer, bench())
    assert result.outcome is Outcome.ERROR
    assert STOPPED.fullmatch(result.headline), str(result)
    details = dict(result.details)
    number = int(details["at"].splitlines()[-1].removeprefix("test_time_limits.py, line ").partition(":")[0])
    assert 0 < number - answer.__code__.co_firstlineno < 5
    assert "while" in details["at"] or "for loss in" in details["at"]
    outcomes = [one for row in result.rows for one in row.outcomes.values()]
    assert outcomes == [Outcome.ERROR] + [Outcome.NOT_REACHED] * (len(outcomes) - 1)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no way to interrupt one thread")
@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
def test_an_empty_queue_ends_in_a_verdict(handler):
    """What waits inside of C sees no exception from outside; an interrupt of the judge's own ends it.

    A program that was started in the background ignores interrupts: there, too, and it does so afterwards.
    """

    def total(losses):
        return queue.Queue().get()

    before = signal.signal(signal.SIGINT, handler)
    try:
        result = judge(looping(), total, CPU)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert STOPPED.fullmatch(result.headline), str(result)
    assert dict(result.details)["at"].endswith("return queue.Queue().get()")


def test_a_quick_call_is_left_alone():
    """No thread stays behind, and no exception comes later."""
    before = threading.active_count()
    result = judge(looping(), sum, CPU)
    assert result.passed, str(result)
    for _ in range(100):
        time.sleep(0.002)
    assert threading.active_count() <= before


def test_an_import_takes_as_long_as_it_takes(monkeypatch):
    """The first optimizer that is made imports hundreds of modules: the time begins anew with each."""

    def total(losses):
        for number in range(12):
            time.sleep(0.06)
            monkeypatch.setitem(sys.modules, f"devlab_test_{number}_{len(losses)}", sys)
        return 0

    assert judge(looping(), total, CPU).passed


def test_the_limit_is_for_a_call_not_for_a_judgement():
    """Many calls may take longer together."""
    exercise = looping()
    exercise.rows *= 4
    assert judge(exercise, lambda losses: time.sleep(0.02), CPU).passed


def test_nothing_is_raised_after_a_late_call():
    """A call that ends just when its time is over leaves no exception for the code after it."""
    for pause in (0.39, 0.4, 0.41, 0.44, 0.45, 0.46):
        result = judge(looping(), lambda losses, pause=pause: time.sleep(pause), CPU)
        assert result.passed or "still running" in result.headline
        time.sleep(0.06)


def test_a_learners_own_interrupt_passes_through():
    """Ctrl-C is not taken for an interrupt by the limit."""

    def total(losses):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        judge(looping(), total, CPU)


def test_nobody_watches_outside_of_a_judgement():
    """A row of a test, or of a replay, has no limit."""
    with time_limits.limited():
        time.sleep(0.6)


def test_another_thread_can_be_judged_in():
    """A notebook may check in a thread: its loops end as well."""
    results = []
    thread = threading.Thread(target=lambda: results.append(judge(looping(), forever, CPU)))
    thread.start()
    thread.join(20)
    assert STOPPED.fullmatch(results[0].headline)


FOLLOWED = """
import sys
from devlab.checks import time_limits
from devlab.checks.exercise import Exercise
from devlab.checks.judge import judge
from devlab.devices import bench
time_limits.SECONDS = 0.1

def loop(losses):
    while True:
        pass

def follow(losses):
    getattr(sys, sys.argv[1])(lambda *_: None)
    return loop(losses)

exercise = Exercise("total", "00_test", "total(losses)", ("D1",), ("first hint", "second hint"))
exercise.row("the sum")(lambda trial: trial.call([1, 2, 3]))
for answer in (loop, follow):
    print(judge(exercise, answer, bench()[:1]).headline)
    getattr(sys, sys.argv[1])(lambda *_: None)
    judge(exercise, sum, bench()[:1])
    getattr(sys, sys.argv[1])(None)
"""


@pytest.mark.parametrize("follow", ["setprofile", "settrace"])
def test_a_profile_works_after_a_call_was_stopped(follow):
    """CPython 3.11 enters no function under a profile while an exception seems to wait: the process hung."""
    command = [sys.executable, "-c", FOLLOWED, follow]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    said = done.stdout.splitlines()
    assert [line for line in said if STOPPED.fullmatch(line)] == said
    assert len(said) == 2


def test_a_call_that_takes_long_is_spoken_of_once(monkeypatch):
    """While it runs, and not after the verdict; a short call is not spoken of."""
    for limit in ("SECONDS", "ON_THE_WALL"):
        monkeypatch.setattr(time_limits, limit, 300.0)
    monkeypatch.setattr(time_limits, "SPEAKS", 0.0)
    heard = threading.Event()
    spoken = []

    def speak():
        spoken.append(threading.current_thread())
        heard.set()

    def total(losses):
        assert heard.wait(120)
        return sum(losses)

    assert judge(looping(), total, CPU, speak=speak).passed
    assert len(spoken) == 1
    assert spoken[0] is not threading.main_thread()
    assert not spoken[0].is_alive()
    monkeypatch.setattr(time_limits, "SPEAKS", 300.0)
    assert judge(looping(), sum, CPU, speak=speak).passed
    assert len(spoken) == 1
