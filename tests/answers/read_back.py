"""Answers to read_back."""

import time

import torch
from bank import right, wrong


@right
def copy_then_synchronize(x):
    y = x.to("cpu", non_blocking=True)
    if x.device.type != "cpu":
        torch.accelerator.synchronize(x.device)
    return y


@right
def by_the_devices_own_module(x):
    if x.is_cpu:
        return x
    y = x.to("cpu", non_blocking=True)
    torch.get_device_module(x.device).synchronize(x.device)
    return y


@right
def into_a_pinned_buffer(x):
    if x.device.type == "cpu":
        return x.clone()
    y = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
    y.copy_(x, non_blocking=True)
    torch.accelerator.current_stream(x.device).synchronize()
    return y


@right
def by_an_event(x):
    if x.device.type == "cpu":
        return x
    y = x.to(device="cpu", non_blocking=True)
    arrived = torch.Event(x.device)
    arrived.record(torch.accelerator.current_stream(x.device))
    arrived.synchronize()
    return y


@right
def on_every_device(x):
    y = x.detach().to(torch.device("cpu"), non_blocking=True)
    if x.device.type == "cpu":
        return y
    for index in range(torch.accelerator.device_count()):
        torch.accelerator.synchronize(index)
    return y


@right
def in_a_stream_of_its_own(x):
    if x.device.type == "cpu":
        return x
    module = torch.get_device_module(x.device)
    side = module.Stream(x.device)
    side.wait_stream(module.current_stream(x.device))
    with module.stream(side):
        y = x.to("cpu", non_blocking=True)
    side.synchronize()
    return y


@right
def asks_until_it_has_arrived(x):
    if x.device.type == "cpu":
        return x
    y = x.to("cpu", non_blocking=True)
    arrived = torch.get_device_module(x.device).Event()
    arrived.record(torch.get_device_module(x.device).current_stream(x.device))
    while not arrived.query():
        pass
    return y


@wrong("was returned before the copy had arrived", row="safe to read at once")
def does_not_wait(x):
    return x.to("cpu", non_blocking=True)


@wrong("was returned before the copy had arrived", row="safe to read at once")
def waits_before_the_copy(x):
    if x.device.type != "cpu":
        torch.accelerator.synchronize(x.device)
    return x.to("cpu", non_blocking=True)


@wrong("was returned before the copy had arrived", row="safe to read at once")
def waits_for_the_current_device(x):
    y = x.to("cpu", non_blocking=True)
    torch.accelerator.synchronize()
    return y


@wrong("was returned before the copy had arrived", row="safe to read at once")
def waits_for_the_first_device(x):
    y = x.to("cpu", non_blocking=True)
    if x.device.type != "cpu":
        torch.accelerator.synchronize(torch.device(x.device.type, 0))
    return y


@wrong("before the work that was launched earlier on its device was done", row="safe to read at once")
def in_a_stream_that_waits_for_nothing(x):
    if x.device.type == "cpu":
        return x
    side = torch.Stream(device=x.device)
    with side:
        y = x.to("cpu", non_blocking=True)
    side.synchronize()
    return y


@wrong(
    "the transfer itself blocks: non_blocking was not asked for",
    row="one transfer, for which the host need not wait",
)
def blocks(x):
    return x.cpu()


@wrong(
    "the transfer itself blocks: non_blocking was not asked for",
    row="one transfer, for which the host need not wait",
)
def blocks_and_waits(x):
    y = x.to("cpu")
    if x.device.type != "cpu":
        torch.accelerator.synchronize(x.device)
    return y


@wrong("it goes into memory that is not pinned", row="one transfer, for which the host need not wait")
def into_an_ordinary_buffer(x):
    y = torch.empty(x.shape, dtype=x.dtype)
    y.copy_(x, non_blocking=True)
    if x.device.type != "cpu":
        torch.accelerator.synchronize(x.device)
    return y


@wrong("the result is on {device}, not cpu", row="a CPU tensor with x's values")
def stays(x):
    if x.device.type != "cpu":
        torch.accelerator.synchronize(x.device)
    return x


@wrong("was returned before the copy had arrived", row="safe to read at once")
def sleeps(x):
    y = x.to("cpu", non_blocking=True)
    time.sleep(0.001)
    return y


@wrong("was returned before the copy had arrived", row="safe to read at once")
def an_event_that_nobody_waits_for(x):
    y = x.to("cpu", non_blocking=True)
    if x.device.type != "cpu":
        torch.Event(x.device).record(torch.accelerator.current_stream(x.device))
    return y


# On hardware that memory holds what was there before.
@wrong(
    ("all zeros, as memory is before a transfer arrives: it was read too early", "values of the result are"),
    row="a CPU tensor with x's values",
)
def clones_too_early(x):
    y = x.to("cpu", non_blocking=True).clone()
    if x.device.type != "cpu":
        torch.accelerator.synchronize(x.device)
    return y


@wrong("not torch.float16", row="a CPU tensor with x's values")
def through_numpy_and_float(x):
    y = x.float().to("cpu", non_blocking=True)
    if x.device.type != "cpu":
        torch.accelerator.synchronize(x.device)
    return y


@wrong("is a list, not a tensor", row="a CPU tensor with x's values")
def as_a_list(x):
    return x.tolist()


@wrong("is None: is a `return` missing?", row="a CPU tensor with x's values")
def forgetful(x):
    y = x.to("cpu", non_blocking=True)
    if x.device.type != "cpu":
        torch.accelerator.synchronize(x.device)
    del y


@wrong("2 transfers, where one is enough", row="one transfer, for which the host need not wait")
def twice(x):
    x.to("cpu", non_blocking=True)
    y = x.to("cpu", non_blocking=True)
    if x.device.type != "cpu":
        torch.accelerator.synchronize(x.device)
    return y


@wrong("2 transfers, where one is enough", row="one transfer, for which the host need not wait")
def waits_by_reading_a_number(x):
    y = x.to("cpu", non_blocking=True)
    x.sum().item()
    return y


@wrong("was returned before the copy had arrived", row="safe to read at once")
def waits_on_the_host_side(x):
    y = x.to("cpu", non_blocking=True)
    torch.cpu.synchronize()
    return y


@wrong("your code raised", row="a CPU tensor with x's values")
def waits_for_cuda_only(x):
    y = x.to("cpu", non_blocking=True)
    torch.cuda.synchronize()
    return y


@wrong("was returned before the copy had arrived", row="safe to read at once")
def waits_if_there_is_cuda(x):
    y = x.to("cpu", non_blocking=True)
    if torch.cuda.is_available():
        torch.cuda.synchronize(x.device)
    return y


@wrong("your code raised", row="a CPU tensor with x's values")
def waits_for_the_cpu(x):
    y = x.to("cpu", non_blocking=True)
    torch.accelerator.synchronize(y.device)
    return y


@right
def into_memory_like_its_own(x):
    if x.device.type == "cpu":
        return x
    pinned = x.device.type != "mps"
    host = x.new_empty(x.shape, device="cpu", pin_memory=pinned)
    host.copy_(x, non_blocking=True)
    torch.accelerator.synchronize(x.device)
    return host


@wrong("digits were lost: the numbers were torch.float32 on the way", row="a CPU tensor with x's values")
def by_way_of_float32(x):
    return copy_then_synchronize(x.float()).to(x.dtype)


@wrong("your code changed the current device of the whole program", row="a CPU tensor with x's values")
def goes_there_for_good(x):
    if not x.is_cpu:
        torch.accelerator.set_device_index(x.device.index)
    return copy_then_synchronize(x)


@right
def into_a_pinned_buffer_again(x):
    if x.is_cpu:
        return x
    out = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
    out.copy_(x, non_blocking=True)
    torch.accelerator.synchronize(x.device)
    return out


@right
def by_an_event_again(x):
    if x.device.type == "cpu":
        return x.clone()
    y = x.to("cpu", non_blocking=True)
    torch.accelerator.current_stream(x.device).synchronize()
    return y


@right
def by_the_module(x):
    y = x.to(torch.device("cpu"), non_blocking=True)
    if x.device.type != "cpu":
        torch.get_device_module(x.device).synchronize(x.device)
    return y


@right
def waits_by_index(x):
    y = x.detach().to("cpu", non_blocking=True) if not x.is_cpu else x
    if not x.is_cpu:
        torch.accelerator.synchronize(x.device.index)
    return y


@wrong("AssertionError: Torch not compiled with CUDA enabled", row="a CPU tensor with x's values")
def cuda_sync(x):
    y = x.to("cpu", non_blocking=True)
    torch.cuda.synchronize()
    return y


@wrong("the result is a NumPy array, not a tensor", row="a CPU tensor with x's values")
def numpy_out(x):
    return x.cpu().numpy()


@wrong("the result is torch.float32, not torch.float16", row="a CPU tensor with x's values")
def to_float(x):
    if x.is_cpu:
        return x
    y = x.float().to("cpu", non_blocking=True)
    torch.accelerator.synchronize(x.device)
    return y


@wrong(
    "the transfer itself blocks: non_blocking was not asked for",
    row="one transfer, for which the host need not wait",
)
def a_number_by_item(x):
    if x.dim() == 0:
        return torch.tensor(x.item(), dtype=x.dtype)
    return copy_then_synchronize(x)


@right
def with_its_device_as_the_current_one(x):
    if x.device == torch.device("cpu"):
        return x
    with torch.accelerator.device_index(x.device.index):
        y = x.to("cpu", non_blocking=True)
        torch.accelerator.synchronize()
    return y
