"""Judges a row again where no student's code runs: what the answer gave comes from a transcript."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from unittest import mock

import torch

from devlab.checks.calls import AnswerRaised, Call
from devlab.checks.exercise import Exercise, Row
from devlab.checks.isolation import preserved_state
from devlab.checks.judge import judge_row
from devlab.checks.result import Outcome
from devlab.checks.trial import Caller, Trial
from devlab.classroom.engine import transcript
from devlab.classroom.engine.transcript import Impossible

# What a device's module says of its memory: the student's part of it is not here.
MEMORY = (
    "memory_allocated",
    "max_memory_allocated",
    "memory_reserved",
    "max_memory_reserved",
    "memory_stats",
)
MEMORY += ("mem_get_info",)


class Differs(BaseException):
    """The row asked for something other than the transcript says, or the transcript is none."""


class Tape(Caller):
    """The calls of one row on one device, given back one by one.

    `watched` tells whether the row also looked at what the code did on its way, of which nothing is here;
    `blind` whether the code was given something to call, which a replay does not.
    """

    def __init__(self, calls: Sequence[dict]):
        self.calls = list(calls)
        self.watched = self.blind = False

    def call(
        self, trial: Trial, function: Callable, args: tuple, label: str, changes: bool, log: object
    ) -> object:
        """Give back a call's result or raise its error, and change arguments as it changed them."""
        trial.last_call = Call(label, {})
        if not self.calls:
            raise Differs
        given = transcript.inside(args)
        self.blind |= any(callable(one) and not isinstance(one, torch.nn.Module) for one in given)
        if log is not None:
            self.watched = True
            with log:  # it saw nothing
                pass
        try:
            return self._again(self.calls.pop(0), args, given, label, changes)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as wrong:
            raise Differs from wrong  # nothing that a recorder writes

    def _again(self, call: dict, args: tuple, given: list, label: str, changes: bool) -> object:
        if call["of"] != label:
            raise Differs
        if "raised" in call:
            raise AnswerRaised(transcript.read_error(*call["raised"]))
        if changes:
            _change(args, transcript.read(call["left"]))
            given = transcript.inside(args)
        return transcript.read(call["gave"], given)


def judged_again(
    exercise: Exercise, row: Row, device: torch.device, devices: Sequence, seed: int, calls: Sequence[dict]
) -> tuple[bool | None, bool]:
    """Return whether a row passes by its transcript, None where that cannot tell; and whether it watched."""
    tape = Tape(calls)
    try:
        with preserved_state(), _memory_unknown():
            found = judge_row(exercise, row, _stand_in(exercise), device, devices, seed, tape)
    except Differs:
        return False, tape.watched
    except (Impossible, RuntimeError):
        return None, tape.watched
    if found.outcome is Outcome.PASSED:
        return (True if not tape.calls else None), tape.watched
    judged = found.outcome in (Outcome.FAILED, Outcome.ERROR) and "could not judge" not in found.headline
    return (False if judged and not tape.blind else None), tape.watched


def places(exercise: Exercise, devices: Sequence[torch.device]) -> list[tuple[Row, torch.device]]:
    """Return each row with each device it is judged on, in the order of the judgement."""
    return [(row, device) for row in exercise.rows for device in devices if row.applies_to(device, devices)]


@contextlib.contextmanager
def _memory_unknown() -> Iterator[None]:
    """Let no row ask how much memory an answer took."""

    def memory(*_: object, **__: object) -> None:
        raise Impossible("memory")

    accelerator = torch.accelerator.current_accelerator()
    module = torch.get_device_module(accelerator) if accelerator else None
    with contextlib.ExitStack() as stack:
        for name in (name for name in MEMORY if hasattr(module, name)):
            stack.enter_context(mock.patch.object(module, name, memory))
        yield


def _stand_in(exercise: Exercise) -> Callable:
    def answer(*_: object, **__: object) -> None:
        raise Impossible(exercise.name)

    answer.__name__ = exercise.name
    return type(exercise.name, (), {"__init__": answer}) if exercise.wants_class else answer


def _change(given: object, left: object) -> None:
    """Make arguments what they were after the call; raises Impossible where that is not to be had."""
    if isinstance(left, transcript.Opaque):
        raise Impossible("an argument")
    if isinstance(given, torch.Tensor):
        if given.shape != left.shape:
            raise Impossible("a tensor of another shape")
        given.detach().copy_(left)
    elif isinstance(given, list | tuple) and len(given) == len(left):
        for one, other in zip(given, left, strict=True):
            _change(one, other)
    elif isinstance(given, dict) and given.keys() == left.keys():
        for key, one in given.items():
            _change(one, left[key])
    elif type(given) is not type(left) or given != left:
        raise Impossible("an argument")
