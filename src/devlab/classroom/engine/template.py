"""The process that submissions are forked from: everything imported, one thread, and nothing of any student.

It reads no answer and no verdict. Its watcher hands it open files, of the notebook to run and of the pipe for
verdicts, and it passes them on to the process that it forks.
"""

import json
import os
import signal
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from devlab.classroom.engine import limits as limiting
from devlab.classroom.engine import sandbox, watch
from devlab.classroom.engine.worker import Ready, begin_randomly, channel, work

MOST = 1 << 16  # bytes of what a watcher says at once


class Template:
    """Forks a process for each run of a submission, and ends whatever came of it.

    `ready` is what each is born with, `walls` what each runs behind, `seed` that of all inputs.
    """

    def __init__(self, ready: Ready, walls: sandbox.Walls, limits: limiting.Limits, seed: int):
        self.ready, self.walls, self.limits, self.seed = ready, walls, limits, seed
        sandbox.adopt_orphans()  # what a submission detaches comes back to this process, which ends it

    def serve(self, watcher: socket.socket) -> None:
        """Do what the watcher says, one thing after the other, until it is gone.

        It says {"steps": how many, "skip": [exercise, ...], "nonce": text, "everything": flag} with the two
        files to have a process forked, and {"end": seconds} to have all processes ended that are there after
        so long. Each is answered by {}, or by the {"problem": text} that kept it from being done.
        """
        try:
            while True:
                text, files, _, _ = socket.recv_fds(watcher, MOST, 2)
                if not text:
                    return
                asked, answer = json.loads(text), {}
                try:
                    if "end" in asked:
                        watch.end(os.getpid(), asked["end"])
                    else:
                        self._fork(*files, **asked)
                except (OSError, RuntimeError) as problem:
                    answer = {"problem": str(problem)}
                finally:
                    for one in files:
                        os.close(one)
                watcher.send(json.dumps(answer).encode())
        finally:
            watch.end(os.getpid())  # a watcher that was killed takes its submission along

    def _fork(self, notebook: int, writing: int, steps: int, **asked: object) -> None:
        require_forkable()
        if os.fork() == 0:
            self._child(notebook, writing, steps, **asked)

    def _child(
        self, notebook: int, writing: int, count: int, skip: Sequence[str], nonce: str, everything: bool
    ) -> None:
        """Enter the walls, then run the steps; never returns."""
        walls = self.walls
        try:
            os.setsid()
            only(notebook, writing, walls.rules)
            if walls.level >= 1:
                if walls.uid:
                    sandbox.become_nobody(walls.uid)
                limiting.apply(self.limits, count)
            if walls.level >= 3:
                sandbox.enter_namespaces()
                first, inside = sandbox.first_process(), os.fork()
                if inside:  # all that is left to do is to wait: what this process touches is copied
                    os.close(writing)
                    _, status = os.waitpid(inside, 0)
                    # When process 1 ends, the kernel ends every process of the namespace.
                    os.kill(first, signal.SIGKILL)
                    os.waitpid(first, 0)
                    os._exit(os.waitstatus_to_exitcode(status) & 127)
            with open(notebook, encoding="utf-8") as stream:
                stream.seek(0)
                steps = json.load(stream)
            silence(walls.scratch)
            if walls.level >= 2:
                sandbox.enter_walls(walls.rules, walls.level)
            send = channel(writing, nonce)
            send({"begin": ""})  # the walls stand: what goes wrong from here on is the submission's doing
            begin_randomly(self.seed)
            work(self.ready, steps, skip, send, self.seed, everything)
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
    tempfile.tempdir = None  # which keeps the place that was asked for first
    os.environ.update(HOME=here, TMPDIR=here, TEMP=here, XDG_CACHE_HOME=here, MPLCONFIGDIR=here)


def require_forkable() -> None:
    """Raise RuntimeError where a fork would hang or break: a second thread, or CUDA in use."""
    tasks = Path("/proc/self/task")
    threads = len(list(tasks.iterdir())) if tasks.exists() else 1
    if threads > 1 or (torch.cuda.is_available() and torch.cuda.is_initialized()):
        raise RuntimeError(f"the template has {threads} threads or uses a GPU: a fork of it would hang")
