"""Answers to shares_memory."""

import numpy as np
import torch
from bank import right, wrong


@right
def ask_numpy(t, a):
    return t.device.type == "cpu" and np.shares_memory(t.detach().numpy(), a)


@right
def without_gradients(t, a):
    if not t.is_cpu:
        return False
    with torch.no_grad():
        return np.shares_memory(np.asarray(t), a)


@right
def tried_and_caught(t, a):
    try:
        return np.shares_memory(t.detach().numpy(), a)
    except TypeError:
        return False


@right
def brought_home(t, a):
    # A tensor that is at home already comes back without a copy; any other as a copy, which shares nothing.
    return np.shares_memory(t.detach().cpu().numpy(), a)


@right
def by_force(t, a):
    return bool(np.shares_memory(a, t.numpy(force=True)))


def byte_addresses(begin, shape, strides, size):
    places = np.array([begin])
    for length, step in zip(shape, strides, strict=True):
        places = (places[:, None] + step * np.arange(length)).reshape(-1)
    return {int(place) + byte for place in places for byte in range(size)}


@right
def by_every_address(t, a):
    if t.device.type != "cpu":
        return False
    size = t.element_size()
    mine = byte_addresses(t.data_ptr(), t.shape, [size * step for step in t.stride()], size)
    return not mine.isdisjoint(byte_addresses(a.ctypes.data, a.shape, a.strides, a.itemsize))


@right
def bounds_first(t, a):
    if t.device != torch.device("cpu") or t.numel() == 0 or a.size == 0:
        return False
    view = t.detach().numpy()
    return np.may_share_memory(view, a) and np.shares_memory(view, a)


@wrong("both are views of one array, transposed", row="one memory under two names: True")
def equal_values(t, a):
    return t.shape == a.shape and bool(np.array_equal(t.detach().cpu().numpy(), a))


@wrong("both are views of one array, transposed", row="one memory under two names: True")
def same_first_address(t, a):
    return t.device.type == "cpu" and t.data_ptr() == a.ctypes.data and t.numel() > 0 and a.size > 0


@wrong("both are views of one array, transposed", row="one memory under two names: True")
def same_address_alone(t, a):
    return t.data_ptr() == a.ctypes.data


@wrong("without one element in common", row="neighbours in one memory: False")
def bounds_only(t, a):
    return t.device.type == "cpu" and np.may_share_memory(t.detach().numpy(), a)


@wrong("Use tensor.detach().numpy() instead", row="one memory under two names: True")
def without_detach(t, a):
    return t.device.type == "cpu" and np.shares_memory(t.numpy(), a)


@wrong("Use Tensor.cpu() to copy the tensor to host memory first", row="one memory under two names: True")
def without_the_device(t, a):
    return np.shares_memory(t.detach().numpy(), a)


@wrong("without one element in common", row="neighbours in one memory: False")
def same_storage(t, a):
    if t.device.type != "cpu":
        return False
    while a.base is not None and isinstance(a.base, np.ndarray):
        a = a.base
    begin = t.untyped_storage().data_ptr()
    end = begin + t.untyped_storage().nbytes()
    return begin < a.ctypes.data + a.nbytes and a.ctypes.data < end


@wrong("a is a view of t.numpy(), which copies nothing", row="one memory under two names: True")
def begins_inside(t, a):
    if not t.is_cpu or not t.numel() or not a.size:
        return False
    return t.data_ptr() in range(a.ctypes.data, a.ctypes.data + a.nbytes)


@wrong("both are views of one array, transposed", row="one memory under two names: True")
def equal_flat_values(t, a):
    return t.numel() == a.size and bool(np.array_equal(t.detach().cpu().numpy().ravel(), a.ravel()))


@wrong("the input `t` was changed in place", row="one memory under two names: True")
def writes_and_looks(t, a):
    if t.device.type != "cpu" or a.size == 0 or t.numel() == 0:
        return False
    before = t.detach().clone()
    a.flags.writeable = True
    a[...] = a + 1
    return not torch.equal(t, before)


@wrong("assignment destination is read-only", row="neither of the two is changed")
def writes_and_restores(t, a):
    before, was = t.detach().clone(), a.copy()
    a[...] = np.where(a == 7, 8, 7)
    changed = not torch.equal(t, before)
    a[...] = was
    return changed


@wrong("a leaf Variable that requires grad", row="one memory under two names: True")
def writes_to_the_tensor(t, a):
    before, was = a.copy(), t.clone()
    t.add_(1)
    changed = before.tobytes() != a.tobytes()
    t.copy_(was)
    return changed


@wrong("t was written to, if only for a moment", row="neither of the two is changed")
def writes_to_the_tensor_quietly(t, a):
    with torch.no_grad():
        before, was = a.copy(), t.clone()
        t.add_(1)
        changed = before.tobytes() != a.tobytes()
        t.copy_(was)
    return changed


@wrong("the input `t` was changed in place", row="one memory under two names: True")
def marks_the_tensor(t, a):
    t.requires_grad_(False)
    return t.device.type == "cpu" and np.shares_memory(t.numpy(), a)


@wrong("t is torch.tensor(a), which copies", row="equal numbers in two memories: False")
def a_cpu_tensor_always_shares(t, a):
    return t.device.type == "cpu"


@wrong("t is torch.from_numpy(a), which copies nothing", row="one memory under two names: True")
def never(t, a):
    return False


@wrong("t is on {device}, and the array in the computer's own memory", row="one memory under two names: True")
def always_on_an_accelerator(t, a):
    return t.device.type != "cpu" or np.shares_memory(t.detach().numpy(), a)


@wrong("t is torch.from_numpy(a), which copies nothing", row="one memory under two names: True")
def same_object(t, a):
    return t.detach().cpu().numpy() is a


@wrong("t is torch.from_numpy(a), which copies nothing", row="one memory under two names: True")
def same_base(t, a):
    return t.is_cpu and t.detach().numpy().base is a


@wrong("the answer is a Tensor, not a bool", row="one memory under two names: True")
def a_tensor(t, a):
    return torch.tensor(t.is_cpu and np.shares_memory(t.detach().numpy(), a))


@wrong("the answer is an int, not a bool", row="one memory under two names: True")
def an_int(t, a):
    return int(t.is_cpu and np.shares_memory(t.detach().numpy(), a))


@wrong("the answer is None", row="one memory under two names: True")
def prints(t, a):
    print(t.is_cpu and np.shares_memory(t.detach().numpy(), a))


@wrong("the same bytes, read as other numbers", row="one memory under two names: True")
def same_dtype_too(t, a):
    return t.is_cpu and t.detach().numpy().dtype == a.dtype and np.shares_memory(t.detach().numpy(), a)


@wrong("At least one stride in the given numpy array is negative", row="an overlap in part: True")
def through_a_tensor_of_a(t, a):
    return t.is_cpu and np.shares_memory(t.detach().numpy(), torch.from_numpy(a).numpy())


@wrong("BufferError", row="an overlap in part: True")
def through_a_tensor_by_dlpack(t, a):
    locked = a.view()
    return t.is_cpu and np.shares_memory(t.detach().numpy(), torch.from_dlpack(locked).numpy())


@wrong("the second half of the bytes of every number", row="one memory under two names: True")
def begins_at_the_same_places(t, a):
    if t.device.type != "cpu":
        return False
    starts = [{array.ctypes.data + sum(i * s for i, s in zip(place, array.strides, strict=True))
               for place in np.ndindex(array.shape)} for array in (t.detach().numpy(), a)]  # fmt: skip
    return bool(starts[0] & starts[1])


@wrong("t was written to, if only for a moment", row="neither of the two is changed")
def changes_it_and_puts_it_back(t, a):
    if t.device.type != "cpu" or t.numel() == 0 or a.size == 0:
        return False
    before, view = a.copy(), t.data
    old, shared = view.clone(), False
    for value in (0, 1):
        view.fill_(value)
        shared = shared or not np.array_equal(before, a)
        view.copy_(old)
    return shared


@wrong("a was written to, if only for a moment", row="neither of the two is changed")
def writes_to_the_array_where_it_may(t, a):
    if not t.is_cpu or not a.flags.writeable or not t.numel() or not a.size:
        return t.is_cpu and np.shares_memory(t.detach().numpy(), a)
    before, kept = t.detach().numpy().tobytes(), a.copy()
    a[...] = ~a if a.dtype.kind in "iub" else a + 1
    shows = t.detach().numpy().tobytes() != before
    a[...] = kept
    return shows


@wrong("requires grad", row="one memory under two names: True")
def only_leaves_leave_the_graph(t, a):
    if not t.is_cpu:
        return False
    return np.shares_memory((t.detach() if t.is_leaf else t).numpy(), a)


@wrong("numbers of int64 are shared like others", row="one memory under two names: True")
def floats_alone(t, a):
    return t.is_cpu and t.is_floating_point() and np.shares_memory(t.detach().numpy(), a)


@right
def byte_by_byte(t, a):
    def places(array):
        offsets = np.zeros((), dtype=np.int64)
        for size, step in zip(array.shape, array.strides, strict=True):
            offsets = offsets[..., None] + np.arange(size) * step
        first = array.__array_interface__["data"][0]
        return {first + int(offset) + byte for offset in offsets.ravel() for byte in range(array.itemsize)}

    return t.is_cpu and not places(t.detach().numpy()).isdisjoint(places(a))
