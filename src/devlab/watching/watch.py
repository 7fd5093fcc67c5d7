"""`devlab.watch`: what a block of code moved, waited for, started and made, on every device."""

import contextlib
import functools
import math
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from devlab.panel import Column, Panel, Table, escape
from devlab.sim import clock
from devlab.watching.memory import size
from devlab.watching.record import (
    LOADING,
    ONE_VALUE,
    READERS,
    Copy,
    Record,
    Synchronization,
    Transfer,
    When,
    host_clock,
    state,
)
from devlab.watching.recording import follow, record_thread
from devlab.watching.timeline import Timeline


class Log(Record, Panel):
    """What a watched block did; `print` it, or ask for its counts.

    `transfers`, `synchronizations`, `launches`, `bytes_moved` and `bytes_allocated` are counts; `operators`
    and `allocated` hold counts for each device; `events.transfers`, `events.synchronizations` and
    `events.launches` are lists with the learner's line of each.
    """

    def __init__(self):
        super().__init__()
        self._entered: contextlib.ExitStack | None = None

    def __enter__(self) -> "Log":
        if self._entered is not None:
            raise RuntimeError("this watch is in use or has been used; make another: devlab.watch()")
        with contextlib.ExitStack() as stack:
            stack.enter_context(clock.virtual())
            replace_names()
            stack.callback(put_names_back)
            stack.enter_context(record_thread([self]))
            self._entered = stack.pop_all()
        self.open = True
        return self

    def __exit__(self, kind, error, traceback) -> None:
        self.open = False
        self.error = error
        self._entered.close()

    def timeline(self, *, beside: Timeline | None = None, show: bool = True) -> Timeline:
        """Show what the host and each device did, side by side in time, and return it.

        The timeline `beside` is drawn above this one to the same scale, and so is all that stands beside it:
        three logs can be compared in one figure.
        """
        panel = Timeline(self.events, beside)
        if show:
            panel.show()
        return panel

    def text(self) -> str:
        """Return the counts and a table of transfers and synchronizations."""
        table, more = _table(self)
        return "\n".join([*_summary(self), *(["", table.text(), *more] if table.rows else ())])

    def html(self) -> str:
        """Return the same as HTML."""
        first, *rest = map(escape, _summary(self))
        table, more = _table(self)
        before = f"<div><strong>{first}</strong></div>" + "".join(f"<div>{line}</div>" for line in rest)
        return before + table.html() + "".join(f"<div>{line}</div>" for line in more)

    def __repr__(self) -> str:
        return (
            f"<Log: {self.transfers} transfers, {self.synchronizations} synchronizations, "
            f"{self.launches} launches>"
        )


def watch() -> Log:
    """Record every transfer, synchronization, launch and byte of new memory in a block.

    The block may hold anything: modules, backward passes, loaders, other watches, threads that it starts;
    and it may raise, which the watch passes on.

    >>> import torch
    >>> with watch() as log:
    ...     total = torch.ones(2, 3).sum().item()
    >>> log.transfers, log.synchronizations, log.operators, log.bytes_allocated
    (0, 0, {'cpu': 2}, 28)
    """
    return Log()


# A printed tensor of more elements than this shows the first and last three along each dimension.
_PRINTED_WHOLE = 1000
_PRINTED_EDGE = 6
_ACCELERATORS = ("cuda", "xpu", "mps", "sim")

_lock = threading.Lock()
_replaced: list[tuple[Any, str, Any, Any]] = []
_MISSING = object()
_users = 0


def replace_names() -> None:
    """Put the replacements in place, unless another watch has done so."""
    global _users
    with _lock:
        _users += 1
        if _users == 1:
            _replace_all()


def put_names_back() -> None:
    """Put PyTorch's own names back when the last watch closes."""
    global _users
    with _lock:
        _users -= 1
        if _users == 0:
            _put_back_all()


def _replace_all() -> None:
    for name, cause in READERS.items():
        _replace(torch.Tensor, name, _note_cause(getattr(torch.Tensor, name), cause, name in ONE_VALUE))
    _replace(torch, "load", _note_cause(torch.load, LOADING, False))
    _replace(torch.Tensor, "__repr__", _note_printing(torch.Tensor.__repr__))
    _replace(torch.accelerator, "synchronize", _note_wait(torch.accelerator.synchronize, "synchronize()"))
    for kind in _ACCELERATORS:
        module = sys.modules.get(f"torch.{kind}")
        if module is not None:
            _replace(module, "synchronize", _note_wait(module.synchronize, "synchronize()", kind))
            _watch_class(module, "Event")
            _watch_class(module, "Stream")
    _watch_class(torch, "Event")
    _watch_class(torch, "Stream")
    _replace(threading.Thread, "start", _follow_into(threading.Thread.start))


def _put_back_all() -> None:
    while _replaced:
        owner, name, original, ours = _replaced.pop()
        if vars(owner).get(name) is not ours:
            continue  # another library has replaced the name since; our function passes every call on
        if original is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, original)


def _replace(owner, name: str, ours) -> None:
    original = vars(owner).get(name, _MISSING)
    setattr(owner, name, ours)
    _replaced.append((owner, name, original, ours))


_HIDDEN = (".numpy()", ".tolist()")  # these read the CPU's memory without any operator


def _note_cause(original: Callable, cause: str, reads: bool) -> Callable:
    """Return a method that notes the name of the call; of calls within calls the outermost name counts."""

    @functools.wraps(original)
    def method(*args, **kwargs):
        if not state.logs or state.cause is not None:
            return original(*args, **kwargs)
        state.cause = cause
        for record in state.logs if cause in _HIDDEN else ():
            record.reading(args[:1], cause)
        try:
            return _note_reading_of(original, args, kwargs, cause) if reads else original(*args, **kwargs)
        finally:
            state.cause = None

    return method


def _note_reading_of(original: Callable, args: tuple, kwargs: dict, cause: str):
    """Read one value and note the reading: `torch.tensor([a, b])` hides the operators that read a and b."""
    device, size = args[0].device, args[0].itemsize
    if device.type in ("cpu", "meta"):
        return original(*args, **kwargs)
    seen = [record.sheet.transfers for record in state.logs]
    clock = host_clock(device.type)
    began = clock()
    result = original(*args, **kwargs)
    when = When(began, clock())
    for record, before in zip(state.logs, seen, strict=True):
        if record.sheet.transfers == before:
            _note_reading(record, device, size, cause, when)
    return result


def _note_reading(record: Record, device: torch.device, size: int, cause: str, when: When) -> None:
    record.transfer(Copy(device, torch.device("cpu"), size, False, True, False, cause), when)
    record.synchronization(device, cause, when)


def _note_printing(original: Callable) -> Callable:
    """Return a `__repr__` that notes the reading: PyTorch hides the operators of its printing."""

    @functools.wraps(original)
    def method(tensor, *args, **kwargs):
        device, before = tensor.device, state.cause
        # `format()` of a tensor with dimensions prints the tensor, which only this method can note.
        if not state.logs or before not in (None, "format()") or device.type in ("cpu", "meta"):
            return original(tensor, *args, **kwargs)
        clock = host_clock(device.type)
        began = clock()
        state.cause = "print"
        try:
            result = original(tensor, *args, **kwargs)
        finally:
            state.cause = before
        when = When(began, clock())
        for record in state.logs:
            _note_reading(record, device, _count_printed(tensor) * tensor.itemsize, "print", when)
        return result

    return method


def _count_printed(tensor: torch.Tensor) -> int:
    if tensor.numel() <= _PRINTED_WHOLE:
        return tensor.numel()
    return math.prod(min(length, _PRINTED_EDGE) for length in tensor.shape)


def _note_wait(original: Callable, cause: str, kind: str = "") -> Callable:
    """Return a function that waits as the original does, and notes the wait."""

    @functools.wraps(original)
    def wait(*args, **kwargs):
        if not state.logs or state.cause is not None:
            return original(*args, **kwargs)
        device = _device_of(kind or _current_kind(), *args, **kwargs)
        clock = host_clock(device.type)
        began = clock()
        state.cause = cause  # torch.accelerator.synchronize may call the module's own
        try:
            result = original(*args, **kwargs)
        finally:
            state.cause = None
        if device.type != "cpu":
            when = When(began, clock())
            for record in state.logs:
                record.synchronization(device, cause, when)
        return result

    return wait


def _current_kind() -> str:
    current = torch.accelerator.current_accelerator()
    return current.type if current is not None else "cpu"


def _device_of(kind: str, *args, **kwargs) -> torch.device:
    """Return the device of a wait: the device given, that of the object given, or the current device."""
    given = args[0] if args else kwargs.get("device")
    given = getattr(given, "device", given)
    if isinstance(given, int):
        return torch.device(kind, given)
    device = torch.device(given if isinstance(given, str | torch.device) else kind)
    if device.index is None and device.type != "cpu":
        module = torch.get_device_module(device)
        return torch.device(device.type, module.current_device() if hasattr(module, "current_device") else 0)
    return device


def _watch_class(module, name: str) -> None:
    """Note every call of `synchronize()` on a module's events or streams."""
    original = getattr(module, name, None)
    if not isinstance(original, type) or not hasattr(original, "synchronize"):
        return
    kind = "" if module is torch else module.__name__.rpartition(".")[2]
    wait = _note_wait(original.synchronize, f"{name.lower()}.synchronize()", kind)
    try:
        _replace(original, "synchronize", wait)
    except TypeError:  # a class written in C takes no new method: a subclass stands in for the class
        body = {"synchronize": wait, "stands_for": original}
        _replace(module, name, _Stand(original.__name__, (original,), body))


class _Stand(type):
    """The type of a subclass that counts as the class for which the subclass stands."""

    def __instancecheck__(cls, instance) -> bool:
        return isinstance(instance, cls.stands_for)

    def __subclasscheck__(cls, subclass) -> bool:
        return issubclass(subclass, cls.stands_for)


def _follow_into(original: Callable) -> Callable:
    """Return a `Thread.start` that takes the open watches along into the new thread."""

    @functools.wraps(original)
    def start(thread):
        if state.logs:
            follow(thread, state.logs)
        return original(thread)

    return start


MOST_ROWS = 40
_LEFT = 'style="text-align:left;white-space:pre-wrap"'
_WHOLE, _RIGHT = (f'style="text-align:{side};white-space:nowrap"' for side in ("left", "right"))
_COLUMNS = (
    Column("times", _RIGHT, right=True),
    Column("what", _LEFT),
    Column("from → to", _WHOLE),
    Column("bytes", _RIGHT, right=True),
    Column("how", _LEFT),
    Column("line", _LEFT),
)


def count(number: int, word: str) -> str:
    """Return a number with its noun.

    >>> count(1, "transfer"), count(2, "transfer"), count(2, "launch")
    ('1 transfer', '2 transfers', '2 launches')
    """
    plural = f"{word}es" if word.endswith("ch") else f"{word}s"
    return f"{number:,} {word if number == 1 else plural}"


def _summary(record: Record) -> list[str]:
    lines = [
        f"{count(record.transfers, 'transfer')} ({size(record.bytes_moved)}), "
        f"{count(record.synchronizations, 'synchronization')}, {count(record.launches, 'launch')}, "
        f"{size(record.bytes_allocated)} of new tensors"
    ]
    if record.operators:
        lines.append("operators    " + _each(record.operators, "{:,}".format))
    if record.allocated:
        lines.append("new tensors  " + _each(record.allocated, size))
    if record.dropped:
        lines.append(f"the first {len(record.events):,} events are listed; the counts are complete")
    if record.error is not None:
        lines.append(f"the block raised {type(record.error).__name__}; what it did until then is here")
    return lines


def _each(counts: dict[str, int], say) -> str:
    named = {
        f"{name} (simulated)" if name.startswith("sim") else name: number for name, number in counts.items()
    }
    return " · ".join(f"{name} {say(number)}" for name, number in named.items())


def _table(record: Record) -> tuple[Table, list[str]]:
    """Return a row for each happening on a line, with its times, and a line on the rows left out."""
    times: dict[tuple[str, ...], int] = {}
    for row in _happenings(record):
        times[row] = times.get(row, 0) + 1
    rows = [(f"{number:,}", *row) for row, number in times.items()]
    left = len(rows) - MOST_ROWS
    table = Table(_COLUMNS, rows[:MOST_ROWS])
    return table, [f"… and {count(left, 'row')} more: see log.events"] if left > 0 else []


def _happenings(record: Record) -> Iterator[tuple[str, ...]]:
    """Yield what happened; a copy to the CPU and the wait for the copy are one happening."""
    for read in record.events.early_reads:
        late = f"too early: line {read.copied.number} has not brought it; wait before"
        yield f"read  {read.cause}", f"{read.source} → cpu", "", late, str(read.line)
    copied = set()
    for event in record.events:
        if type(event) is Transfer:
            waits = event.blocking and event.target == "cpu"
            if waits:
                copied.add(id(event.when))
            yield (
                f"copy and wait  {event.cause}" if waits else f"copy  {event.cause}",
                f"{event.source} → {event.target}",
                size(event.bytes),
                event.manner,
                str(event.line),
            )
        elif type(event) is Synchronization and id(event.when) not in copied:
            yield (f"wait  {event.cause}", event.device, "", "the host waits", str(event.line))
