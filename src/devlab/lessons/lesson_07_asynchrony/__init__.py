"""Lesson 07: asynchrony: the host runs ahead, and when an accelerator is worth its price."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from unittest import mock

import torch

from devlab.checks import expect
from devlab.checks.calls import plain_function
from devlab.checks.exercise import Lesson
from devlab.sim import clock, host_clock
from devlab.watching import timing

lesson = Lesson(
    "07_asynchrony",
    "Asynchrony",
    ("time_op", "event_time", "batched", "regime", "read_trace", "Prefetcher", "crossover"),
)


class Work:
    """A function of known length: `seconds(call)` says how long each call keeps the device busy.

    On the simulated device it is modelled work, on the CPU the host's own time goes by; on a real device it
    is a row of matrix products, whose length is not known beforehand.
    """

    def __init__(self, device: torch.device, seconds: Callable[[int], float]):
        self.device = device
        self.seconds = seconds
        self.lengths: list[float] = []
        if device.type not in ("cpu", "sim"):
            self._x = torch.ones(2048, 2048, device=device)

    @property
    def calls(self) -> int:
        """Return how many calls there were."""
        return len(self.lengths)

    def __repr__(self) -> str:
        return "fn"

    def __call__(self) -> torch.Tensor:
        """Do the work once more; the result says nothing."""
        seconds = self.seconds(self.calls + 1)
        self.lengths.append(seconds)
        if self.device.type == "sim":
            keep_busy(self.device, seconds)
        elif self.device.type == "cpu":
            clock.spend(seconds)
        else:
            for _ in range(max(1, round(seconds * 2000))):
                self._x = torch.mm(self._x, self._x) * 1e-4
        return torch.zeros(())


def keep_busy(device: torch.device, seconds: float) -> None:
    """Queue work of this length on a simulated device."""
    spec = clock.devices[device.index].spec
    clock.launch(device.index, (seconds - spec.shortest) * spec.bandwidth)


LENGTH = 1e-3  # seconds of one call
SLOW = 20e-3  # seconds of a call that should not count


def time_answer(
    trial,
    seconds: Callable[[int], float],
    repeats: tuple = (),
    backlog: float = 0.0,
    note: Callable[[Work], contextlib.AbstractContextManager] = contextlib.nullcontext,
) -> tuple[float, Work]:
    """Return the answer's time of work whose calls take `seconds(call)`, and that work.

    `repeats` are further arguments; `backlog` is how many seconds of other work the device has queued
    before; `note(work)` is entered around the call of the answer.
    """
    work = Work(trial.device, seconds)
    if trial.device.type != "cpu":
        torch.accelerator.synchronize(trial.device)  # what an earlier call left behind is not judged here
    if backlog:
        Work(trial.device, lambda call: backlog)()
    function = plain_function(trial.answer)
    host = host_clock.tell_simulated_time(function) if is_modelled(trial) else contextlib.nullcontext()
    with _expect_own_measurement(), host, note(work):
        got = trial.call(work, trial.device, *repeats)
    expect.kind(got, float, "a float", "the time")
    return got, work


def is_modelled(trial) -> bool:
    """Tell whether the length of the work is known: a real device's is measured."""
    return trial.device.type in ("cpu", "sim")


def length_of(trial, seconds: float) -> float:
    """Return how long work of `seconds` takes on the trial's device; of a real one it is measured."""
    if is_modelled(trial):
        return seconds
    work = Work(trial.device, lambda call: seconds)
    return timing.time_op(work, trial.device, repeats=5, show=False).median


TRIES = 5  # on a real device


def patiently(judge: Callable) -> Callable:
    """Let a row that goes by time judge again: other programs may slow down a real device in one try."""

    @functools.wraps(judge)
    def judge_again(trial) -> None:
        for _ in range(0 if is_modelled(trial) else TRIES - 1):
            with contextlib.suppress(expect.Mismatch):
                return judge(trial)
        return judge(trial)

    return judge_again


@contextlib.contextmanager
def _expect_own_measurement() -> Iterator[None]:
    """Expect that the answer measures by itself, and leaves the course's own tool alone."""
    with mock.patch.object(timing, "_sampled", wraps=timing._sampled) as tool:
        yield
    headline = "devlab.time_op did the work, and the task is to write what it does"
    expect.that(not tool.called, headline, "your own warm-up, waits and clock", "a call of devlab.time_op")


LAUNCH = "that is the time of the launch: the clock was stopped before the work was done"
NOT_TIMED = "hardly any time: is fn called between two looks at a clock such as time.perf_counter?"
UNITS = {"milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}


def slow_call(number: int) -> Callable[[int], float]:
    """Return the seconds of calls of which that one is slow."""
    return lambda call: SLOW if call == number else LENGTH


def expect_seconds(
    trial,
    got: float,
    seconds: float,
    otherwise: str,
    known: Mapping[str, float] | None = None,
    plain: bool = False,
) -> None:
    """Expect the time of work of `seconds`; say what was measured instead, else `otherwise`.

    `known` holds the times that mistakes give; on a real device, whose times vary, they are not looked at.
    `plain` says that `otherwise` is known to be the cause, whatever the number is.
    """
    wanted, loose = length_of(trial, seconds), 1.05 if is_modelled(trial) else 3.0
    if wanted / loose <= got <= wanted * loose:
        return
    units = [unit for unit, many in UNITS.items() if wanted / loose <= got / many <= wanted * loose]
    known = known if known and is_modelled(trial) else {}
    found = [words for words, one in known.items() if abs(got - one) <= 0.01 * abs(one)]
    headline = found[0] if len(found) == 1 else otherwise
    if not plain and got < 0:
        headline = "the time is negative: which reading of the clock came first?"
    elif units:
        headline = f"the time is in {units[0]}, and seconds are asked"
    elif headline == otherwise and not plain and got < wanted / 10:
        headline = NOT_TIMED if trial.device.type == "cpu" else LAUNCH
    expect.fail(headline, f"{wanted:.6f} seconds", f"{got:.6f}")
