"""A learner's function runs in the processes of one group, each with its own rank.

The processes meet through a file, so no port is taken, and whatever happens in them ends with them.
"""

import builtins
import datetime
import importlib
import importlib.util
import io
import json
import marshal
import os
import pickle
import signal
import sys
import tempfile
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
from devlab.launching import Launcher

TIMEOUT = 4  # seconds for a collective
LONGEST = 6  # seconds for a group: a function that still runs then is ended
COMPUTING = 1.5  # seconds of a function's own computing: it is then ended, at a line that the report names
INSIDE = "DEVLAB_RANK"  # set in the environment of a process that is one rank
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "DEVLAB_DEVICE": "cpu"}
# Imports once what each process would import.
PREPARE = f"import torch, {__name__}; torch.set_num_threads(1); torch.compiler.disable(lambda: None)"
_launcher = Launcher(PREPARE, LONGEST)
wake = _launcher.wake
_met = True  # whether the last processes found each other


class Apart(Exception):
    """The processes did not find each other; the message says what PyTorch said."""


@dataclass
class Report:
    """What one rank did: `result` is what the function returned, or `error` its exception in words.

    `kind` is "list" or the name of another type that was returned, "error", "gone" where no word came,
    "late" where it was still running when time was up, or "apart" where the ranks did not find each other and
    nothing ran. `stub` tells whether the function is unfinished. `forwards`, `backwards` and `reductions`
    count calls of a DistributedDataParallel's `forward`, of `backward` and of `all_reduce`, and `exchanges`
    those forwards whose backward has the gradients averaged, as those under `no_sync` have not.
    """

    result: list | None = None
    kind: str = ""
    error: str = ""
    file: str = ""
    line: int = 0
    forwards: int = 0
    backwards: int = 0
    reductions: int = 0
    exchanges: int = 0
    stub: bool = False


def run(function: Callable, data: list[list]) -> list[Report]:
    """Run `function(rank, world_size, data[rank])` in one process for each rank; return their reports.

    `data` holds for each rank the arguments' tensors as nested lists. Raises `CannotShip` where
    the function cannot be sent, and `Apart` where the processes do not find each other.
    """
    global _met
    if INSIDE in os.environ:
        raise CannotShip("this process is one of a group, and starts no others")
    request = pickle.dumps((ship(function), data))
    # The machine may have stood still for some seconds: try twice, but once if the last run failed as well.
    for _ in range(1 + _met):
        reports = _run_once(request, len(data))
        apart = [report for report in reports if report.kind == "apart"]
        _met = not apart
        if _met:
            return reports
    raise Apart(apart[0].error)


def _run_once(request: bytes, count: int) -> list[Report]:
    with tempfile.TemporaryDirectory(prefix="devlab-ranks-") as folder:
        Path(folder, "request").write_bytes(request)
        code = f"from {__name__} import work; work({folder!r})"
        statuses = _launcher.run(code, count, ENVIRONMENT | {INSIDE: "1"})
        return [_read_report(Path(folder, f"report{rank}"), status) for rank, status in enumerate(statuses)]


def _read_report(path: Path, status: int | None) -> Report:
    if status is None:
        return Report(kind="late", error=f"still running after {_launcher.limit} seconds")
    try:
        return Report(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return Report(kind="gone", error="the process ended without a result")


def work(folder: str) -> None:
    """Be one rank: join the group, run the function, leave a report in the folder, and end the process."""
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    seen = {"forwards": 0, "backwards": 0, "reductions": 0, "exchanges": 0}
    _leave_quietly()
    try:
        function, data = pickle.loads(Path(folder, "request").read_bytes())
        function = pickle.loads(function)
        _join(Path(folder, "meeting"), rank, count)
        _notice(DistributedDataParallel, "forward", "forwards", seen)
        _notice(DistributedDataParallel, "forward", "exchanges", seen, "require_backward_grad_sync")
        _notice(torch.Tensor, "backward", "backwards", seen)
        _notice(dist, "all_reduce", "reductions", seen)
        given = tuple(torch.tensor(values) for values in data[rank])
        try:
            _end_after(COMPUTING)
            result = function(rank, count, given)
        finally:
            _end_after(0)
        report = _describe_result(result)
    except BaseException as error:
        report = _report_error(error)
    temporary = Path(folder, f"writing{rank}")
    temporary.write_text(json.dumps(report | seen), encoding="utf-8")
    temporary.replace(Path(folder, f"report{rank}"))  # so that a report is there as a whole or not at all
    os._exit(0)  # a thread that the function has left must not keep the process


class _TooLong(BaseException):
    """Ends a function that computes for ever."""


def _end_after(seconds: float) -> None:
    """Let _TooLong be raised where the function is after so many seconds of computing; 0 takes that back.

    A function that waits is ended by the launcher.
    """

    def ring(*_: object) -> None:
        raise _TooLong

    if hasattr(signal, "SIGVTALRM"):
        signal.signal(signal.SIGVTALRM, ring)
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)


class _NotJoined(Exception):
    """The ranks did not find each other, which is no fault of the function: the function has not run."""


def _join(meeting: Path, rank: int, count: int) -> None:
    """Join the group, and wait until all have: a rank that ended before would close the connection."""
    patience = datetime.timedelta(seconds=TIMEOUT)
    try:
        store = dist.FileStore(str(meeting), count)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=count, timeout=patience)
        store.set(f"joined {rank}", "")
        store.wait([f"joined {other}" for other in range(count)], patience)
    except Exception as error:
        raise _NotJoined(f"{error}") from error


def _leave_quietly() -> None:
    """Make `destroy_process_group` do nothing, under each of its names.

    The first rank to leave a gloo group leaves the other hanging now and then. Here a group ends with its
    processes.
    """
    home = sys.modules[dist.destroy_process_group.__module__]
    dist.destroy_process_group = home.destroy_process_group = lambda group=None: None


def _notice(home: object, name: str, what: str, seen: dict[str, int], only: str = "") -> None:
    """Count the calls of a function or method from now on, or only those where an attribute is true."""
    function = getattr(home, name)

    def noticed(*args, **kwargs):
        seen[what] += not only or getattr(args[0], only)
        return function(*args, **kwargs)

    setattr(home, name, noticed)


def _describe_result(result: object) -> dict:
    """Return a result as JSON holds it: for each item of a list its type, or a tensor's numbers and place."""
    if not isinstance(result, list | tuple):
        return {"kind": f"{type(result).__name__}", "result": None}
    return {"kind": "list", "result": [_describe_item(one) for one in result]}


def _describe_item(value: object) -> dict:
    if not isinstance(value, torch.Tensor):
        return {"is": type(value).__name__, "says": value if isinstance(value, str) else ""}
    return {
        "device": str(value.device),
        "shape": list(value.shape),
        "values": value.detach().cpu().double().tolist(),
        "parameter": isinstance(value, torch.nn.Parameter),
    }


def _report_error(error: BaseException) -> dict:
    said = str(error).partition("\n")[0]
    if isinstance(error, _NotJoined):
        return {"kind": "apart", "error": said}
    late = isinstance(error, _TooLong)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_learners(frame.filename)]
    return {
        "kind": "late" if late else "error",
        "error": f"still running after {COMPUTING} seconds" if late else f"{type(error).__name__}: {said}",
        "file": frames[-1].filename if frames else "",
        "line": frames[-1].lineno if frames else 0,
        "stub": isinstance(error, NotImplementedError) and error.args in ((), (STUB,)),
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
    """Pickles functions and classes that no import finds, by what they are made of.

    cloudpickle would do the same, and would be one more dependency of a learner's: neither torch nor Jupyter
    brings it.
    """

    def reducer_override(self, value: object):
        if isinstance(value, types.ModuleType):
            return importlib.import_module, (value.__name__,)
        if isinstance(value, types.FunctionType) and not _importable(value):
            made = marshal.dumps(value.__code__), value.__name__, len(value.__closure__ or ())
            return _function, made, _inside(value), None, None, _fill
        if isinstance(value, type) and not _importable(value):
            own = ("__dict__", "__weakref__", "__doc__")
            members = {name: member for name, member in vars(value).items() if name not in own}
            made = type(value), value.__name__, value.__bases__
            return _class, made, members, None, None, _furnish
        # Decorators, data classes and named tuples leave these in a class.
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


def _inside(function: types.FunctionType) -> tuple:
    """Return what a function is made of besides its code: globals, cells, and the values of parameters."""
    used = set(_names(function.__code__)) & function.__globals__.keys()
    cells = [_content(cell) for cell in function.__closure__ or ()]
    values = {"__defaults__": function.__defaults__, "__kwdefaults__": function.__kwdefaults__}
    return {name: function.__globals__[name] for name in used}, cells, values


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


def _function(code: bytes, name: str, cells: int) -> types.FunctionType:
    closure = tuple(types.CellType() for _ in range(cells))
    # The module is not named "__main__", so that `if __name__ == "__main__"` is False in the processes.
    return types.FunctionType(
        marshal.loads(code), {"__builtins__": builtins, "__name__": "shipped"}, name, None, closure
    )


def _fill(function: types.FunctionType, inside: tuple) -> None:
    used, cells, values = inside
    function.__globals__.update(used)
    for cell, content in zip(function.__closure__ or (), cells, strict=True):
        if content:
            (cell.cell_contents,) = content
    _furnish(function, values)


def _class(meta: type, name: str, bases: tuple) -> type:
    return types.new_class(name, bases, {"metaclass": meta})


def _furnish(made: object, members: dict) -> None:
    for name, value in members.items():
        setattr(made, name, value)


def _proxy(content: dict) -> types.MappingProxyType:
    return types.MappingProxyType(content)  # whose own name no import finds
