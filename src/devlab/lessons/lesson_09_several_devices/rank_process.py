"""What runs in the other processes: the template that is forked, and one rank of a group."""

import contextlib
import datetime
import json
import os
import pickle
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from devlab.checks.calls import is_learners
from devlab.checks.placeholder import STUB
from devlab.lessons.lesson_09_several_devices.ranks import INSIDE, TIMEOUT

# The whole run of a group, in seconds; a function that still runs then is ended.
LONGEST = 6
# Of its own computing; there the line is known at which it was.
COMPUTING = 1.5
# What counts of one turn of the wait for it: a machine that stood still meanwhile ran no function either.
TURN = 0.05


def serve() -> None:
    """Start a group for each request that comes, and answer when it has ended; nothing runs here itself."""
    torch.set_num_threads(1)
    torch.compiler.disable(lambda: None)  # imports what a DistributedDataParallel would, in each child anew
    requests, answers = sys.stdin, os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a function prints is no answer
    for line in requests:
        request = json.loads(line)
        _run_group(request["folder"], request["count"])
        print("done", file=answers, flush=True)


def _run_group(folder: str, count: int) -> None:
    start = _forked if hasattr(os, "fork") else _spawned
    ranks = [start(folder, rank, count) for rank in range(count)]
    left, before = LONGEST, time.monotonic()
    while any(alive() for alive, _ in ranks) and left > 0:
        time.sleep(0.002)
        left, before = left - min(time.monotonic() - before, TURN), time.monotonic()
    for rank, (alive, end) in enumerate(ranks):
        if alive():
            _report(folder, rank, {"kind": "late", "error": f"still running after {LONGEST} seconds"})
        end()


def _report(folder: str, rank: int, report: dict) -> None:
    """Leave what one rank did in the folder, whole or not at all."""
    temporary = Path(folder) / f"writing{rank}"
    temporary.write_text(json.dumps(report), encoding="utf-8")
    temporary.replace(Path(folder) / f"report{rank}")


def _forked(folder: str, rank: int, count: int):
    child = os.fork()
    if not child:
        os.setpgid(0, 0)  # so that what the function starts ends with it
        signal.alarm(LONGEST + 2)  # and so that it ends if the template has ended
        try:
            work(folder, rank, count)
        finally:
            os._exit(0)
    ended = []

    def alive() -> bool:
        if not ended and os.waitpid(child, os.WNOHANG)[0]:
            ended.append(True)
        return not ended

    def end() -> None:
        for kill in (os.killpg, os.kill):
            try:
                kill(child, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        if not ended:
            os.waitpid(child, 0)

    return alive, end


def _spawned(folder: str, rank: int, count: int):
    arguments = f"{folder!r}, {rank}, {count}"
    code = f"from {__package__} import rank_process; rank_process.work({arguments})"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return (lambda: child.poll() is None), (lambda: (child.kill(), child.wait()))


def work(folder: str, rank: int, count: int) -> None:
    """Be one rank: join the group, run the function, and leave a report in the folder."""
    seen = {"ddp": 0, "backwards": 0, "reductions": 0}
    _leave_quietly()
    try:
        paths, function, data = pickle.loads((Path(folder) / "request").read_bytes())
        os.environ.update({"RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": str(rank), INSIDE: "1"})
        sys.path[:] = [*paths, *(entry for entry in sys.path if entry not in paths)]
        function = pickle.loads(function)
        _join(Path(folder) / "meeting", rank, count)
        _notice(DistributedDataParallel, "forward", "ddp", seen)
        _notice(torch.Tensor, "backward", "backwards", seen)
        _notice(dist, "all_reduce", "reductions", seen)
        x, y = (torch.tensor(values) for values in data[rank])
        with _limited():
            report = _described(function(rank, count, (x, y)))
    except BaseException as error:
        report = _excused(error)
    _report(folder, rank, report | seen | {"ddp": bool(seen["ddp"])})


class _TooLong(BaseException):
    """Ends a function that computes for ever."""


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Raise _TooLong where a block computes for seconds, at its line; one that waits is ended later."""
    if not hasattr(signal, "SIGVTALRM"):
        yield
        return

    def ring(*_: object) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, COMPUTING)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class _Apart(Exception):
    """The ranks did not find each other, which is no fault of the function's: it has not run."""


def _join(meeting: Path, rank: int, count: int) -> None:
    """Join the group, and wait until all have: who ended before would take the connection with it."""
    patience = datetime.timedelta(seconds=TIMEOUT)
    try:
        store = dist.FileStore(str(meeting), count)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=count, timeout=patience)
        store.set(f"joined {rank}", "")
        store.wait([f"joined {other}" for other in range(count)], patience)
    except Exception as error:
        raise _Apart(f"{error}") from error


def _leave_quietly() -> None:
    """Make leaving the group do nothing, under each of its names.

    Who leaves a gloo group first leaves the other hanging now and then; here the group ends with the process.
    """
    home = sys.modules[dist.destroy_process_group.__module__]
    dist.destroy_process_group = home.destroy_process_group = lambda group=None: None


def _notice(home: object, name: str, what: str, seen: dict[str, int]) -> None:
    """Count the calls of a function or method from now on."""
    function = getattr(home, name)

    def noticed(*args, **kwargs):
        seen[what] += 1
        return function(*args, **kwargs)

    setattr(home, name, noticed)


def _described(result: object) -> dict:
    """Return a result in a form that crosses: what each item of a list is, and the numbers of tensors."""
    if not isinstance(result, list | tuple):
        return {"kind": f"{type(result).__name__}", "result": None}
    items = [
        {
            "device": str(item.device),
            "dtype": str(item.dtype),
            "shape": list(item.shape),
            "values": item.detach().cpu().double().tolist(),
            "parameter": isinstance(item, torch.nn.Parameter),
        }
        if isinstance(item, torch.Tensor)
        else {"is": type(item).__name__}
        for item in result
    ]
    return {"kind": "list", "result": items}


def _excused(error: BaseException) -> dict:
    stub = isinstance(error, NotImplementedError) and error.args in ((), (STUB,))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_learners(frame.filename)]
    last = frames[-1] if frames else None
    said = str(error).partition("\n")[0]
    if isinstance(error, _Apart):
        return {"kind": "apart", "error": said}
    late = isinstance(error, _TooLong)
    return {
        "kind": "late" if late else "error",
        "error": f"still running after {COMPUTING} seconds" if late else f"{type(error).__name__}: {said}",
        "file": last.filename if last else "",
        "line": last.lineno if last else 0,
        "stub": stub,
    }
