"""Two processes of one group, as a launcher starts them: each runs the learner's function with its own rank.

A template process imports PyTorch once and runs nothing, so it may be forked: one pair of children for each
run, in milliseconds. Where there is no fork (Windows) each pair is started anew, which takes seconds. The
processes meet through a file, so no port is taken, and whatever happens in them ends with them.
"""

import atexit
import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from devlab.lessons.lesson_09_several_devices import shipping

# Seconds: what a run may take in all (the first one imports PyTorch), and what a collective may.
PATIENCE = 30
TIMEOUT = 4
INSIDE = "DEVLAB_RANK"  # set in the environment of a process that is one rank
_lock = threading.Lock()
_template: subprocess.Popen | None = None
_met = True  # whether the last processes found each other


class Apart(Exception):
    """The processes did not find each other; the message says what PyTorch said."""


@dataclass
class Report:
    """What one rank did: `result` is what the function returned, or `error` its exception in words.

    `kind` is "list" or the name of another type that was returned, "error", "gone" where no word came,
    "late" where it was still running when time was up, or "apart" where the ranks did not find each other and
    nothing ran. `ddp` tells whether a DistributedDataParallel ran forward, `stub` whether the function is
    unfinished; `backwards` and `reductions` count calls of `backward` and of `all_reduce`.
    """

    result: list | None = None
    kind: str = ""
    error: str = ""
    file: str = ""
    line: int = 0
    ddp: bool = False
    backwards: int = 0
    reductions: int = 0
    stub: bool = False


def run(function: Callable, data: list[list]) -> list[Report]:
    """Run `function(rank, world_size, data[rank])` in one process for each rank; return their reports.

    `data` holds for each rank the arguments' tensors as nested lists. Raises `shipping.CannotShip` where
    the function cannot be sent, and `Apart` where the processes do not find each other.
    """
    global _met
    if INSIDE in os.environ:
        raise shipping.CannotShip("this process is one of the two, and starts no others")
    # What the function imports, a file of the learner's too, is found there as it is here.
    paths = [str(Path(entry).absolute()) if entry == "" else entry for entry in sys.path]
    request = pickle.dumps((paths, shipping.ship(function), data))
    reports = _run_once(request, len(data))
    if _met and _apart(reports):  # the machine may have stood still for some seconds
        reports = _run_once(request, len(data))
    _met = not _apart(reports)
    if not _met:
        raise Apart(_apart(reports)[0].error)
    return reports


def _apart(reports: list[Report]) -> list[Report]:
    return [report for report in reports if report.kind == "apart"]


def _run_once(request: bytes, count: int) -> list[Report]:
    with _lock, tempfile.TemporaryDirectory(prefix="devlab-ranks-") as folder:
        (Path(folder) / "request").write_bytes(request)
        _ask_template(folder, count)
        return [_report(Path(folder) / f"report{rank}") for rank in range(count)]


def wake() -> None:
    """Start the template, which takes seconds, before a run waits for it."""
    with _lock:
        _awake()


def _awake() -> subprocess.Popen:
    global _template
    if _template is None or _template.poll() is not None:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "DEVLAB_DEVICE": "cpu"}
        _template = subprocess.Popen(
            [sys.executable, "-c", f"from {__package__} import rank_process; rank_process.serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=os.name == "posix",
        )
    return _template


def _ask_template(folder: str, count: int) -> None:
    template = _awake()
    guard = threading.Timer(PATIENCE, end)
    guard.start()
    try:
        template.stdin.write(json.dumps({"folder": folder, "count": count}).encode() + b"\n")
        template.stdin.flush()
        template.stdout.readline()
    except OSError:  # it ended meanwhile: the reports are missing, and say so
        end()
    finally:
        guard.cancel()


def _report(path: Path) -> Report:
    try:
        return Report(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return Report(kind="gone", error="the process ended without a result")


@atexit.register
def end() -> None:
    """End the template and every process that it started."""
    if _template is None:
        return
    if _template.poll() is None:
        if os.name == "posix":
            os.killpg(_template.pid, signal.SIGKILL)
        else:
            _template.kill()
    _template.wait()
    for pipe in (_template.stdin, _template.stdout):
        with contextlib.suppress(OSError):
            pipe.close()
