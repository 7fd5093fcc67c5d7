"""The cache of the allocator: what it holds."""

import torch

from devlab.checks import expect
from devlab.checks.settings import current_index
from devlab.lessons.lesson_08_memory import (
    KIB,
    MIB,
    books,
    expect_bytes,
    floats,
    gaps_filled,
    in_units,
    lesson,
)

cached_bytes = lesson.exercise(
    "cached_bytes",
    signature="cached_bytes(device)",
    facts=("H2", "H3", "H4"),
    hints=(
        "In the lesson's picture of a device the cache is what is left white in the segments. Which figure "
        "of the account belongs to a whole segment, and which to its filled part?",
        "`memory_reserved(device)` is all that PyTorch has taken, `memory_allocated(device)` is what live "
        "tensors hold of it. Name the device in both.",
        "`memory = torch.get_device_module(device)`, then "
        "`return memory.memory_reserved(device) - memory.memory_allocated(device)`",
    ),
)


def _cache_of(module, device: torch.device) -> int:
    return module.memory_reserved(device) - module.memory_allocated(device)


def _slips(module, device: torch.device) -> dict[str, object]:
    """Return what else an answer may say of a device now, by the words for it."""
    allocated, reserved = module.memory_allocated(device), module.memory_reserved(device)
    peak_allocated, peak = module.max_memory_allocated(device), module.max_memory_reserved(device)
    current, count = current_index(), torch.accelerator.device_count()
    caches = [_cache_of(module, torch.device(device.type, index)) for index in range(count)]
    stats = module.memory_stats(device) if hasattr(module, "memory_stats") else {}
    free, whole = module.mem_get_info(device) if hasattr(module, "mem_get_info") else (0, 0)
    return {
        f"that is the cache of {device.type}:{current}, the current device, and {device} was asked about": (
            caches[current] if current != device.index else None
        ),
        "all devices' caches are added up": sum(caches) if count > 1 else None,
        "that is all that is reserved: what live tensors hold is in it": reserved,
        "that is all that is in use on the device, which is more than all that is reserved here": whole - free
        or None,
        "that is what live tensors hold, not what the cache holds": allocated,
        "the difference has the wrong sign": allocated - reserved,
        "the two were added: live tensors' memory is a part of what is reserved": reserved + allocated,
        "one of the figures is a peak, and the task asks for what is reserved and allocated now": (
            peak - allocated,
            reserved - peak_allocated,
            peak - peak_allocated,
        ),
        "those are the holes beside live tensors alone: segments in which nothing lives are cached as well": (
            stats.get("inactive_split_bytes.all.current")
        ),
        **in_units(reserved - allocated),
    }


def _judge_cached(trial, module) -> None:
    device, current = trial.device, current_index()
    wanted, reserved, peak = (
        _cache_of(module, device),
        module.memory_reserved(device),
        module.max_memory_allocated(device),
    )
    slips = _slips(module, device)
    got, log = trial.watched(device)
    if current_index() != current:
        words = "asking made another device the current one: a question changes nothing"
        expect.fail(words, f"still {current}", f"{current_index()}")
    if (now := module.memory_reserved(device)) != reserved:
        words = f"asking {'emptied the cache' if now < reserved else 'took more memory'}"
        asked, said = (f"{size / MIB:g} MiB reserved" for size in (reserved, now))
        expect.fail(f"{words}: a question changes nothing", f"{asked}, as before", f"{said} after the call")
    if (now := module.max_memory_allocated(device)) < peak:
        words = "asking reset the peak: a question changes nothing"
        expect.fail(words, f"a peak of {peak:,} bytes", f"{now:,} bytes")
    if log.bytes_allocated:
        words = "a tensor was made to ask, which takes memory from the cache"
        expect.fail(words, "no tensor", f"a tensor of {log.bytes_allocated:,} bytes")
    expect_bytes(got, wanted, "that is not what the cache of this device holds", slips)


@cached_bytes.row("reserved less allocated", only="accelerator")
def reserved_less_allocated(trial):
    with books(trial) as module, gaps_filled(module, 3 * MIB, trial.device):
        live = floats(75 * KIB + trial.seeds[0], trial.device)
        floats(900 * KIB, trial.device)  # dies at once, and its segment stays in the cache
        _judge_cached(trial, module)
        del live


@cached_bytes.row("freed tensors join it, new tensors take from it", only="accelerator")
def joins_and_leaves(trial):
    with books(trial) as module:
        live = [floats(700 * KIB, trial.device), floats(1 * MIB, trial.device)]
        _judge_cached(trial, module)
        live.pop()
        _judge_cached(trial, module)
        live.append(floats(200 * KIB, trial.device))
        _judge_cached(trial, module)
        live.clear()
        module.empty_cache()
        live.append(floats(100, trial.device))
        _judge_cached(trial, module)


@cached_bytes.row("what a view or a graph keeps alive is not in it", only="accelerator")
def kept_alive(trial):
    with books(trial) as module, gaps_filled(module, 3 * MIB, trial.device):
        whole = floats(800 * KIB + trial.seeds[1], trial.device)
        part = whole[:10]
        del whole
        _judge_cached(trial, module)
        weight = torch.ones(300 * KIB, device=trial.device, requires_grad=True)
        loss = weight.exp().sum()  # its graph keeps what exp gave
        del weight
        _judge_cached(trial, module)
        del part
        _judge_cached(trial, module)
        del loss
        _judge_cached(trial, module)
        module.empty_cache()
        _judge_cached(trial, module)


@cached_bytes.row("of that device alone", only="accelerator")
def cached_on_that_device(trial):
    with books(trial) as module:
        there = trial.second()
        live = floats(30 * KIB, trial.device), floats(90 * KIB, there)
        floats(3 * MIB, there)
        floats(600 * KIB, trial.device)
        _judge_cached(trial, module)
        del live
