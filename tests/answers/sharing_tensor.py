"""Answers to sharing_tensor."""

import numpy as np
import torch
from bank import right, wrong
from torch.utils.dlpack import from_dlpack


@right
def from_numpy(a):
    return torch.from_numpy(a)


@right
def as_tensor(a):
    return torch.as_tensor(a)


@right
def asarray(a):
    return torch.asarray(a, copy=False)


@right
def checked_first(a):
    if any(step < 0 for step in a.strides):
        raise ValueError("a tensor has no negative strides: copy the array first")
    return torch.from_numpy(a)


@right
def by_dlpack(a):
    if min(a.strides, default=0) < 0:
        raise ValueError(f"Negative strides {a.strides} cannot be shared")
    return torch.from_dlpack(a)


@right
def in_other_words(a):
    try:
        return torch.from_numpy(a)
    except ValueError as error:
        raise ValueError("PyTorch has no negative strides") from error


@right
def laid_out_by_hand(a):
    if any(step < 0 for step in a.strides):
        raise ValueError("negative strides")
    flat = torch.from_numpy(a)
    return flat.as_strided(a.shape, [step // a.itemsize for step in a.strides])


@wrong(
    "the tensor is a copy, and does not show a change in the array", row="the array's own memory, both ways"
)
def torch_tensor(a):
    return torch.tensor(a)


@wrong(
    "the tensor of an array of float64 is torch.float32, not torch.float64",
    row="the array's own memory, both ways",
)
def capital_tensor(a):
    if min(a.strides, default=0) < 0:
        raise ValueError("negative")
    return torch.from_numpy(a).float()


@wrong(
    "the tensor is a copy, and does not show a change in the array", row="the array's own memory, both ways"
)
def float_tensor(a):
    return torch.Tensor(a.copy())


@wrong(
    "the tensor is a copy, and does not show a change in the array", row="the array's own memory, both ways"
)
def of_a_copied_array(a):
    return torch.from_numpy(a.copy())


@wrong("a slice with steps: the tensor is a copy", row="slices, transposes, empty arrays")
def tidied_first(a):
    if min(a.strides, default=0) < 0:
        raise ValueError("negative strides")
    return torch.from_numpy(np.ascontiguousarray(a))


@wrong("a slice with steps: the tensor is a copy", row="slices, transposes, empty arrays")
def contiguous_afterwards(a):
    return torch.from_numpy(a).contiguous()


@wrong(
    "the array has negative strides, and no error was raised", row="negative strides: a ValueError says so"
)
def copies_where_it_must(a):
    try:
        return torch.from_numpy(a)
    except ValueError:
        return torch.from_numpy(a.copy())


@wrong(
    "the array has negative strides, and no error was raised", row="negative strides: a ValueError says so"
)
def flips_back(a):
    turned = [place for place, step in enumerate(a.strides) if step < 0]
    return torch.from_numpy(np.flip(a, turned)) if turned else torch.from_numpy(a)


@wrong(
    "the array has negative strides, and no error was raised", row="negative strides: a ValueError says so"
)
def flips_twice(a):
    turned = [place for place, step in enumerate(a.strides) if step < 0]
    return torch.from_numpy(np.flip(a, turned)).flip(turned) if turned else torch.from_numpy(a)


@wrong("a BufferError was raised, not a ValueError", row="negative strides: a ValueError says so")
def dlpack_alone(a):
    return torch.from_dlpack(a)


@wrong("a BufferError was raised, not a ValueError", row="negative strides: a ValueError says so")
def dlpack_imported_before(a):
    return from_dlpack(np.asarray(a))


@wrong("a BufferError was raised, not a ValueError", row="negative strides: a ValueError says so")
def dlpack_by_capsule(a):
    return torch.from_dlpack(a.__dlpack__())


@wrong("a TypeError was raised, not a ValueError", row="negative strides: a ValueError says so")
def another_kind_of_error(a):
    if min(a.strides, default=0) < 0:
        raise TypeError("negative strides")
    return torch.from_numpy(a)


@wrong('the ValueError does not say "negative"', row="negative strides: a ValueError says so")
def without_the_word(a):
    if min(a.strides, default=0) < 0:
        raise ValueError("this array cannot be shared")
    return torch.from_numpy(a)


@wrong(
    "the array has negative strides, and no error was raised", row="negative strides: a ValueError says so"
)
def none_for_negative(a):
    try:
        return torch.from_numpy(a)
    except ValueError:
        return None


@wrong("ValueError: negative strides", row="slices, transposes, empty arrays")
def refuses_all_views(a):
    if not a.flags.c_contiguous:
        raise ValueError("negative strides")
    return torch.from_numpy(a)


@wrong("your code raised", row="slices, transposes, empty arrays")
def from_the_buffer(a):
    return torch.frombuffer(a, dtype=torch.from_numpy(a[:0]).dtype).reshape(a.shape)


@wrong("all dimensions were joined to one", row="the array's own memory, both ways")
def flattened(a):
    return torch.from_numpy(a.reshape(-1))


@wrong("is on {device}, not cpu", row="the array's own memory, both ways")
def on_the_accelerator(a):
    return torch.from_numpy(a).to(torch.accelerator.current_accelerator())


@wrong("has shape [4,3,1,2], not [2,3,1,4]", row="the array's own memory, both ways")
def transposed(a):
    t = torch.from_numpy(a)
    return t if t.dim() < 3 else t.permute(3, 1, 2, 0)


@wrong("is a NumPy array, not a tensor", row="the array's own memory, both ways")
def the_array(a):
    return a


@wrong("is None: is a `return` missing?", row="the array's own memory, both ways")
def forgets_to_return(a):
    torch.from_numpy(a)


@wrong("the tensor requires a gradient", row="the array's own memory, both ways")
def with_gradients(a):
    t = torch.from_numpy(a)
    return t.requires_grad_() if t.is_floating_point() else t


@wrong("the input `a` was changed in place", row="the array's own memory, both ways")
def tidies_the_array_itself(a):
    a.sort()
    return torch.from_numpy(a)


@wrong("the tensor of an empty array of int64", row="slices, transposes, empty arrays")
def empty_ones_made_anew(a):
    return torch.from_numpy(a) if a.size else torch.empty(a.shape)


@wrong("an array of complex128: the tensor is a copy", row="the array's own dtype")
def wide_complex_numbers_copied(a):
    return torch.tensor(a) if a.dtype == np.complex128 else torch.from_numpy(a)


@wrong("an array of uint16: the tensor is a copy", row="the array's own dtype")
def unusual_integers_copied(a):
    return torch.tensor(a) if a.dtype == np.uint16 else torch.from_numpy(a)


@right
def says_it_anew(a):
    try:
        return torch.from_numpy(a)
    except ValueError as error:
        raise ValueError("the strides are negative") from error


@wrong("the rows and columns have changed places", row="the array's own memory, both ways")
def with_rows_for_columns(a):
    return torch.from_numpy(a.T)


@wrong("the numbers came in reverse order", row="the array's own memory, both ways")
def back_to_front(a):
    return torch.from_numpy(a.copy()).flip(tuple(range(a.ndim)))
