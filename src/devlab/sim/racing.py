"""What work in one stream finds in memory that another stream has not finished writing.

The CPU computes every result at once, and each result is then everywhere. While races are visible, each
write is noted here with the time at which the device would end it. Work finds what its own stream or the
host has waited for; elsewhere it finds what was there before the write, and zeros in fresh memory. Between
two operators the memory holds what it will hold once everything has arrived.
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
    """What a storage held before some writes, and those writes."""

    def __init__(self, storage: torch.UntypedStorage, before: numpy.ndarray):
        self.storage = ref(storage)
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

    def settle(self, moment: float) -> bool:
        """Forget the writes that all work finds from `moment` on; return whether others are left."""
        self.before = self.at(moment)
        self.writes = [write for write in self.writes if write.end > moment]
        return bool(self.writes)


# One thread at a time lets memory look as its stream finds it.
_lock = clock.landing
_inside = 0  # the thread that does so at the moment: an operator may be made of others
_records: dict[int, Record] = {}  # by address
_leaving: "list[Leaving]" = []


def _memories(value) -> dict[int, Memory]:
    """Return the memory of the tensors in a value that are on simulated devices, by address."""
    found = {}
    for tensor in data.tensors(value):
        if tensor.get_device() >= 0 and (storage := tensor.untyped_storage()).nbytes():
            found[storage.data_ptr()] = Memory(storage, tensor.get_device(), tensor.itemsize)
    return found


def _free_at(index: int) -> float:
    return clock.current.queues[index].free_at


def _record(memory: Memory) -> Record | None:
    record = _records.get(memory.storage.data_ptr())
    return record if record is not None and record.storage() is memory.storage else None


def _note(memory: Memory, before: numpy.ndarray, end: float) -> None:
    """Note how memory changed from `before`, for work that has waited until `end`."""
    after = memory.words.copy()
    changed = before != after
    if changed.any():
        record = _record(memory) or Record(memory.storage, before)
        record.writes.append(Write(end, changed, after))
        _records[memory.storage.data_ptr()] = record


@contextlib.contextmanager
def _looking_as_at(moment: float, memories: dict[int, Memory], end: float | None = None) -> Iterator[None]:
    """Let memory look as at a moment in a block, and note what the block writes, which ends at `end`.

    None means the end of the current stream's work when the block has ended.
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
                if (record := _record(memory)) is not None:
                    record.show(memory, moment)
                before[address] = memory.words.copy()
            yield
        finally:
            _inside = 0
            for address, memory in memories.items():
                if address in before:
                    _note(memory, before[address], _free_at(memory.index) if end is None else end)
                if (record := _record(memory)) is not None:
                    record.show(memory, inf)


def _now_found(*indices: int) -> float:
    """Return up to which moment new work on some devices finds what was written."""
    reached = clock.reached()
    for copy in _leaving:
        copy.follow()
    for address, record in _records.copy().items():
        if record.storage() is None or not record.settle(reached):
            del _records[address]
    return max([reached, *map(_free_at, indices)])


def shown() -> bool:
    """Return whether this thread runs an operator on what its stream finds."""
    return _inside == threading.get_ident()


def show(run: Callable, args: tuple, kwargs: dict):
    """Run an operator on what its stream finds in the operands, and note what the operator writes."""
    with _lock:
        operands = _memories((*args, *kwargs.values()))
        moment = _now_found(*{memory.index for memory in operands.values()})
        with _looking_as_at(moment, operands):
            out = run(*args, **kwargs)
        for address, memory in _memories(out).items():
            if address not in operands:
                _note(memory, numpy.zeros_like(memory.words), _free_at(memory.index))
        return out


def found(tensor: torch.Tensor, into: int) -> torch.Tensor:
    """Return on the CPU what a copy of `tensor`, on `sim`, to `sim:into` finds; -1 is the CPU."""
    with _lock:
        moment = _now_found(*{index for index in (tensor.get_device(), into) if index >= 0})
        with _looking_as_at(moment, _memories(tensor)):
            return data.on_host(tensor).clone()


def put(target: torch.Tensor, values: torch.Tensor, source: torch.Tensor | None = None) -> None:
    """Copy values into a tensor on `sim`, to be found by work that has waited for the current stream.

    `source` is pinned memory that the copy has not left: what the host writes there still travels.
    """
    end = _free_at(target.get_device())
    with _lock:
        with _looking_as_at(end, _memories(target), end):
            data.on_host(target).copy_(values)
        if source is not None:
            copy = Leaving(source, target, end)
            _leaving.append(copy)
            clock.arrive(end, copy.leave)


class Leaving:
    """A copy from pinned memory that has not left, and takes along what the host still writes there."""

    def __init__(self, source: torch.Tensor, target: torch.Tensor, end: float):
        self.source, self.sent, self.end = source, source.clone(), end
        storage = target.untyped_storage()
        self.storage, self.index, self.dtype = ref(storage), target.get_device(), target.dtype
        self.place = target.size(), target.stride(), target.storage_offset()

    def follow(self) -> None:
        """Write what the source holds, if the host has changed that, into the target, if that lives."""
        storage = self.storage()
        if storage is None or _inside or torch.equal(self.source, self.sent):
            return
        memory = Memory(storage, self.index, self.dtype.itemsize)
        with torch.inference_mode(), _looking_as_at(self.end, {storage.data_ptr(): memory}, self.end):
            self.sent.copy_(self.source)
            count = storage.nbytes() // memory.itemsize
            target = torch.frombuffer(memory.words, dtype=self.dtype, count=count).as_strided(*self.place)
            target.copy_(self.source)

    def leave(self) -> None:
        """Take along what the source holds now, and nothing later."""
        with _lock:
            if self in _leaving:
                self.follow()
                _leaving.remove(self)
