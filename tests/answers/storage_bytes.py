"""Answers to storage_bytes."""

import sys

import torch
from bank import right, wrong


@right
def ask_the_storage(x):
    return x.untyped_storage().nbytes()


@right
def its_size(x):
    return x.untyped_storage().size()


@right
def its_length(x):
    return len(x.untyped_storage())


@right
def typed_storage(x):
    storage = x.storage()
    return storage.size() * storage.element_size()


@right
def typed_bytes(x):
    return x.storage().nbytes()


@right
def of_a_detached_alias(x):
    return x.detach().view(x.shape).untyped_storage().nbytes()


@wrong("those are its own elements, not the storage behind them", row="a view: all that is behind it")
def own_elements(x):
    return x.nbytes


@wrong("those are its own elements, not the storage behind them", row="a view: all that is behind it")
def numel_times_size(x):
    return x.numel() * x.element_size()


@wrong("a detached slice still has the whole storage behind it", row="a view that does not know its base")
def elements_of_the_base(x):
    base = x if x._base is None else x._base
    return base.nbytes


@wrong(
    "that is the number of elements in the storage, not of bytes",
    row="a tensor of its own: the elements' bytes",
)
def elements_of_the_storage(x):
    return x.storage().size()


@wrong(
    "the number of bytes behind a tensor of its own of shape [2, 5] in torch.float32 is ",
    row="a tensor of its own: the elements' bytes",
)
def python_object(x):
    return sys.getsizeof(x.untyped_storage()) - 1


@wrong(
    "every element was counted as 4 bytes, but one of torch.float16 takes 2",
    row="a tensor of its own: the elements' bytes",
)
def four_bytes(x):
    return x.storage().size() * 4


@wrong("those are its own elements, not the storage behind them", row="a view: all that is behind it")
def copies_first(x):
    return x.clone().untyped_storage().nbytes()


@wrong("those are its own elements, not the storage behind them", row="a view: all that is behind it")
def contiguous_first(x):
    return x.contiguous().untyped_storage().nbytes()


@wrong("that is the part of the storage up to the view's last element", row="a view: all that is behind it")
def reaches_from_the_start(x):
    if x.numel() == 0:
        return 0
    last = x.storage_offset() + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    return (last + 1) * x.element_size()


@wrong("the answer is an UntypedStorage, not an int", row="a tensor of its own: the elements' bytes")
def the_storage_itself(x):
    return x.untyped_storage()


@wrong("that is rounded up to a multiple of 64", row="a view: all that is behind it")
def rounded_up(x):
    size = x.untyped_storage().nbytes()
    return 128 if size == 120 else size


@wrong("the answer is None: is a `return` missing?", row="a tensor of its own: the elements' bytes")
def prints(x):
    print(x.untyped_storage().nbytes())


@wrong("the answer is a float, not an int", row="a tensor of its own: the elements' bytes")
def kibibytes(x):
    return x.untyped_storage().nbytes() / 1024


@wrong("the answer is a Tensor, not an int", row="a tensor of its own: the elements' bytes")
def as_a_tensor(x):
    return torch.tensor(x.untyped_storage().nbytes())


@wrong(
    "the answer is a method that was not called: are its parentheses missing?",
    row="a tensor of its own: the elements' bytes",
)
def without_its_parentheses(x):
    return x.untyped_storage().nbytes


@wrong("a detached slice still has the whole storage behind it", row="a view that does not know its base")
def by_base_or_offset(x):
    if x._base is not None or x.storage_offset():
        return x.untyped_storage().nbytes()
    return x.nbytes


@right
def by_len(x):
    return len(x.untyped_storage())


@right
def as_int(x):
    return int(x.untyped_storage().nbytes())


@right
def detached(x):
    return x.detach().untyped_storage().nbytes()


@wrong(
    "that is the part of the storage from the view's first element on", row="a view: all that is behind it"
)
def from_offset(x):
    return x.untyped_storage().nbytes() - x.storage_offset() * x.element_size()


@wrong(
    "that is the storage's bytes times the size of one element",
    row="a tensor of its own: the elements' bytes",
)
def times_size(x):
    return x.untyped_storage().nbytes() * x.element_size()


@wrong(
    "that is the size of a Python object, its storage, and not of its memory on cpu",
    row="a tensor of its own: the elements' bytes",
)
def getsize(x):
    import sys

    return sys.getsizeof(x.untyped_storage())


@wrong(
    "the number of bytes behind a tensor of its own of shape [2, 5] in torch.float32 is ",
    row="a tensor of its own: the elements' bytes",
)
def as_the_lesson_saves(x):
    import io

    file = io.BytesIO()
    torch.save(x, file)
    return file.getbuffer().nbytes


@wrong(
    "the number of bytes behind an expanded part of a tensor of shape [7, 4] in torch.float32 is 16, not 144",
    row="an expanded view: less than it shows",
)
def an_expanded_view_by_what_it_repeats(x):
    if 0 not in x.stride():
        return x.untyped_storage().nbytes()
    once = [length for length, step in zip(x.shape, x.stride(), strict=True) if step]
    return torch.Size(once).numel() * x.element_size()


@right
def of_its_data(x):
    return x.data.untyped_storage().nbytes()


@right
def read_as_bytes(x):
    return torch.empty(0, dtype=torch.uint8, device=x.device).set_(x.untyped_storage()).numel()
