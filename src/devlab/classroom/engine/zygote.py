"""The process that imports everything, once for all jobs, and forks what grades: templates and checkers.

It is started as `python -c`. Its first child forks a watcher for each job, which forks its template: these
never see a solution. The process itself reads the teacher's notebook from stdin and goes on as the checkers.
"""

import contextlib
import gc
import itertools
import os
import secrets
import signal
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from devlab.checks import registry
from devlab.classroom.engine import checker, sandbox, template, watch, watcher, worker
from devlab.classroom.engine.family import HEAP
from devlab.classroom.engine.limits import Limits
from devlab.classroom.engine.messages import receive, send
from devlab.devices import bench
from devlab.sim import mixing

SEEDS = 10**6
# Imported at their first use, which would be in every submission.
USED_BY_ALL = ("encodings.ascii", "numpy.random", "devlab.begin", "devlab.explaining.uncaught")
DYING = 1.0  # seconds for a template that is through with its work to end by itself


def main(facts: dict) -> None:
    """Fork a template and a checker for each job, and wait for their end.

    `facts` are a `folder` for scratch folders, and sockets to the grader as `ends`, one a job at most. From
    stdin come more of them, the isolation `level`, the `limits`, the `names` of the exercises, the `hidden`
    paths and how many `jobs` there are, and then the teacher's notebook. What keeps it from beginning goes to
    stderr, a file. Never returns.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the grader's to answer
    sandbox.adopt_orphans()  # so that the grader finds every process below this one
    torch.set_num_threads(1)
    seed = secrets.randbelow(SEEDS)
    source, scratch = os.dup(0), Path(facts["folder"]) / "scratch"
    scratch.mkdir()
    template.silence(scratch, streams=(0, 1))
    for name in HEAP:  # a program that a submission starts is not forked from
        os.environ.pop(name, None)
    bench()
    mixing.declarations()  # read once, not by every submission that mixes devices
    checker.bring(USED_BY_ALL)
    registry.exercises()  # the lessons are imported here
    with os.fdopen(os.dup(source), "rb", buffering=0) as stream:
        told = receive(stream)
    if told is None:  # nothing is to be graded
        return
    facts |= told
    ends, modules = facts["ends"][: facts["jobs"]], os.pipe()
    asking, telling = [os.pipe() for _ in ends], [os.pipe() for _ in ends]
    of_templates = [(end, ask, told) for end, (_, ask), (told, _) in zip(ends, asking, telling, strict=True)]
    of_checkers = [(asked, tell) for (asked, _), (_, tell) in zip(asking, telling, strict=True)]
    ready = worker.Ready(facts["names"])
    os.ftruncate(2, 0)  # all is well: what was said, warnings above all, explains no end that comes later
    template.silence(scratch)
    if not os.fork():
        _last(lambda: _templates(facts, ready, seed, modules[0], of_templates))
    _last(lambda: _checkers(ready, seed, source, modules[1], of_checkers))


def _templates(facts: dict, ready: worker.Ready, seed: int, modules: int, ways: list[tuple]) -> None:
    """Import what the teacher's notebook needs, then fork the watchers, and from each its template."""
    template.only(modules, *itertools.chain(*ways))
    before = watch.memory([os.getpid()])
    folder, limits = Path(facts["folder"]), Limits(**facts["limits"])
    hidden = [Path(path) for path in facts["hidden"]]
    walls = [sandbox.walls(facts["level"], folder / f"scratch{job}", job, hidden) for job in range(len(ways))]
    with os.fdopen(modules, "rb") as stream:
        came = receive(stream)["modules"]
    checker.bring(came)
    if ready.seal.came():  # what the seal does not know, every submission would find anew
        ready.seal.note()

    def serve(job: int, way: tuple) -> None:
        end, ask, told, rules = way
        sandbox.adopt_orphans()  # whoever ends a watcher must find all that descends from it
        ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        if not (child := os.fork()):
            template.only(theirs.fileno(), rules)
            _last(lambda: template.Template(ready, walls[job], limits, seed).serve(theirs))
        theirs.close()
        asking = partial(checker.ask, os.fdopen(ask, "wb"), os.fdopen(told, "rb"))
        watching = watcher.Watcher(child, ours, walls[job], limits, before, asking)
        watcher.serve(watching, socket.socket(fileno=end))
        ours.close()
        watch.end(os.getpid(), DYING)

    _each(serve, [(*way, one.rules) for way, one in zip(ways, walls, strict=True)])


def _checkers(ready: worker.Ready, seed: int, source: int, modules: int, ways: list[tuple]) -> None:
    """Learn from the teacher's notebook, tell which modules it came to import, then fork the checkers."""
    template.only(source, modules, *itertools.chain(*ways))
    with os.fdopen(source, "rb", buffering=0) as stream:
        steps = receive(stream)["steps"]
    with os.fdopen(modules, "wb") as stream:
        known = checker.learned(ready, seed, steps, len(ways), lambda names: send(stream, {"modules": names}))
    _each(lambda _, way: checker.serve(known, *way), ways)


def _each(serve: Callable[[int, tuple], None], ways: list[tuple]) -> None:
    """Fork a process for each job, which has its own way to others and no one else's, and wait for all."""
    gc.freeze()  # what is here stays: looking through it would only copy it into each child
    gc.enable()
    for number, way in enumerate(ways):
        if not os.fork():
            template.only(*way)
            _last(lambda number=number, way=way: serve(number, way))
    template.only()
    with contextlib.suppress(ChildProcessError):
        while os.wait():
            pass


def _last(work: Callable[[], None]) -> None:
    """Do something, and end this process: there is nothing to tidy, and taking PyTorch down takes long."""
    try:
        work()
    finally:
        os._exit(0)
