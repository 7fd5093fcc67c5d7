"""The idle process that trials are forked from: a server of `devlab.launching`, started at the first error.

It has run nothing of the learner's: a process that ran a backward pass, or has used CUDA, cannot be forked.
"""

import base64
import contextlib
import gc
import importlib
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

import torch

from devlab.explaining import wall
from devlab.explaining.trials import LIMIT, Trial, run
from devlab.launching import Launcher
from devlab.sim import allow_after_fork, enable, rule

_LIFE, _STARTING = 600, 60  # seconds: to live, to import PyTorch on a busy machine
_NOT_OURS = frozenset({"torch", "devlab", "IPython", "ipykernel"})
_OWN = {"CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1", "DEVLAB_DEVICE": "sim"}
_RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE")  # a launcher's, and none of the learner's


class Template:
    """The process that trials are forked from; `process` is its number, 0 where there is none."""

    def __init__(self):
        used = [name for name in sys.modules if "." not in name and name not in _NOT_OURS]
        used = [name for name in used if "-packages" in str(getattr(sys.modules[name], "__file__", ""))]
        # What trials would each import anew: some parts of PyTorch take seconds, as those for `meta` do.
        used += [name for name in sys.modules if name.startswith("torch.") and name.count(".") == 1]
        path = [entry or os.getcwd() for entry in sys.path]
        own = f"import os, sys; os.environ.update({_OWN!r}); sys.path[:] = {path!r}; "
        prepare = f"{own}from {__name__} import prepare; prepare({used!r})"
        self._launcher, self._owner = Launcher(prepare, LIMIT, _STARTING), os.getpid()

    @property
    def process(self) -> int:
        """Return the number of the process, which starts where it does not run."""
        return self._launcher.wake().pid

    def tried(self, trial: Trial) -> dict:
        """Return what came of a trial; its status is "time" or "crash" where no result came back."""
        facts = {**trial._asdict(), "args": base64.b64encode(trial.args).decode()}
        with tempfile.TemporaryDirectory(prefix="devlab-trial-", ignore_cleanup_errors=True) as folder:
            answer = Path(folder, "answer")
            Path(folder, "trial").write_text(json.dumps(facts), encoding="utf-8")
            (status,) = self._launcher.run(f"from {__name__} import be_trial; be_trial({folder!r})", 1, _OWN)
            if answer.exists():
                return json.loads(answer.read_text(encoding="utf-8"))
            return {"status": "time" if status is None else "crash"}

    def mine(self) -> bool:
        """Tell whether the process is this process's own, not its parent's."""
        return self._owner == os.getpid()

    def end(self) -> None:
        """End the process and what has been forked from it; the next trial starts another."""
        self._launcher.end()


def prepare(used: list[str]) -> None:
    """Import what trials need, in the process that they are forked from."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")  # where memory ends, a trial goes before the learner's work does
    signal.alarm(_LIFE)
    torch.set_num_threads(1)
    enable()
    rule.declarations()
    torch.nn.Linear(1, 1).to("sim")(torch.ones(1, 1, device="sim")).sum().item()
    for name in used:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def be_trial(folder: str) -> None:
    """Run the trial that a folder holds, in a process of its own, and leave there what came of it."""
    try:
        for name in _RANKS:
            os.environ.pop(name, None)
        facts = json.loads(Path(folder, "trial").read_text(encoding="utf-8"))
        allow_after_fork()
        wall.enter(folder)
        got = run(Trial(**{**facts, "args": base64.b64decode(facts["args"])}))
        answer = Path(folder, "unfinished")
        answer.write_text(json.dumps(got), encoding="utf-8")
        answer.rename(Path(folder, "answer"))
    finally:
        os._exit(0)
