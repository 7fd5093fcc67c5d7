"""Answers to returns_itself."""

import torch
from bank import right, wrong


def resolved(device):
    """Return the device with its index."""
    if device.index is None and device.type != "cpu":
        return torch.device(device.type, torch.accelerator.current_device_index())
    return device


@right
def two_questions(x, device, dtype):
    return x.device == resolved(device) and x.dtype == dtype


@right
def as_pairs(x, device, dtype):
    return (x.device, x.dtype) == (resolved(torch.device(device)), dtype)


@right
def changes_counted(x, device, dtype):
    changes = [x.device != resolved(device), x.dtype is not dtype]
    return not any(changes)


@right
def one_by_one(x, device, dtype):
    if x.dtype != dtype:
        return False
    return x.device.type == device.type and x.device.index in (resolved(device).index, device.index)


@right
def by_the_module_of_the_device(x, device, dtype):
    if device.type != x.device.type or dtype != x.dtype:
        return False
    if device.index is None and device.type != "cpu":
        return torch.get_device_module(device).current_device() == x.device.index
    return device.index == x.device.index


@right
def by_texts_with_an_index(x, device, dtype):
    there = str(device)
    if there != "cpu" and ":" not in there:
        there += f":{torch.accelerator.current_device_index()}"
    return [there, dtype] == [str(x.device), x.dtype]


@right
def in_a_dictionary(x, device, dtype):
    asked = {"device": resolved(device), "dtype": dtype}
    return all(getattr(x, name) == value for name, value in asked.items())


@wrong("a tensor was made to find out", row="nothing is moved or made to find out")
def by_an_empty_tensor(x, device, dtype):
    like = torch.empty(0, device=device, dtype=dtype)
    return like.device == x.device and like.dtype == x.dtype


@wrong("a tensor was made to find out", row="nothing is moved or made to find out")
def only_the_device_by_an_empty_tensor(x, device, dtype):
    return x.dtype == dtype and x.device == torch.empty(0, device=device).device


@wrong("a tensor was made to find out", row="nothing is moved or made to find out")
def on_no_device(x, device, dtype):
    return x.device == resolved(device) and torch.empty(0, dtype=dtype, device="meta").dtype == x.dtype


@wrong('and "{kind}" means {device}, the current device', row="True where nothing has to change")
def a_bare_device_is_another(x, device, dtype):
    return x.device == device and x.dtype == dtype


@wrong('and "{kind}" means {second}, the current device', row="False where the device differs, or its index")
def a_bare_device_is_any_of_its_kind(x, device, dtype):
    there = x.device.type == device.type and device.index in (None, x.device.index)
    return there and x.dtype == dtype


@wrong('and "{kind}" means {second}, the current device', row="True where nothing has to change")
def a_bare_device_is_the_first(x, device, dtype):
    bare = device.index is None and device.type != "cpu"
    return x.device == (torch.device(device.type, 0) if bare else device) and x.dtype == dtype


@wrong("a tensor was made to find out", row="nothing is moved or made to find out")
def tries_it(x, device, dtype):
    return x.to(device, dtype) is x


@wrong("x was moved to find out", row="nothing is moved or made to find out")
def tries_the_device(x, device, dtype):
    return x.dtype == dtype and x.to(device) is x


@wrong("a tensor was made to find out", row="nothing is moved or made to find out")
def tries_the_dtype(x, device, dtype):
    return x.device == resolved(device) and x.to(dtype) is x


@wrong("a tensor was made to find out", row="nothing is moved or made to find out")
def compares_addresses(x, device, dtype):
    return x.to(device, dtype).data_ptr() == x.data_ptr() if x.numel() else two_questions(x, device, dtype)


@wrong("a tensor was made to find out", row="nothing is moved or made to find out")
def compares_with_a_like(x, device, dtype):
    like = torch.zeros(3, device=device, dtype=dtype)
    return like.device == x.device and like.dtype == x.dtype


@wrong("and {second} was asked for", row="False where the device differs, or its index")
def compares_types(x, device, dtype):
    return x.device.type == device.type and x.dtype == dtype


@wrong("was asked for", row="False where the dtype differs")
def forgets_the_dtype(x, device, dtype):
    return x.device == resolved(device)


@wrong("was asked for", row="False where the device differs, or its index")
def forgets_the_device(x, device, dtype):
    return x.dtype == dtype


@wrong("was asked for", row="False where the device differs, or its index")
def one_of_the_two(x, device, dtype):
    return x.device == device or x.dtype == dtype


@wrong(
    "a transposed view with that device and dtype comes back itself, too",
    row="True where nothing has to change",
)
def only_contiguous(x, device, dtype):
    return x.device == device and x.dtype == dtype and x.is_contiguous()


@wrong(
    "a parameter with that device and dtype comes back itself, too", row="True where nothing has to change"
)
def not_parameters(x, device, dtype):
    return type(x) is torch.Tensor and x.device == device and x.dtype == dtype


@wrong("on cpu already", row="True where nothing has to change")
def compares_texts(x, device, dtype):
    return x.device == str(device) and str(x.dtype) == str(dtype)


@wrong("on cpu already", row="True where nothing has to change")
def compares_a_dtype_with_a_text(x, device, dtype):
    return x.device == device and x.dtype == str(dtype)


@wrong("on cpu already", row="True where nothing has to change")
def turned_round(x, device, dtype):
    return x.device != device or x.dtype != dtype


@wrong("the result is a tuple, not a bool", row="True where nothing has to change")
def two_answers(x, device, dtype):
    return x.device == device, x.dtype == dtype


@wrong("the result is a Tensor, not a bool", row="True where nothing has to change")
def a_tensor(x, device, dtype):
    return torch.tensor(x.device == device and x.dtype == dtype)


@wrong("is None: is a `return` missing?", row="True where nothing has to change")
def forgetful(x, device, dtype):
    answer = x.device == device and x.dtype == dtype
    del answer


@wrong("on cpu already", row="True where nothing has to change")
def never(x, device, dtype):
    return False


@wrong("was asked for", row="False where the device differs, or its index")
def always(x, device, dtype):
    return True


@wrong("was asked for", row="False where the dtype differs")
def dtype_by_size(x, device, dtype):
    return x.device == resolved(device) and x.itemsize == dtype.itemsize


@wrong("was asked for", row="False where the dtype differs")
def floating_or_not(x, device, dtype):
    return x.device == resolved(device) and x.is_floating_point() == dtype.is_floating_point


@wrong("x is torch.float32, and torch.float16 was asked for", row="False where the dtype differs")
def by_pointer(x, device, dtype):
    return x.to(device, dtype).data_ptr() == x.data_ptr()


@wrong("x is torch.float32 on cpu already", row="True where nothing has to change")
def swapped_meaning(x, device, dtype):
    return not (x.device == device and x.dtype == dtype)


@wrong("the result is a str, not a bool", row="True where nothing has to change")
def text(x, device, dtype):
    return str(x.device == device and x.dtype == dtype)


@wrong("x is torch.bool, and torch.float32 was asked for, on", row="False where the dtype differs")
def forgets_the_dtype_of_a_bare_device(x, device, dtype):
    if device.index is None and device.type != "cpu":
        return x.device == resolved(device)
    return x.device == device and x.dtype == dtype


@wrong('x is on cpu, and "{kind}" was asked for', row="False where the device differs, or its index")
def forgets_the_kind_of_a_bare_device(x, device, dtype):
    if device.index is None and device.type != "cpu":
        return (x.device.index or 0) == torch.accelerator.current_device_index() and x.dtype == dtype
    return x.device == device and x.dtype == dtype


@wrong("a tensor was made to find out", row="nothing is moved or made to find out")
def asks_an_empty_tensor_for_the_index(x, device, dtype):
    if device.index is None and device.type != "cpu":
        device = torch.empty(0, device=device).device
    return x.device == device and x.dtype == dtype


@right
def by_matching(x, device, dtype):
    match device.type, device.index:
        case "cpu", _:
            there = x.is_cpu
        case kind, None:
            there = str(x.device) == f"{kind}:{torch.accelerator.current_device_index()}"
        case kind, index:
            there = x.device.type == kind and x.get_device() == index
    return there and x.dtype is dtype
