"""The most that a function held at once, by the account of the device."""

from functools import partial

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

peak_bytes = lesson.exercise(
    "peak_bytes",
    signature="peak_bytes(fn, device)",
    facts=("H1", "H2", "H6"),
    hints=(
        "The account remembers the most that was ever allocated. Since when does it count, and is what was "
        "there before in it?",
        "`reset_peak_memory_stats(device)` lets the peak start again from what is allocated now, and "
        "`max_memory_allocated(device)` reads it.",
        "Reset, read `memory_allocated(device)`, run fn, read `max_memory_allocated(device)`, subtract.",
    ),
)


def _expect_peak(trial, module, got: object, seen: Seen, earlier: int) -> None:
    before = seen.top - seen.peak
    slips = {
        "what was there before fn is counted as well": seen.top,
        "that is an earlier peak, which the account still remembers: reset it before fn": (
            earlier - before,
            earlier if earlier != seen.top else None,
        ),
        "that is what fn leaves behind, not the peak: was the peak reset only after fn?": seen.kept or None,
        "what is there after fn was taken off, not what was there before": (
            seen.top - seen.after,
            seen.top - seen.left,
        ),
        "the peak before fn was taken off, not what was allocated then": seen.top - earlier or None,
    }
    headline = "that is not the most that fn held at once"
    bytes_equal(got, seen.peak, headline, slips, otherwise=lambda: _what_it_takes(trial, module))


def _judge_peak(trial, *functions, shelf=None, mountain=0) -> None:
    judge_bytes(trial, partial(_expect_peak, trial), *functions, shelf=shelf, mountain=mountain)


def _what_it_takes(trial, module) -> str:
    """Return what an answer to `peak_bytes` counts in place of the peak; "" where nothing shows."""

    def large_on_the_way():
        large(trial.device)

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
    return next((words for words, number in in_units(LARGE).items() if got == number), "")


def one_after_the_other(device):
    for size in (20_001, 60_001, 30_001):
        floats(size, device)


def keep_all(device):
    return [floats(size, device) for size in (20_001, 60_001, 30_001)]


def a_graph(device):
    return floats(20_001, device).requires_grad_().exp().exp().exp().sum()


def double_a_shelf(device, shelf):
    shelf.append(shelf[0] * 2)


@peak_bytes.row("the most at once, not what remains", only="accelerator")
def the_most_at_once(trial):
    def two_large_then_one_small(device):
        x = floats(50_001 + trial.seeds[0], device)
        y = x + 1
        return y[:10].clone()

    _judge_peak(trial, two_large_then_one_small, one_after_the_other, keep_all, a_graph, nothing)


@peak_bytes.row("above what was there before", only="accelerator")
def above_what_was_there(trial):
    _judge_peak(trial, free_much_and_make_little, double_a_shelf, shelf=(60_001,))


@peak_bytes.row("an earlier peak does not count", only="accelerator")
def earlier_peak(trial):
    def a_hill(device):
        return floats(8001 + trial.seeds[2], device)

    _judge_peak(trial, a_hill, mountain=200_003)


@peak_bytes.row("on that device alone", only="accelerator")
def peak_on_that_device(trial):
    for there in trial.others:

        def tensors_in_two_places(here, there=there):
            return floats(11_003, here), floats(44_003, there)

        _judge_peak(trial, tensors_in_two_places, mountain=100_003)
    trial.second()
