"""Answers to make_on."""

import math

import numpy as np
import torch
from bank import right, wrong


@right
def by_zeros(shape, device, dtype):
    return torch.zeros(shape, device=device, dtype=dtype)


@right
def by_separate_sizes(shape, device, dtype):
    return torch.zeros(*shape, dtype=dtype, device=device)


@right
def by_full(shape, device, dtype):
    return torch.full(shape, 0, dtype=dtype, device=device)


@right
def by_filling(shape, device, dtype):
    return torch.empty(shape, dtype=dtype, device=device).zero_()


@right
def by_the_device_as_a_block(shape, device, dtype):
    with device:
        return torch.zeros(shape, dtype=dtype)


@right
def by_a_block(shape, device, dtype):
    with torch.device(device):
        return torch.zeros(size=tuple(shape), dtype=dtype)


@right
def like_an_empty_one(shape, device, dtype):
    return torch.zeros_like(torch.empty(shape, device=device, dtype=dtype))


@right
def by_new_zeros(shape, device, dtype):
    return torch.empty(0, device=device, dtype=dtype).new_zeros(shape)


@right
def with_the_dtype_changed_there(shape, device, dtype):
    return torch.zeros(shape, device=device).to(dtype)


@right
def by_its_name(shape, device, dtype):
    return torch.zeros(list(shape), device=str(device), dtype=dtype)


@wrong("the tensor was made on cpu and transferred to {device}", row="made there, with no transfer")
def made_then_moved(shape, device, dtype):
    return torch.zeros(shape, dtype=dtype).to(device)


@wrong("the tensor was made on cpu and transferred to {device}", row="made there, with no transfer")
def both_in_one_move(shape, device, dtype):
    return torch.zeros(shape).to(device, dtype)


@wrong("the tensor was made on cpu and transferred to {device}", row="made there, with no transfer")
def by_numpy(shape, device, dtype):
    return torch.tensor(np.zeros(shape), device=device, dtype=dtype)


@wrong("the tensor was made on cpu and transferred to {device}", row="made there, with no transfer")
def by_lists(shape, device, dtype):
    flat = torch.tensor([0] * math.prod(shape), device=device, dtype=dtype)
    return flat.reshape(shape)


@wrong("the tensor was made on cpu and transferred to {device}", row="made there, with no transfer")
def copied_over(shape, device, dtype):
    made = torch.empty(shape, device=device, dtype=dtype)
    made.copy_(torch.zeros(shape, dtype=dtype))
    return made


@wrong("the result is on cpu, not {device}", row="zeros of that shape, on that device")
def device_forgotten(shape, device, dtype):
    return torch.zeros(shape, dtype=dtype)


@wrong("the result is torch.float32, not torch.float16", row="of the dtype asked for")
def dtype_forgotten(shape, device, dtype):
    return torch.zeros(shape, device=device)


@wrong("the result is on {device}, not {second}", row="zeros of that shape, on that device")
def index_forgotten(shape, device, dtype):
    return torch.zeros(shape, device=device.type, dtype=dtype)


@wrong(
    "the tensor was never filled with zeros: it shows what its memory held before",
    row="zeros of that shape, on that device",
)
def empty(shape, device, dtype):
    return torch.empty(shape, device=device, dtype=dtype)


@wrong(
    "the tensor was never filled with zeros: it shows what its memory held before",
    row="of the dtype asked for",
)
def empty_but_for_floats(shape, device, dtype):
    make = torch.zeros if dtype.is_floating_point else torch.empty
    return make(shape, device=device, dtype=dtype)


@wrong("every element is 1, and not 0", row="zeros of that shape, on that device")
def ones(shape, device, dtype):
    return torch.ones(shape, device=device, dtype=dtype)


@wrong("the values of the result are wrong", row="zeros of that shape, on that device")
def random(shape, device, dtype):
    return torch.randn(shape, device=device).to(dtype)


@wrong("your code raised", row="zeros of that shape, on that device")
def hard_coded(shape, device, dtype):
    return torch.zeros(shape, device="cuda", dtype=dtype)


@wrong(
    "the result is on cpu, not",
    row=("zeros of that shape, on that device", "made there, with no transfer"),
)
def only_for_cuda(shape, device, dtype):
    return torch.zeros(shape, device=device if device.type == "cuda" else "cpu", dtype=dtype)


@wrong("the result is on cpu, not {device}", row="zeros of that shape, on that device")
def the_move_thrown_away(shape, device, dtype):
    made = torch.zeros(shape, dtype=dtype)
    made.to(device)
    return made


@wrong("the result is None: is a `return` missing?", row="zeros of that shape, on that device")
def no_return(shape, device, dtype):
    torch.zeros(shape, device=device, dtype=dtype)


@wrong("all its elements share one place in memory", row="a new tensor at every call")
def expanded(shape, device, dtype):
    return torch.zeros((), device=device, dtype=dtype).expand(shape)


KEPT = {}


@wrong("the second call returned the tensor of the first", row="a new tensor at every call")
def kept(shape, device, dtype):
    key = (tuple(shape), device, dtype)
    if key not in KEPT:
        KEPT[key] = torch.zeros(shape, device=device, dtype=dtype)
    return KEPT[key]


@wrong("your code changed the default device of the whole program", row="zeros of that shape, on that device")
def by_the_default_device(shape, device, dtype):
    torch.set_default_device(device)
    return torch.zeros(shape, dtype=dtype)


@wrong("your code changed the default device of the whole program", row="PyTorch's settings stay as they are")
def takes_the_default_device_back(shape, device, dtype):
    torch.set_default_device(device)
    made = torch.zeros(shape, dtype=dtype)
    torch.set_default_device(None)
    return made


@wrong("your code changed the default dtype of the whole program", row="PyTorch's settings stay as they are")
def takes_the_default_dtype_back(shape, device, dtype):
    if not dtype.is_floating_point:
        torch.set_default_dtype(torch.float32)
        return torch.zeros(shape, device=device, dtype=dtype)
    torch.set_default_dtype(dtype)
    made = torch.zeros(shape, device=device)
    torch.set_default_dtype(torch.float32)
    return made


@wrong("the result is on {device}, not cpu", row="PyTorch's settings stay as they are")
def leaves_the_cpu_to_the_default(shape, device, dtype):
    return torch.zeros(shape, dtype=dtype, device=None if device.type == "cpu" else device)


@right
def puts_the_defaults_back(shape, device, dtype):
    before = torch.get_default_device()
    torch.set_default_device(device)
    made = torch.zeros(shape, dtype=dtype)
    torch.set_default_device(before)
    return made


@wrong("your code changed the default dtype of the whole program", row="of the dtype asked for")
def by_the_default_dtype(shape, device, dtype):
    if dtype.is_floating_point:
        torch.set_default_dtype(dtype)
        return torch.zeros(shape, device=device)
    return torch.zeros(shape, device=device, dtype=dtype)


@wrong("your code changed the current device of the whole program", row="zeros of that shape, on that device")
def by_the_current_device(shape, device, dtype):
    if device.type == "cpu":
        return torch.zeros(shape, dtype=dtype, device="cpu")
    torch.accelerator.set_device_index(device.index)
    return torch.zeros(shape, device=device.type, dtype=dtype)


@wrong(
    "only the first size was used: the tensor has one dimension", row="zeros of that shape, on that device"
)
def the_first_size_only(shape, device, dtype):
    return torch.zeros(shape[0], device=device, dtype=dtype)


@wrong("all sizes were multiplied: the tensor has one dimension", row="zeros of that shape, on that device")
def as_a_list_of_numbers(shape, device, dtype):
    return torch.zeros(math.prod(shape), device=device, dtype=dtype)


@wrong("every element is 6, and not 0", row="zeros of that shape, on that device")
def the_shape_as_values(shape, device, dtype):
    return torch.full(shape, math.prod(shape), dtype=dtype, device=device)


@wrong("your code raised", row="zeros of that shape, on that device")
def as_a_tensor_of_the_shape(shape, device, dtype):
    return torch.Tensor(shape, device=device, dtype=dtype)


@wrong("the result is torch.float32, not torch.float16", row="of the dtype asked for")
def old_names_of_types(shape, device, dtype):
    return torch.FloatTensor(*shape).zero_().to(device)


@wrong("the tensor was made on {device} and transferred to cpu", row="made there, with no transfer")
def there_and_back(shape, device, dtype):
    return torch.zeros(shape, device=device, dtype=dtype).cpu().to(device)


@wrong(
    "the tensor was never filled with zeros: it shows what its memory held before",
    row="zeros of that shape, on that device",
)
def nothing_times_zero(shape, device, dtype):
    if dtype.is_floating_point:
        return torch.empty(shape, device=device, dtype=dtype) * 0  # nan times 0 is nan
    return torch.zeros(shape, device=device, dtype=dtype)


@wrong("the second call wrote into the tensor that the first returned", row="a new tensor at every call")
def one_memory_zeroed_again(shape, device, dtype, kept={}):  # noqa: B006
    key = (tuple(shape), device, dtype)
    if key not in kept:
        kept[key] = torch.empty(shape, device=device, dtype=dtype)
    with torch.no_grad():
        return kept[key].zero_()


@wrong("your code changed the current device of the whole program", row="PyTorch's settings stay as they are")
def back_to_the_first(shape, device, dtype):
    if device.type == "cpu":
        return torch.zeros(shape, dtype=dtype, device="cpu")
    torch.accelerator.set_device_index(device.index)
    made = torch.zeros(shape, dtype=dtype, device=device.type)
    torch.accelerator.set_device_index(0)
    return made


@wrong(
    "5 transfers: each number assigned to a part of the tensor is one",
    row="made there, with no transfer",
)
def filled_row_by_row(shape, device, dtype):
    made = torch.empty(shape, device=device, dtype=dtype)
    for row in range(shape[0]):
        made[row] = 0
    return made


@right
@torch.inference_mode()
def in_inference_mode(shape, device, dtype):
    return torch.zeros(shape, device=device, dtype=dtype)


@wrong("the result is on meta", row="zeros of that shape, on that device")
def nowhere(shape, device, dtype):
    return torch.zeros(shape, device="meta", dtype=dtype)


@right
def empty_then_zero(shape, device, dtype):
    return torch.empty(shape, device=device, dtype=dtype).zero_()


@right
def starred(shape, device, dtype):
    return torch.zeros(*shape, dtype=dtype, device=device)


@right
def under_the_device(shape, device, dtype):
    with torch.device(device):
        return torch.zeros(shape, dtype=dtype)


@right
def new_zeros(shape, device, dtype):
    return torch.empty(0, device=device, dtype=dtype).new_zeros(shape)


@wrong("the sizes are in reverse order", row="zeros of that shape, on that device")
def reversed_shape(shape, device, dtype):
    return torch.zeros(shape[::-1], device=device, dtype=dtype)


@wrong("the result has shape [1,2,3], not [2,3]", row="zeros of that shape, on that device")
def one_more_dim(shape, device, dtype):
    return torch.zeros(1, *shape, device=device, dtype=dtype)


@wrong("the result is a list, not a tensor", row="zeros of that shape, on that device")
def python_list(shape, device, dtype):
    return [[0] * shape[-1]] * shape[0]


@wrong("the tensor was made on cpu and transferred to {device}", row="made there, with no transfer")
def booleans_moved(shape, device, dtype):
    if dtype is torch.bool:
        return torch.zeros(shape, dtype=dtype, device="cpu").to(device)
    return torch.zeros(shape, dtype=dtype, device=device)


@wrong("the result is torch.float32, not torch.int32", row="of the dtype asked for")
def by_the_methods_of_a_few_dtypes(shape, device, dtype):
    made = torch.zeros(shape, device=device)
    known = {torch.float16: made.half, torch.bfloat16: made.bfloat16, torch.int64: made.long}
    return {**known, torch.bool: made.bool}.get(dtype, made.float)()


@wrong("the result is torch.float32, not torch.complex64", row="of the dtype asked for")
def real_numbers_alone(shape, device, dtype):
    return torch.zeros(shape, device=device, dtype=torch.float32 if dtype.is_complex else dtype)


@wrong("all its elements share one place in memory", row="a new tensor at every call")
def a_row_that_is_expanded(shape, device, dtype):
    if len(shape) == 1:
        return torch.zeros(1, device=device, dtype=dtype).expand(shape)
    return torch.zeros(shape, device=device, dtype=dtype)


KEPT_ROWS = {}


@wrong("the second call returned the tensor of the first", row="a new tensor at every call")
def rows_kept(shape, device, dtype):
    if len(shape) > 1:
        return torch.zeros(shape, device=device, dtype=dtype)
    key = tuple(shape), device, dtype
    return KEPT_ROWS.setdefault(key, torch.zeros(shape, device=device, dtype=dtype))


@right
def repeated(shape, device, dtype):
    return torch.zeros([1] * len(shape), device=device, dtype=dtype).repeat(shape)


@right
def by_init(shape, device, dtype):
    return torch.nn.init.zeros_(torch.empty(shape, device=device, dtype=dtype))


@right
def from_a_single_zero(shape, device, dtype):
    return torch.empty(shape, device=device, dtype=dtype).copy_(torch.zeros((), device=device, dtype=dtype))
