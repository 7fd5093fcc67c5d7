"""What runs in a submission's own process: the cells, one by one, and the judgement of each exercise."""

import contextlib
import json
import os
import random
import struct
import sys
from collections.abc import Callable, Iterable, Sequence

import numpy
import torch

from devlab.checks import answered, placeholder
from devlab.checks.calls import settle_devices
from devlab.checks.exercise import exercises
from devlab.checks.expect import Mismatch
from devlab.checks.judge import judge, not_attempted
from devlab.checks.result import Outcome, Result
from devlab.checks.settings import seed_generators
from devlab.checks.trial import Caller
from devlab.classroom.engine import cells
from devlab.classroom.engine.seal import Seal, refuse_rewriting
from devlab.classroom.engine.transcript import Recorder
from devlab.shell import Shell

MOST_NAMES = 20  # of what was exchanged, that a worker tells
TEXT = 4000  # characters of a headline or a detail: a worker sends no more, and a record keeps no more


class Witness(Recorder):
    """Keeps every call of an answer, and has put back after each what the call exchanged."""

    def __init__(self, seal: Seal):
        super().__init__()
        self.seal = seal

    def call(self, *facts: object) -> object:
        """Make a call; raises Mismatch where it exchanged what devlab judges it by."""
        try:
            result = super().call(*facts)
        finally:
            exchanged = self.seal.put_back_after_call()
        if ours := next((name for name in exchanged if name.startswith("devlab.")), ""):
            headline = "your code exchanged a part of devlab that judges it"
            raise Mismatch(headline, f"{ours} as it is", "another")
        self.seal.require_plain(result)
        return result


class Ready:
    """What a submission's process is born with: exercises, devices, an empty notebook, witness and seal."""

    def __init__(self, names: Iterable[str]):
        from devlab.devices import bench

        self.shell = Shell()
        self.notebook = sys.modules["__main__"] = self.shell.notebook
        self.devices = bench()
        self.exercises = {one.name: one for one in exercises()}
        self.seal = Seal(self.exercises[name] for name in names if name in self.exercises)
        self.witness = Witness(self.seal)


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
    notebook, shell, verdict_of, remarks = ready.notebook, ready.shell, _judge_answer, {}
    plan = cells.plan_run(steps, skip, everything)
    send({"own": plan.needs})
    steps = plan.steps
    first = next((place for place, (kind, _, _) in enumerate(steps) if kind != "setup"), 0)
    for place, (kind, name, source) in enumerate(steps):
        if place == first:
            refuse_rewriting(seal.functions)
        if name:
            send({"begin": name})
        if kind == "setup":
            _run_teachers_cell(source, f"<cell {place + 1}>", shell, seal)
        elif kind != "check":
            if problem := _run_cell(source, f"<cell {place + 1}>", shell):
                remarks[name] = problem
        else:
            exchanged = [one for one in seal.put_back() if one.startswith("devlab.")]
            exercise, given, written = exercises.get(name), vars(notebook).get(name), name in plan.written
            witness.take()
            verdict = verdict_of(exercise, given, written, remarks.get(name), devices, seed, witness)
            send({"done": name, **verdict, "exchanged": exchanged[:MOST_NAMES], "calls": witness.take()})
    send({"end": True})


def _run_teachers_cell(source: str, name: str, shell: Shell, seal: Seal) -> None:
    """Run a cell of the teacher's: what it exchanges is right from there on, and so are its classes."""
    seal.put_back()
    before = shell.user_ns.copy()
    _run_cell(source, name, shell)
    known = seal.known
    if seal.find_exchanged():
        seal.note()
    made = [one for key, one in shell.user_ns.items() if isinstance(one, type) and before.get(key) is not one]
    seal.known = known.union(made)


def _judge_answer(exercise, given, written: bool, problem, devices: Sequence, seed: int, caller: Caller):
    """Return one exercise's verdict as plain data."""
    if exercise is None:
        return early("grader error", "devlab has no exercise of this name")
    if given is None:
        verdict = not_attempted(exercise)
        problem = problem or (f"no cell defines {exercise.name}" if written else "")
        return early(_kind(problem), problem) if problem else _facts(verdict)
    try:
        found = answered.exercise_of(given, [exercise.name])
    except answered.BadCall as bad:
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


def _run_cell(source: str, name: str, shell: Shell) -> str:
    """Run a cell in the notebook; return what it raised, "" for nothing."""
    try:
        shell.run(source, name)
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
