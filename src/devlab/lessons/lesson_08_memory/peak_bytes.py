"""The most that a function held at once, by the account of the device."""

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
                probe=lambda: _what_it_takes(trial, module),
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


def _what_it_takes(trial, module) -> str:
    """Return what an answer to `peak_bytes` counts in place of the peak; "" where nothing shows."""

    def large_on_the_way():
        floats(LARGE // 4, trial.device)

    if found := counted_elsewhere(trial):
        return found
    module.empty_cache()
    module.reset_peak_memory_stats(trial.device)
    got = asked_of(trial, large_on_the_way)
    module.empty_cache()
    if got == SEGMENT:
        return "that is the peak of reserved memory, which grows by whole segments, and seldom"
    if got == 0:
        return f"the peak was reset after fn had run, or read before, or is not that of {trial.device}"
    floats(LARGE // 2, trial.device)  # an earlier peak, gone again
    if got == LARGE and (asked_of(trial, large_on_the_way) or 0) < LARGE:
        return "the peak before fn was taken off, not what was allocated then"
    return in_units(got, LARGE)
