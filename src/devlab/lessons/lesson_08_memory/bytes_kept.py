"""What a result holds, by the account of the device."""

import torch

from devlab.checks.scenes import scene
from devlab.lessons.lesson_08_memory import (
    floats,
    free_much_and_make_little,
    in_two_places,
    large,
    lesson,
    nothing,
    see_bytes,
)

bytes_kept = lesson.exercise(
    "bytes_kept(fn, device)",
    ("H1", "H2", "H5"),
    "Look at the account twice, before and after fn, and subtract. At the second look, what still holds "
    "the thing that fn returned?",
    "`torch.get_device_module(device).memory_allocated(device)` is what live tensors hold there.",
    "`before = ...memory_allocated(device)`, then `result = fn()`, then the difference: while the name "
    "`result` lives, so does the memory.",
)


def ours(fn, device):
    allocated = torch.get_device_module(device).memory_allocated
    before, _, after = allocated(device), fn(), allocated(device)
    return after - before


def one_tensor_of(size, there=None):
    def one_tensor(device):
        return floats(size, there or device)

    return one_tensor


def many_small_tensors(device):
    return [torch.ones(3, device=device) for _ in range(20)]


def a_dict_of_tensors(device):
    return {"x": floats(5001, device), "more": (torch.zeros(7, dtype=torch.int64, device=device), None)}


def a_loss_with_its_graph(device):
    weight = torch.ones(2001, device=device, requires_grad=True)
    return ((weight * 3).exp().exp() * 2).sum()


def a_view_of_something_large(device):
    return floats(40_003, device)[:5]


def a_function_that_holds_a_tensor(device):
    x = floats(3003, device)
    return lambda: x


def append_to_a_shelf(device, shelf):
    shelf.append(floats(2500, device))


def large_steps_small_result(device):
    return (floats(90_001, device) + 1)[:300].clone()


@scene(bytes_kept, ours, "what the result holds, block by block", only="accelerator")
def kept_by_the_result(t):
    tensors = map(one_tensor_of, (1, 129 + t.seeds[1], 30_000))
    yield from see_bytes(t, *tensors, many_small_tensors, a_dict_of_tensors, nothing, large)


@scene(bytes_kept, ours, "and what it keeps alive besides", only="accelerator")
def kept_besides(t):
    yield from see_bytes(t, a_loss_with_its_graph, a_view_of_something_large, a_function_that_holds_a_tensor)
    yield from see_bytes(t, append_to_a_shelf, shelf=())


@scene(bytes_kept, ours, "not what was freed meanwhile", only="accelerator")
def not_what_was_freed(t):
    yield from see_bytes(t, large_steps_small_result)
    yield from see_bytes(t, free_much_and_make_little, shelf=(60_001, 8000))


@scene(bytes_kept, ours, "on that device alone", only="accelerator")
def kept_on_that_device(t):
    for there in t.others:
        yield from see_bytes(t, in_two_places(there), one_tensor_of(9001, there))
    t.second()
