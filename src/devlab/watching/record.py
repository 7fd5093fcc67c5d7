"""What a watch records: counts that are always complete, and events with the line that caused each."""

import linecache
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

import torch

from devlab.checks.calls import is_learners, place
from devlab.sim import clock

# A tensor's methods that copy to Python or to another device, and the causes that a log gives for the copies.
READERS = {
    "item": ".item()",
    "tolist": ".tolist()",
    "cpu": ".cpu()",
    "cuda": ".cuda()",
    "numpy": ".numpy()",
    "__float__": "float()",
    "__int__": "int()",
    "__complex__": "complex()",
    "__bool__": "bool()",
    "__index__": "an index",
    "__format__": "format()",
}
# These methods always bring a value to Python.
ONE_VALUE = frozenset(READERS) - {"tolist", "cpu", "cuda", "numpy", "__format__"}
# These reads bring a single value, and the program chooses no memory for the value.
READS = frozenset(READERS[name] for name in ONE_VALUE)

LOADING = "torch.load()"


class Line(NamedTuple):
    """One line of the learner's code; "" and 0 when no line of it was running.

    >>> str(Line("lesson/train.py", 12))
    'train.py, line 12'
    >>> str(Line("", 0))
    ''
    """

    filename: str
    number: int

    def __str__(self) -> str:
        if not self.filename:
            return ""
        code = linecache.getline(self.filename, self.number).strip()
        return f"{place(self.filename)}, line {self.number}" + (f":  {code}" if code else "")


NOWHERE = Line("", 0)


class When(NamedTuple):
    """When the host began and ended something, the marks around it that the device keeps, and its stream."""

    began: float
    ended: float
    marks: Any = None
    stream: int = 0


class Copy(NamedTuple):
    """One copy from device to device, before the record notes the line of the program that made the copy."""

    source: torch.device
    target: torch.device
    bytes: int
    pinned: bool
    blocking: bool
    non_blocking: bool
    cause: str

    @property
    def awaits_result(self) -> bool:
        """Tell whether the host waits for the accelerator's earlier work, to have the result of that work."""
        return self.blocking and self.target.type == "cpu"


class Transfer(NamedTuple):
    """One copy of `bytes` bytes from one device to another.

    `pinned` tells whether the host's side was page-locked memory, `blocking` whether the host waited until
    the accelerator's stream had done the copy, and `non_blocking` whether the program asked it not to.
    `one_value` tells whether a single value was read, for which PyTorch chooses the memory.
    """

    source: str
    target: str
    bytes: int
    pinned: bool
    blocking: bool
    non_blocking: bool
    cause: str
    line: Line
    when: When
    one_value: bool = False

    @property
    def staged(self) -> bool:
        """Tell whether the host copied the bytes into the driver's buffer before the accelerator took them.

        Apple's chips need no such buffer: the GPU reads the program's own memory.
        """
        return self.source == "cpu" and not self.pinned and not self.target.startswith("mps")

    @property
    def manner(self) -> str:
        """Return in words how the bytes were copied."""
        if "cpu" not in (self.source, self.target):
            return "device to device"
        if self.one_value:
            return "one value, blocking"
        memory = "pinned" if self.pinned else "pageable"
        if not self.blocking:
            return f"{memory}, not blocking" + (" once staged" if self.staged else "")
        return f"{memory}, blocking" + (" although non_blocking was asked" if self.non_blocking else "")


class Synchronization(NamedTuple):
    """The host waiting for `device`, and the cause of the wait in the program."""

    device: str
    cause: str
    line: Line
    when: When


class Input(NamedTuple):
    """One argument of an operator: the sizes and dtype of a tensor, or a value in words.

    >>> Input.of(torch.ones(2, 3)), Input.of(0.5)
    (Input(sizes=(2, 3), kind=torch.float32, value=''), Input(sizes=(), kind='Scalar', value='0.5'))
    """

    sizes: tuple
    kind: torch.dtype | str
    value: str = ""

    @classmethod
    def of(cls, given) -> "Input":
        """Describe an argument; a list of tensors is described by the sizes of each."""
        if isinstance(given, torch.Tensor):
            return cls(tuple(given.shape), given.dtype)
        if given is None:
            return cls((), "")
        if isinstance(given, (list, tuple)):
            if any(isinstance(item, torch.Tensor) for item in given):
                sizes = [list(item.shape) if isinstance(item, torch.Tensor) else [] for item in given]
                return cls(tuple(sizes), "TensorList")
            return cls((), "ScalarList", str(list(given)))
        return cls((), "Scalar", str(given))


class Launch(NamedTuple):
    """One operator started on an accelerator."""

    device: str
    operator: str
    line: Line
    when: When
    inputs: tuple[Input, ...] = ()


class Pinning(NamedTuple):
    """One copy of `bytes` bytes by the host, from pageable memory into pinned memory."""

    bytes: int
    line: Line
    when: When


class EarlyRead(NamedTuple):
    """A read of memory on the CPU which a copy that nobody waited for had not yet filled."""

    source: str
    cause: str
    line: Line
    copied: Line


class Events(list):
    """Everything that was recorded, in the order in which it happened.

    `pinnings` lists the copies into pinned memory that were made in the thread that opened the record, and
    `early_reads` the lines that read what a non-blocking copy to the CPU had not yet brought.

    >>> launch = Launch("sim:0", "add", NOWHERE, When(0.0, 0.0))
    >>> Events([launch]).launches == [launch]
    True
    """

    def __init__(self, *events):
        super().__init__(*events)
        self.pinnings: list[Pinning] = []
        self.early_reads: list[EarlyRead] = []

    @property
    def transfers(self) -> list[Transfer]:
        """Return the copies between devices."""
        return [event for event in self if type(event) is Transfer]

    @property
    def synchronizations(self) -> list[Synchronization]:
        """Return the waits of the host for a device."""
        return [event for event in self if type(event) is Synchronization]

    @property
    def launches(self) -> list[Launch]:
        """Return the operators started on accelerators."""
        return [event for event in self if type(event) is Launch]


_is_learners = cache(is_learners)


def learners_line(owner: int | None = None) -> Line:
    """Return the innermost running line of the learner's code.

    The gradient engine has threads of its own, which run no line of the learner's. `owner` is the identity of
    the thread to look at then, which waits inside `backward()`.
    """
    line = _innermost(sys._getframe(1))
    if line is NOWHERE and owner is not None:
        line = _innermost(sys._current_frames().get(owner))
    return line


def _innermost(frame) -> Line:
    while frame is not None:
        filename = frame.f_code.co_filename
        if _is_learners(filename):
            return Line(filename, frame.f_lineno)
        frame = frame.f_back
    return NOWHERE


class _State(threading.local):
    logs: tuple = ()
    cause: str | None = None


state = _State()


def host_clock(kind: str) -> Callable[[], float]:
    """Return the clock that goes with a kind of device: for the simulator, the modelled clock.

    >>> host_clock("cuda") is time.perf_counter
    True
    """
    return clock.now if kind == "sim" else time.perf_counter


class Mark(NamedTuple):
    """A mark in a simulated stream: when the stream is free, and when its last work began, in seconds."""

    free_at: float
    began_at: float


def mark(device: torch.device) -> Any:
    """Return a mark at the end of what the device's current stream has to do.

    On the simulator the mark holds modelled times; elsewhere it is an event in the stream. It is None on a
    device without events, and while a CUDA graph is captured, which must stay as it is.
    """
    if device.type == "sim":
        queue = clock.current.queues[device.index]
        return Mark(max(clock.now(), queue.free_at), queue.began_at)
    module = torch.get_device_module(device)
    if not hasattr(module, "Event") or not hasattr(module, "current_stream"):
        return None
    capturing = getattr(module, "is_current_stream_capturing", None)
    if capturing is not None and capturing():
        return None
    event = module.Event(enable_timing=True)
    event.record(module.current_stream(device))
    return event


def _is_plain(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_cpu and value.layout == torch.strided


def _is_reached(mark: Any) -> bool:
    """Tell whether the device has come to a mark: the host has waited, or enough time has passed."""
    if mark is None:
        return True
    return mark.free_at <= clock.now() if isinstance(mark, Mark) else mark.query()


def stream_of(device: torch.device) -> int:
    """Return the number of the device's current stream: 0 for the default stream, or without streams.

    >>> stream_of(torch.device("cpu"))
    0
    """
    if device.type == "sim":
        return clock.current.queues[device.index].stream_id
    current = getattr(torch.get_device_module(device), "current_stream", None)
    return getattr(current(device), "stream_id", 0) if current is not None else 0


class Tally:
    """What one thread did."""

    __slots__ = (
        "allocated",
        "cpu_bytes",
        "cpu_operators",
        "moved",
        "operators",
        "synchronizations",
        "transfers",
    )

    def __init__(self):
        # The CPU's counts are plain numbers, because every operator changes these counts.
        self.cpu_operators = self.cpu_bytes = 0
        self.transfers = self.synchronizations = self.moved = 0
        self.operators: Counter[str] = Counter()
        self.allocated: Counter[str] = Counter()


class ThreadTally(threading.local):
    """The calling thread's own counts, which `sheets` holds together with the counts of all other threads."""

    def __init__(self, sheets: list[Tally]):
        self.own = Tally()
        sheets.append(self.own)


def _together(cpu: int, others: Iterable[Counter]) -> dict[str, int]:
    """Return the sum of some counts for each device that has any."""
    total = sum(others, Counter(cpu=cpu))
    return {device: total[device] for device in sorted(total) if total[device]}


# A long training run under watch must not fill the memory with its history.
MOST_EVENTS = 100_000


class Record:
    """Counts and events of one block, written by every thread that works in it."""

    def __init__(self):
        self.events = Events()
        self.open = False
        self.error: BaseException | None = None
        self._sheets: list[Tally] = []
        self._mine = ThreadTally(self._sheets)
        self._owner = threading.get_ident()
        self.arriving: dict[int, tuple[Transfer, Any, weakref.ref]] = {}

    @property
    def sheet(self) -> Tally:
        """Return the calling thread's counts."""
        return self._mine.own

    @property
    def transfers(self) -> int:
        """Return how many copies went from one device to another."""
        return sum(sheet.transfers for sheet in self._sheets)

    @property
    def synchronizations(self) -> int:
        """Return how often the host waited for an accelerator."""
        return sum(sheet.synchronizations for sheet in self._sheets)

    @property
    def launches(self) -> int:
        """Return how many operators were started on accelerators."""
        return sum(count for device, count in self.operators.items() if device != "cpu")

    @property
    def bytes_moved(self) -> int:
        """Return how many bytes all transfers moved together."""
        return sum(sheet.moved for sheet in self._sheets)

    @property
    def bytes_allocated(self) -> int:
        """Return the bytes of all new tensors together, on every device."""
        return sum(self.allocated.values())

    @property
    def operators(self) -> dict[str, int]:
        """Return how many operators ran on each device, the CPU among them."""
        sheets = self._sheets
        return _together(sum(sheet.cpu_operators for sheet in sheets), (sheet.operators for sheet in sheets))

    @property
    def allocated(self) -> dict[str, int]:
        """Return the bytes of new tensors on each device."""
        sheets = self._sheets
        return _together(sum(sheet.cpu_bytes for sheet in sheets), (sheet.allocated for sheet in sheets))

    @property
    def dropped(self) -> int:
        """Return how many events were counted but not kept, because there were too many."""
        return self.transfers + self.synchronizations + self.launches - len(self.events)

    def transfer(self, copy: Copy, when: When) -> None:
        """Count and keep one copy between devices."""
        sheet = self.sheet
        sheet.transfers += 1
        sheet.moved += copy.bytes
        if self.keeps():
            source, target, *facts, cause = copy
            line = learners_line(self._owner)
            told = (state.cause or cause, line, when, cause in READS)
            self.events.append(Transfer(str(source), str(target), *facts, *told))

    def synchronization(self, device: torch.device | str, cause: str, when: When) -> None:
        """Count and keep one wait of the host for a device."""
        self.sheet.synchronizations += 1
        if self.keeps():
            line = learners_line(self._owner)
            self.events.append(Synchronization(str(device), state.cause or cause, line, when))

    def launch(self, device: torch.device, operator: str, when: When, args: tuple = ()) -> None:
        """Count and keep one operator started on an accelerator, and what its arguments were like."""
        name = str(device)
        self.sheet.operators[name] += 1
        if self.keeps():
            inputs = tuple(map(Input.of, args))
            self.events.append(Launch(name, operator, learners_line(self._owner), when, inputs))

    def pinning(self, size: int, when: When) -> None:
        """Keep one copy into pinned memory, where the record's own thread made the copy."""
        pinnings = self.events.pinnings
        if threading.get_ident() == self._owner and len(pinnings) < MOST_EVENTS:
            pinnings.append(Pinning(size, learners_line(self._owner), when))

    def await_copy(self, target: torch.Tensor) -> None:
        """Remember that the last copy, for which the host did not wait, is still to fill a tensor."""
        copy = self.events[-1]  # the memory may serve another tensor once this one is gone
        self.arriving[target.untyped_storage().data_ptr()] = copy, copy.when.marks[1], weakref.ref(target)

    def reading(self, values: Iterable, cause: str) -> None:
        """Note which of some tensors are read before a copy has brought their contents."""
        for value in values:
            place = value.untyped_storage().data_ptr() if _is_plain(value) else 0
            copy, mark, target = self.arriving.get(place, (None, None, None))
            if copy is None:
                continue
            if target() is None or _is_reached(mark):
                del self.arriving[place]
            elif len(self.events.early_reads) < MOST_EVENTS:
                read = EarlyRead(copy.source, state.cause or cause, learners_line(self._owner), copy.line)
                self.events.early_reads.append(read)

    def allocation(self, device: torch.device, size: int) -> None:
        """Count the bytes of new tensors."""
        self.sheet.allocated[str(device)] += size

    def keeps(self) -> bool:
        """Tell whether there is room for another event."""
        return len(self.events) < MOST_EVENTS
