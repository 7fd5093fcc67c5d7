"""The operators that do not simply compute: those that make, resize, share, move or read memory."""

from math import prod

import torch

from devlab.sim import crossing, data, private
from devlab.sim.allocator import allocators
from devlab.sim.data import number_on_device, on_device, resize, set_storage
from devlab.sim.racing import visible

# A view's kernel for the CPU only builds another tensor over the same storage, on whatever device that is.
VIEWS = ("as_strided", "view", "_reshape_alias", "unfold", "view_as_real", "view_as_complex")

_CPU = torch.device("cpu")
_empty, _scalar = torch.empty, torch.scalar_tensor


def view(name: str):
    """Return the kernel of a view operator: PyTorch's own, which touches no element."""
    return private.caller_under(private.overload(f"aten::{name}"), private.CPU_KEY)


def empty(size, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    """Return uninitialized memory on a simulated device."""
    index = data.current_index() if device.index is None else data.check_index(device.index)
    needed = prod(size) * (dtype or torch.get_default_dtype()).itemsize
    allocators[index].check(needed)
    host = _empty(size, dtype=dtype, device=_CPU, memory_format=memory_format)
    return on_device(host.zero_() if visible else host, index)


def empty_strided(size, stride, dtype=None, layout=None, device=None, pin_memory=None):
    """Return uninitialized memory on a simulated device, with the given strides."""
    host = torch.empty_strided(size, stride, dtype=dtype, device="cpu")
    return on_device(host.zero_() if visible else host, data.index_of(device))


def scalar_tensor(number, dtype=None, layout=None, device=None, pin_memory=None):
    """Return a number as a tensor; `x[0] = 1.0` asks for such a tensor, which for CUDA is on the host."""
    return number_on_device(_scalar(number, dtype=dtype, device=_CPU), data.index_of(device))


def zero_tensor(size, dtype=None, layout=None, device=None, pin_memory=None):
    """Return zeros where PyTorch would keep a tensor without storage."""
    return on_device(torch.zeros(size, dtype=dtype, device="cpu"), data.index_of(device))


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


_ADVICE = {
    "sparse": "Make it on the CPU, or keep it dense; an embedding is dense with `sparse=False`.",
    "nested": "Keep the batch padded, with a mask, or make it on the CPU.",
    "quantized": "Make it on the CPU, or compute in floats.",
}


def refuse(kind: str, *values):
    """Raise, as PyTorch does for an operator that a backend lacks; `values` say which device was meant.

    Raises:
        NotImplementedError: always.
    """
    devices = (getattr(value, "device", value) for value in private.tree_leaves(values))
    there = next((one for one in devices if isinstance(one, torch.device) and one.type == data.NAME), None)
    raise NotImplementedError(
        f"Could not use a {kind} tensor on {data.device_of(data.index_of(there))}: {kind} tensors are not "
        f"simulated. {_ADVICE[kind]}"
    )


def kernel_that_refuses(kind: str):
    """Return a kernel that refuses tensors of a kind that is not simulated."""
    return lambda *args, **kwargs: refuse(kind, args, kwargs)


# Every operator on such a tensor of a simulated device, or on one that meets a simulated device's, has one of
# these dispatch keys.
NOT_SIMULATED = {
    "SparsePrivateUse1": "sparse",
    "SparseCsrPrivateUse1": "sparse",
    "NestedTensorPrivateUse1": "nested",
    "QuantizedPrivateUse1": "quantized",
}
# PyTorch makes a tensor of sparse rows or columns without asking any kernel, and has kernels for every device
# that say that these parts are not there.
PARTS = ("values", "crow_indices", "col_indices", "ccol_indices", "row_indices")

SPECIAL = {
    **{
        f"_to_sparse{kind}": kernel_that_refuses("sparse")
        for kind in ("", ".sparse_dim", "_csr", "_csc", "_bsr", "_bsc")
    },
    **{
        f"_nested_{made}": kernel_that_refuses("nested")
        for made in ("tensor_from_mask", "from_padded", "tensor_from_tensor_list")
    },
    "_nested_tensor_from_mask_left_aligned": is_left_aligned,
    "_pin_memory": refuse_to_pin,
    "is_pinned": data.is_pinned,
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
    "copy_": crossing.copy_,
    "_to_copy": crossing.to_copy,
    "_copy_from": crossing.copy_from,
    "_copy_from_and_resize": crossing.copy_from_and_resize,
    "_local_scalar_dense": crossing.item,
}


def lstm_cell(input_gates, hidden_gates, cell, input_bias=None, hidden_bias=None):
    """Return (hidden state, cell state, activated gates) of one LSTM step."""
    gates = input_gates + hidden_gates
    if input_bias is not None:
        gates = gates + input_bias + hidden_bias
    enter, forget, fresh, leave = gates.chunk(4, 1)
    enter, forget, fresh, leave = enter.sigmoid(), forget.sigmoid(), fresh.tanh(), leave.sigmoid()
    following = forget * cell + enter * fresh
    return leave * following.tanh(), following, torch.cat((enter, forget, fresh, leave), 1)


def lstm_cell_backward(grad_hidden, grad_cell, cell, following, workspace, has_bias):
    """Return the gradients of (gates, cell state, bias) of one LSTM step."""
    if grad_hidden is None and grad_cell is None:
        return None, None, None
    enter, forget, fresh, leave = workspace.chunk(4, 1)
    squashed = following.tanh()
    from_hidden = torch.zeros_like(cell) if grad_hidden is None else grad_hidden
    inner = from_hidden * leave * (1 - squashed * squashed)
    if grad_cell is not None:
        inner = inner + grad_cell
    gates = torch.cat(
        (
            inner * fresh * enter * (1 - enter),
            inner * cell * forget * (1 - forget),
            inner * enter * (1 - fresh * fresh),
            from_hidden * squashed * leave * (1 - leave),
        ),
        1,
    )
    return gates, inner * forget, gates.sum(0) if has_bias else None


def gru_cell(input_gates, hidden_gates, hidden, input_bias=None, hidden_bias=None):
    """Return (hidden state, what the backward needs) of one GRU step."""
    if input_bias is not None:
        input_gates, hidden_gates = input_gates + input_bias, hidden_gates + hidden_bias
    in_reset, in_update, in_fresh = input_gates.chunk(3, 1)
    of_reset, of_update, of_fresh = hidden_gates.chunk(3, 1)
    reset, update = (in_reset + of_reset).sigmoid(), (in_update + of_update).sigmoid()
    fresh = (in_fresh + reset * of_fresh).tanh()
    following = fresh + update * (hidden - fresh)
    return following, torch.cat((reset, update, fresh, hidden, of_fresh), 1)


def gru_cell_backward(grad, workspace, has_bias):
    """Return the gradients of (input gates, hidden gates, hidden state, input bias, hidden bias)."""
    reset, update, fresh, hidden, of_fresh = workspace.chunk(5, 1)
    to_fresh = grad * (1 - update) * (1 - fresh * fresh)
    to_update = grad * (hidden - fresh) * update * (1 - update)
    to_reset = to_fresh * of_fresh * reset * (1 - reset)
    input_gates = torch.cat((to_reset, to_update, to_fresh), 1)
    hidden_gates = torch.cat((to_reset, to_update, to_fresh * reset), 1)
    if has_bias:
        return input_gates, hidden_gates, grad * update, input_gates.sum(0), hidden_gates.sum(0)
    return input_gates, hidden_gates, grad * update, None, None


def log_sigmoid_forward(x):
    """Return (the logarithm of the sigmoid, the buffer that only the CPU's backward reads, left empty)."""
    return torch.ops.aten.log_sigmoid_forward.default(x)[0], x.new_empty(0)


def log_sigmoid_backward(grad, x, buffer):
    """Return the gradient, with the buffer made again."""
    return torch.ops.aten.log_sigmoid_backward.default(
        grad, x, torch.ops.aten.log_sigmoid_forward.default(x)[1]
    )


FUSED = {
    "log_sigmoid_forward": log_sigmoid_forward,
    "log_sigmoid_backward": log_sigmoid_backward,
    "_thnn_fused_lstm_cell": lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward,
    "_thnn_fused_gru_cell": gru_cell,
    "_thnn_fused_gru_cell_backward": gru_cell_backward,
}
