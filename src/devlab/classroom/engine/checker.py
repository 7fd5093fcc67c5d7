"""The process that never runs a student's code, and judges by transcripts what workers claim.

For each submission it forks: what a worker sent is read in a child alone, which nobody after it meets.
"""

import importlib
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence

import torch

from devlab.checks import registry
from devlab.classroom.engine.messages import send, whole
from devlab.classroom.engine.replay import judged_again, places
from devlab.classroom.engine.worker import Ready, begin_randomly, work

CLAIM = (False, False, [])
PATIENCE = 30  # seconds for the replay of one submission


class Checker:
    """Knows which rows a replay can judge: those that the reference passes by its own transcript.

    `seed` is the submissions' own, so that the reference was asked what they are asked.
    """

    def __init__(self, devices: Sequence[torch.device], seed: int):
        self.devices = devices
        self.seed = seed
        # For each row on each device: whether a replay can judge it, whether it looks at more, the calls.
        self.known: dict[str, list[tuple[bool, bool, list]]] = {}

    def learn(self, name: str, calls: list[list[dict]]) -> None:
        """Replay the reference's transcript of an exercise."""
        exercise = registry.find(name)
        self.known[name] = found = []
        for (row, device), kept in zip(places(exercise, self.devices), calls, strict=True):
            passes, watched = judged_again(exercise, row, device, self.devices, self.seed, kept)
            found.append((passes is True and bool(kept), watched, kept))

    def check(self, name: str, verdict: dict) -> dict[str, list[str]]:
        """Return the rows that the replay says passed (`confirmed`), did not (`refuted`), or cannot tell of.

        Only rows that the verdict calls passed are asked about. `unread` are those that the reference's
        transcript allows to judge, and this one does not.
        """
        exercise, found = registry.find(name), {"confirmed": [], "refuted": [], "unread": []}
        claims, calls = verdict["rows"], verdict.get("calls")
        calls = calls if isinstance(calls, list) else []
        for row, (_, marks) in zip(exercise.rows, claims, strict=True):
            judged = [one for one in marks.values() if one is not None]
            if not judged or any(one != "passed" for one in judged):
                continue  # no claim: it failed, or nothing was written that could be judged
            said = {
                self._again(exercise, one, device, position, calls[position : position + 1])
                for position, (one, device) in enumerate(places(exercise, self.devices))
                if one is row
            }
            for word in ("refuted", "unread"):
                if word in said:
                    found[word].append(row.label)
                    break
            else:
                found["confirmed"] += [row.label] if said == {"confirmed"} else []
        return found

    def answer(self, question: bytes) -> dict[str, dict]:
        """Return what `check` says of each exercise in a question."""
        return {
            name: self.check(name, one) for name, one in json.loads(question).items() if name in self.known
        }

    def _again(self, exercise, row, device, position: int, kept: list) -> str:
        able, more, reference = self.known[exercise.name][position] if exercise.name in self.known else CLAIM
        if not able:
            return "a claim"
        kept = kept[0] if kept and isinstance(kept[0], list) else []
        if kept != reference:
            passes, _ = judged_again(exercise, row, device, self.devices, self.seed, kept)
            if passes is not True:
                return "unread" if passes is None else "refuted"
        return "a claim" if more else "confirmed"


def learned(devices: Sequence[torch.device], seed: int, steps: Sequence, tell: Callable) -> Checker:
    """Learn from the reference; first `tell` which modules it came to import."""
    told = _thrown_away(lambda: _reference(steps, seed))
    tell(told.get("modules", []))
    bring(told.get("modules", []))
    if len(told.get("verdicts", {})) < sum(kind == "check" for kind, _, _ in steps):
        # A module that is imported on the way may change PyTorch's own functions, as torch._dynamo does.
        told = _thrown_away(lambda: _reference(steps, seed))
    checker = Checker(devices, seed)
    checker.known = _thrown_away(lambda: _replayed(devices, seed, told.get("verdicts", {})))
    return checker


def serve(checker: Checker, asked: int, tell: int) -> None:
    """Answer until the questions end.

    A question is {exercise: verdict}, with the transcript as `calls`; the answer {exercise: what `check`
    gives}, empty where the replay itself ended early.
    """
    questions, answers = os.fdopen(asked, "rb"), os.fdopen(tell, "wb")
    while (question := whole(questions)) is not None:
        send(answers, _thrown_away(lambda asked=question: checker.answer(asked), PATIENCE))


def bring(names: Sequence[str]) -> None:
    """Import modules by name, as far as that goes."""
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:  # a module that another one makes as it runs cannot be imported by its name
            continue


def _thrown_away(work: Callable[[], dict], seconds: int = 0) -> dict:
    """Return what a function returns in a child process; {} where the child ends early or takes too long."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            signal.alarm(seconds)
            with os.fdopen(writing, "wb") as stream:
                send(stream, work())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        text = stream.read()
    os.waitpid(child, 0)
    return json.loads(text[4:]) if len(text) > 4 and len(text) == 4 + int.from_bytes(text[:4], "big") else {}


def _reference(steps: Sequence, seed: int) -> dict:
    """Run the reference; return what it came to import, and its verdicts."""
    before, verdicts = set(sys.modules), {}
    begin_randomly(seed)
    ready = Ready(name for kind, name, _ in steps if kind == "check")
    work(ready, steps, (), lambda one: verdicts.update({one.get("done"): one}), seed)
    return {
        "modules": sorted(set(sys.modules) - before),
        "verdicts": {name: one for name, one in verdicts.items() if name and one.get("calls")},
    }


def _replayed(devices: Sequence[torch.device], seed: int, verdicts: dict[str, dict]) -> dict[str, list]:
    checker = Checker(devices, seed)
    for name, verdict in verdicts.items():
        checker.learn(name, verdict["calls"])
    return checker.known
