"""Answers to bytes_kept."""

import gc

import torch
from bank import right, wrong


@right
def before_and_after(fn, device):
    memory = torch.get_device_module(device)
    before = memory.memory_allocated(device)
    result = fn()
    kept = memory.memory_allocated(device) - before
    del result
    return kept


@right
def by_the_accelerator_interface(fn, device):
    before = torch.accelerator.memory_allocated(device)
    result = fn()  # noqa: F841
    return torch.accelerator.memory_allocated(device) - before


@right
def by_the_statistics(fn, device):
    def current():
        stats = torch.get_device_module(device).memory_stats(device)
        return stats["allocated_bytes.all.current"]

    before = current()
    holder = [fn()]
    after = current()
    holder.clear()
    return after - before


@right
def in_one_tuple(fn, device):
    allocated = torch.get_device_module(device).memory_allocated
    before, _, after = allocated(device), fn(), allocated(device)
    return after - before


@right
def on_the_current_device(fn, device):
    with torch.get_device_module(device).device(device):
        memory = torch.get_device_module(device)
        memory.synchronize()
        memory.empty_cache()
        before = memory.memory_allocated()
        result = fn()
        memory.synchronize()
        gc.collect()
        return memory.memory_allocated() - before if result is not before else 0


@wrong(
    "the result was gone when the account was read again: hold it under a name until then",
    row="what the result holds, block by block",
)
def nobody_holds_the_result(fn, device):
    memory = torch.get_device_module(device)
    before = memory.memory_allocated(device)
    fn()
    return memory.memory_allocated(device) - before


@wrong(
    "the result was gone when the account was read again: hold it under a name until then",
    row="what the result holds, block by block",
)
def deleted_too_early(fn, device):
    memory = torch.get_device_module(device)
    before = memory.memory_allocated(device)
    result = fn()
    del result
    gc.collect()
    return memory.memory_allocated(device) - before


@wrong(
    "that is the growth of reserved memory, which grows by whole segments, and seldom",
    row="what the result holds, block by block",
)
def reserved(fn, device):
    memory = torch.get_device_module(device)
    before = memory.memory_reserved(device)
    result = fn()  # noqa: F841
    return memory.memory_reserved(device) - before


@wrong("that is the peak: what fn freed on the way is counted as well", row="and what it keeps alive besides")
def peak(fn, device):
    memory = torch.get_device_module(device)
    memory.reset_peak_memory_stats(device)
    before = memory.memory_allocated(device)
    result = fn()  # noqa: F841
    return memory.max_memory_allocated(device) - before


@wrong("what was there before fn is counted as well", row="what the result holds, block by block")
def all_there_is(fn, device):
    result = fn()  # noqa: F841
    return torch.get_device_module(device).memory_allocated(device)


@wrong(
    "those are the elements' bytes, and the account rounds each tensor up",
    row="what the result holds, block by block",
)
def adds_up_the_elements(fn, device):
    def nbytes(value):
        if isinstance(value, torch.Tensor):
            return value.numel() * value.element_size()
        if isinstance(value, dict):
            return sum(map(nbytes, value.values()))
        return sum(map(nbytes, value)) if isinstance(value, list | tuple) else 0

    return nbytes(fn())


@wrong(
    "the tensors of the result are counted, and not what they keep alive",
    row="and what it keeps alive besides",
)
def rounds_the_result_itself(fn, device):
    def nbytes(value):
        if isinstance(value, torch.Tensor):
            return -(-value.numel() * value.element_size() // 512) * 512
        if isinstance(value, dict):
            return sum(map(nbytes, value.values()))
        return sum(map(nbytes, value)) if isinstance(value, list | tuple) else 0

    return nbytes(fn())


@wrong(
    "the account of {device} was read, and {second} was asked about: name the device",
    row=("what the result holds, block by block", "on that device alone"),
)
def the_current_device(fn, device):
    memory = torch.get_device_module(device)
    before = memory.memory_allocated()
    result = fn()  # noqa: F841
    return memory.memory_allocated() - before


@wrong("the difference has the wrong sign", row="what the result holds, block by block")
def before_less_after(fn, device):
    memory = torch.get_device_module(device)
    before = memory.memory_allocated(device)
    result = fn()  # noqa: F841
    return before - memory.memory_allocated(device)


@wrong("fn freed more than it kept, so the growth is negative", row="not what was freed meanwhile")
def never_negative(fn, device):
    memory = torch.get_device_module(device)
    before = memory.memory_allocated(device)
    result = fn()  # noqa: F841
    return abs(memory.memory_allocated(device) - before)


@wrong("fn was called 2 times, not once", row="what the result holds, block by block")
def warmed_up(fn, device):
    memory = torch.get_device_module(device)
    fn()
    before = memory.memory_allocated(device)
    result = fn()  # noqa: F841
    return memory.memory_allocated(device) - before


@wrong("the number of bytes is a float, not an int", row="what the result holds, block by block")
def in_mebibytes(fn, device):
    memory = torch.get_device_module(device)
    before = memory.memory_allocated(device)
    result = fn()  # noqa: F841
    return (memory.memory_allocated(device) - before) / 2**20


@wrong("the number of bytes is None: is a `return` missing?", row="what the result holds, block by block")
def prints_it(fn, device):
    memory = torch.get_device_module(device)
    before = memory.memory_allocated(device)
    result = fn()  # noqa: F841
    print(memory.memory_allocated(device) - before)


@wrong("fn was never called", row="what the result holds, block by block")
def asks_the_function_itself(fn, device):
    before = torch.get_device_module(device).memory_allocated(device)
    result = fn  # noqa: F841
    return torch.get_device_module(device).memory_allocated(device) - before


@wrong("fn freed more than it kept, so the growth is negative", row="not what was freed meanwhile")
def zero_at_least(fn, device):
    memory = torch.get_device_module(device)
    before = memory.memory_allocated(device)
    result = fn()  # noqa: F841
    return max(0, memory.memory_allocated(device) - before)


@wrong(
    "your code changed the current device of the whole program",
    row=("what the result holds, block by block", "on that device alone"),
)
def goes_there_for_good(fn, device):
    torch.accelerator.set_device_index(device.index)
    return by_the_accelerator_interface(fn, torch.accelerator.current_accelerator())


@wrong(
    "memory on {second} is counted as well, and {device} alone was asked about", row="on that device alone"
)
def both_devices(fn, device):
    import torch as t

    tot = lambda: sum(  # noqa: E731
        torch.get_device_module(device).memory_allocated(i) for i in range(t.accelerator.device_count())
    )
    b = tot()
    r = fn()  # noqa: F841
    return tot() - b


@wrong(
    "that is a number of kibibytes, and the task asks for bytes", row="what the result holds, block by block"
)
def in_kibibytes(fn, device):
    m = torch.get_device_module(device)
    b = m.memory_allocated(device)
    r = fn()  # noqa: F841
    return (m.memory_allocated(device) - b) // 1024


@wrong(
    "both looks at the account saw the same: one has to come before fn is called, and one after it, "
    "both at {device}",
    row="what the result holds, block by block",
)
def looks_too_late(fn, device):
    m = torch.get_device_module(device)
    r = fn()  # noqa: F841
    b = m.memory_allocated(device)
    return m.memory_allocated(device) - b


@wrong(
    "fn was called without gradients: it makes no graph then, and takes less",
    row="what the result holds, block by block",
)
def without_a_graph(fn, device):
    m = torch.get_device_module(device)
    b = m.memory_allocated(device)
    with torch.no_grad():
        r = fn()  # noqa: F841
    return m.memory_allocated(device) - b


@wrong(
    "that is the growth of reserved memory, which grows by whole segments, and seldom",
    row="what the result holds, block by block",
)
def emptied_and_reserved(fn, device):
    m = torch.get_device_module(device)
    m.empty_cache()
    b = m.memory_reserved(device)
    r = fn()  # noqa: F841
    m.empty_cache()
    return m.memory_reserved(device) - b


@right
def in_a_list(fn, device):
    m = torch.get_device_module(device)
    held = []
    b = m.memory_allocated(device)
    held.append(fn())
    return m.memory_allocated(device) - b


@wrong(
    "backward was run through the result, which lets go of what its graph keeps alive",
    row="and what it keeps alive besides",
)
def goes_back_through_a_loss(fn, device):
    memory = torch.get_device_module(device)
    before = memory.memory_allocated(device)
    result = fn()
    if isinstance(result, torch.Tensor) and result.requires_grad:
        result.sum().backward()
    return memory.memory_allocated(device) - before
