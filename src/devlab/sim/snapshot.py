"""A simulated device's memory in PyTorch's snapshot format, for PyTorch's own tools and viewer.

`torch.sim.memory._record_memory_history()`, `_snapshot()` and `_dump_snapshot(path)` are those of
`torch.cuda.memory`. While a history is recorded, each allocator is of another class, which writes down what
happens to the device's memory; while none is, no request for memory comes through here.
"""

import os
import pickle
import sys
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from devlab.sim import clock, data, specs
from devlab.sim.allocator import Allocator, Block, PatientAllocator, allocators, round_up

_RECORDER = str(Path(__file__).parents[1] / "watching" / "recording.py")
ACTIONS = ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "oom", "snapshot")
# The events whose lines are noted: none, those of live memory, allocations, all.
_CONTEXTS = (None, "state", "alloc", "all")
_POOL = (0, 0)  # the pool of a process that makes none of its own
# On CUDA C++ does what the simulator does here; instruments put functions of their own around PyTorch's.
_INSTRUMENTS = tuple(
    str(Path(__file__).parents[1] / name) + os.sep for name in ("sim", "explaining", "watching")
)
TIMES = "simulated: time_us is the modelled time of the host, addresses are labels"

Stack = tuple[tuple[CodeType, int], ...]


def stack() -> Stack:
    """Return the running lines, the innermost first, without those of the simulator and of instruments.

    >>> stack()[0][0].co_filename.startswith("<doctest")
    True
    """
    found, frame = [], sys._getframe(1)
    while frame is not None:
        found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(_of_the_program(found, lambda line: line[0].co_filename))


def _of_the_program(lines: Iterable, filename_of: Callable[[Any], str]) -> list:
    """Return running lines, the innermost first, without those of the simulator and of instruments."""
    found = []
    for line in lines:
        filename = filename_of(line)
        if filename == _RECORDER:
            found.clear()  # those were PyTorch's, through which a recorder calls an operator
        elif not filename.startswith(_INSTRUMENTS):
            found.append(line)
    return found


def frames(lines: Stack) -> list[dict]:
    """Return a stack under PyTorch's keys."""
    return [{"name": code.co_name, "filename": code.co_filename, "line": line} for code, line in lines]


class Freed(NamedTuple):
    """A block that a tensor has given back, and where and when the program let the tensor go."""

    block: Block
    lines: Stack
    moment: float


class History:
    """The history of a device's memory: the last `most` events, and the lines that allocated what is live."""

    def __init__(self):
        self.context: str | None = "all"
        self.skipped: frozenset[str] = frozenset()
        self.events: deque[tuple] = deque()
        self.births: dict[int, Stack] = {}  # of blocks, by address
        self.segments: dict[int, Stack] = {}

    def lines(self, context: str) -> Stack:
        """Return the running lines where this history notes them for a `context`, else none."""
        return stack() if _CONTEXTS.index(self.context) >= _CONTEXTS.index(context) else ()

    def note(
        self,
        action: str,
        address: int,
        size: int,
        stream: int,
        lines: Stack = (),
        moment: float | None = None,
    ) -> None:
        """Write down one event. PyTorch keeps its lines only where those of allocations are asked for."""
        if action not in self.skipped:
            kept = lines if self.context in ("alloc", "all") else ()
            when = clock.now() if moment is None else moment
            self.events.append((action, address, size, stream, when, kept))

    def entries(self) -> list[dict]:
        """Return the events under PyTorch's keys."""
        return [
            {
                "action": action,
                "device_free" if action == "oom" else "addr": address,
                "size": size,
                "stream": stream,
                "time_us": round(moment * 1e6),
                "compile_context": "N/A",
                "user_metadata": "",
                "pool_id": _POOL,
                "frames": frames(lines),
            }
            for action, address, size, stream, moment, lines in self.events
        ]


class RecordingAllocator(PatientAllocator):
    """An allocator that writes a history. No request waits, because each belongs to the line that runs.

    >>> memory = PatientAllocator(0, capacity=1 << 30)
    >>> begin(memory, History())
    >>> memory.free(memory.allocate(1000))
    >>> memory.settle()
    >>> [event[0] for event in memory.history.events]
    ['segment_alloc', 'alloc', 'free_requested', 'free_completed']
    >>> end(memory)
    """

    history: History

    def allocate_at_once(self, requested: int, stream: int) -> Block:
        """Hand out a block, as `allocate` does."""
        return self.allocate(requested, stream)

    def note_freed(self, note) -> None:
        """Take back what a tensor held; `free` of an allocator that records.

        Python may call this at any moment, in the middle of another request too, so it only writes down.
        """
        self._diary.append(Freed(note.block, self.history.lines("all"), clock.now()))

    def _go_through(self) -> None:
        while self._diary:
            note = self._diary.popleft()
            block = note.block
            if block is None:  # another thread put the request off just before the history began
                note.block = Allocator.allocate(self, note.requested, note.stream)
                continue
            own = note if type(note) is Freed else Freed(block, (), clock.now())
            self._note_free(block, own)
            super()._merge(block)

    def _note_free(self, block: Block, freed: Freed) -> None:
        lines = freed.lines or self.history.births.get(block.address, ())
        self.history.births.pop(block.address, None)
        for action in ("free_requested",) if block.users else ("free_requested", "free_completed"):
            self.history.note(action, block.address, block.requested, block.stream, lines, freed.moment)

    def _merge(self, block: Block, gone: int = 1) -> None:
        if not gone:  # no other stream uses the block any more
            self.history.note("free_completed", block.address, block.requested, block.stream)
        super()._merge(block, gone)

    def _best_fit(self, size: int, requested: int, stream: int) -> Block:
        block = super()._best_fit(size, requested, stream)
        self.history.births[block.address] = lines = self.history.lines("state")
        self.history.note("alloc", block.address, requested, stream, lines)
        return block

    def _new_segment(self, size: int, requested: int, large: bool, stream: int) -> Block:
        block = super()._new_segment(size, requested, large, stream)
        self.history.segments[block.address] = lines = self.history.lines("state")
        self.history.note("segment_alloc", block.address, block.size, stream, lines)
        return block

    def empty_cache(self) -> None:
        """Give every segment in which nothing lives back to the device."""
        with self.lock:
            before = dict(self.segments)
            super().empty_cache()
            lines = self.history.lines("all")
            for address, first in before.items():
                if address not in self.segments:
                    born = self.history.segments.pop(address, ())
                    self.history.note("segment_free", address, first.size, first.stream, lines or born)

    def _out_of_memory(self, requested: int) -> None:
        free = self.capacity - self.reserved
        self.history.note("oom", free, round_up(requested), 0, self.history.lines("state"))
        super()._out_of_memory(requested)


def begin(allocator: PatientAllocator, history: History) -> None:
    """Let an allocator write a history from now on."""
    with allocator.lock:
        allocator.count()
        allocator.__class__ = RecordingAllocator
        allocator.history = history
        allocator.free = allocator.note_freed


def end(allocator: RecordingAllocator) -> None:
    """Let an allocator write no more."""
    with allocator.lock:
        allocator.settle()
        allocator.__class__ = PatientAllocator
        allocator.free = allocator._diary.append


def history_of(allocator: Allocator) -> History | None:
    """Return the history that an allocator writes, None where it writes none."""
    return allocator.history if isinstance(allocator, RecordingAllocator) else None


def record_history(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device=None,
    clear_history: bool = False,
    compile_context: bool = False,
    global_record_annotations: bool = False,
    skip_actions: list[str] | None = None,
    record_pinned_host_memory: bool = False,
    record_cuda: bool = True,
) -> None:
    """Record what happens to the memory of every simulated device, as `torch.cuda.memory` does; None ends it.

    `enabled` is "all", "state" (where live memory was made, without what came and went) or None; `context`
    says of which events the lines of code are noted: None, "state", "alloc" or "all". The last `max_entries`
    events of each device are kept. There are no C++ frames here, so `stacks` changes nothing; neither do
    `device`, which PyTorch ignores, too, `compile_context` and `global_record_annotations`. The last two are
    newer than PyTorch 2.13: without `record_cuda` nothing is recorded, and pinned memory never is.

    Raises:
        RuntimeError: when a choice is not among those that PyTorch knows.
    """
    if isinstance(enabled, bool):  # the form of PyTorch's first version of this function
        enabled = "all" if enabled else None
    _choose("state", enabled, (None, "state", "all"))
    _choose("context", context, _CONTEXTS)
    _choose("stacks", stacks, ("python", "all"))
    for action in skip_actions or ():
        _choose("skip_actions", action, ACTIONS)
    for allocator in allocators:
        history = history_of(allocator)
        if enabled is None or not record_cuda:
            if history is not None:
                end(allocator)
            continue
        if history is None:
            begin(allocator, history := History())
        allocator.settle()
        kept = () if clear_history else history.events
        history.events = deque(kept, maxlen=1 if enabled == "state" else max(1, max_entries))
        history.context, history.skipped = context, frozenset(skip_actions or ())


def _choose(name: str, given, known: Iterable) -> None:
    if given not in known:
        words = ", ".join(repr(value) for value in known)
        raise RuntimeError(f"expected {name} to be one of {words}, but got {given!r}")


def segments(allocator: PatientAllocator) -> list[dict]:
    """Return a device's segments and their blocks under PyTorch's keys, in the order of their addresses."""
    with allocator.lock:
        return [_segment(allocator, first, blocks) for first, blocks in allocator.blocks()]


def _segment(allocator: PatientAllocator, first: Block, blocks: list[Block]) -> dict:
    history = history_of(allocator)
    born, taken = (history.births, history.segments) if history is not None else ({}, {})
    live = [block for block in blocks if block.used]
    active = sum(block.size for block in live)
    pending = [block for block in live if block in allocator.held]
    states = {True: "active_allocated", False: "inactive"}
    return {
        "device": allocator.index,
        "address": first.address,
        "total_size": sum(block.size for block in blocks),
        "allocated_size": active - sum(block.size for block in pending),
        "active_size": active,
        "requested_size": sum(block.requested for block in live),
        "stream": first.stream,
        "segment_type": "large" if first.large else "small",
        "segment_pool_id": _POOL,
        "is_expandable": False,
        "frames": frames(taken.get(first.address, ())),
        "blocks": [
            {
                "address": block.address,
                "size": block.size,
                "requested_size": block.requested,
                "state": "active_pending_free" if block in pending else states[block.used],
                "frames": frames(born.get(block.address, ())) if block.used else [],
            }
            for block in blocks
        ],
    }


def take(device=None, augment_with_fx_traces: bool = False) -> dict:
    """Return a snapshot of every simulated device's memory, with the keys of `torch.cuda.memory._snapshot`.

    `device` changes nothing, as on CUDA, and neither does `augment_with_fx_traces`, because nothing is
    compiled here. That the times are modelled stands among the `allocator_settings`, which the viewer shows.

    >>> sorted(take())
    ['allocator_settings', 'device_traces', 'external_annotations', 'segments']
    """
    held, traces = [], []
    for allocator in allocators[: data.device_count()]:
        with allocator.lock:
            allocator.settle()
            if (history := history_of(allocator)) is not None:
                history.note("snapshot", 0, allocator.allocated, 0)
            held += segments(allocator)
            traces.append(history.entries() if history is not None else [])
    return {
        "segments": held,
        "device_traces": traces,
        "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "",
            "max_split_size": -1,
            "garbage_collection_threshold": 0.0,
            "expandable_segments": False,
            "roundup_power2_divisions": {},
            specs.NAME: TIMES,
        },
        "external_annotations": [],
    }


def dump(filename="dump_snapshot.pickle", augment_with_fx_traces: bool = False) -> None:
    """Write a snapshot into a file, which pytorch.org/memory_viz and `torch.cuda._memory_viz` open."""
    with open(filename, "wb") as file:
        pickle.dump(take(augment_with_fx_traces=augment_with_fx_traces), file)
