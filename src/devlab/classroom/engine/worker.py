"""What runs in a submission's own process: the cells, one by one, and the judgement of each exercise."""

import contextlib
import functools
import json
import os
import random
import struct
import sys
import types
from collections.abc import Callable, Iterable, Sequence

import numpy
import torch

from devlab.checks import check, placeholder
from devlab.checks.calls import settle_devices
from devlab.checks.exercise import exercises
from devlab.checks.judge import judge, not_attempted
from devlab.checks.result import Outcome, Result
from devlab.checks.settings import seed_generators
from devlab.checks.trial import Caller
from devlab.classroom.engine import cells
from devlab.classroom.engine.seal import Seal, Tampered, refuse_spying
from devlab.classroom.engine.transcript import Recorder
from devlab.explaining import births

TEXT = 4000  # characters of a headline or a detail: a worker sends no more, and a record keeps no more


class Witness(Recorder):
    """Keeps every call of an answer, and looks at the seal after each.

    A patch that takes itself back after its first use would go unseen without that look.
    """

    def __init__(self, seal: Seal):
        super().__init__()
        self.patched, self.require_plain = seal.patched, seal.require_plain

    def call(self, *facts: object) -> object:
        """Make a call; raises Tampered where it changed what judges it."""
        try:
            result = super().call(*facts)
        finally:
            if what := self.patched():
                raise Tampered(f"{what} was changed")
        self.require_plain(result)
        return result


class Ready:
    """What a submission's process is born with: exercises, devices, an empty notebook, witness and seal."""

    def __init__(self, names: Iterable[str]):
        from devlab.devices import bench

        births.refrain()
        self.notebook = sys.modules["__main__"] = cells.new_notebook()
        self.devices = bench()
        self.exercises = {one.name: one for one in exercises()}
        _settle_torch()
        self.seal = Seal([self.exercises[name] for name in names if name in self.exercises])
        self.witness = Witness(self.seal)
        self.seal.note()


def _settle_torch() -> None:
    """Keep PyTorch from exchanging a function of its own: the seal would take that for a student's patch.

    The first step of any optimizer imports torch._dynamo, which replaces `torch.manual_seed` where that is
    still the function of torch.random.
    """
    seed_all = torch.random.manual_seed

    @functools.wraps(seed_all)
    def manual_seed(seed: int) -> torch.Generator:
        return seed_all(seed)

    torch.manual_seed = manual_seed


def work(
    ready: Ready,
    steps: Sequence[Sequence[str]],
    skip: Sequence[str],
    send: Callable[[dict], None],
    seed: int,
    everything: bool = False,
) -> None:
    """Run the steps and send what comes of each; the exercises in `skip` have a verdict already.

    A step is (kind, exercise, source). With `everything` all of a student's own cells are run, whether an
    answer needs them or not. Before any step runs, `{"own": needs}` says which own cells each exercise needs,
    by their places. `{"begin": name}` is sent before each step of an exercise, and `{"done": name, ...}`
    after its check: the verdict, and as `calls` what the answer returned, as JSON.
    """
    exercises, devices, witness, seal = ready.exercises, ready.devices, ready.witness, ready.seal
    notebook = ready.notebook
    plan = cells.plan_run(steps, skip, everything)
    send({"own": plan.needs})
    steps = plan.steps
    # The seal takes whatever the teacher's first cells change for right.
    first = next((place for place, (kind, _, _) in enumerate(steps) if kind != "setup"), 0)
    before = _names(notebook, seal)
    for place, (_, _, source) in enumerate(steps[:first]):
        _run_cell(source, f"<the teacher's cell {place + 1}>", notebook)
    seal.renew(_new(notebook, before, seal))
    refuse_spying(seal)
    verdict_of, broken, remarks = _judge_answer, seal.broken, {}
    for position, (kind, name, source) in enumerate(steps[first:], start=first + 1):
        if name:
            send({"begin": name})
        if kind != "check":
            whole = kind == "setup" and not broken()
            before = _names(notebook, seal) if whole else {}
            problem = _run_cell(source, f"<cell {position}>", notebook)
            if whole:
                seal.renew(_new(notebook, before, seal))
            if problem and name:
                remarks[name] = problem
            continue
        try:
            if what := broken():
                raise Tampered(f"{what} was changed")
            exercise, given = exercises.get(name), vars(notebook).get(name)
            witness.take()
            worked = name in plan.written
            verdict = verdict_of(exercise, given, worked, remarks.get(name), devices, seed, witness)
            verdict["calls"] = witness.take()
            if what := broken():
                raise Tampered(f"{what} was changed")
        except Tampered as found:
            verdict = early("error", f"tampered with what judges it: {found}", tampered=True)
        send({"done": name, **verdict})
    send({"end": True})


def _names(notebook: types.ModuleType, seal: Seal) -> dict:
    """Return what the notebook's names stand for, and the modules that the seal has not seen, by name."""
    return {**seal.came(), **vars(notebook)}


def _new(notebook: types.ModuleType, before: dict, seal: Seal) -> list:
    """Return what the notebook's names came to stand for, and what is in modules that came."""
    new = [one for name, one in _names(notebook, seal).items() if before.get(name) is not one]
    modules = [one for one in new if isinstance(one, types.ModuleType) and one.__name__ not in seal.modules]
    return new + [value for one in modules for value in list(vars(one).values())]


def _judge_answer(
    exercise, given, written: bool, problem: str | None, devices: Sequence, seed: int, caller: Caller
) -> dict:
    """Return one exercise's verdict as plain data."""
    if exercise is None:
        return early("grader error", "devlab has no exercise of this name")
    if given is None:
        verdict = not_attempted(exercise)
        problem = problem or (f"no cell defines {exercise.name}" if written else "")
        return early(_kind(problem), problem) if problem else _facts(verdict)
    try:
        found = check.exercise_of(given, [exercise.name])
    except check.BadCall as bad:
        return early("error", bad.headline)
    if found is not exercise:
        return early("error", f"{exercise.name} is the answer to another exercise")
    blank = placeholder.is_blank(given)
    verdict = _facts(not_attempted(exercise) if blank else judge(exercise, given, devices, seed, caller))
    if problem and verdict["outcome"] == Outcome.NOT_ATTEMPTED:  # a cell raised before it replaced the stub
        return early(_kind(problem), problem)
    return verdict


def early(outcome: str, headline: str, **facts: object) -> dict:
    """Return the verdict on an exercise whose rows were not judged."""
    return {"outcome": outcome, "headline": str(headline)[:TEXT], **facts}


def _facts(result: Result) -> dict:
    rows = [
        [row.label, {place: one and str(one) for place, one in row.outcomes.items()}] for row in result.rows
    ]
    details = [[str(label)[:TEXT], str(text)[:TEXT]] for label, text in result.details]
    headline = str(result.headline)[:TEXT]
    said = " ".join([headline, *(text for _, text in details)])
    outcome = "memory" if result.outcome == "error" and _kind(said) == "memory" else str(result.outcome)
    return {"outcome": outcome, "headline": headline, "rows": rows, "details": details}


def _kind(problem: str) -> str:
    full = ("MemoryError", "DefaultCPUAllocator", "can't allocate memory")
    return "memory" if any(word in problem for word in full) else "error"


def _run_cell(source: str, name: str, notebook: types.ModuleType) -> str:
    """Run a cell in the notebook; return what it raised, "" for nothing."""
    try:
        cells.run_cell(source, name, notebook)
    except Tampered:
        raise
    except BaseException as error:
        kind = type(error).__name__
        text = ""
        with contextlib.suppress(BaseException):
            text = str(error)[:TEXT]
        return f"{kind}: {text}"
    finally:
        settle_devices()  # a cell that makes a simulated device fail must not fail the cells after it
    return ""


def begin_randomly(seed: int) -> None:
    """Set a process's random numbers, and its threads to one, before any work."""
    random.seed(seed)
    numpy.random.seed(seed)
    seed_generators(seed)
    torch.set_num_threads(1)


def channel(descriptor: int, nonce: str) -> Callable[[dict], None]:
    """Return the function that sends a message with the nonce to the watcher: length, then JSON.

    A process that a student's code forks sends nothing, though it goes on in the same code. `calls`, which
    are JSON already and long, follow on a line of their own: JSON would escape all of a string.
    """
    write, dumps, pack, process, own = os.write, json.dumps, struct.pack, os.getpid, os.getpid()

    def send(message: dict) -> None:
        if process() != own:
            return
        facts = {**message, "nonce": nonce}
        calls = facts.pop("calls", "")
        text = f"{dumps(facts)}\n{calls}".encode()
        data = pack(">I", len(text)) + text
        while data:
            data = data[write(descriptor, data) :]

    return send
