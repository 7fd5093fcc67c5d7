"""The operators that do not simply compute: making memory, pointing at it, moving it, reading it."""

from math import prod

import torch

from devlab.sim import memory, pinned, placement, private, transfer
from devlab.sim.storage import number_on_device, on_device, resize, set_storage

# A view's kernel for the CPU only builds another tensor over the same storage, wherever that is.
VIEWS = ("as_strided", "view", "_reshape_alias", "unfold", "view_as_real", "view_as_complex")


_CPU = torch.device("cpu")
_empty, _scalar = torch.empty, torch.scalar_tensor


def view(name: str):
    """Return the kernel of a view operator: PyTorch's own, which touches no element."""
    return private.caller_under(private.overload(f"aten::{name}"), private.CPU_KEY)


def empty(size, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    """Return uninitialized memory on a simulated device."""
    index = placement.current() if device.index is None else placement.check(device.index)
    needed = prod(size) * (dtype or torch.get_default_dtype()).itemsize
    if needed > memory.allocators[index].capacity:
        memory.check(index, needed)
    return on_device(_empty(size, dtype=dtype, device=_CPU, memory_format=memory_format), index)


def empty_strided(size, stride, dtype=None, layout=None, device=None, pin_memory=None):
    """Return uninitialized memory on a simulated device, with the given strides."""
    host = torch.empty_strided(size, stride, dtype=dtype, device="cpu")
    return on_device(host, placement.index_of(device))


def scalar_tensor(number, dtype=None, layout=None, device=None, pin_memory=None):
    """Return a number as a tensor; for `x[0] = 1.0` PyTorch makes one here, and for CUDA one on the host."""
    return number_on_device(_scalar(number, dtype=dtype, device=_CPU), placement.index_of(device))


def zero_tensor(size, dtype=None, layout=None, device=None, pin_memory=None):
    """Return zeros where PyTorch would keep a tensor without storage."""
    return on_device(torch.zeros(size, dtype=dtype, device="cpu"), placement.index_of(device))


def resize_(tensor, size, memory_format=None):
    """Give a tensor another size, in place."""
    like = torch.empty(size, dtype=tensor.dtype, device="meta")
    if memory_format is not None:
        like = like.contiguous(memory_format=memory_format)
    return resize(tensor, like.size(), like.stride())


def resize_as_(tensor, template, memory_format=None):
    """Give a tensor the size of another, in place."""
    if memory_format is torch.preserve_format:
        like = torch.empty_like(template, device="meta")
        return resize(tensor, like.size(), like.stride())
    return resize_(tensor, template.size(), memory_format)


def resize_output_(tensor, size, device):
    """Give a result the size that is needed, as decompositions of PyTorch's do."""
    return resize_(tensor, size)


def set_(tensor):
    """Leave a tensor without elements."""
    fresh = on_device(torch.empty(0, dtype=tensor.dtype, device="cpu"), tensor.get_device())
    return set_storage(tensor, fresh.untyped_storage(), 0, (0,), (1,))


def set_to_storage(tensor, source):
    """Point a tensor at a whole storage."""
    count = source.nbytes() // tensor.element_size()
    return set_storage(tensor, source, 0, (count,), (1,))


def set_to_part(tensor, source, offset, size, stride=()):
    """Point a tensor at part of a storage."""
    stride = stride or torch.empty(size, device="meta").stride()
    return set_storage(tensor, source, offset, size, stride)


def set_to_tensor(tensor, source):
    """Make a tensor another name of `source`."""
    if source.device != tensor.device:
        raise RuntimeError(
            f"Attempted to set the storage of a tensor on device {tensor.device} to a storage on different "
            f"device {source.device}.  This is no longer allowed; the devices must match."
        )
    storage = source.untyped_storage()
    return set_storage(tensor, storage, source.storage_offset(), source.size(), source.stride())


def refuse_to_pin(tensor, device=None):
    """Raise as PyTorch does when asked to pin what is not in the host's memory."""
    raise RuntimeError(f"cannot pin '{tensor.type()}' only dense CPU tensors can be pinned")


def is_left_aligned(tensor, mask):
    """Answer that a padded batch does not fit a nested tensor, so that PyTorch computes with the padding."""
    return False


def refuse_nested(*args, **kwargs):
    """Raise, as PyTorch does for a layout that a backend lacks."""
    raise NotImplementedError(
        "Could not make a nested tensor on a simulated device: nested tensors are not simulated. "
        "Keep the batch padded, with a mask, or make it on the CPU."
    )


def refuse_sparse(tensor, *args, **kwargs):
    """Raise, as PyTorch does for an operator that a backend lacks."""
    raise NotImplementedError(
        f"Could not make a sparse tensor on {tensor.device}: sparse tensors are not simulated. "
        "Make it on the CPU, or keep it dense."
    )


def refuse_sparse_parts(*args, **kwargs):
    """Raise the same where indices and values come as tensors of their own."""
    device = kwargs.get("device") or next(a.device for a in (*args, *kwargs.values()) if hasattr(a, "device"))
    refuse_sparse(torch.empty(0, device=device))


# By the dispatch key under which PyTorch would make a sparse tensor on the device, or first ask it something.
SPARSE = {
    "SparsePrivateUse1": ("_sparse_coo_tensor_with_dims", "_sparse_coo_tensor_with_dims_and_tensors"),
    "SparseCsrPrivateUse1": ("_nnz", "crow_indices", "values"),
}

SPECIAL = {
    "_to_sparse": refuse_sparse,
    "_to_sparse.sparse_dim": refuse_sparse,
    "_to_sparse_csr": refuse_sparse,
    "_to_sparse_csc": refuse_sparse,
    "_to_sparse_bsr": refuse_sparse,
    "_to_sparse_bsc": refuse_sparse,
    "_nested_tensor_from_mask": refuse_nested,
    "_nested_tensor_from_mask_left_aligned": is_left_aligned,
    "_nested_from_padded": refuse_nested,
    "_nested_tensor_from_tensor_list": refuse_nested,
    "_pin_memory": refuse_to_pin,
    "is_pinned": pinned.is_pinned,
    "empty.memory_format": empty,
    "empty_strided": empty_strided,
    "_efficientzerotensor": zero_tensor,
    "scalar_tensor": scalar_tensor,
    "resize_": resize_,
    "resize_as_": resize_as_,
    "_resize_output_": resize_output_,
    "set_": set_,
    "set_.source_Storage": set_to_storage,
    "set_.source_Storage_storage_offset": set_to_part,
    "set_.source_Tensor": set_to_tensor,
    "copy_": transfer.copy_,
    "_to_copy": transfer.to_copy,
    "_copy_from": transfer.copy_from,
    "_copy_from_and_resize": transfer.copy_from_and_resize,
    "_local_scalar_dense": transfer.item,
}
