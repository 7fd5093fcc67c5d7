"""What a result holds, by the account of the device."""

import torch

from devlab.lessons.lesson_08_memory import (
    LARGE,
    SEGMENT,
    Once,
    asked_of,
    books,
    bytes_equal,
    counted_elsewhere,
    floats,
    in_units,
    lesson,
    observe,
)

FREED = "fn freed more than it kept, so the growth is negative"


bytes_kept = lesson.exercise(
    "bytes_kept",
    signature="bytes_kept(fn, device)",
    facts=("H1", "H2", "H5"),
    hints=(
        "Look at the account twice, before and after fn, and subtract. At the second look, who still holds "
        "what fn returned?",
        "`torch.get_device_module(device).memory_allocated(device)` is what live tensors hold there.",
        "`before = ...memory_allocated(device)`, then `result = fn()`, then the difference: while the name "
        "`result` lives, so does the memory.",
    ),
)


def _judge_kept(trial, *makers) -> None:
    with books(trial) as module:
        ballast = [floats(count, trial.device) for count in (70_001, 300_007)]
        for make in makers:
            seen = observe(module, trial.device, make())
            fn = Once(make())
            got = trial.call(fn, trial.device)
            fn.require_one_call()
            bytes_equal(
                got,
                seen.kept,
                "that is not what the result holds in the device's account",
                (0 if seen.kept < 0 else None, FREED),
                (seen.after, "what was there before fn is counted as well"),
                (seen.peak or None, "that is the peak: what fn freed on the way is counted as well"),
                (
                    seen.elements or None,
                    "those are the elements' bytes, and the account rounds each tensor up",
                ),
                (seen.blocks or None, "the tensors of the result are counted, and not what they keep alive"),
                (-seen.kept, FREED if seen.kept < 0 else "the difference has the wrong sign"),
                probe=lambda: _what_it_keeps(trial, module),
            )
        del ballast


@bytes_kept.row("what the result holds, block by block", only="accelerator")
def kept_by_the_result(trial):
    device = trial.device

    def tensor(size):
        def one_tensor():
            return floats(size, device)

        return one_tensor

    def many_small_tensors():
        return [torch.ones(3, device=device) for _ in range(20)]

    def a_dict_of_tensors():
        return {"x": floats(5001, device), "more": (torch.zeros(7, dtype=torch.int64, device=device), None)}

    def nothing():
        return None

    makers = [lambda size=size: tensor(size) for size in (1, 129 + trial.seeds[1], 30_000)]
    _judge_kept(
        trial, *makers, *(lambda fn=fn: fn for fn in (many_small_tensors, a_dict_of_tensors, nothing))
    )


@bytes_kept.row("and what it keeps alive besides", only="accelerator")
def kept_besides(trial):
    device = trial.device

    def a_loss_with_its_graph():
        weight = torch.ones(2001, device=device, requires_grad=True)
        return ((weight * 3).exp() * 2).sum()

    def a_view_of_something_large():
        return floats(40_003, device)[:5]

    def a_function_that_holds_a_tensor():
        x = floats(3003, device)
        return lambda: x

    def append_to_a_list():
        shelf = []

        def append_to_a_shelf():
            shelf.append(floats(2500, device))

        return append_to_a_shelf

    fns = (a_loss_with_its_graph, a_view_of_something_large, a_function_that_holds_a_tensor)
    _judge_kept(trial, *(lambda fn=fn: fn for fn in fns), append_to_a_list)


@bytes_kept.row("not what was freed on the way", only="accelerator")
def not_what_was_freed(trial):
    device = trial.device

    def large_steps_small_result():
        return (floats(90_001, device) + 1)[:300].clone()

    def clear_a_shelf():
        shelf = [floats(60_001, device), floats(8000, device)]

        def free_much_and_make_little():
            shelf.clear()
            return floats(1000, device)

        return free_much_and_make_little

    _judge_kept(trial, lambda: large_steps_small_result, clear_a_shelf)


@bytes_kept.row("on that device alone", only="accelerator")
def kept_on_that_device(trial):
    here, there = trial.device, trial.other()

    def tensors_in_two_places():
        return floats(11_003, here), floats(44_003, there)

    def a_tensor_elsewhere():
        return floats(9001, there)

    _judge_kept(trial, lambda: tensors_in_two_places, lambda: a_tensor_elsewhere)


def _what_it_keeps(trial, module) -> str:
    """Return what an answer to `bytes_kept` counts instead of what a result holds; "" where nothing shows."""
    shelf: list[torch.Tensor] = []

    def large_result():
        return floats(LARGE // 4, trial.device)

    def large_on_a_shelf():
        shelf.append(floats(LARGE // 4, trial.device))

    if found := counted_elsewhere(trial):
        return found
    module.empty_cache()
    got = asked_of(trial, large_result)
    module.empty_cache()
    if got == SEGMENT:
        return "that is the growth of reserved memory, which grows by whole segments, and seldom"
    if got == 0 and asked_of(trial, large_on_a_shelf) == LARGE:
        return "the result was gone when the account was read again: hold it under a name until then"
    if got == 0:
        order = "one has to come before fn is called, and one after it"
        return f"both looks at the account saw the same: {order}, both at {trial.device}"
    return in_units(got, LARGE)
