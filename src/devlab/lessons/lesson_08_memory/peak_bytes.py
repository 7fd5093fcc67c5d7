"""The most that a function held at once, by the account of the device."""

import torch

from devlab.checks.scenes import scene
from devlab.lessons import lesson_08_memory as kit
from devlab.lessons.lesson_08_memory import lesson

peak_bytes = lesson.exercise(
    "peak_bytes(fn, device)",
    ("H1", "H2", "H6"),
    "The account remembers the most that was ever allocated. Since when does it count, and is what was there "
    "before in it?",
    "`reset_peak_memory_stats(device)` lets the peak start again from what is allocated now, and "
    "`max_memory_allocated(device)` reads it.",
    "Reset, read `memory_allocated(device)`, run fn, read `max_memory_allocated(device)`, subtract.",
)


def ours(fn, device):
    memory = torch.get_device_module(device)
    memory.reset_peak_memory_stats(device)
    before = memory.memory_allocated(device)
    fn()
    return memory.max_memory_allocated(device) - before


def one_after_the_other(device):
    for size in (20_001, 60_001, 30_001):
        kit.floats(size, device)


def keep_all(device):
    return [kit.floats(size, device) for size in (20_001, 60_001, 30_001)]


def a_graph(device):
    return kit.floats(20_001, device).requires_grad_().exp().exp().exp().sum()


def double_a_shelf(device, shelf):
    shelf.append(shelf[0] * 2)


@scene(peak_bytes, ours, "the most at once, not what remains", only="accelerator")
def the_most_at_once(t):
    def two_large_then_one_small(device):
        x = kit.floats(50_001 + t.seeds[0], device)
        y = x + 1
        return y[:10].clone()

    yield from kit.see_bytes(
        t, two_large_then_one_small, one_after_the_other, keep_all, a_graph, kit.nothing, kit.large
    )


@scene(peak_bytes, ours, "above what was there before", only="accelerator")
def above_what_was_there(t):
    yield from kit.see_bytes(t, kit.free_much_and_make_little, double_a_shelf, shelf=(60_001,))


@scene(peak_bytes, ours, "an earlier peak does not count", only="accelerator")
def earlier_peak(t):
    def a_hill(device):
        return kit.floats(8001 + t.seeds[2], device)

    yield from kit.see_bytes(t, a_hill, mountain=200_003)


@scene(peak_bytes, ours, "on that device alone", only="accelerator")
def peak_on_that_device(t):
    for there in t.others:
        yield from kit.see_bytes(t, kit.in_two_places(there), mountain=100_003)
    t.second()
