"""The process that never runs a student's code, and judges by transcripts what workers claim.

Most answers are right, and their transcript is the reference's to the byte. Any other is read by a child
process, which ends after that.
"""

import contextlib
import importlib
import itertools
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import BinaryIO

import torch

from devlab.checks.exercise import find
from devlab.classroom.engine import quota
from devlab.classroom.engine.processes import receive, send
from devlab.classroom.engine.transcript import judge_again, places
from devlab.classroom.engine.worker import Ready, begin_randomly, work
from devlab.classroom.results import row_passed
from devlab.sim import allow_after_fork

PATIENCE = 30  # seconds for the replay of one submission


class Checker:
    """Knows which rows a replay can judge: those that the reference passes by its own transcript.

    `seed` is that of the submissions' inputs, so that the reference answers the same questions.
    """

    def __init__(self, devices: Sequence[torch.device], seed: int):
        self.devices = devices
        self.seed = seed
        # For each row on each device: whether a replay can judge the row, whether the row looks at more than
        # results, and the reference's calls.
        self.known: dict[str, list[tuple[bool, bool, list]]] = {}
        # The reference's own rows and transcript, and the answer of `check` about them.
        self.own: dict[str, tuple[list, str, dict]] = {}

    def learn(self, name: str, verdict: dict) -> None:
        """Replay the reference's transcript of an exercise."""
        exercise, calls = find(name), json.loads(verdict["calls"])
        self.known[name] = found = []
        for (row, device), kept in zip(places(exercise, self.devices), calls, strict=True):
            said, watched = judge_again(exercise, row, device, self.devices, self.seed, kept)
            found.append((said == "passes" and bool(kept), watched, kept))
        self.own[name] = verdict["rows"], verdict["calls"], self.check(name, verdict)

    def check(self, name: str, verdict: dict) -> dict[str, list[str]]:
        """Return which rows the replay finds passed (`confirmed`), failed (`refuted`), or cannot judge.

        The replay judges only rows that the verdict calls passed. A row is `unread` where the reference's
        transcript can be judged and this transcript cannot: its results cannot be put back, or the worker
        skipped the row, though this machine judged the reference.
        """
        exercise, found = find(name), {"confirmed": [], "refuted": [], "unread": []}
        calls, spots = _read_transcript(verdict.get("calls")), places(exercise, self.devices)
        for row, (label, marks) in zip(exercise.rows, verdict["rows"], strict=True):
            said = {
                self._judge(exercise, row, device, marks, position, calls[position : position + 1])
                for position, (one, device) in enumerate(spots)
                if one is row
            }
            worst = next((word for word in ("refuted", "unread") if word in said), "confirmed")
            if worst in said and (worst != "confirmed" or len(said) == 1):
                found[worst].append(label)
        return found

    def _judge(self, exercise, row, device, marks: dict, position: int, calls: list) -> str:
        known = self.known.get(exercise.name)
        able, more, reference = known[position] if known else (False, False, [])
        if able and marks.get(str(device)) == "skipped":
            return "unread"
        if not able or not row_passed(marks):
            return "a claim"
        calls = calls[0] if calls and isinstance(calls[0], list) else []
        if calls != reference:
            said, _ = judge_again(exercise, row, device, self.devices, self.seed, calls)
            if said != "passes":
                return "refuted" if said == "fails" else said
        return "a claim" if more else "confirmed"

    def answer(self, claims: dict[str, dict]) -> dict[str, dict]:
        """Return what `check` says of verdicts by exercise; a child reads what is not the reference's."""
        known = {name: self.own.get(name, (None, None, {})) for name in claims}
        said = {
            name: found
            for name, (rows, calls, found) in known.items()
            if rows == claims[name]["rows"] and calls == claims[name].get("calls")
        }
        if rest := {name: one for name, one in claims.items() if name not in said}:
            said |= _run_in_child(
                lambda: {name: self.check(name, one) for name, one in rest.items()}, PATIENCE
            )
        return said


def _read_transcript(calls: object) -> list:
    """Return a transcript that came as JSON; an empty one for what no recorder writes."""
    try:
        found = json.loads(calls)
    except (TypeError, ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def learn(ready: Ready, seed: int, steps: Sequence, jobs: int, tell: Callable) -> Checker:
    """Learn from the reference, in some jobs side by side; first `tell` which modules that imported."""
    names = [name for kind, name, _ in steps if kind == "check"]
    # Each child runs all cells, and judges its share of the answers.
    shares = [names[number::jobs] for number in range(min(jobs, len(names)))]
    parts = [_start_child(partial(_reference, ready, steps, share, seed)) for share in shares]
    modules = sorted({name for part in parts for name in next(part, {}).get("modules", ())})
    tell(modules)
    checker = Checker(ready.devices, seed)
    for one in itertools.chain(*parts):
        checker.known |= one["known"]
        checker.own |= one["own"]
    import_modules(modules)
    return checker


def serve(checker: Checker, asked: int, tell: int) -> None:
    """Answer questions, {exercise: verdict}, by {exercise: what `check` gives} until they end.

    An exercise has no answer where the replay ended early.
    """
    with os.fdopen(asked, "rb") as questions, os.fdopen(tell, "wb") as answers:
        while (claims := receive(questions)) is not None:
            send(answers, checker.answer(claims))


def ask(questions: BinaryIO, answers: BinaryIO, claims: dict[str, dict]) -> dict[str, dict]:
    """Ask a checker about verdicts by exercise, and return {exercise: what `check` gives}."""
    send(questions, claims)
    return receive(answers)


def import_modules(names: Sequence[str]) -> None:
    """Import modules by name, as far as that goes."""
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:  # a module that another module makes as it runs cannot be imported by its name
            continue


def _run_in_child(work: Callable[[], dict], seconds: int) -> dict:
    """Return what a function returns, in a child process; {} where that ends early or takes too long."""

    def limited() -> Iterator[dict]:
        quota.set_limits(quota.Limits(), 1)  # a transcript may ask for any amount of memory
        yield work()

    return dict(*_start_child(limited, seconds))


def _start_child(work: Callable[[], Iterable[dict]], seconds: int = 0) -> Iterator[dict]:
    """Fork a process; return an iterator over the messages that `work` gives there, as far as it comes."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            allow_after_fork()
            signal.alarm(seconds)
            with os.fdopen(writing, "wb") as stream:
                for one in work():
                    send(stream, one)
        finally:
            os._exit(0)
    os.close(writing)
    return _read_messages(child, reading)


def _read_messages(child: int, reading: int) -> Iterator[dict]:
    with os.fdopen(reading, "rb") as stream, contextlib.suppress(ValueError):  # which half a message raises
        while message := receive(stream):
            yield message
    os.waitpid(child, 0)


def _reference(ready: Ready, steps: Sequence, names: Sequence[str], seed: int) -> Iterator[dict]:
    """Run the reference and judge some of its answers; give the modules that came, then what is learned."""
    before, verdicts = set(sys.modules), {}
    begin_randomly(seed)
    steps = [step for step in steps if step[0] != "check" or step[1] in names]
    work(ready, steps, (), lambda one: verdicts.update({one.get("done"): one}), seed)
    yield {"modules": sorted(set(sys.modules) - before)}
    checker = Checker(ready.devices, seed)
    for name, verdict in verdicts.items():
        if name and verdict.get("calls"):
            checker.learn(name, verdict)
    yield {"known": checker.known, "own": checker.own}
