"""Two questions to the account: what is kept, and what it took at most."""

import torch

from devlab.lessons.lesson_08_memory import Once, books, bytes_equal, floats, lesson, observe, probing

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

peak_bytes = lesson.exercise(
    "peak_bytes",
    signature="peak_bytes(fn, device)",
    facts=("H1", "H2", "H6"),
    hints=(
        "The account remembers the most that was ever allocated. Ever: since when?",
        "`reset_peak_memory_stats(device)` lets the peak start again from what is allocated now, and "
        "`max_memory_allocated(device)` reads it.",
        "Reset, read `memory_allocated(device)`, run fn, read `max_memory_allocated(device)`, subtract.",
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
                probe=lambda: probing.what_it_keeps(trial, module),
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


def _judge_peak(trial, *makers, mountain: int = 0) -> None:
    with books(trial) as module:
        ballast = [floats(count, trial.device) for count in (70_001, 300_007)]
        for make in makers:
            seen = observe(module, trial.device, make())
            floats(mountain, trial.device)  # an earlier peak, gone again
            earlier = module.max_memory_allocated(trial.device)
            fn = Once(make())
            got = trial.call(fn, trial.device)
            fn.require_one_call()
            before = seen.top - seen.peak
            remembered = "that is an earlier peak, which the account still remembers: reset it before fn"
            after = "that is what fn leaves behind, not the peak: was the peak reset only after fn?"
            bytes_equal(
                got,
                seen.peak,
                "that is not the most that fn held at once",
                (seen.top, "what was there before fn is counted as well"),
                (earlier - before, remembered),
                (earlier if earlier != seen.top else None, remembered),
                (seen.kept or None, after),
                *(
                    (seen.top - now, "what is there after fn was taken off, not what was there before")
                    for now in (seen.after, seen.left)
                ),
                (seen.top - earlier or None, "the peak before fn was taken off, not what was allocated then"),
                probe=lambda: probing.what_it_takes(trial, module),
            )
        del ballast


@peak_bytes.row("the most at once, not what remains", only="accelerator")
def the_most_at_once(trial):
    device = trial.device

    def two_large_then_one_small():
        x = floats(50_001 + trial.seeds[0], device)
        y = x + 1
        return y[:10].clone()

    def one_after_the_other():
        for size in (20_001, 60_001, 30_001):
            floats(size, device)

    def keep_all():
        return [floats(size, device) for size in (20_001, 60_001, 30_001)]

    def nothing():
        return None

    def a_graph():
        w = floats(20_001, device).requires_grad_()
        return w.exp().exp().exp().sum()

    fns = (two_large_then_one_small, one_after_the_other, keep_all, a_graph, nothing)
    _judge_peak(trial, *(lambda fn=fn: fn for fn in fns))


@peak_bytes.row("above what was there before", only="accelerator")
def above_what_was_there(trial):
    device = trial.device

    def swap_large_for_small():
        shelf = [floats(60_001, device)]

        def free_much_and_make_little():
            shelf.clear()
            return floats(1000, device)

        return free_much_and_make_little

    def grow_a_shelf():
        shelf = [floats(60_001, device)]

        def double_a_shelf():
            shelf.append(shelf[0] * 2)

        return double_a_shelf

    _judge_peak(trial, swap_large_for_small, grow_a_shelf)


@peak_bytes.row("an earlier peak does not count", only="accelerator")
def earlier_peak(trial):
    device = trial.device

    def a_hill():
        return floats(8001 + trial.seeds[2], device)

    _judge_peak(trial, lambda: a_hill, mountain=200_003)


@peak_bytes.row("on that device alone", only="accelerator")
def peak_on_that_device(trial):
    here, there = trial.device, trial.other()

    def tensors_in_two_places():
        return floats(11_003, here), floats(44_003, there)

    _judge_peak(trial, lambda: tensors_in_two_places, mountain=100_003)
