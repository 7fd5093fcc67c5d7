"""One piece of host memory under two labels: a tensor on `sim`, and the CPU tensor that computes for it.

DLPack hands a tensor's memory over together with the name of its device. Changing that name on the way
gives a genuine tensor of the simulated device, with a storage, strides and a version counter of its own,
which PyTorch treats as it treats one on a GPU. Nothing is copied, and each side keeps the memory alive.
"""

import ctypes

import torch

from devlab.sim import private

_HOST = 1  # DLPack's kDLCPU
_EXTENSION = 12  # DLPack's kDLExtDev, which PyTorch reads as a device registered by an extension
_DEVICE_OFFSET = ctypes.sizeof(ctypes.c_void_p)
_INDEX_SHIFT = 32

_to_dlpack = private.to_dlpack
_from_dlpack = private.from_dlpack
_pointer = private.capsule_pointer
_word_at = ctypes.c_int64.from_address


def on_device(host: torch.Tensor, index: int) -> torch.Tensor:
    """Return the tensor on `sim:index` that lives in the memory of the CPU tensor `host`."""
    if host.is_conj() or host.is_neg():
        host = host.resolve_conj().resolve_neg()
    capsule = _to_dlpack(host)
    _word_at(_pointer(capsule, b"dltensor") + _DEVICE_OFFSET).value = _EXTENSION | index << _INDEX_SHIFT
    return _from_dlpack(capsule)


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """Return the CPU tensor that lives in the memory of `tensor`, a tensor on `sim`.

    Raises:
        RuntimeError: when `tensor` is on some other accelerator, whose memory the CPU cannot reach.
    """
    capsule = _to_dlpack(tensor)
    word = _word_at(_pointer(capsule, b"dltensor") + _DEVICE_OFFSET)
    if word.value & 0xFF != _EXTENSION:
        raise RuntimeError(f"expected a tensor on a simulated device, but it is on {tensor.device}")
    word.value = _HOST
    host = _from_dlpack(capsule)
    if tensor.is_conj():
        host = host.conj()
    return private.neg_view(host) if tensor.is_neg() else host


def resize(tensor: torch.Tensor, size, stride, offset: int | None = None) -> torch.Tensor:
    """Give `tensor`, on `sim`, another size and strides, in more memory where the old is too little."""
    offset = tensor.storage_offset() if offset is None else offset
    extent = 0 if 0 in size else 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    needed = (offset + extent) * tensor.element_size()
    storage = tensor.untyped_storage()
    if needed > storage.nbytes():
        grown = torch.empty(needed, dtype=torch.uint8)
        whole = on_device(grown, tensor.get_device())
        if storage.nbytes():
            old = set_storage(
                on_device(grown[:0], tensor.get_device()), storage, 0, (storage.nbytes(),), (1,)
            )
            grown[: storage.nbytes()].copy_(on_host(old))
        storage = whole.untyped_storage()
    return set_storage(tensor, storage, offset, size, stride)


def set_storage(tensor: torch.Tensor, storage, offset: int, size, stride) -> torch.Tensor:
    """Point `tensor` at `storage`, both on one simulated device, with PyTorch's own bookkeeping."""
    op = torch.ops.aten.set_.source_Storage_storage_offset
    return op._op_dk(private.CPU_KEY, tensor, storage, offset, size, stride)
