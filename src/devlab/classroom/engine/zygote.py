"""The process that imports everything once, and the templates and checkers that are forked from it."""

import contextlib
import gc
import itertools
import json
import os
import secrets
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch

from devlab.checks import exercise
from devlab.classroom.engine import checker, quota, together, walls, watcher, worker
from devlab.classroom.engine.processes import HEAP, MOST_SAID, receive, send
from devlab.classroom.engine.quota import Limits
from devlab.classroom.engine.worker import Ready, begin_randomly, channel, work
from devlab.devices import bench
from devlab.sim import allow_after_fork, rule

SEEDS = 10**6
# Imported at their first use, which would be in every submission.
USED_BY_ALL = ("encodings.ascii", "numpy.random", "devlab.begin", "devlab.explaining.uncaught")
DYING = 1.0  # seconds for a template that is through with its work to end by itself


def main() -> None:
    """Fork a watcher with its template and a checker for each job, and wait for their end.

    Stdin gives a `folder` for scratch folders, sockets to the grader as `ends`, one a job, the isolation
    `level`, the `limits`, the `names` of the exercises, and the `hidden` paths; then, for the checkers alone,
    the teacher's notebook. An error that keeps the zygote from beginning goes to stderr, a file. Never
    returns.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the grader's to answer
    walls.adopt_orphans()  # so that the grader finds every process below this one
    torch.set_num_threads(1)
    seed = secrets.randbelow(SEEDS)
    source = os.dup(0)
    with os.fdopen(os.dup(source), "rb", buffering=0) as stream:
        facts = receive(stream)
    scratch = Path(facts["folder"]) / "scratch"
    scratch.mkdir()
    silence(scratch, streams=(0, 1))
    for name in HEAP:  # programs that a submission starts need none of this: nothing is forked from them
        os.environ.pop(name, None)
    bench()
    rule.declarations()  # read once, not by every submission that mixes devices
    checker.import_modules(USED_BY_ALL)
    exercise.exercises()  # the lessons are imported here
    ends, modules = facts["ends"], os.pipe()
    asking, telling = [os.pipe() for _ in ends], [os.pipe() for _ in ends]
    of_templates = [(end, ask, told) for end, (_, ask), (told, _) in zip(ends, asking, telling, strict=True)]
    of_checkers = [(asked, tell) for (asked, _), (_, tell) in zip(asking, telling, strict=True)]
    ready = worker.Ready(facts["names"])
    os.ftruncate(2, 0)  # all went well: warnings until here must not be told as the reason of a later end
    silence(scratch)
    if not os.fork():
        _last(lambda: _templates(facts, ready, seed, modules[0], of_templates))
    _last(lambda: _checkers(ready, seed, source, modules[1], of_checkers))


def _templates(facts: dict, ready: worker.Ready, seed: int, modules: int, ways: list[tuple]) -> None:
    """Import what the teacher's notebook needs, then fork the watchers, and from each its template."""
    only(modules, *itertools.chain(*ways))
    before = quota.memory([os.getpid()])
    folder, limits = Path(facts["folder"]), Limits(**facts["limits"])
    hidden = [Path(path) for path in facts["hidden"]]
    built = [walls.build(facts["level"], folder / f"scratch{job}", job, hidden) for job in range(len(ways))]
    with os.fdopen(modules, "rb") as stream:
        came = receive(stream)["modules"]
    checker.import_modules(came)
    ready.seal.note()  # anew, since modules came

    def serve(job: int, way: tuple) -> None:
        end, ask, told, rules = way
        walls.adopt_orphans()  # the grader that ends a watcher must find all that descends from it
        ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        if not (child := os.fork()):
            only(theirs.fileno(), rules)
            _last(lambda: Template(ready, built[job], limits, seed).serve(theirs))
        theirs.close()
        asking = partial(checker.ask, os.fdopen(ask, "wb"), os.fdopen(told, "rb"))
        watching = watcher.Watcher(child, ours, built[job], limits, before, asking)
        watcher.serve(watching, socket.socket(fileno=end))
        ours.close()
        quota.end(os.getpid(), DYING)

    _each(serve, [(*way, one.rules) for way, one in zip(ways, built, strict=True)])


def _checkers(ready: worker.Ready, seed: int, source: int, modules: int, ways: list[tuple]) -> None:
    """Learn from the teacher's notebook, tell which modules it came to import, then fork the checkers."""
    only(source, modules, *itertools.chain(*ways))
    with os.fdopen(source, "rb", buffering=0) as stream:
        steps = receive(stream)["steps"]
    with os.fdopen(modules, "wb") as stream:
        known = checker.learn(ready, seed, steps, len(ways), lambda names: send(stream, {"modules": names}))
    _each(lambda _, way: checker.serve(known, *way), ways)


def _each(serve: Callable[[int, tuple], None], ways: list[tuple]) -> None:
    """Fork a process for each job, each with its own files of `ways` alone, and wait for all."""
    gc.freeze()  # to look through what is here would only copy its memory into each child
    gc.enable()
    for number, way in enumerate(ways):
        if not os.fork():
            only(*way)
            _last(lambda number=number, way=way: serve(number, way))
    only()
    with contextlib.suppress(ChildProcessError):
        while os.wait():
            pass


def _last(work: Callable[[], None]) -> None:
    """Do the work of a forked process, and end it at once: taking PyTorch down takes long."""
    try:
        allow_after_fork()
        work()
    finally:
        os._exit(0)


class Template:
    """Forks a worker for each run of a submission, and ends every process that came of it.

    `ready` is what each worker is born with, `behind` the walls that it runs behind, `seed` that of all
    inputs.
    """

    def __init__(self, ready: Ready, behind: walls.Walls, limits: Limits, seed: int):
        self.ready, self.behind, self.limits, self.seed = ready, behind, limits, seed
        walls.adopt_orphans()  # processes that a submission detaches come back to this one, which ends them

    def serve(self, watcher: socket.socket) -> None:
        """Do what the watcher asks until the watcher is gone.

        {"steps": how many, "skip": [exercise, ...], "nonce": text, "everything": flag} comes with two open
        files, the steps and the pipe for messages, and has a worker forked. {"end": seconds} has all
        processes ended that are still there after so long. The answer is {}, or {"problem": text} where that
        could not be done.
        """
        try:
            while True:
                text, files, _, _ = socket.recv_fds(watcher, MOST_SAID, 2)
                if not text:
                    return
                asked, answer = json.loads(text), {}
                try:
                    if "end" in asked:
                        quota.end(os.getpid(), asked["end"])
                    else:
                        require_forkable()
                        if os.fork() == 0:
                            self._child(*files, **asked)
                except (OSError, RuntimeError) as problem:
                    answer = {"problem": str(problem)}
                finally:
                    for one in files:
                        os.close(one)
                watcher.send(json.dumps(answer).encode())
        finally:
            quota.end(os.getpid())  # a watcher that was killed takes its submission along

    def _child(
        self, notebook: int, writing: int, steps: int, skip: Sequence[str], nonce: str, everything: bool
    ) -> None:
        """Enter the walls, then run the steps; never returns."""
        behind = self.behind
        try:
            os.setsid()
            only(notebook, writing, behind.rules)
            if behind.uid:
                walls.become_nobody(behind.uid)
            quota.set_limits(self.limits, steps)
            if behind.level >= 3:
                walls.enter_namespaces()
                first, inside = walls.first_process(), os.fork()
                if inside:  # this process only waits from here on, since all that it touches is copied
                    os.close(writing)
                    _, status = os.waitpid(inside, 0)
                    # When process 1 ends, the kernel ends every process of the namespace.
                    os.kill(first, signal.SIGKILL)
                    os.waitpid(first, 0)
                    os._exit(os.waitstatus_to_exitcode(status) & 127)
            with open(notebook, encoding="utf-8") as stream:
                stream.seek(0)
                written = json.load(stream)
            silence(behind.scratch)
            if behind.level >= 2:
                walls.enter_walls(behind.rules, behind.level)
            send = channel(writing, nonce)
            send({"begin": ""})  # the walls stand: what goes wrong from here on is the submission's doing
            allow_after_fork()
            begin_randomly(self.seed)
            together.share()
            sys.path.append(str(behind.scratch))  # last, so that no module there takes another one's place
            work(self.ready, written, skip, send, self.seed, everything)
        finally:
            os._exit(0)


def only(*wanted: int) -> None:
    """Close every open file but the standard streams and those wanted: the grader's pipes above all."""
    kept = sorted({2, *wanted} - {-1})
    for low, high in zip(kept, [*kept[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
        os.closerange(low + 1, high)


def silence(scratch: Path, streams: Sequence[int] = (0, 1, 2)) -> None:
    """Point standard streams at nothing, move into scratch, and call it home."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in streams:
        os.dup2(nothing, stream)
    os.close(nothing)
    os.chdir(scratch)
    here = str(scratch)
    tempfile.tempdir = None  # tempfile keeps the folder that it found first
    os.environ.update(HOME=here, TMPDIR=here, TEMP=here, XDG_CACHE_HOME=here, MPLCONFIGDIR=here)


def require_forkable() -> None:
    """Raise RuntimeError where a fork would hang or break: a second thread, or CUDA in use."""
    tasks = Path("/proc/self/task")
    threads = len(list(tasks.iterdir())) if tasks.exists() else 1
    if threads > 1 or (torch.cuda.is_available() and torch.cuda.is_initialized()):
        raise RuntimeError(f"the template has {threads} threads or uses a GPU: a fork of it would hang")
