"""The process that submissions are forked from: everything imported, one thread, no student's code.

A child of it reads one request from a socket and answers on it, both as a length and JSON, and is gone before
the next. A request holds the steps of one submission; the answer holds an outcome for each exercise.
"""

import json
import os
import secrets
import select
import struct
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from devlab.checks import registry
from devlab.classroom.engine import checker, sandbox, watch
from devlab.classroom.engine import limits as limiting
from devlab.classroom.engine.messages import receive, send
from devlab.classroom.engine.worker import Ready, begin_randomly, channel, work

FACTS = {"outcome", "headline", "rows", "details", "tampered"}  # what a verdict may hold
GRACE = 0.1  # seconds for a process that is through with its work to end by itself
TICK = 0.1  # seconds between looks at what the processes use
END = 3  # the exit status of a child that found no request, but their end


class Template:
    """Forks a process for each submission, watches it, and leaves nothing of it behind.

    `ready` is what each is born with, `level` the isolation to use, `scratch` the only folder that a
    submission may write in, `seed` that of all inputs; `ask` has a checker answer what it makes of verdicts.
    """

    def __init__(
        self,
        ready: Ready,
        level: int,
        scratch: Path,
        limits: limiting.Limits,
        seed: int,
        ask: Callable,
    ):
        self.ready, self.level, self.scratch, self.limits, self.seed = ready, level, scratch, limits, seed
        self.ask = ask
        self.before = watch.memory([os.getpid()])  # bytes, before a submission begins
        # Root gives itself up, where nobody else's user can read this Python.
        self.uid = sandbox.NOBODY + os.getpid() % 4000 if sandbox.readable_by(sandbox.NOBODY) else 0
        self.hold = sandbox.ruleset(scratch) if level >= 2 else -1
        sandbox.adopt_orphans()  # whoever ends this process must find all that descends from it

    def grade(self, steps: list, names: list[str]) -> dict:
        """Return {"exercises": {name: verdict}, "labels": {name: those of its rows}, "seconds": all it took}.

        Each death of the process costs the exercise that it was at.
        """
        sandbox.adopt_orphans()  # what a submission detaches comes back to this process, which ends it
        done: dict[str, dict] = {}
        started = time.monotonic()
        for _ in range(len(names) + 1):
            at, why = self._run(steps, done)
            if not why:
                break
            done[at or next(name for name in names if name not in done)] = why
            if len(done) == len(names):
                break
        self._confirm(done)
        labels = {name: [row.label for row in one.rows] for name in names if (one := registry.find(name))}
        return {"exercises": done, "labels": labels, "seconds": time.monotonic() - started}

    def _confirm(self, done: dict[str, dict]) -> None:
        """Have what workers claimed judged again, by the transcripts that they sent."""
        claims = {name: one for name, one in done.items() if one.get("rows")}
        said = self.ask(claims) if claims else {}
        for name, one in done.items():
            kept = {key: one[key] for key in FACTS & one.keys()}
            done[name] = settled(kept, said.get(name)) if name in claims else kept

    def _run(self, steps: list, done: dict[str, dict]) -> tuple[str, dict | None]:
        """Fork one process over the steps not done; return where it ended early and why, None for the end."""
        require_forkable()
        nonce = secrets.token_hex(16)
        self._clean()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            self._child(steps, list(done), writing, nonce)
        os.close(writing)
        grace = 0.0
        try:
            at, why = self._watch(reading, nonce, done)
            grace = GRACE if why is None else 0.0
            return at, why
        finally:
            os.close(reading)
            watch.end(os.getpid(), grace)
            self._clean()

    def _watch(self, reading: int, nonce: str, done: dict[str, dict]) -> tuple[str, dict | None]:
        held, total, at = b"", 0, ""
        looked = time.monotonic()
        deadline = looked + self.limits.seconds
        while True:
            ready, _, _ = select.select([reading], [], [], TICK)
            if time.monotonic() > deadline:
                return at, _early("timeout", f"no answer within {self.limits.seconds:g} seconds")
            if time.monotonic() > looked + TICK:  # also where it never stops sending
                if over := watch.excess(os.getpid(), self.scratch, self.limits, self.before):
                    return at, _early(*over)
                looked = time.monotonic()
            if not ready:
                continue
            got = os.read(reading, 1 << 16)
            total += len(got)
            if total > self.limits.output << 20:
                return at, _early("killed", "it wrote to where verdicts go")
            if not got and not total:
                ours = f"the walls of isolation level {self.level} could not be built; nothing was run"
                return at, _early("grader error", ours)
            if not got:
                return at, _early("killed", self._cause())
            held += got
            while len(held) >= 4 and len(held) >= 4 + (size := struct.unpack(">I", held[:4])[0]):
                text, held = held[4 : 4 + size], held[4 + size :]
                try:
                    message = json.loads(text)
                    if not isinstance(message, dict) or message.pop("nonce") != nonce:
                        raise ValueError
                except (ValueError, KeyError, RecursionError):
                    return at, _early(
                        "error", "tampered with what judges it: a forged verdict", tampered=True
                    )
                if "end" in message:
                    return "", None
                if "begin" in message:
                    # A name begins twice, its cell and its check: both in one allowance of time.
                    deadline = deadline if message["begin"] == at else time.monotonic() + self.limits.seconds
                    at = message["begin"]
                else:
                    done[message.pop("done")] = message
            if len(held) >= 4 and struct.unpack(">I", held[:4])[0] > self.limits.output << 20:
                return at, _early("error", "tampered with what judges it: a forged verdict", tampered=True)

    def _child(self, steps: list, skip: list, writing: int, nonce: str) -> None:
        """Build the walls, then run the steps; never returns."""
        try:
            os.setsid()
            silence(self.scratch)
            only(writing, self.hold)
            if self.level >= 1:
                if self.uid:
                    sandbox.become_nobody(self.uid)
                limiting.apply(self.limits, len(steps))
            if self.level >= 3:
                sandbox.enter_namespaces()
                if os.fork():  # this one is outside the new process namespace; it has nothing more to do
                    os._exit(0)
                first = os.fork()
                if first:
                    # Process 1: when it ends, the kernel ends every process of the namespace.
                    os.close(writing)
                    _, status = os.waitpid(first, 0)
                    os._exit(os.waitstatus_to_exitcode(status) & 127)
            if self.level >= 2:
                sandbox.enter_walls(self.hold, self.level)
            send = channel(writing, nonce)
            send({"begin": ""})  # the walls stand: what goes wrong from here on is the submission's doing
            begin_randomly(self.seed)
            work(self.ready, steps, skip, send, self.seed)
        finally:
            os._exit(0)

    def _cause(self) -> str:
        """Say how the process ended, as far as its exit status tells."""
        return "the process ended while this exercise was being graded (os._exit, a signal or a crash)"

    def _clean(self) -> None:
        """Empty the scratch folder and leave it open to the submission's user."""
        os.chmod(self.scratch, 0o700)
        watch.empty(self.scratch)
        if os.geteuid() == 0 and self.uid:
            os.chown(self.scratch, self.uid, self.uid)


def _early(outcome: str, headline: str, **facts: object) -> dict:
    return {"outcome": outcome, "headline": headline, **facts}


def settled(verdict: dict, said: dict | None) -> dict:
    """Return a verdict as a replay leaves it; `said` is what the checker says, None where it cannot.

    >>> settled({"outcome": "passed", "rows": [["a", {"cpu": "passed"}]]}, None)["confirmed"]
    '0 of 1 rows'
    >>> refuted = {"confirmed": [], "refuted": ["a"], "unread": []}
    >>> settled({"outcome": "passed", "rows": [["a", {"cpu": "passed"}]]}, refuted)["headline"]
    'tampered with what judges it: by its own results the row "a" does not pass'
    """
    said = said or {"confirmed": [], "refuted": [], "unread": ["all"]}
    if said["refuted"]:
        which = f'by its own results the row "{said["refuted"][0]}" does not pass'
        return _early("error", f"tampered with what judges it: {which}", tampered=True)
    confirmed = f"{len(said['confirmed'])} of {len(verdict['rows'])} rows"
    return verdict | {"confirmed": confirmed, "unread": said["unread"]}


def only(*wanted: int) -> None:
    """Close every open file but the standard streams and those wanted: the grader's pipes above all."""
    kept = sorted({2, *wanted} - {-1})
    for low, high in zip(kept, [*kept[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
        os.closerange(low + 1, high)


def silence(scratch: Path) -> None:
    """Point the standard streams at nothing, move into scratch, and call it home."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.close(nothing)
    os.chdir(scratch)
    here = str(scratch)
    os.environ.update(HOME=here, TMPDIR=here, TEMP=here, XDG_CACHE_HOME=here, MPLCONFIGDIR=here)


def require_forkable() -> None:
    """Raise RuntimeError where a fork would hang or break: a second thread, or CUDA in use."""
    import torch

    tasks = Path("/proc/self/task")
    threads = len(list(tasks.iterdir())) if tasks.exists() else 1
    if threads > 1 or (torch.cuda.is_available() and torch.cuda.is_initialized()):
        raise RuntimeError(f"the template has {threads} threads or uses a GPU: a fork of it would hang")


def serve(
    ready: Ready,
    level: int,
    scratch: Path,
    limits: limiting.Limits,
    seed: int,
    end: int,
    ask: int,
    told: int,
) -> None:
    """Answer the grader's requests until they end.

    All but the last three are the template's. `end` is the socket to the grader; by `ask` and `told` the
    template reaches its checker.
    """
    requests, answers = os.fdopen(end, "rb", buffering=0), os.fdopen(os.dup(end), "wb")
    questions, verdicts = os.fdopen(ask, "wb"), os.fdopen(told, "rb")

    template = Template(ready, level, scratch, limits, seed, partial(checker.ask, questions, verdicts))

    def answer() -> bool:
        request = receive(requests)
        if request is None:
            return False
        try:
            send(answers, template.grade(request["steps"], request["names"]))
        except Exception as ours:
            send(answers, {"problem": f"{type(ours).__name__}: {ours}"})
        return True

    send(answers, {"learned": os.getpid()})
    while True:
        select.select([requests], [], [])
        # Read in a child: what one student wrote is in no memory that another one's process is born with.
        status = _status_of(answer)
        if status == END:
            return
        if status:
            watch.end(os.getpid())  # the submission's processes have come back to this one
            send(answers, {"problem": f"the process that watches a submission ended ({status})"})


def _status_of(answer: Callable[[], bool]) -> int:
    """Return the exit status of a child that answers: 0, or END where nothing was left to answer."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if answer() else END
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
