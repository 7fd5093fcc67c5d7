"""Answers to peak_bytes."""

import torch
from bank import right, wrong


@right
def reset_run_read(fn, device):
    memory = torch.get_device_module(device)
    memory.reset_peak_memory_stats(device)
    before = memory.memory_allocated(device)
    fn()
    return memory.max_memory_allocated(device) - before


@right
def by_the_accelerator_interface(fn, device):
    before = torch.accelerator.memory_allocated(device)
    torch.accelerator.reset_peak_memory_stats(device)
    result = fn()
    peak = torch.accelerator.max_memory_allocated(device)
    del result
    return peak - before


@right
def by_the_statistics(fn, device):
    memory = torch.get_device_module(device)
    memory.reset_peak_memory_stats(device)
    start = memory.memory_stats(device)
    fn()
    end = memory.memory_stats(device)
    return end["allocated_bytes.all.peak"] - start["allocated_bytes.all.current"]


@right
def two_peaks(fn, device):
    # Right after the reset the peak is what is allocated.
    memory = torch.get_device_module(device)
    memory.empty_cache()
    memory.reset_peak_memory_stats(device)
    low = memory.max_memory_allocated(device)
    fn()
    memory.synchronize(device)
    return memory.max_memory_allocated(device) - low


@wrong(
    "that is an earlier peak, which the account still remembers: reset it before fn",
    row="an earlier peak does not count",
)
def never_reset(fn, device):
    memory = torch.get_device_module(device)
    before = memory.memory_allocated(device)
    fn()
    return memory.max_memory_allocated(device) - before


@wrong(
    "the peak was reset after fn had run, or read before, or is not that of {device}",
    row="the most at once, not what remains",
)
def reset_after(fn, device):
    memory = torch.get_device_module(device)
    before = memory.memory_allocated(device)
    result = fn()
    del result
    memory.reset_peak_memory_stats(device)
    return memory.max_memory_allocated(device) - before


@wrong("what was there before fn is counted as well", row="the most at once, not what remains")
def nothing_subtracted(fn, device):
    memory = torch.get_device_module(device)
    memory.reset_peak_memory_stats(device)
    fn()
    return memory.max_memory_allocated(device)


@wrong(
    "that is what fn leaves behind, not the peak: was the peak reset only after fn?",
    row="the most at once, not what remains",
)
def what_remains(fn, device):
    memory = torch.get_device_module(device)
    before = memory.memory_allocated(device)
    result = fn()  # noqa: F841
    return memory.memory_allocated(device) - before


@wrong(
    "the peak was reset after fn had run, or read before, or is not that of {device}",
    row="the most at once, not what remains",
)
def after_it_is_over(fn, device):
    memory = torch.get_device_module(device)
    memory.reset_peak_memory_stats(device)
    before = memory.memory_allocated(device)
    fn()
    return memory.memory_allocated(device) - before


@wrong(
    "what is there after fn was taken off, not what was there before",
    row="the most at once, not what remains",
)
def less_what_remains(fn, device):
    memory = torch.get_device_module(device)
    memory.reset_peak_memory_stats(device)
    result = fn()  # noqa: F841
    return memory.max_memory_allocated(device) - memory.memory_allocated(device)


@wrong(
    "that is the peak of reserved memory, which grows by whole segments, and seldom",
    row="the most at once, not what remains",
)
def reserved(fn, device):
    memory = torch.get_device_module(device)
    memory.empty_cache()
    memory.reset_peak_memory_stats(device)
    before = memory.memory_reserved(device)
    fn()
    return memory.max_memory_reserved(device) - before


@wrong(
    "the account of {device} was read, and {second} was asked about: name the device",
    row=("the most at once, not what remains", "on that device alone"),
)
def the_current_device(fn, device):
    memory = torch.get_device_module(device)
    memory.reset_peak_memory_stats()
    before = memory.memory_allocated()
    fn()
    return memory.max_memory_allocated() - before


@wrong(
    "that is an earlier peak, which the account still remembers: reset it before fn",
    row=("an earlier peak does not count", "on that device alone"),
)
def reset_of_the_current_device(fn, device):
    memory = torch.get_device_module(device)
    memory.reset_peak_memory_stats()
    before = memory.memory_allocated(device)
    fn()
    return memory.max_memory_allocated(device) - before


@wrong(
    "what is there after fn was taken off an earlier peak: read the peak after fn",
    row="above what was there before",
)
def growth_of_the_peak(fn, device):
    memory = torch.get_device_module(device)
    before = memory.max_memory_allocated(device)
    memory.reset_peak_memory_stats(device)
    fn()
    return before - memory.memory_allocated(device)


@wrong("fn was called 2 times, not once", row="the most at once, not what remains")
def warmed_up(fn, device):
    memory = torch.get_device_module(device)
    fn()
    memory.reset_peak_memory_stats(device)
    before = memory.memory_allocated(device)
    fn()
    return memory.max_memory_allocated(device) - before


@wrong(
    "all that was ever allocated is added up, and fn freed some of it on the way",
    row="the most at once, not what remains",
)
def all_ever_allocated(fn, device):
    memory = torch.get_device_module(device)
    before = memory.memory_stats(device)["allocated_bytes.all.allocated"]
    fn()
    return memory.memory_stats(device)["allocated_bytes.all.allocated"] - before


@wrong("the number of bytes is None: is a `return` missing?", row="the most at once, not what remains")
def prints_it(fn, device):
    memory = torch.get_device_module(device)
    memory.reset_peak_memory_stats(device)
    before = memory.memory_allocated(device)
    fn()
    print(memory.max_memory_allocated(device) - before)


@wrong("the number of bytes is a float, not an int", row="the most at once, not what remains")
def in_kibibytes(fn, device):
    memory = torch.get_device_module(device)
    memory.reset_peak_memory_stats(device)
    before = memory.memory_allocated(device)
    fn()
    return (memory.max_memory_allocated(device) - before) / 1024


@wrong(
    "fn was called without gradients: it makes no graph then, and takes less",
    row="the most at once, not what remains",
)
def without_a_graph(fn, device):
    memory = torch.get_device_module(device)
    memory.reset_peak_memory_stats(device)
    before = memory.memory_allocated(device)
    with torch.no_grad():
        fn()
    return memory.max_memory_allocated(device) - before


@wrong(
    "that is the peak of reserved memory, which grows by whole segments, and seldom",
    row="the most at once, not what remains",
)
def reserved_peak(fn, device):
    m = torch.get_device_module(device)
    m.reset_peak_memory_stats(device)
    b = m.memory_reserved(device)
    fn()
    return m.max_memory_reserved(device) - b


@wrong("what is there after fn was taken off, not what was there before", row="above what was there before")
def minus_after(fn, device):
    m = torch.get_device_module(device)
    m.reset_peak_memory_stats(device)
    fn()
    return m.max_memory_allocated(device) - m.memory_allocated(device)


@wrong(
    "the peak before fn was taken off, not what was allocated then", row="the most at once, not what remains"
)
def less_an_earlier_peak(fn, device):
    m = torch.get_device_module(device)
    b = m.max_memory_allocated(device)
    m.reset_peak_memory_stats(device)
    fn()
    return m.max_memory_allocated(device) - b


@wrong("fn was never called", row="the most at once, not what remains")
def never_calls(fn, device):
    m = torch.get_device_module(device)
    m.reset_peak_memory_stats(device)
    b = m.memory_allocated(device)
    return m.max_memory_allocated(device) - b


@right
def after_a_reset_the_peak_is_now(fn, device):
    m = torch.get_device_module(device)
    m.reset_peak_memory_stats(device)
    b = m.max_memory_allocated(device)
    r = fn()  # noqa: F841
    return m.max_memory_allocated(device) - b
