"""Answers to tensor_bytes."""

import math
import sys

import numpy as np
import torch
from bank import right, wrong


@right
def count_times_size(x):
    return x.numel() * x.element_size()


@right
def the_attribute(x):
    return x.nbytes


@right
def from_the_shape(x):
    return math.prod(x.shape) * x.dtype.itemsize


@wrong("your code raised TypeError", row="one element's size follows from its dtype")
def from_the_bits(x):
    count = 1
    for length in x.shape:
        count *= length
    bits = 8 if x.dtype == torch.bool else torch.iinfo(x.dtype).bits if not x.is_floating_point() else None
    return count * (bits or torch.finfo(x.dtype).bits) // 8


@right
def of_a_fresh_copy(x):
    return torch.empty(x.shape, dtype=x.dtype, device="cpu").untyped_storage().nbytes()


@right
def counted_by_hand(x):
    def count(shape):
        return 1 if not shape else sum(count(shape[1:]) for _ in range(shape[0]))

    return count(tuple(x.shape)) * x.element_size()


@wrong("that is the storage behind it, not its own elements", row="a view counts its own elements only")
def the_storage(x):
    return x.untyped_storage().nbytes()


@wrong(
    "every element was counted as 4 bytes, but one of torch.float16 takes 2",
    row="one element's size follows from its dtype",
)
def four_bytes(x):
    return x.numel() * 4


@wrong("that is the number of elements, not of bytes", row="one element's size follows from its dtype")
def elements(x):
    return x.numel()


@wrong("that is the size of one element", row="one element's size follows from its dtype")
def one_element(x):
    return x.element_size()


@wrong(
    "that is the size of a Python object, the tensor, and not of its memory on cpu",
    row="one element's size follows from its dtype",
)
def python_object(x):
    return sys.getsizeof(x)


@wrong("only the first dimension was counted", row="one element's size follows from its dtype")
def first_dimension(x):
    return len(x) * x.element_size()


@wrong("those are bits, and a byte has 8 of them", row="one element's size follows from its dtype")
def bits(x):
    return x.numel() * x.element_size() * 8


@wrong("the answer is a NumPy int64, not an int", row="one element's size follows from its dtype")
def numpy_number(x):
    return np.prod(x.shape, dtype=np.int64) * x.element_size()


@wrong("the answer is a float, not an int", row="one element's size follows from its dtype")
def divided(x):
    return x.numel() * x.element_size() * 8 / 8


@wrong("the answer is a str, not an int", row="one element's size follows from its dtype")
def in_words(x):
    return f"{x.nbytes} bytes"


@wrong("the answer is a Tensor, not an int", row="one element's size follows from its dtype")
def as_a_tensor(x):
    return torch.tensor(x.nbytes)


@wrong("IndexError", row="a view counts its own elements only")
def two_dimensions_only(x):
    return x.shape[0] * x.shape[1] * x.element_size()


@wrong("Got unsupported ScalarType BFloat16", row="one element's size follows from its dtype")
def through_numpy(x):
    return int(x.detach().cpu().numpy().nbytes)


@wrong("that is the storage behind it, not its own elements", row="an expanded view counts all that it shows")
def smallest_of_both(x):
    return min(x.numel() * x.element_size(), x.untyped_storage().nbytes())


@wrong(
    "a single number has one element, and was counted as none",
    row="an empty tensor takes 0 bytes, a number its size",
)
def nothing_for_a_number(x):
    return sum(x.shape) and x.numel() * x.element_size()


@wrong("the answer is None: is a `return` missing?", row="one element's size follows from its dtype")
def prints(x):
    print(x.nbytes)


@wrong("KeyError", row="one element's size follows from its dtype")
def by_a_short_table(x):
    sizes = {torch.float64: 8, torch.int64: 8, torch.float32: 4, torch.int16: 2, torch.float16: 2}
    sizes |= {torch.bool: 1, torch.uint8: 1, torch.bfloat16: 2}
    return x.numel() * sizes[x.dtype]


@right
def of_one_row_at_a_time(x):
    return sum(row.nbytes for row in x) if x.dim() else x.element_size()


@wrong("your code raised KeyError", row="one element's size follows from its dtype")
def by_a_table_without_complex128(x):
    sizes = {torch.bool: 1, torch.uint8: 1, torch.int8: 1, torch.int16: 2, torch.float16: 2}
    sizes |= {torch.bfloat16: 2, torch.int32: 4, torch.float32: 4, torch.int64: 8, torch.float64: 8}
    return x.numel() * {**sizes, torch.complex64: 8}[x.dtype]


@right
def by_itemsize(x):
    return math.prod(x.shape) * x.dtype.itemsize


@right
def by_a_copy(x):
    return x.detach().contiguous().clone().untyped_storage().nbytes()


@right
def by_itemsize_attribute(x):
    return x.numel() * x.itemsize


@right
def by_iter(x):
    n = 1
    for s in x.size():
        n *= s
    return n * torch.empty((), dtype=x.dtype).element_size()


@wrong(
    "the number of bytes of a tensor of shape [2, 5] in torch.float32 is 28, not 40",
    row="one element's size follows from its dtype",
)
def sizes_added(x):
    return sum(x.shape) * x.element_size()


@wrong(
    "the number of bytes of a view of shape [6] in torch.float32 is 144, not 24",
    row="a view counts its own elements only",
)
def two_dims(x):
    return x.shape[0] * x.shape[-1] * x.element_size()


@wrong(
    "every element was counted as 8 bytes, but one of torch.float32 takes 4",
    row="one element's size follows from its dtype",
)
def eight(x):
    return x.numel() * 8


@wrong(
    "the number of bytes of a tensor of shape [2, 5] in torch.float32 is 0, not 40",
    row="one element's size follows from its dtype",
)
def kib(x):
    return x.numel() * x.element_size() // 1024


@wrong(
    "the answer is a method that was not called: are its parentheses missing?",
    row="one element's size follows from its dtype",
)
def no_call(x):
    return x.numel


@wrong("your code raised KeyError", row="one element's size follows from its dtype")
def by_a_table_of_usual_dtypes(x):
    sizes = {torch.bool: 1, torch.uint8: 1, torch.int8: 1, torch.int16: 2, torch.float16: 2}
    sizes |= {torch.bfloat16: 2, torch.int32: 4, torch.float32: 4, torch.int64: 8, torch.float64: 8}
    return x.numel() * {**sizes, torch.complex64: 8, torch.complex128: 16}[x.dtype]


@wrong(
    "every element was counted as 4 bytes, but one of torch.uint16 takes 2",
    row="one element's size follows from its dtype",
)
def four_bytes_where_the_table_ends(x):
    sizes = {torch.bool: 1, torch.uint8: 1, torch.int8: 1, torch.int16: 2, torch.float16: 2}
    sizes |= {torch.bfloat16: 2, torch.int32: 4, torch.float32: 4, torch.int64: 8, torch.float64: 8}
    return x.numel() * {**sizes, torch.complex64: 8, torch.complex128: 16}.get(x.dtype, 4)


@wrong(
    "the number of bytes of a view of shape [2, 2, 5] in torch.float32 is 16, not 80",
    row="a view counts its own elements only",
)
def of_two_dimensions(x):
    rows, columns, *_ = (*x.shape, 1, 1)
    return rows * columns * x.element_size()


@right
def by_its_size(x):
    return x.size().numel() * x.itemsize


@right
def as_single_bytes(x):
    return x.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numel()
