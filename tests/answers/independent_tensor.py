"""Answers to independent_tensor."""

import numpy as np
import torch
from bank import right, wrong


@right
def share_a_copy(a):
    return torch.from_numpy(a.copy())


@right
def two_copies(a):
    return torch.tensor(a.copy())


@right
def numpy_array(a):
    return torch.from_numpy(np.array(a))


@right
def as_tensor_of_a_copy(a):
    return torch.as_tensor(np.copy(a))


@right
def copy_of_contiguous(a):
    return torch.tensor(np.ascontiguousarray(a))


@right
def flipped_in_torch(a):
    turned = [place for place, step in enumerate(a.strides) if step < 0]
    return torch.from_numpy(np.flip(a, turned)).flip(turned) if turned else torch.tensor(a)


@right
def clone_where_possible(a):
    if any(step < 0 for step in a.strides):
        a = a.copy()
    return torch.from_numpy(a).clone()


@right
def filled_in(a):
    into = np.empty(a.shape, a.dtype)
    into[...] = a
    return torch.from_dlpack(into) if into.size else torch.from_numpy(into)


@wrong(
    "the tensor shares its memory, and shows a change in the array",
    row="the array's numbers in memory of its own",
)
def from_numpy(a):
    return torch.from_numpy(a)


@wrong(
    "the tensor shares its memory, and shows a change in the array",
    row="the array's numbers in memory of its own",
)
def as_tensor(a):
    return torch.as_tensor(a)


@wrong(
    "the tensor shares its memory, and shows a change in the array",
    row="the array's numbers in memory of its own",
)
def detached(a):
    return torch.from_numpy(a).detach()


@wrong(
    "the tensor shares its memory, and shows a change in the array",
    row="the array's numbers in memory of its own",
)
def already_on_the_cpu(a):
    return torch.from_numpy(a).to("cpu")


@wrong(
    "the tensor shares its memory, and shows a change in the array",
    row="the array's numbers in memory of its own",
)
def only_contiguous(a):
    return torch.from_numpy(np.ascontiguousarray(a)).reshape(a.shape)


@wrong(
    "the tensor shares its memory, and shows a change in the array",
    row="the array's numbers in memory of its own",
)
def contiguous_in_torch(a):
    return torch.from_numpy(a if min(a.strides, default=0) >= 0 else a.copy()).contiguous()


@wrong(
    "the tensor shares its memory, and shows a change in the array",
    row="the array's numbers in memory of its own",
)
def a_view_is_no_copy(a):
    return torch.from_numpy(np.asarray(a)[...])


@wrong(
    "the tensor shares its memory, and shows a change in the array",
    row="the array's numbers in memory of its own",
)
def copies_only_where_it_must(a):
    try:
        return torch.from_numpy(a)
    except ValueError:
        return torch.from_numpy(a.copy())


@wrong("At least one stride in the given numpy array is negative", row="negative strides, too")
def torch_tensor(a):
    return torch.tensor(a)


@wrong("At least one stride in the given numpy array is negative", row="negative strides, too")
def clone(a):
    return torch.from_numpy(a).clone()


@wrong("BufferError: negative strides", row="negative strides, too")
def dlpack_clone(a):
    return torch.from_dlpack(a.view()).clone() if a.size and a.flags.writeable else torch.tensor(a)


@wrong(
    "the tensor of an array of float64 is torch.float32, not torch.float64",
    row="the array's numbers in memory of its own",
)
def capital_tensor(a):
    return torch.Tensor(a.copy())


@wrong(
    "the tensor of an array of float64 is torch.float32, not torch.float64",
    row="the array's numbers in memory of its own",
)
def through_a_list(a):
    return torch.tensor(a.tolist())


@wrong("has shape [6], not [6,0]", row="slices, transposes, read-only arrays")
def through_a_list_with_dtype(a):
    rows = a.tolist()
    if a.ndim == 2 and a.size == 0:
        rows = [0] * len(a)
    return torch.tensor(rows, dtype=torch.from_numpy(a.copy()).dtype)


@wrong("is torch.int64, not torch.bool", row="the array's own dtype")
def adds_zero(a):
    return torch.from_numpy(np.asarray(a + 0))


@wrong(
    "the numbers came in the order of the memory: the negative stride was left out",
    row="negative strides, too",
)
def forgets_to_turn(a):
    return torch.tensor(a[tuple(slice(None, None, -1) if step < 0 else slice(None) for step in a.strides)])


@wrong("is on {device}, not cpu", row="the array's numbers in memory of its own")
def on_the_accelerator(a):
    return torch.from_numpy(a.copy()).to(torch.accelerator.current_accelerator())


@wrong("is a NumPy array, not a tensor", row="the array's numbers in memory of its own")
def a_copied_array(a):
    return a.copy()


@wrong("is None: is a `return` missing?", row="the array's numbers in memory of its own")
def forgets_to_return(a):
    torch.from_numpy(a.copy())


@wrong("your code raised ValueError", row="negative strides, too")
def refuses_negative_strides(a):
    if any(step < 0 for step in a.strides):
        raise ValueError("negative strides")
    return torch.tensor(a)


@wrong("the tensor requires a gradient", row="the array's numbers in memory of its own")
def with_gradients(a):
    t = torch.from_numpy(a.copy())
    return t.requires_grad_() if t.is_floating_point() else t


@wrong("all dimensions were joined to one", row="the array's numbers in memory of its own")
def flattened(a):
    return torch.from_numpy(a.flatten())


@wrong("the input `a` was changed in place", row="the array's numbers in memory of its own")
def locks_the_array(a):
    a.flags.writeable = False
    return torch.from_numpy(a.copy())


@wrong("has shape [0], not [0,5]", row="slices, transposes, read-only arrays")
def by_lists_of_any_shape(a):
    return torch.tensor(a.tolist(), dtype=torch.from_numpy(np.empty(0, a.dtype)).dtype)


@wrong("shows the numbers of the next one", row="the array's numbers in memory of its own")
def one_memory_for_all(a, kept={}):  # noqa: B006
    key = (a.shape, a.dtype)
    if key not in kept:
        kept[key] = torch.from_numpy(a.copy())
    return kept[key].copy_(torch.from_numpy(a.copy()))


@wrong("the tensor of an empty array of int64", row="slices, transposes, read-only arrays")
def empty_ones_made_anew(a):
    return torch.from_numpy(a.copy()) if a.size else torch.empty(a.shape)


@wrong("your code raised ValueError", row="negative strides, too")
def read_only_ones_by_torch_tensor(a):
    return torch.from_numpy(a.copy()) if a.flags.writeable else torch.tensor(a)


@wrong("the tensor of an array of large integers", row="the array's own dtype")
def by_way_of_float64(a):
    if a.dtype == np.int64:
        return torch.from_numpy(a.astype("float64")).long()
    return torch.from_numpy(a.copy())


@right
def into_an_empty_array(a):
    made = np.empty(a.shape, a.dtype)
    made[...] = a
    return torch.as_tensor(made)


@wrong("the rows and columns have changed places", row="the array's numbers in memory of its own")
def with_rows_for_columns(a):
    return torch.from_numpy(a.T.copy())


@wrong("the numbers came in reverse order", row="the array's numbers in memory of its own")
def back_to_front(a):
    return torch.from_numpy(a.copy()).flip(tuple(range(a.ndim)))
