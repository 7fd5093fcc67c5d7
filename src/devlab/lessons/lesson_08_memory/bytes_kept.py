"""What a result holds, by the account of the device."""

from functools import partial

import torch

from devlab.lessons.lesson_08_memory import (
    LARGE,
    SEGMENT,
    Seen,
    asked_of,
    bytes_equal,
    counted_elsewhere,
    floats,
    free_much_and_make_little,
    in_units,
    judge_bytes,
    large,
    lesson,
    nothing,
)

FREED = "fn freed more than it kept, so the growth is negative"


bytes_kept = lesson.exercise(
    "bytes_kept",
    signature="bytes_kept(fn, device)",
    facts=("H1", "H2", "H5"),
    hints=(
        "Look at the account twice, before and after fn, and subtract. At the second look, what still holds "
        "the thing that fn returned?",
        "`torch.get_device_module(device).memory_allocated(device)` is what live tensors hold there.",
        "`before = ...memory_allocated(device)`, then `result = fn()`, then the difference: while the name "
        "`result` lives, so does the memory.",
    ),
)


def _expect_kept(trial, module, got: object, seen: Seen, earlier: int) -> None:
    slips = {
        "what was there before fn is counted as well": seen.after,
        "that is the peak: what fn freed on the way is counted as well": seen.peak or None,
        "those are the elements' bytes, and the account rounds each tensor up": seen.elements or None,
        "the tensors of the result are counted, and not what they keep alive": seen.blocks or None,
        FREED: (0, -seen.kept) if seen.kept < 0 else None,
        "the difference has the wrong sign": -seen.kept if seen.kept > 0 else None,
    }
    headline = "that is not what the result holds in the device's account"
    bytes_equal(got, seen.kept, headline, slips, otherwise=lambda: _what_it_keeps(trial, module))


def _judge_kept(trial, *functions, shelf=None) -> None:
    judge_bytes(trial, partial(_expect_kept, trial), *functions, shelf=shelf)


def _what_it_keeps(trial, module) -> str:
    """Return what an answer to `bytes_kept` counts instead of what a result holds; "" where nothing shows."""
    if found := counted_elsewhere(trial):
        return found
    shelf: list[torch.Tensor] = []
    module.empty_cache()
    got = asked_of(trial, large, trial.device)
    module.empty_cache()
    if got == SEGMENT:
        return "that is the growth of reserved memory, which grows by whole segments, and seldom"
    if got == 0 and asked_of(trial, append_to_a_shelf, trial.device, shelf, LARGE // 4) == LARGE:
        return "the result was gone when the account was read again: hold it under a name until then"
    if got == 0:
        order = "one has to come before fn is called, and one after it"
        return f"both looks at the account saw the same: {order}, both at {trial.device}"
    return next((words for words, number in in_units(LARGE).items() if got == number), "")


def one_tensor_of(size):
    def one_tensor(device):
        return floats(size, device)

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


def append_to_a_shelf(device, shelf, count=2500):
    shelf.append(floats(count, device))


def large_steps_small_result(device):
    return (floats(90_001, device) + 1)[:300].clone()


@bytes_kept.row("what the result holds, block by block", only="accelerator")
def kept_by_the_result(trial):
    tensors = [one_tensor_of(size) for size in (1, 129 + trial.seeds[1], 30_000)]
    _judge_kept(trial, *tensors, many_small_tensors, a_dict_of_tensors, nothing)


@bytes_kept.row("and what it keeps alive besides", only="accelerator")
def kept_besides(trial):
    _judge_kept(trial, a_loss_with_its_graph, a_view_of_something_large, a_function_that_holds_a_tensor)
    _judge_kept(trial, append_to_a_shelf, shelf=())


@bytes_kept.row("not what was freed meanwhile", only="accelerator")
def not_what_was_freed(trial):
    _judge_kept(trial, large_steps_small_result)
    _judge_kept(trial, free_much_and_make_little, shelf=(60_001, 8000))


@bytes_kept.row("on that device alone", only="accelerator")
def kept_on_that_device(trial):
    for there in trial.others:

        def tensors_in_two_places(here, there=there):
            return floats(11_003, here), floats(44_003, there)

        def a_tensor_elsewhere(here, there=there):
            return floats(9001, there)

        _judge_kept(trial, tensors_in_two_places, a_tensor_elsewhere)
    trial.second()
