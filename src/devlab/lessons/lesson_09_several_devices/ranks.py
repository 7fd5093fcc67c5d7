"""Two processes of one group, as a launcher starts them: each runs the learner's function with its own rank.

A template process imports PyTorch once and runs nothing, so it may be forked: one pair of children for each
run, in milliseconds. Where there is no fork (Windows) each pair is started anew, which takes seconds. The
processes meet through a file, so no port is taken, and whatever happens in them ends with them.
"""

import atexit
import builtins
import contextlib
import datetime
import importlib
import importlib.util
import io
import json
import marshal
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from devlab.checks.calls import is_learners
from devlab.checks.placeholder import STUB

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

    `data` holds for each rank the arguments' tensors as nested lists. Raises `CannotShip` where
    the function cannot be sent, and `Apart` where the processes do not find each other.
    """
    global _met
    if INSIDE in os.environ:
        raise CannotShip("this process is one of the two, and starts no others")
    # What the function imports, a file of the learner's too, is found there as it is here.
    paths = [str(Path(entry).absolute()) if entry == "" else entry for entry in sys.path]
    request = pickle.dumps((paths, ship(function), data))
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
        return [_read_report(Path(folder) / f"report{rank}") for rank in range(count)]


def wake() -> None:
    """Start the template, which takes seconds, before a run waits for it."""
    with _lock:
        _awake()


def _awake() -> subprocess.Popen:
    global _template
    if _template is None or _template.poll() is not None:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "DEVLAB_DEVICE": "cpu"}
        _template = subprocess.Popen(
            [sys.executable, "-c", f"from {__package__} import ranks; ranks.serve()"],
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


def _read_report(path: Path) -> Report:
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
            _leave_report(folder, rank, {"kind": "late", "error": f"still running after {LONGEST} seconds"})
        end()


def _leave_report(folder: str, rank: int, report: dict) -> None:
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
    code = f"from {__package__} import ranks; ranks.work({arguments})"
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
    _leave_report(folder, rank, report | seen | {"ddp": bool(seen["ddp"])})


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


class _NotJoined(Exception):
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
        raise _NotJoined(f"{error}") from error


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
    if isinstance(error, _NotJoined):
        return {"kind": "apart", "error": said}
    late = isinstance(error, _TooLong)
    return {
        "kind": "late" if late else "error",
        "error": f"still running after {COMPUTING} seconds" if late else f"{type(error).__name__}: {said}",
        "file": last.filename if last else "",
        "line": last.lineno if last else 0,
        "stub": stub,
    }


class CannotShip(Exception):
    """A value that the function uses cannot go to another process; the message names it."""


def ship(function: Callable) -> bytes:
    """Return a function as bytes that `pickle.loads` turns into the function again, in another process.

    Raises CannotShip where it uses something that cannot leave this process.

    >>> def double(x):
    ...     return 2 * x
    >>> pickle.loads(ship(double))(21)
    42
    """
    buffer = io.BytesIO()
    try:
        _Shipper(buffer, protocol=5).dump(function)
    except (pickle.PicklingError, TypeError, ValueError, AttributeError) as problem:
        raise CannotShip(str(problem)) from problem
    return buffer.getvalue()


class _Shipper(pickle.Pickler):
    """Pickles functions and classes that no import finds, by what they are made of."""

    def reducer_override(self, value: object):
        if isinstance(value, types.ModuleType):
            return importlib.import_module, (value.__name__,)
        if isinstance(value, types.FunctionType) and not _importable(value):
            made = marshal.dumps(value.__code__), value.__name__, len(value.__closure__ or ())
            return _function, made, _inside(value), None, None, _fill
        if isinstance(value, type) and not _importable(value):
            return (
                _class,
                (type(value), value.__name__, value.__bases__),
                _members(value),
                None,
                None,
                _furnish,
            )
        # What decorators, data classes and named tuples leave in a class.
        if isinstance(value, staticmethod | classmethod):
            return type(value), (value.__func__,)
        if isinstance(value, property):
            return property, (value.fget, value.fset, value.fdel)
        if isinstance(value, types.MappingProxyType):
            return _proxy, (dict(value),)
        return NotImplemented


def _importable(value: Callable) -> bool:
    """Tell whether another process finds the value by its module and name."""
    module = getattr(value, "__module__", None)
    if module in (None, "__main__", "__mp_main__") or "<locals>" in value.__qualname__:
        return False
    found = sys.modules.get(module)
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value and importlib.util.find_spec(module) is not None


def _inside(function: types.FunctionType) -> dict:
    """Return what a function is made of besides its code."""
    used = set(_names(function.__code__)) & function.__globals__.keys()
    return {
        "globals": {name: function.__globals__[name] for name in used},
        "cells": [_content(cell) for cell in function.__closure__ or ()],
        "attributes": {"__defaults__": function.__defaults__, "__kwdefaults__": function.__kwdefaults__},
    }


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _content(cell: types.CellType) -> tuple:
    try:
        return (cell.cell_contents,)
    except ValueError:  # a name that the function around it has not bound yet
        return ()


def _members(made: type) -> dict:
    left_out = ("__dict__", "__weakref__", "__doc__")
    return {name: value for name, value in vars(made).items() if name not in left_out}


def _function(code: bytes, name: str, cells: int) -> types.FunctionType:
    closure = tuple(types.CellType() for _ in range(cells))
    # The name of the module is not "__main__": what a script does only when it is run stays undone.
    return types.FunctionType(
        marshal.loads(code), {"__builtins__": builtins, "__name__": "shipped"}, name, None, closure
    )


def _fill(function: types.FunctionType, inside: dict) -> None:
    function.__globals__.update(inside["globals"])
    for cell, content in zip(function.__closure__ or (), inside["cells"], strict=True):
        if content:
            (cell.cell_contents,) = content
    for name, value in inside["attributes"].items():
        setattr(function, name, value)


def _proxy(content: dict) -> types.MappingProxyType:
    return types.MappingProxyType(content)  # whose own name no import finds


def _class(meta: type, name: str, bases: tuple) -> type:
    return types.new_class(name, bases, {"metaclass": meta})


def _furnish(made: type, members: dict) -> None:
    for name, value in members.items():
        setattr(made, name, value)
