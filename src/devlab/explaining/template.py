"""The idle process that trials are forked from: a Python of its own, started at the first error.

It has run nothing of the learner's: a process that ran a backward pass, or has used CUDA, cannot be forked.
"""

import atexit
import base64
import contextlib
import gc
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from multiprocessing.connection import Connection, Pipe

import torch

from devlab.explaining import wall
from devlab.explaining.trials import LIMIT, Trial, run
from devlab.sim import allow_after_fork, enable, rule

_START = "from devlab.explaining.template import serve; serve()"
_BEGINNING, _IDLE, _SLACK = 60.0, 600.0, 5.0  # seconds: to import PyTorch, to live unasked, to answer late
# What trials would each import anew, if the learner's program has imported it.
_SLOW = ("torch._dynamo", "torch.distributions", "torch.utils.data", "torch.nn.utils", "torch.testing")
_NOT_OURS = frozenset({"torch", "devlab", "IPython", "ipykernel"})


class NoAnswer(Exception):
    """The template does not answer, and has been ended."""


class Template:
    """The process that trials are forked from; raises NoAnswer where there is none."""

    def __init__(self):
        used = [name for name in sys.modules if "." not in name and name not in _NOT_OURS]
        used = [name for name in used if "-packages" in str(getattr(sys.modules[name], "__file__", ""))]
        used += [name for name in _SLOW if name in sys.modules]
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        own = {"CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, *used],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "DEVLAB_DEVICE": "sim", **own},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise NoAnswer from error
        self._asking = Connection(os.dup(self._process.stdin.fileno()), readable=False)
        self._answers = Connection(os.dup(self._process.stdout.fileno()), writable=False)
        self._owner, self._patience = os.getpid(), _BEGINNING
        atexit.register(self.end)

    def tried(self, trial: Trial) -> dict:
        """Return what came of a trial; raises NoAnswer where the template is gone or hangs."""
        facts = {**trial._asdict(), "args": base64.b64encode(trial.args).decode()}
        try:
            self._asking.send_bytes(json.dumps(facts).encode())
            answer = _receive(self._answers, LIMIT + _SLACK + self._patience)
        except BaseException as error:  # an interrupt, too: an answer that comes later belongs to nobody
            self.end()
            if isinstance(error, OSError | EOFError | ValueError):
                raise NoAnswer from error
            raise
        self._patience = 0.0
        return answer

    def alive(self) -> bool:
        """Tell whether the process still runs, and is this process's own, not its parent's."""
        return self._owner == os.getpid() and self._process.poll() is None

    def end(self) -> None:
        """End the process and what has been forked from it, if they are this process's own."""
        if not self.alive():
            return
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired, OSError):
            self._process.communicate(timeout=_SLACK)


def _receive(source: Connection, seconds: float) -> dict:
    """Return the next message; raises EOFError at the end, TimeoutError (an OSError) after so long."""
    if not source.poll(seconds):
        raise TimeoutError
    return json.loads(source.recv_bytes())


def serve() -> None:
    """Be the template: import what trials need, then fork one for each message, and send what came of it."""
    source, answers = Connection(os.dup(0), writable=False), Connection(os.dup(1), readable=False)
    for stream in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")  # where memory ends, a trial goes before the learner's work does
    torch.set_num_threads(1)
    enable()
    rule.declarations()
    torch.nn.Linear(1, 1).to("sim")(torch.ones(1, 1, device="sim")).sum().item()
    for name in sys.argv[1:]:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    while True:
        try:
            facts = _receive(source, _IDLE)
        except (OSError, EOFError):
            os._exit(0)
        got = _forked(Trial(**{**facts, "args": base64.b64decode(facts["args"])}))
        answers.send_bytes(json.dumps(got).encode())


def _forked(trial: Trial) -> dict:
    """Run a trial in a process of its own, and end all that is left of the trial after its limit."""
    folder, (source, answers) = tempfile.mkdtemp(prefix="devlab-trial-"), Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            allow_after_fork()
            wall.enter(folder)
            answers.send_bytes(json.dumps(run(trial)).encode())
        finally:
            os._exit(0)
    answers.close()
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)
    try:
        return _receive(source, LIMIT)
    except (OSError, EOFError, ValueError) as error:
        return {"status": "time" if isinstance(error, TimeoutError) else "crash"}
    finally:
        source.close()
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        shutil.rmtree(folder, ignore_errors=True)
