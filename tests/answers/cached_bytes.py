"""Answers to cached_bytes."""

import gc

import torch
from bank import right, wrong


@right
def reserved_less_allocated(device):
    memory = torch.get_device_module(device)
    return memory.memory_reserved(device) - memory.memory_allocated(device)


@right
def by_the_accelerator_interface(device):
    return torch.accelerator.memory_reserved(device) - torch.accelerator.memory_allocated(device)


@right
def by_the_statistics(device):
    stats = torch.get_device_module(device).memory_stats(device)
    return stats["reserved_bytes.all.current"] - stats["allocated_bytes.all.current"]


@right
def pool_by_pool(device):
    stats = torch.accelerator.memory_stats(device)
    return sum(
        stats[f"reserved_bytes.{pool}.current"] - stats[f"allocated_bytes.{pool}.current"]
        for pool in ("small_pool", "large_pool")
    )


@right
def on_the_current_device(device):
    with torch.get_device_module(device).device(device):
        memory = torch.get_device_module(device)
        return memory.memory_reserved() - memory.memory_allocated()


@wrong("all that is reserved", row="reserved less allocated")
def reserved(device):
    return torch.get_device_module(device).memory_reserved(device)


@wrong("what live tensors hold, not what the cache holds", row="reserved less allocated")
def allocated(device):
    return torch.get_device_module(device).memory_allocated(device)


@wrong("the wrong sign", row="reserved less allocated")
def the_other_way_round(device):
    memory = torch.get_device_module(device)
    return memory.memory_allocated(device) - memory.memory_reserved(device)


@wrong("all that is reserved", row="reserved less allocated")
def as_the_system_sees_it(device):
    free, total = torch.get_device_module(device).mem_get_info(device)
    return total - free


@wrong("asking emptied the cache", row="reserved less allocated")
def by_emptying(device):
    memory = torch.get_device_module(device)
    cached = memory.memory_reserved(device) - memory.memory_allocated(device)
    memory.empty_cache()
    return cached


@wrong("asking emptied the cache", row="reserved less allocated")
def what_emptying_gives_back(device):
    memory = torch.get_device_module(device)
    before = memory.memory_reserved(device)
    memory.empty_cache()
    return before - memory.memory_reserved(device)


@wrong(
    "that is the cache of {device}, the current device",
    row=("reserved less allocated", "of that device alone"),
)
def of_the_current_device(device):
    memory = torch.get_device_module(device)
    return memory.memory_reserved() - memory.memory_allocated()


# What the process reserved before the check decides which of two rows sees the peak first.
@wrong(
    "one of the figures is a peak",
    row=("reserved less allocated", "freed tensors join it, new tensors take from it"),
)
def peak_of_reserved(device):
    memory = torch.get_device_module(device)
    return memory.max_memory_reserved(device) - memory.memory_allocated(device)


@wrong("one of the figures is a peak", row="reserved less allocated")
def less_the_peak(device):
    memory = torch.get_device_module(device)
    return memory.memory_reserved(device) - memory.max_memory_allocated(device)


@wrong("that is not what the cache of this device holds", row="reserved less allocated")
def what_is_free_on_the_device(device):
    memory = torch.get_device_module(device)
    return memory.mem_get_info(device)[0]


@wrong("is a float, not an int", row="reserved less allocated")
def as_a_share(device):
    memory = torch.get_device_module(device)
    return 1 - memory.memory_allocated(device) / memory.memory_reserved(device)


@wrong("is None: is a `return` missing?", row="reserved less allocated")
def prints_it(device):
    memory = torch.get_device_module(device)
    print(memory.memory_reserved(device) - memory.memory_allocated(device))


@wrong("asking took more memory", row="reserved less allocated")
def makes_a_tensor_to_ask(device):
    memory = torch.get_device_module(device)
    x = torch.empty(64 << 20, dtype=torch.uint8, device=device)
    free = memory.memory_reserved(device) - memory.memory_allocated(device)
    del x
    return free


@wrong("asking reset the peak", row="reserved less allocated")
def resets_the_peak(device):
    memory = torch.get_device_module(device)
    memory.reset_peak_memory_stats(device)
    return memory.memory_reserved(device) - memory.memory_allocated(device)


@wrong(
    "your code changed the current device of the whole program",
    row=("reserved less allocated", "of that device alone"),
)
def makes_the_device_current(device):
    memory = torch.get_device_module(device)
    memory.set_device(device)
    return memory.memory_reserved() - memory.memory_allocated()


@wrong("asking emptied the cache", row="reserved less allocated")
def emptied_then_formula(device):
    m = torch.get_device_module(device)
    m.empty_cache()
    return m.memory_reserved(device) - m.memory_allocated(device)


@wrong("those are the holes", row="reserved less allocated")
def holes_alone(device):
    return torch.get_device_module(device).memory_stats(device)["inactive_split_bytes.all.current"]


@wrong("that is a number of mebibytes", row="reserved less allocated")
def in_mebibytes(device):
    m = torch.get_device_module(device)
    return (m.memory_reserved(device) - m.memory_allocated(device)) // 2**20


@wrong("the two were added", row="reserved less allocated")
def added(device):
    m = torch.get_device_module(device)
    return m.memory_reserved(device) + m.memory_allocated(device)


@wrong("a tensor was made to ask", row="reserved less allocated")
def makes_one_number(device):
    m = torch.get_device_module(device)
    x = torch.empty(1, device=device)  # noqa: F841
    return m.memory_reserved(device) - m.memory_allocated(device)


@right
def by_the_accelerators_statistics(device):
    s = torch.accelerator.memory_stats(device)
    return s["reserved_bytes.all.current"] - s["allocated_bytes.all.current"]


@right
def free_pieces_of_every_segment(device):
    segments = torch.get_device_module(device).memory_snapshot()
    return sum(
        block["size"]
        for segment in segments
        if segment["device"] == device.index
        for block in segment["blocks"]
        if block["state"] == "inactive"
    )


@wrong("that is not what the cache of this device holds", row="reserved less allocated")
def free_segments_alone(device):
    segments = torch.get_device_module(device).memory_snapshot()
    mine = [segment for segment in segments if segment["device"] == device.index]
    return sum(segment["total_size"] for segment in mine if not segment["allocated_size"])


# What else is alive in the process decides which of two rows sees it first.
@wrong(
    "that is not what the cache",
    row=("what a view or a graph keeps alive is not in it", "reserved less allocated"),
)
def less_the_tensors_in_sight(device):
    memory = torch.get_device_module(device)
    seen = [one for one in gc.get_objects() if type(one) is torch.Tensor or hasattr(one, "untyped_storage")]
    here = [one for one in seen if isinstance(one, torch.Tensor) and one.device == device]
    return memory.memory_reserved(device) - sum(-(-one.nbytes // 512) * 512 for one in here)


# What is alive or cached on the other device decides which row sees it first.
@wrong(
    "all devices' caches are added up",
    row=(
        "reserved less allocated",
        "freed tensors join it, new tensors take from it",
        "of that device alone",
    ),
)
def of_every_segment(device):
    segments = torch.get_device_module(device).memory_snapshot()
    return sum(segment["total_size"] - segment["allocated_size"] for segment in segments)


@wrong("a tensor was made to ask", row="reserved less allocated")
def wakes_the_device_first(device):
    torch.zeros(1, device=device)
    memory = torch.get_device_module(device)
    return memory.memory_reserved(device) - memory.memory_allocated(device)
