"""The contents that work in a stream finds in memory which another stream is writing or overwrites.

The CPU computes every result at once, and each result is then everywhere. While races are visible, each
write is noted here with the time at which the device would end it. Work finds what its own stream or the
host has waited for; elsewhere it finds what was there before the write, and zeros in fresh memory. Between
two operators the memory holds what it will hold once everything has arrived.

Work that has not ended is noted, too. If another stream then begins to overwrite what the work reads, it is
done again with the new contents, as is all work that reads its result. The memory need not be the same
tensor's: a block that was freed goes back at once to the stream that allocated it.
"""

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator
from math import inf
from typing import NamedTuple
from weakref import ref

import numpy
import torch

from devlab.sim import clock, data

visible: list[bool] = []  # not empty while races are visible; an empty list costs an operator nothing


class races:
    """Make races between streams visible from now on, or no longer; as a block, until its end.

    While they are visible, work that does not wait for a copy or a result of another stream computes with
    the old contents of that memory, as it may on a GPU. That holds for all threads.

    >>> import torch, devlab.sim
    >>> devlab.sim.enable()
    >>> side, pinned = torch.Stream("sim"), torch.ones(3).pin_memory()
    >>> with devlab.sim.races():
    ...     with side:
    ...         x = pinned.to("sim", non_blocking=True)
    ...     early = x + 1
    ...     torch.accelerator.current_stream().wait_stream(side)
    ...     late = x + 1
    >>> early.tolist(), late.tolist()
    ([1.0, 1.0, 1.0], [2.0, 2.0, 2.0])
    """

    def __init__(self, on: bool = True):
        self._before = bool(visible)
        _show_races(on)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        _show_races(self._before)


def _show_races(on: bool) -> None:
    with _lock:
        for copy in _leaving:
            copy.follow()
        _leaving.clear()
        _records.clear()
        _steps.clear()
        visible[:] = [True] if on else []


class Memory(NamedTuple):
    """The storage of a tensor on `sim:index`, whose elements have `itemsize` bytes."""

    storage: torch.UntypedStorage
    index: int
    itemsize: int

    @property
    def words(self) -> numpy.ndarray:
        """The bytes, to be read and written; each element is one integer, so that it changes as a whole."""
        size, address = self.storage.nbytes(), self.storage.data_ptr()
        of_bytes = numpy.frombuffer((ctypes.c_uint8 * size).from_address(address), numpy.uint8)
        return of_bytes.view(f"u{min(self.itemsize, 8)}") if size % self.itemsize == 0 else of_bytes


class Write(NamedTuple):
    """When a write has ended, which elements of a storage it changed, and what the storage held after it."""

    end: float
    changed: numpy.ndarray
    after: numpy.ndarray


class Record:
    """What a storage held before some writes, and those writes; and the device's address of its block."""

    def __init__(self, memory: Memory, before: numpy.ndarray):
        self.storage, self.index, self.itemsize = ref(memory.storage), memory.index, memory.itemsize
        block = data.block_of(memory.storage, memory.index)
        self.address = block.address if block is not None else -1
        self.before = before
        self.writes: list[Write] = []

    def at(self, moment: float) -> numpy.ndarray:
        """Return what work finds that has waited for the writes up to `moment`."""
        found = self.before.copy()
        for write in sorted(self.writes, key=lambda write: write.end):
            if write.end <= moment:
                numpy.copyto(found.view(write.after.dtype), write.after, where=write.changed)
        return found

    def show(self, memory: Memory, moment: float) -> None:
        """Put into the storage what work finds that has waited until `moment`."""
        memory.words[:] = self.at(moment).view(memory.words.dtype)

    def show_all(self) -> None:
        """Put into the storage, if it lives, what it holds once every write has ended."""
        if (storage := self.storage()) is not None:
            self.show(Memory(storage, self.index, self.itemsize), inf)

    def settle(self, moment: float) -> bool:
        """Forget the writes that all work finds from `moment` on; return whether others are left."""
        self.before = self.at(moment)
        self.writes = [write for write in self.writes if write.end > moment]
        return bool(self.writes)


class Place(NamedTuple):
    """The elements of a record's storage that a tensor names."""

    record: Record
    dtype: torch.dtype
    size: torch.Size
    stride: tuple[int, ...]
    offset: int

    def within(self, words: numpy.ndarray) -> torch.Tensor:
        """Return the tensor of these elements in a copy of the storage."""
        count = words.nbytes // self.dtype.itemsize
        whole = torch.frombuffer(words, dtype=self.dtype, count=count)
        return whole.as_strided(self.size, self.stride, self.offset)


class Step:
    """Work on a device, to be done again where what it reads is overwritten before it ends.

    `call` does the work on CPU tensors. `made` are the new tensors among its results, by position.
    """

    def __init__(self, call: Callable, args: tuple, kwargs: dict, moment: float):
        self.call, self.moment, self.end = call, moment, inf
        self.reads: list[Record] = []
        self.args, self.kwargs = self._places(args), {key: self._places(kwargs[key]) for key in kwargs}
        self.made: dict[int, Place] = {}
        self.writes: dict[int, Write | None] = {}  # by the identity of the record written to
        self.overwritten: list[tuple[Record, int, numpy.ndarray, numpy.ndarray]] = []

    def _places(self, value):
        """Return an argument with the tensors on devices as places in records."""
        if isinstance(value, (list, tuple)):
            return [self._places(item) for item in value]
        if isinstance(value, torch.device):
            return torch.device("cpu")
        if not isinstance(value, torch.Tensor) or value.get_device() < 0:
            return value
        place = _place(value)
        if place is None:
            return data.on_host(value)
        self.reads.append(place.record)
        return place

    def overwrite(self, written: Record, words: numpy.ndarray, changed: numpy.ndarray) -> bool:
        """Note which bytes that this work reads are overwritten in the same place; return whether any is."""
        noted = len(self.overwritten)
        for record in self.reads:
            ahead = written.address - record.address
            first, end = max(0, ahead), min(record.before.nbytes, ahead + words.nbytes)
            if written.index == record.index and min(written.address, record.address) >= 0 and first < end:
                part = slice(first - ahead, end - ahead)
                self.overwritten.append((record, first, words[part], changed[part]))
        return len(self.overwritten) > noted

    def again(self) -> Iterator[Record]:
        """Do the work again, and yield the records of what the work writes."""
        found = {id(record): record.at(self.moment) for record in self.reads}
        for record, first, words, changed in self.overwritten:
            there = found[id(record)].view(numpy.uint8)[first : first + len(words)]
            numpy.copyto(there, words, where=changed)
        before = {key: words.copy() for key, words in found.items()}

        def tensors(value):
            if isinstance(value, list):
                return [tensors(item) for item in value]
            return value.within(found[id(value.record)]) if isinstance(value, Place) else value

        with torch.inference_mode():
            named = {key: tensors(value) for key, value in self.kwargs.items()}
            results = list(data.tensors(self.call(*tensors(self.args), **named)))
            for position, place in self.made.items():
                before[id(place.record)] = numpy.zeros_like(place.record.before)
                found[id(place.record)] = after = numpy.zeros_like(place.record.before)
                place.within(after).copy_(results[position])
        for record in {*self.reads, *(place.record for place in self.made.values())}:
            key = id(record)
            old = self.writes.pop(key, None)
            record.writes = [write for write in record.writes if write is not old]
            changed = before[key] != found[key]
            if changed.any():
                self.writes[key] = Write(self.end, changed, found[key])
                record.writes.append(self.writes[key])
            if changed.any() or old is not None:
                record.show_all()
                yield record


# A single thread at a time may change memory to what its stream finds there.
_lock = clock.landing
_inside = 0  # the thread that does so at the moment: an operator may be made of others
_records: dict[int, Record] = {}  # by address
_leaving: "list[Leaving]" = []
_steps: list[Step] = []  # work of whose end the host does not know, in the order of the launches


def _memories(value) -> dict[int, Memory]:
    """Return the memory of the tensors in a value that are on simulated devices, by address."""
    found = {}
    for tensor in data.tensors(value):
        if tensor.get_device() >= 0 and (storage := tensor.untyped_storage()).nbytes():
            found[storage.data_ptr()] = Memory(storage, tensor.get_device(), tensor.itemsize)
    return found


def _free_at(index: int) -> float:
    return clock.current.queues[index].free_at


def _began_at(index: int) -> float:
    return clock.current.queues[index].began_at


def _find_record(memory: Memory) -> Record | None:
    record = _records.get(memory.storage.data_ptr())
    return record if record is not None and record.storage() is memory.storage else None


def _record_of(memory: Memory, before: numpy.ndarray | None = None) -> Record:
    """Return the record of some memory, or a new record of what it held `before`, or else holds now."""
    record = _find_record(memory)
    if record is None:
        record = Record(memory, memory.words.copy() if before is None else before)
        _records[memory.storage.data_ptr()] = record
    return record


def _place(tensor: torch.Tensor) -> Place | None:
    """Return the place of a tensor on a simulated device, None where it has no bytes."""
    memory = next(iter(_memories(tensor).values()), None)
    if memory is None:
        return None
    form = tensor.size(), tensor.stride(), tensor.storage_offset()
    return Place(_record_of(memory), tensor.dtype, *form)


def _note(memory: Memory, before: numpy.ndarray, end: float, whole: bool = False) -> Write | None:
    """Note how memory changed from `before`, for work that has waited until `end`; return that.

    Work that has not ended when the current stream's last work began finds what has changed, or, after a
    write of the `whole` memory, all of it.
    """
    after = memory.words.copy()
    changed = before != after
    write = Write(end, changed, after) if changed.any() else None
    if write is not None:
        _record_of(memory, before).writes.append(write)
    if _steps and (write is not None or whole):
        each = numpy.ones(after.nbytes, bool) if whole else numpy.repeat(changed, after.itemsize)
        _overwrite(_record_of(memory, before), after.view(numpy.uint8), each)
    return write


def _overwrite(written: Record, words: numpy.ndarray, changed: numpy.ndarray) -> None:
    """Let work that has not ended find what was now written into memory that the work reads."""
    start = _began_at(written.index)
    _do_again([step for step in _steps if step.end > start and step.overwrite(written, words, changed)])


def _do_again(steps: "list[Step]") -> None:
    """Do work again, and all later work that reads what comes of it."""
    redone: set[int] = set()
    for step in _steps:
        if step in steps or not redone.isdisjoint(map(id, step.reads)):
            redone |= {id(record) for record in step.again()}


@contextlib.contextmanager
def _looking_as_at(
    moment: float,
    memories: dict[int, Memory],
    end: float | None = None,
    whole: bool = False,
    step: Step | None = None,
) -> Iterator[None]:
    """Let memory look as at a moment in a block, and note what the block writes, which ends at `end`.

    None means the end of the current stream's work when the block has ended. A `step` notes the writes as its
    own. `whole` says that the block writes all of the memory.
    """
    global _inside
    with _lock:
        if _inside:
            yield
            return
        before = {}
        _inside = threading.get_ident()
        try:
            for address, memory in memories.items():
                if (record := _find_record(memory)) is not None and record.writes:
                    record.show(memory, moment)
                before[address] = memory.words.copy()
            yield
        finally:
            _inside = 0
            for address, memory in memories.items():
                if address in before:
                    ended = _free_at(memory.index) if end is None else end
                    write = _note(memory, before[address], ended, whole)
                    if step is not None and write is not None:
                        step.writes[id(_records[address])] = write
                if (record := _find_record(memory)) is not None and record.writes:
                    record.show(memory, inf)


def _now_found(*indices: int) -> float:
    """Return up to which moment new work on some devices finds what was written."""
    reached = clock.ended_until()
    for copy in _leaving:
        copy.follow()
    _steps[:] = [step for step in _steps if step.end > reached]
    known = min([reached, *(step.moment for step in _steps)])  # a step may have to find what it found before
    for address, record in _records.copy().items():
        if record.storage() is None or not record.settle(known):
            del _records[address]
    return max([reached, *map(_free_at, indices)])


def runs_on_found() -> bool:
    """Return whether this thread runs an operator on what its stream finds."""
    return _inside == threading.get_ident()


def show(run: Callable, args: tuple, kwargs: dict, again: Callable | None = None):
    """Run an operator on what its stream finds in the operands, and note what the operator writes.

    `again` does the same on CPU tensors, None for an operator that is not to be done again.
    """
    with _lock:
        operands = _memories((*args, *kwargs.values()))
        moment = _now_found(*{memory.index for memory in operands.values()})
        step = Step(again, args, kwargs, moment) if again is not None and operands else None
        with _looking_as_at(moment, operands, step=step):
            out = run(*args, **kwargs)
        for position, tensor in enumerate(data.tensors(out)):
            for address, memory in _memories(tensor).items():
                if address in operands:
                    continue
                end = _free_at(memory.index)
                write = _note(memory, numpy.zeros_like(memory.words), end, whole=True)
                if step is not None:
                    step.made[position] = place = _place(tensor)
                    step.writes[id(place.record)] = write
        if step is not None and step.writes:
            step.end = max(_free_at(record.index) for record in step.reads)
            _steps.append(step)
        return out


def leaves(source: torch.Tensor, read: Callable, end: float) -> None:
    """Note a copy of `source`, on a device, that ends at `end`; `read(host)` takes what the copy finds."""
    with _lock:
        step = Step(read, (source,), {}, _began_at(source.get_device()))
        step.end = end
        _steps.append(step)


def find_for_copy(tensor: torch.Tensor, into: int) -> torch.Tensor:
    """Return on the CPU what a copy of `tensor`, on `sim`, to `sim:into` finds; -1 is the CPU."""
    with _lock:
        moment = _now_found(*{index for index in (tensor.get_device(), into) if index >= 0})
        with _looking_as_at(moment, _memories(tensor)):
            return data.on_host(tensor).clone()


def write_in_flight(target: torch.Tensor, values: torch.Tensor, source: torch.Tensor | None = None) -> None:
    """Copy values into a tensor on `sim`, to be found by work that has waited for the current stream.

    `source` is pinned memory that the copy has not left: what the host writes there still travels.
    """
    end = _free_at(target.get_device())
    whole = target.nbytes == target.untyped_storage().nbytes()
    with _lock:
        with _looking_as_at(end, _memories(target), end, whole):
            data.on_host(target).copy_(values)
        if source is not None:
            copy = Leaving(source, target, end)
            _leaving.append(copy)
            _steps.append(copy.step)
            clock.arrive(end, copy.leave)


class Leaving:
    """A copy from pinned memory that has not left, and takes along what the host still writes there."""

    def __init__(self, source: torch.Tensor, target: torch.Tensor, end: float):
        self.source, self.sent = source, source.clone()
        began = _began_at(target.get_device())
        self.step = Step(lambda there: there.copy_(self.sent), (target,), {}, began)
        self.step.end = end
        for record in self.step.reads:
            self.step.writes |= {id(record): write for write in record.writes[-1:] if write.end == end}

    def follow(self) -> None:
        """Write what the source holds, if the host has changed that, into the target, if that lives."""
        if not _inside and not torch.equal(self.source, self.sent):
            with torch.inference_mode():
                self.sent.copy_(self.source)
            _do_again([self.step])

    def leave(self) -> None:
        """Take along what the source holds now, and nothing later."""
        with _lock:
            if self in _leaving:
                self.follow()
                _leaving.remove(self)
