"""Answers to returns_itself."""

import torch
from bank import right, wrong


@right
def two_questions(x, device, dtype):
    return x.device == device and x.dtype == dtype


@right
def as_pairs(x, device, dtype):
    return (x.device, x.dtype) == (torch.device(device), dtype)


@right
def changes_counted(x, device, dtype):
    changes = [x.device != device, x.dtype is not dtype]
    return not any(changes)


@right
def one_by_one(x, device, dtype):
    if x.dtype != dtype:
        return False
    return x.device.type == device.type and x.device.index == device.index


@right
def by_an_empty_tensor(x, device, dtype):
    like = torch.empty(0, device=device, dtype=dtype)
    return like.device == x.device and like.dtype == x.dtype


@wrong("a tensor was made to find out")
def tries_it(x, device, dtype):
    return x.to(device, dtype) is x


@wrong("x was moved to find out")
def tries_the_device(x, device, dtype):
    return x.dtype == dtype and x.to(device) is x


@wrong("a tensor was made to find out")
def tries_the_dtype(x, device, dtype):
    return x.device == device and x.to(dtype) is x


@wrong("a tensor was made to find out")
def compares_addresses(x, device, dtype):
    return x.to(device, dtype).data_ptr() == x.data_ptr() if x.numel() else two_questions(x, device, dtype)


@wrong("a tensor was made to find out")
def compares_with_a_like(x, device, dtype):
    like = torch.zeros(3, device=device, dtype=dtype)
    return like.device == x.device and like.dtype == x.dtype


@wrong("and sim:1 was asked for")
def compares_types(x, device, dtype):
    return x.device.type == device.type and x.dtype == dtype


@wrong("was asked for")
def forgets_the_dtype(x, device, dtype):
    return x.device == device


@wrong("was asked for")
def forgets_the_device(x, device, dtype):
    return x.dtype == dtype


@wrong("was asked for")
def one_of_the_two(x, device, dtype):
    return x.device == device or x.dtype == dtype


@wrong("come back themselves, too")
def only_contiguous(x, device, dtype):
    return x.device == device and x.dtype == dtype and x.is_contiguous()


@wrong("come back themselves, too")
def not_parameters(x, device, dtype):
    return type(x) is torch.Tensor and x.device == device and x.dtype == dtype


@wrong("on cpu already")
def compares_texts(x, device, dtype):
    return x.device == str(device) and str(x.dtype) == str(dtype)


@wrong("on cpu already")
def compares_a_dtype_with_a_text(x, device, dtype):
    return x.device == device and x.dtype == str(dtype)


@wrong("on cpu already")
def turned_round(x, device, dtype):
    return x.device != device or x.dtype != dtype


@wrong("the result is a tuple, not a bool")
def two_answers(x, device, dtype):
    return x.device == device, x.dtype == dtype


@wrong("the result is a Tensor, not a bool")
def a_tensor(x, device, dtype):
    return torch.tensor(x.device == device and x.dtype == dtype)


@wrong("is None: is a `return` missing?")
def forgetful(x, device, dtype):
    answer = x.device == device and x.dtype == dtype
    del answer


@wrong("on cpu already")
def never(x, device, dtype):
    return False


@wrong("was asked for")
def always(x, device, dtype):
    return True


@wrong("was asked for")
def dtype_by_size(x, device, dtype):
    return x.device == device and x.itemsize == dtype.itemsize


@wrong("was asked for")
def floating_or_not(x, device, dtype):
    return x.device == device and x.is_floating_point() == dtype.is_floating_point
