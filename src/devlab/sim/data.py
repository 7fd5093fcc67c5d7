"""The simulator's data: which devices there are, and one piece of host memory under two labels."""

from collections.abc import Iterator
from weakref import ref

import torch

from devlab.sim import clock, events, private
from devlab.sim.allocator import Block
from devlab.sim.allocator import allocators as _allocators
from devlab.sim.specs import COUNT, NAME

_current = 0
_count = COUNT


def device_count() -> int:
    """Return how many simulated devices there are.

    >>> import devlab.sim
    >>> devlab.sim.device_count()
    2
    """
    return _count


def set_count(count: int) -> None:
    """Let there be only the first `count` of the devices."""
    global _count
    _count = count


def current_index() -> int:
    """Return the index that a bare `"sim"` means."""
    return _current


def set_current_index(index: int) -> None:
    """Make `index` the index that a bare `"sim"` means."""
    global _current
    _current = check_index(index)


def check_index(index: int) -> int:
    """Return `index` if there is such a simulated device.

    Raises:
        torch.AcceleratorError: when there is none, in the manner of CUDA's "invalid device ordinal".
    """
    if not 0 <= index < _count:
        there = " and ".join(f"{NAME}:{number}" for number in range(_count))
        raise torch.AcceleratorError(
            f"{NAME} error: invalid device ordinal: {NAME}:{index} was asked for, simulated here: {there}"
        )
    return index


def index_of(device: torch.device | str | int | None = None) -> int:
    """Return the index that `device` names; None and a bare `"sim"` mean the current device.

    Raises:
        ValueError: when `device` is not a simulated device.
        torch.AcceleratorError: when there is no device of that index.
    """
    if device is None:
        return _current
    if isinstance(device, int):
        return check_index(device)
    if type(device) is not torch.device:
        device = torch.device(device)
    if device.type != NAME:
        raise ValueError(f"Expected a {NAME} device, but got: {device}")
    index = device.index
    return _current if index is None else check_index(index)


def device_of(index: int) -> torch.device:
    """Return the simulated device of that index."""
    return torch.device(NAME, index)


_HOST = 1  # DLPack's kDLCPU
_EXTENSION = 12  # DLPack's kDLExtDev, which PyTorch reads as a device registered by an extension
_INDEX_SHIFT = 32

# These raise an error for a dtype that no tensor may have: a function under MPS's rules, and `refuse_in_fork`
# in a process that may not use the devices.
refusals: list = []
# These keep every operator from the quickest kernels: the functions above, and the kernels that have failed.
limits: list = []


def set_failures(failures: list) -> None:
    """Let these be the kernels that have failed on their devices; see `assertions`."""
    clock.failures[:] = failures
    limits[:] = [*refusals, *failures]


_to_dlpack = private.to_dlpack
_from_dlpack = private.from_dlpack
_words = private.words
_DEVICE = private.DEVICE_WORD
_streams = clock.current
_observers = events.observers
_neg_view = private.neg_view
_strided_on_host = private.caller_under(torch.ops.aten.as_strided.default, private.CPU_KEY)


class _Memory(ref):
    """The CPU tensor behind a storage on the device: the form of the tensor, and the block of the memory."""

    __slots__ = ("beneath", "block", "dtype", "number", "requested", "shape", "stream", "stride")


# By address. A dead entry stays until its address is taken again, or until half of the entries are dead.
_memories: dict[int, _Memory] = {}
_memory_at = _memories.get
_many = 1000


def is_initialized() -> bool:
    """Return whether a tensor was made on a simulated device, which is what starts CUDA.

    >>> import devlab.sim
    >>> devlab.sim.enable()
    >>> kept = torch.ones(1, device="sim")
    >>> is_initialized()
    True
    """
    return any(allocator.used for allocator in _allocators)


_inherited: dict[int, _Memory] = {}


def refuse_in_fork(dtype: torch.dtype | None = None) -> None:
    """Raise what CUDA raises in a process that was forked from a process which had used CUDA.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        f"Cannot re-initialize {NAME} in forked subprocess. To use {NAME} with multiprocessing, you must use "
        "the 'spawn' start method"
    )


def after_fork() -> None:
    """Keep this process, which was just forked, from using the devices if its parent had used them.

    The process inherits the parent's tensors, and may hold them and let them go: only to make a tensor or to
    look into one is refused. The memories of all tensors are hidden, so that no operator has to ask.
    """
    for allocator in _allocators:
        allocator.after_fork()
    if is_initialized() and refuse_in_fork not in refusals:
        refusals.append(refuse_in_fork)
        _inherited.update(_memories)
        _memories.clear()


def allow_after_fork() -> None:
    """Let this process use the devices although it was forked from a process which had used them.

    Memory on a simulated device is ordinary memory, which a fork copies. This is for processes that devlab
    forks itself; a learner's own processes are to meet what they meet on CUDA.
    """
    if refuse_in_fork in refusals:
        refusals.remove(refuse_in_fork)
        _memories.update(_inherited)
        _inherited.clear()


def _forget_the_dead() -> None:
    global _many
    # A copy, because Python may switch threads or collect garbage between two items.
    for address, kept in _memories.copy().items():
        if kept() is None and _memories.get(address) is kept:
            _memories.pop(address, None)
    _many = 1000 + 2 * len(_memories)


def on_device(host: torch.Tensor, index: int) -> torch.Tensor:
    """Return the tensor on `sim:index` that lives in the memory of the CPU tensor `host`.

    Raises:
        torch.OutOfMemoryError: when the device's memory is too small for it.
    """
    for refuse in refusals:
        refuse(host.dtype)
    if host.is_complex():
        host = host.resolve_conj()
    size = host.nbytes if host.is_contiguous() else host.untyped_storage().nbytes()
    address = host.data_ptr()
    beneath = _memory_at(address)
    made = new_on_device(host, index, size)
    if beneath is not None and beneath() is not None:
        # The memory had a label already. The note of the first label must live as long as the memory does.
        _memories[address].beneath = beneath
    return made


def new_on_device(host: torch.Tensor, index: int, size: int) -> torch.Tensor:
    """Return the tensor on `sim:index` that lives in the memory of `host`, whose storage has `size` bytes.

    Only for a result that an operator has just made: neither its dtype nor a conjugate view is looked for.
    """
    address = host.data_ptr()
    if address:
        allocator, stream = _allocators[index], _streams.queues[index].stream_id
        block = allocator.allocate_at_once(size, stream)
        # When the memory dies, the allocator is given this note, which holds the block.
        _memories[address] = kept = _Memory(host, allocator.free)
        kept.block = block
        kept.shape = None
        if block is None:
            kept.requested, kept.stream = size, stream
            allocator.request(kept)
        if len(_memories) > _many:
            _forget_the_dead()
        if _observers:
            events.tell(events.Allocation(index, size))
    try:
        capsule = _to_dlpack(host)
    except BufferError as error:
        raise NotImplementedError(
            f"Could not make a tensor of {host.dtype} on {NAME}:{index}: tensors of this dtype are not "
            "simulated. Make it on the CPU, or compute in floats."
        ) from error
    _words(capsule)[_DEVICE] = _EXTENSION | index << _INDEX_SHIFT
    return _from_dlpack(capsule)


def number_on_device(host: torch.Tensor, index: int) -> torch.Tensor:
    """Return the tensor that PyTorch makes of a Python number to write it into a tensor on `sim:index`."""
    made = on_device(host, index)
    if not refusals:  # on MPS the number is on the device
        _memories[host.data_ptr()].number = True
    return made


def is_number(tensor: torch.Tensor) -> bool:
    """Return whether a tensor was made by `number_on_device`: on CUDA it would be in the host's memory.

    >>> is_number(torch.ones(()))
    False
    """
    kept = _memory_at(tensor.data_ptr())
    return kept is not None and kept() is not None and hasattr(kept, "number")


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """Return the CPU tensor that lives in the memory of `tensor`, a tensor on `sim`.

    Raises:
        RuntimeError: when `tensor` is on some other accelerator, whose memory the CPU cannot reach.
    """
    kept = _memory_at(tensor.data_ptr())
    if (
        kept is not None
        and tensor.shape == kept.shape
        and tensor.stride() == kept.stride
        and tensor.dtype is kept.dtype
        and not tensor.is_neg()
    ):
        host = kept()
        if host is not None:
            return host
    return _find_host_tensor(tensor, kept)


def _find_host_tensor(tensor: torch.Tensor, kept: _Memory | None) -> torch.Tensor:
    """Return the CPU tensor for `tensor` whose memory has another form, or a form not yet asked for."""
    host = kept() if kept is not None and kept.shape is None else None
    if host is not None and not host.is_complex():
        kept.shape, kept.stride, kept.dtype = form = host.shape, host.stride(), host.dtype
        if (tensor.shape, tensor.stride(), tensor.dtype) == form and not tensor.is_neg():
            return host
    host = _part_of_a_whole(tensor)
    if host is None:
        host = _relabel_for_cpu(tensor)
    if tensor.is_conj():
        host = host.conj()
    return _neg_view(host) if tensor.is_neg() else host


def _part_of_a_whole(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return a view of the CPU tensor behind the storage of `tensor`; None where that is unknown.

    Views of one storage on the device are views of one storage on the CPU, so that the CPU's operators notice
    when the memory that they read overlaps the memory that they write.
    """
    kept = _memory_at(tensor.untyped_storage().data_ptr())
    host = kept() if kept is not None else None
    if host is None:
        return None
    size, stride, offset = tensor.size(), tensor.stride(), tensor.storage_offset()
    if host.dtype is tensor.dtype:
        return _strided_on_host(host, size, stride, host.storage_offset() + offset)
    start, rest = divmod(host.storage_offset() * host.itemsize, tensor.itemsize)
    if rest:
        return None
    return torch.empty(0, dtype=tensor.dtype, device="cpu").set_(
        host.untyped_storage(), start + offset, size, stride
    )


def _relabel_for_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """Return a CPU tensor on the memory of `tensor`, with a storage of its own.

    Raises:
        RuntimeError: when `tensor` is on some other accelerator, whose memory the CPU cannot reach.
    """
    capsule = _to_dlpack(tensor)
    words = _words(capsule)
    if refuse_in_fork in refusals:
        refuse_in_fork()
    if words[_DEVICE] & 0xFF != _EXTENSION:
        raise RuntimeError(f"expected a tensor on a simulated device, but it is on {tensor.device}")
    words[_DEVICE] = _HOST
    return _from_dlpack(capsule)


def block_of(storage: torch.UntypedStorage, index: int) -> Block | None:
    """Return the block of a storage on `sim:index`, None where it has none."""
    kept = _memory_at(storage.data_ptr())
    if kept is None or kept() is None:
        return None
    _allocators[index].settle()
    return kept.block


def keep_for(tensor: torch.Tensor, queue: clock.Queue) -> None:
    """Let a tensor's memory be handed out again only when a stream's work has ended: `record_stream`."""
    storage, index = tensor.untyped_storage(), tensor.get_device()
    block = block_of(storage, index)
    if block is not None:
        _allocators[index].keep_for(block, queue, _memory_at(storage.data_ptr())())


def resize(tensor: torch.Tensor, size, stride, offset: int | None = None) -> torch.Tensor:
    """Give `tensor`, on `sim`, another size and strides, in more memory where the old is too little."""
    offset = tensor.storage_offset() if offset is None else offset
    extent = 0 if 0 in size else 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    needed = (offset + extent) * tensor.element_size()
    storage = tensor.untyped_storage()
    if needed > storage.nbytes():
        # Of the tensor's dtype: where memory is filled on request, PyTorch fills it by the dtype.
        grown = torch.empty(offset + extent, dtype=tensor.dtype, device="cpu")
        whole = on_device(grown, tensor.get_device())
        if storage.nbytes():
            blank = on_device(torch.empty(0, dtype=torch.uint8, device="cpu"), tensor.get_device())
            old = set_storage(blank, storage, 0, (storage.nbytes(),), (1,))
            grown.view(torch.uint8)[: storage.nbytes()].copy_(on_host(old))
        storage = whole.untyped_storage()
    return set_storage(tensor, storage, offset, size, stride)


def set_storage(tensor: torch.Tensor, storage, offset: int, size, stride) -> torch.Tensor:
    """Point `tensor` at `storage`, both on one simulated device, with PyTorch's own bookkeeping."""
    set_ = private.caller_under(torch.ops.aten.set_.source_Storage_storage_offset, private.CPU_KEY)
    return set_(tensor, storage, offset, size, stride)


def tensors(value) -> Iterator[torch.Tensor]:
    """Yield the tensors in a value: the value itself, or those in a list, lists of lists included.

    >>> len(list(tensors((torch.ones(1), None, [torch.ones(2)]))))
    2
    """
    for item in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(item, torch.Tensor):
            yield item
        elif isinstance(item, (list, tuple)):
            yield from tensors(item)


# The functions and methods that take `pin_memory`.
_FACTORIES = {
    torch: "empty zeros ones full rand randn randint randperm arange linspace eye tensor empty_strided "
    "empty_like zeros_like ones_like full_like rand_like randn_like",
    torch.Tensor: "new_empty new_zeros new_ones new_full new_empty_strided",
}


class _Pinned(ref):
    __slots__ = ("address", "end")


_pinned: dict[int, _Pinned] = {}


def _forget_pinned(note: _Pinned) -> None:
    if _pinned.get(note.address) is note:
        del _pinned[note.address]


def pin(tensor: torch.Tensor) -> torch.Tensor:
    """Count the CPU tensor's memory as pinned, and return the tensor."""
    storage = tensor.untyped_storage()
    note = _Pinned(storage, _forget_pinned)
    note.address = storage.data_ptr()
    note.end = note.address + storage.nbytes()
    if note.address:
        _pinned[note.address] = note
    return tensor


def is_pinned(tensor: torch.Tensor, device=None) -> bool:
    """Return whether the CPU tensor lives in memory that counts as pinned, a part of it included.

    PyTorch asks CUDA for the address at which the tensor's storage begins, and a slice of a storage begins
    in the middle of pinned memory.
    """
    if not (_pinned and tensor.is_cpu):
        return False
    address = tensor.untyped_storage().data_ptr()
    return address in _pinned or any(one.address < address < one.end for one in list(_pinned.values()))


def pinned_copy(tensor: torch.Tensor, device=None) -> torch.Tensor:
    """Return a copy of a CPU tensor in memory that counts as pinned; the host makes the copy itself."""
    clock.spend_pinning(current_index(), tensor.nbytes)
    return pin(tensor.clone())


# These take the place of the operators for CPU tensors, which ask the accelerator's allocator.
OPERATORS = {"is_pinned": is_pinned, "_pin_memory": pinned_copy}


def route_factories() -> None:
    """Let `torch.empty(..., pin_memory=True)` and similar calls make memory that counts as pinned."""

    def routed(function):
        def make(*args, **kwargs):
            if kwargs.pop("pin_memory", False):
                return pin(function(*args, **kwargs))
            return function(*args, **kwargs)

        return make

    for owner, names in _FACTORIES.items():
        for name in names.split():
            private.replace(owner, name, routed)
