"""One piece of host memory under two labels: a tensor on `sim`, and the CPU tensor that computes for it.

DLPack hands a tensor's memory over together with the name of its device. Changing that name on the way
gives a genuine tensor of the simulated device, with a storage, strides and a version counter of its own,
which PyTorch treats as it treats one on a GPU. Nothing is copied, and each side keeps the memory alive.

The storage on the device owns the CPU tensor that it was made from. That tensor is found again by its
address, which spares making another for every operator, and its death is the death of the storage.
"""

from weakref import ref

import torch

from devlab.sim import clock, events, limits, memory, private

_HOST = 1  # DLPack's kDLCPU
_EXTENSION = 12  # DLPack's kDLExtDev, which PyTorch reads as a device registered by an extension
_DEVICE = 1  # which 64-bit word of the struct holds the device's kind and, in its upper half, its index
_INDEX_SHIFT = 32
_NAME = b"dltensor"

_to_dlpack = private.to_dlpack
_from_dlpack = private.from_dlpack
_words = private.capsule_words
_allocators = memory.allocators
_devices = clock.devices
_limited = limits.active
_observers = events.observers
_neg_view = private.neg_view


class _Memory(ref):
    """The CPU tensor behind a storage on the device: its address, and the block that it takes."""

    __slots__ = ("address", "block")


_memories: dict[int, _Memory] = {}


def _died(kept: _Memory) -> None:
    """Give a dead storage's block back."""
    if _memories.get(kept.address) is kept:
        del _memories[kept.address]
    block = kept.block
    block.home.free(block)


def on_device(host: torch.Tensor, index: int) -> torch.Tensor:
    """Return the tensor on `sim:index` that lives in the memory of the CPU tensor `host`.

    Raises:
        torch.OutOfMemoryError: when the device's memory is too small for it.
    """
    if _limited:
        limits.refuse_dtype(host.dtype)
    if host.is_complex():
        host = host.resolve_conj()
    address = host.data_ptr()
    if address:
        size = host.nbytes if host.is_contiguous() else host.untyped_storage().nbytes()
        block = _allocators[index].allocate(size, _devices[index].current.stream_id)
        kept = _Memory(host, _died)
        kept.block = block
        kept.address = address
        _memories[address] = kept
        if _observers:
            events.tell(events.Allocation(index, size))
    capsule = _to_dlpack(host)
    _words(capsule, _NAME)[_DEVICE] = _EXTENSION | index << _INDEX_SHIFT
    return _from_dlpack(capsule)


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """Return the CPU tensor that lives in the memory of `tensor`, a tensor on `sim`.

    Raises:
        RuntimeError: when `tensor` is on some other accelerator, whose memory the CPU cannot reach.
    """
    kept = _memories.get(tensor.data_ptr())
    if kept is not None:
        host = kept()
        if (
            host is not None
            and tensor.size() == host.size()
            and tensor.stride() == host.stride()
            and tensor.dtype is host.dtype
            and not tensor.is_neg()
            and not (host.is_complex() and tensor.is_conj())
        ):
            return host
    capsule = _to_dlpack(tensor)
    words = _words(capsule, _NAME)
    if words[_DEVICE] & 0xFF != _EXTENSION:
        raise RuntimeError(f"expected a tensor on a simulated device, but it is on {tensor.device}")
    words[_DEVICE] = _HOST
    host = _from_dlpack(capsule)
    if tensor.is_conj():
        host = host.conj()
    return _neg_view(host) if tensor.is_neg() else host


def resize(tensor: torch.Tensor, size, stride, offset: int | None = None) -> torch.Tensor:
    """Give `tensor`, on `sim`, another size and strides, in more memory where the old is too little."""
    offset = tensor.storage_offset() if offset is None else offset
    extent = 0 if 0 in size else 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    needed = (offset + extent) * tensor.element_size()
    storage = tensor.untyped_storage()
    if needed > storage.nbytes():
        grown = torch.empty(needed, dtype=torch.uint8, device="cpu")
        whole = on_device(grown, tensor.get_device())
        if storage.nbytes():
            blank = on_device(torch.empty(0, dtype=torch.uint8, device="cpu"), tensor.get_device())
            old = set_storage(blank, storage, 0, (storage.nbytes(),), (1,))
            grown[: storage.nbytes()].copy_(on_host(old))
        storage = whole.untyped_storage()
    return set_storage(tensor, storage, offset, size, stride)


def set_storage(tensor: torch.Tensor, storage, offset: int, size, stride) -> torch.Tensor:
    """Point `tensor` at `storage`, both on one simulated device, with PyTorch's own bookkeeping."""
    set_ = private.caller_under(torch.ops.aten.set_.source_Storage_storage_offset, private.CPU_KEY)
    return set_(tensor, storage, offset, size, stride)
