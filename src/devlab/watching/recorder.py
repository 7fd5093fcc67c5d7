"""The hook that sees every operator a thread calls, below autograd, and writes down what it did.

Backward passes and code inside modules count as anything else does. It is the same on every device, so
the same program gives the same counts on every accelerator.
"""

import contextlib
import threading
from collections.abc import Iterator, Sequence

import torch

from devlab.sim.operator_mode import OperatorMode
from devlab.watching import assignment
from devlab.watching.copies import copies
from devlab.watching.events import When
from devlab.watching.marks import host_clock, mark
from devlab.watching.operators import accelerator, kind_of, new_bytes, tensors
from devlab.watching.record import Record
from devlab.watching.state import state
from devlab.watching.waits import causes


class Recorder(OperatorMode):
    """Tells a record of every operator that the thread it was entered in calls."""

    def __init__(self, record: Record):
        super().__init__()
        self.record = record
        self._number_made = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not self.record.open:
            return func(*args, **kwargs)
        kind = kind_of(func)
        if kind.is_composite is not False:
            # Inference mode hands composites over whole: what counts is what they are made of.
            with self:
                result = func.decompose(*args, **kwargs)
            kind.is_composite = result is not NotImplemented
            if kind.is_composite:
                return result
        if kind.only_looks:
            return func(*args, **kwargs)
        device = accelerator(args, kwargs)
        if device is None:
            result = self._pin(func, args, kwargs) if kind.name == "_pin_memory" else func(*args, **kwargs)
            self._count_on_cpu(kind, result)
            return result
        if device.type == "meta":
            return func(*args, **kwargs)
        if kind.name == assignment.NUMBER and device.type == "sim":
            self._number_made = True
            return func(*args, **kwargs)
        clock = host_clock(device.type)
        before, began = mark(device), clock()
        result = func(*args, **kwargs)
        when = When(began, clock(), (before, mark(device)))
        if self._number_made:
            self._number_made = False
            kind, args = assignment.as_on_cuda(kind, args)
        self._write_down(kind, device, args, kwargs, result, when)
        return result

    def _pin(self, func, args, kwargs):
        """Note when the host copies a tensor into pinned memory."""
        clock = host_clock(getattr(torch.accelerator.current_accelerator(), "type", "cpu"))
        began = clock()
        result = func(*args, **kwargs)
        self.record.pinning(new_bytes(result), When(began, clock()))
        return result

    def _count_on_cpu(self, kind, result) -> None:
        if kind.works:
            sheet = self.record.sheet
            sheet.cpu_operators += 1
            if kind.allocates:
                sheet.cpu_bytes += new_bytes(result)
        elif kind.allocates or (kind.role == "arrive" and result.untyped_storage().resizable()):
            # torch.tensor() makes memory; torch.as_tensor() borrows NumPy's, which cannot be resized.
            self.record.sheet.cpu_bytes += new_bytes(result)

    def _write_down(self, kind, device, args, kwargs, result, when) -> None:
        record = self.record
        if kind.is_plain:
            record.launch(device, kind.name, when)
            if kind.allocates:
                record.allocation(device, new_bytes(result))
            return
        crossed = False
        for copy in copies(kind, args, kwargs, result):
            record.transfer(copy, when)
            crossed = kind.role != "index"
            if copy.awaits_result:
                record.synchronization(copy.source, copy.cause, when)
        for cause in causes(kind, args, kwargs):
            record.synchronization(device, cause, when)
        if kind.works and not crossed:
            record.launch(device, kind.name, when)
        if kind.allocates or kind.role == "arrive":
            for tensor in tensors(result):
                record.allocation(tensor.device, new_bytes(tensor))


@contextlib.contextmanager
def recording(records: Sequence[Record]) -> Iterator[None]:
    """Tell some records of all that the calling thread does in the block."""
    before = state.logs
    with contextlib.ExitStack() as stack:
        for record in records:
            stack.enter_context(Recorder(record))
        state.logs = (*before, *records)
        try:
            yield
        finally:
            state.logs = before


def follow(thread: threading.Thread, records: Sequence[Record]) -> None:
    """Let a thread that is about to start tell some records of all that it does."""
    run = thread.run

    def watched() -> None:
        del thread.run
        with recording(records):
            run()

    thread.run = watched
