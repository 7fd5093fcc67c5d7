"""Answers to cast_and_move."""

import torch
from bank import right, wrong


@right
def smaller_first(x, device, dtype):
    if dtype.itemsize < x.dtype.itemsize:
        return x.to(dtype).to(device)
    return x.to(device).to(dtype)


@right
def by_element_size(x, device, dtype):
    if x.device == device:
        return x.to(dtype)
    narrowing = torch.empty(0, dtype=dtype).element_size() <= x.element_size()
    return x.type(dtype).to(device) if narrowing else x.to(device).type(dtype)


@right
def whichever_travels(x, device, dtype):
    travels = min(x.dtype, dtype, key=lambda one: one.itemsize)
    return x.to(dtype=travels).to(device=device).to(dtype=dtype)


@right
def into_a_new_tensor(x, device, dtype):
    small = x.to(dtype) if dtype.itemsize < x.itemsize else x
    if small.device == device and small.dtype == dtype:
        return small
    arrived = torch.empty_like(small, device=device).copy_(small)
    return arrived if arrived.dtype == dtype else arrived.to(dtype)


@right
def in_one_call_where_that_is_best(x, device, dtype):
    # PyTorch casts on the CPU on the way out and on the way back, and first between accelerators.
    casts_first = x.device.type == "cpu" or torch.device(device).type != "cpu"
    narrows = dtype.itemsize < x.dtype.itemsize
    if casts_first == narrows or x.device == device:
        return x.to(device, dtype)
    if narrows:
        return x.to(dtype).to(device)
    return x.to(device).to(dtype)


@right
def a_view_where_nothing_changes(x, device, dtype):
    return x[:] if (x.device, x.dtype) == (device, dtype) else smaller_first(x, device, dtype)


@wrong("it travelled as torch.float32", row="the smaller of the two dtypes travels")
def one_call(x, device, dtype):
    return x.to(device, dtype)


@wrong("it travelled as torch.", row="the smaller of the two dtypes travels")
def moves_then_casts(x, device, dtype):
    return x.to(device).to(dtype)


@wrong("it travelled as torch.", row="the smaller of the two dtypes travels")
def casts_then_moves(x, device, dtype):
    return x.to(dtype).to(device)


@wrong("it travelled as torch.float32", row="the smaller of the two dtypes travels")
def the_wrong_way_round(x, device, dtype):
    if dtype.itemsize > x.dtype.itemsize:
        return x.to(dtype).to(device)
    return x.to(device).to(dtype)


@right
def in_one_call_that_blocks_or_not(x, device, dtype):
    smaller = dtype.itemsize < x.dtype.itemsize
    home = device.type == "cpu"
    if x.device.type != "cpu" and not home:
        return x.to(dtype).to(device) if smaller else x.to(device).to(dtype)
    y = x.to(device, dtype, non_blocking=smaller == home)
    if x.device.type != "cpu":
        torch.accelerator.synchronize(x.device)
    return y


@wrong("it travelled as torch.float32", row="the smaller of the two dtypes travels")
def always_changed_on_the_accelerator(x, device, dtype):
    y = x.to(device, dtype, non_blocking=True)
    for place in (x.device, device):
        if place.type != "cpu":
            torch.accelerator.synchronize(place)
    return y


@wrong("returned before the copy had arrived", row="x's values, on the device and in the dtype")
def in_one_call_without_blocking(x, device, dtype):
    return x.to(device, dtype, non_blocking=True)


@wrong("the result is torch.float32, not torch.float16", row="x's values, on the device and in the dtype")
def forgets_the_dtype(x, device, dtype):
    return x.to(device)


@wrong("the result is on {device}, not cpu", row="x's values, on the device and in the dtype")
def forgets_the_device(x, device, dtype):
    return x.to(dtype)


@wrong("the result is torch.float32, not torch.float16", row="x's values, on the device and in the dtype")
def throws_the_cast_away(x, device, dtype):
    x.to(dtype)
    return x.to(device)


@wrong("the result is torch.float32, not torch.float16", row="x's values, on the device and in the dtype")
def keeps_the_smaller(x, device, dtype):
    small = min(x.dtype, dtype, key=lambda one: (one.itemsize, one is torch.float16))
    return x.to(small).to(device) if small is not torch.float16 else x.to(device)


@wrong("2 transfers instead of one", row="one transfer, straight there")
def by_way_of_the_cpu(x, device, dtype):
    if dtype.itemsize < x.dtype.itemsize:
        x = x.to(dtype)
    return (x if x.device == device else x.cpu().to(device)).to(dtype)


@wrong("2 transfers instead of one", row="one transfer, straight there")
def always_casts_on_the_cpu(x, device, dtype):
    return x.cpu().to(dtype).to(device)


@wrong(
    "digits were lost: the numbers were torch.bfloat16 on the way",
    row="x's values, on the device and in the dtype",
)
def always_through_half(x, device, dtype):
    if dtype.itemsize >= 2 and x.dtype.itemsize > 2:
        x = x.to(torch.bfloat16)
    return x.to(device).to(dtype)


@wrong(
    "the bytes were read anew as another dtype (`view`), and the numbers were not converted",
    row="x's values, on the device and in the dtype",
)
def reads_the_bits(x, device, dtype):
    if dtype.itemsize == x.dtype.itemsize:
        return x.to(device).view(dtype)
    return smaller_first(x, device, dtype)


@wrong("nothing had to change, and x was copied", row="no transfer where it is already")
def always_a_copy(x, device, dtype):
    if x.device == device:
        return x.to(dtype, copy=True)
    return smaller_first(x, device, dtype)


@wrong("is None: is a `return` missing?", row="x's values, on the device and in the dtype")
def forgetful(x, device, dtype):
    x = smaller_first(x, device, dtype)


@wrong("it travelled as torch.", row="the smaller of the two dtypes travels")
def only_halves_are_small(x, device, dtype):
    if dtype in (torch.float16, torch.bfloat16):
        return x.to(dtype).to(device)
    return x.to(device).to(dtype)


@wrong("it travelled as torch.", row="the smaller of the two dtypes travels")
def floats_are_large(x, device, dtype):
    if dtype.is_floating_point:
        return x.to(device).to(dtype)
    return x.to(dtype).to(device)


@wrong("x was on {device} already, and something moved", row="no transfer where it is already")
def casts_on_the_cpu_at_home(x, device, dtype):
    if x.device == device and x.dtype != dtype:
        return x.cpu().to(dtype).to(device)
    return smaller_first(x, device, dtype)


@wrong("AttributeError", row="x's values, on the device and in the dtype")
def by_a_name_that_is_not_there(x, device, dtype):
    return x.to(dtype).to(device) if dtype.element_size() < x.element_size() else x.to(device).to(dtype)


@wrong("nothing had to change, and x was copied", row="no transfer where it is already")
def tidied_first(x, device, dtype):
    x = x.contiguous()
    return x.to(dtype).to(device) if dtype.itemsize < x.dtype.itemsize else x.to(device).to(dtype)


@wrong("it travelled as torch.float32", row="the smaller of the two dtypes travels")
def bool_after_the_journey(x, device, dtype):
    if torch.bool in (x.dtype, dtype):
        return x.to(device).to(dtype)
    return x.to(dtype).to(device) if dtype.itemsize < x.dtype.itemsize else x.to(device).to(dtype)


TRAVELLING = {1: torch.uint8, 2: torch.float16, 4: torch.float32, 8: torch.float64}


@wrong(
    "digits were lost: the numbers were torch.uint8 on the way",
    row="x's values, on the device and in the dtype",
)
def by_a_third_dtype(x, device, dtype):
    if x.device == device:
        return x.to(dtype)
    small = TRAVELLING[min(x.dtype.itemsize, dtype.itemsize)]
    return x.to(small).to(device).to(dtype)


@wrong(
    "digits were lost: the numbers were torch.float32 on the way",
    row="x's values, on the device and in the dtype",
)
def float32_travels_for_double(x, device, dtype):
    if x.dtype == dtype == torch.float64 and x.device != device:
        return x.float().to(device).to(dtype)
    return smaller_first(x, device, dtype)


@right
def asks_a_scalar_for_its_size(x, device, dtype):
    size = torch.empty((), dtype=dtype, device="cpu").element_size()
    return x.to(dtype).to(device) if size < x.element_size() else x.to(device).to(dtype)


@right
def asks_an_empty_tensor_for_its_size(x, device, dtype):
    if torch.empty(0, dtype=dtype).element_size() < x.element_size():
        x = x.to(dtype=dtype)
    return x.to(device=device).to(dtype=dtype)


@right
def by_keywords(x, device, dtype):
    first, then = ({"device": device}, {"dtype": dtype})
    if dtype.itemsize < x.dtype.itemsize:
        first, then = (then, first)
    return x.to(**first).to(**then)


@right
def only_what_differs(x, device, dtype):
    if x.dtype.itemsize > dtype.itemsize and x.dtype != dtype:
        x = x.type(dtype)
    if x.device != device:
        x = x.to(device)
    return x if x.dtype == dtype else x.type(dtype)


@right
def bytes_of_one(x, device, dtype):
    smaller = min((x.dtype, dtype), key=lambda one: one.itemsize)
    return x.to(smaller).to(device).to(dtype) if smaller is dtype else x.to(device).to(dtype)


@wrong(
    "digits were lost: the numbers were torch.float16 on the way",
    row="x's values, on the device and in the dtype",
)
def half_for_all_floats(x, device, dtype):
    return x.half().to(device).to(dtype)


@wrong("the result is an int, not a tensor", row="x's values, on the device and in the dtype")
def returns_bytes(x, device, dtype):
    return x.numel() * min(x.dtype.itemsize, dtype.itemsize)


@wrong(
    "digits were lost: the numbers were torch.float32 on the way",
    row="x's values, on the device and in the dtype",
)
def integers_by_way_of_float32(x, device, dtype):
    if not x.is_floating_point() and not dtype.is_floating_point and x.itemsize == 4 < dtype.itemsize:
        return x.float().to(device).to(dtype)
    return smaller_first(x, device, dtype)


@wrong(
    "digits were lost: the numbers were torch.float64 on the way",
    row="x's values, on the device and in the dtype",
)
def integers_by_way_of_float64(x, device, dtype):
    if x.dtype == dtype == torch.int64 and x.device != device:
        return x.double().to(device).to(dtype)
    return smaller_first(x, device, dtype)


@wrong(
    "more bytes travelled than torch.float16 and torch.bfloat16 take",
    row="the smaller of the two dtypes travels",
)
def halves_travel_as_float32(x, device, dtype):
    if x.itemsize == dtype.itemsize == 2 and x.device != device:
        return x.float().to(device).to(dtype)
    return smaller_first(x, device, dtype)


@wrong("2 transfers instead of one", row="one transfer, straight there")
def same_dtype_by_way_of_the_cpu(x, device, dtype):
    if x.dtype == dtype and x.device != device:
        return x.clone().cpu().to(device)
    return smaller_first(x, device, dtype)


@wrong("nothing had to change, and x was copied", row="no transfer where it is already")
def integers_are_copied(x, device, dtype):
    if x.device == device and x.dtype == dtype and not x.is_floating_point():
        return x.clone()
    return smaller_first(x, device, dtype)


@right
def waits_by_itself(x, device, dtype):
    small = x.to(dtype) if dtype.itemsize <= x.itemsize else x
    moved = small.to(device, non_blocking=True)
    if small.device.type != "cpu" and device != small.device:
        torch.accelerator.synchronize(small.device)
    return moved.to(dtype)
