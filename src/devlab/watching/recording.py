"""The hook that sees every operator of a thread, and what each operator means for devices."""

import contextlib
import functools
import threading
from collections.abc import Iterator, Sequence

import torch

from devlab import sim
from devlab.sim import operators
from devlab.sim.crossing import plan_copy
from devlab.sim.data import tensors
from devlab.sim.operators import MASKS, counts_mask, fills_mask
from devlab.sim.private import OperatorMode
from devlab.watching.record import LOADING, Copy, Record, When, host_clock, mark, state, stream_of

_SEQUENCES = (list, tuple)
_CPU = torch.device("cpu")
_ROLES = {"_to_copy": "copy", "copy_": "copy", "_local_scalar_dense": "read", "lift_fresh": "arrive"}
_ROLES |= dict.fromkeys(operators.INDEXING, "index")
_MAKES_MEMORY = frozenset(
    {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
)
# These operators change how a tensor describes its memory, and touch no element.
_LOOKS = operators.IN_PLACE_VIEWS | {"_unsafe_view", "record_stream", "resize_", "set_"}


class Kind:
    """What one operator does.

    `role` is "copy", "read" (one value, to Python), "arrive" (a tensor just made from Python's values),
    "index", or "" for any other. `only_looks` tells whether it only looks at memory differently, `works`
    whether it starts work, `allocates` whether what it returns is new memory, `is_plain` whether it works and
    nothing else, and `is_composite` whether it is made of other operators (None until it has been tried).
    `waits` tells from the arguments whether the host needs the outcome, and is None if the host never does.

    >>> Kind(torch.ops.aten.mm.default).works, Kind(torch.ops.aten.t.default).works
    (True, False)
    """

    __slots__ = ("allocates", "is_composite", "is_plain", "name", "only_looks", "role", "waits", "works")

    def __init__(self, operator):
        full = getattr(operator, "name", str)()
        self.name = operators.short(full)
        self.is_composite = None if hasattr(operator, "decompose") else False
        self.role = _ROLES.get(self.name, "")
        in_place = self.name.endswith("_") or full.endswith(("out", "_out"))
        looks = getattr(operator, "is_view", False) or self.name in _LOOKS
        self.only_looks = looks and self.role == ""
        self.works = not looks and self.name not in _MAKES_MEMORY and self.role != "read"
        self.allocates = not looks and not in_place and self.role != "read"
        self.waits = None if self.role else operators.wait_rule(full, getattr(operator, "tags", ()))
        self.is_plain = self.works and not self.waits and self.role == ""


@functools.cache
def kind_of(operator) -> Kind:
    """Return what an operator does, worked out once for each operator."""
    return Kind(operator)


def accelerator(args: tuple, kwargs: dict) -> torch.device | None:
    """Return the first device other than the CPU among an operator's arguments, None if there is none.

    >>> accelerator((torch.ones(2), 1), {}) is None
    True
    >>> accelerator((3,), {"device": torch.device("meta")})
    device(type='meta')
    """
    for value in args:
        if isinstance(value, torch.Tensor):
            if not value.is_cpu:
                return value.device
        elif isinstance(value, _SEQUENCES):
            for item in value:
                if isinstance(item, torch.Tensor) and not item.is_cpu:
                    return item.device
    if kwargs:
        device = kwargs.get("device")
        if device is not None and device.type != "cpu":
            return _with_index(device)
        for value in kwargs.values():
            if isinstance(value, torch.Tensor) and not value.is_cpu:
                return value.device
    return None


def _with_index(device: torch.device) -> torch.device:
    """Return the device that a bare name means at the moment."""
    if device.index is not None or device.type == "meta":
        return device
    current = getattr(torch.get_device_module(device), "current_device", lambda: 0)
    return torch.device(device.type, current())


def new_bytes(result) -> int:
    """Return the bytes of what an operator returned.

    >>> new_bytes([torch.ones(3), torch.ones(2, dtype=torch.int64)])
    28
    """
    if isinstance(result, torch.Tensor):
        return result.numel() * result.itemsize
    return sum(tensor.numel() * tensor.itemsize for tensor in tensors(result))


def as_on_cuda(kind: Kind, args: tuple) -> tuple[Kind, tuple]:
    """Return the operator and the arguments with which CUDA writes the number that was made just before.

    >>> kind, args = as_on_cuda(kind_of(torch.ops.aten.copy_.default), (torch.ones(3), torch.ones(())))
    >>> kind.name
    'fill_'
    """
    if kind.name == "copy_":
        target, value = args[:2]
        if target.dim():
            return kind_of(torch.ops.aten.fill_.Scalar), args
        return kind, (target, _on_cpu(value))
    if kind.name == "index_put_":
        target, indices, value, *rest = args
        return kind, (target, indices, _on_cpu(value), *rest)
    return kind, args


def _on_cpu(value: torch.Tensor) -> torch.Tensor:
    return torch.empty((), dtype=value.dtype, device="cpu")


def copies(kind: Kind, args: tuple, kwargs: dict, result) -> Iterator[Copy]:
    """Yield the copies between devices that one operator made."""
    if kind.role == "copy":
        source, target = (args[1], args[0]) if kind.name == "copy_" else (args[0], result)
        if source.device != target.device:
            asked = bool(kwargs.get("non_blocking") or (kind.name == "copy_" and len(args) > 2 and args[2]))
            yield _between(source, target, asked, "copy_()" if kind.name == "copy_" else ".to()")
    elif kind.role == "read":
        yield Copy(args[0].device, _CPU, args[0].itemsize, False, True, False, ".item()")
    elif kind.role == "arrive":
        yield _copy_from_cpu(args[0].device, new_bytes(args[0]), "torch.tensor()")
    elif kind.role == "index" and not args[0].is_cpu:
        for index in args[1]:
            if index is not None and index.is_cpu:
                yield _copy_from_cpu(args[0].device, _index_bytes(index), "index from the CPU")
        if len(args) > 2 and args[2].is_cpu and not fills_mask(args):
            yield _copy_from_cpu(args[0].device, new_bytes(args[2]), "number from the CPU")


def _copy_from_cpu(target: torch.device, size: int, cause: str) -> Copy:
    return Copy(_CPU, target, size, False, True, False, cause)


def _between(source: torch.Tensor, target: torch.Tensor, non_blocking: bool, cause: str) -> Copy:
    """Return the copy that brings `source` into `target`."""
    here = source if source.is_cpu else target
    pinned = here.is_cpu and here.is_pinned()
    kinds = (source.device.type, target.device.type)
    mps = "mps" in kinds or ("sim" in kinds and sim.following() == "mps")
    way = plan_copy(source, target, non_blocking, pinned, mps)
    return Copy(source.device, target.device, way.bytes, way.pinned, way.blocking, non_blocking, cause)


def _index_bytes(index: torch.Tensor) -> int:
    """Return the bytes of a CPU index that travel: a mask is turned into positions first."""
    if index.dtype in MASKS:
        return int(index.count_nonzero()) * index.dim() * 8
    return index.numel() * 8


def causes(kind: Kind, args: tuple, kwargs: dict) -> Iterator[str]:
    """Yield the cause of each wait in one operator, in the learner's words."""
    if kind.role == "index":
        if counts_mask(args):
            yield "boolean mask"
    elif kind.waits is not None and kind.waits(args, kwargs):
        yield f"{kind.name.strip('_').rstrip('2')}()"


class Recorder(OperatorMode):
    """Tells a record of every operator that is called in the thread that entered the recorder."""

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
            # Inference mode hands a composite operator over as a whole: the operators inside it are counted.
            with self:
                result = func.decompose(*args, **kwargs)
            kind.is_composite = result is not NotImplemented
            if kind.is_composite:
                return result
        if kind.only_looks:
            return func(*args, **kwargs)
        if self.record.arriving:
            read = args[1:] if kind.name == "copy_" else args
            self.record.reading(tensors(read), f"{kind.name}()")
        device = accelerator(args, kwargs)
        if device is None:
            result = self._pin(func, args, kwargs) if kind.name == "_pin_memory" else func(*args, **kwargs)
            self._count_on_cpu(kind, result)
            return result
        if device.type == "meta":
            return func(*args, **kwargs)
        if kind.name == "scalar_tensor" and device.type == "sim":
            self._number_made = True
            return func(*args, **kwargs)
        clock = host_clock(device.type)
        before, began = mark(device), clock()
        result = func(*args, **kwargs)
        when = When(began, clock(), (before, mark(device)), stream_of(device))
        if self._number_made:
            self._number_made = False
            kind, args = as_on_cuda(kind, args)
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
            record.launch(device, kind.name, when, args)
            if kind.allocates:
                record.allocation(device, new_bytes(result))
            return
        crossed = False
        for copy in copies(kind, args, kwargs, result):
            record.transfer(copy, when)
            crossed = kind.role != "index"
            if state.cause == LOADING:  # which makes the storages without any operator
                record.allocation(copy.target, copy.bytes)
            if copy.awaits_result:
                record.synchronization(copy.source, copy.cause, when)
            elif copy.target.type == "cpu" and record.keeps():
                record.await_copy(args[0] if kind.name == "copy_" else result)
        for cause in causes(kind, args, kwargs):
            record.synchronization(device, cause, when)
        if kind.works and not crossed:
            record.launch(device, kind.name, when, args)
        if kind.allocates or kind.role == "arrive":
            for tensor in tensors(result):
                record.allocation(tensor.device, new_bytes(tensor))


@contextlib.contextmanager
def record_thread(records: Sequence[Record]) -> Iterator[None]:
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
        with record_thread(records):
            run()

    thread.run = watched
