"""The cache of the allocator: what it holds."""

import torch

from devlab.checks import expect
from devlab.checks.isolation import current_index
from devlab.lessons.lesson_08_memory import KIB, MIB, UNITS, books, bytes_equal, floats, gaps_filled, lesson

cached_bytes = lesson.exercise(
    "cached_bytes",
    signature="cached_bytes(device)",
    facts=("H2", "H3", "H4"),
    hints=(
        "Two figures of the account differ by what the cache keeps for later.",
        "`memory_reserved(device)` is all that PyTorch has taken, `memory_allocated(device)` what live "
        "tensors hold of it.",
    ),
)


def _judge_cached(trial, module, device: torch.device) -> None:
    allocated, reserved = module.memory_allocated(device), module.memory_reserved(device)
    peak, current = module.max_memory_allocated(device), current_index()
    everywhere = [_account(module, torch.device(device.type, index)) for index in range(_count())]
    guesses = (
        (_cached(everywhere[current]) if current != device.index else None,
         f"that is the cache of {device.type}:{current}, the current device, and {device} was asked about"),
        (sum(map(_cached, everywhere)) if len(everywhere) > 1 else None, "all devices' caches are added up"),
        (reserved, "that is all that is reserved: what live tensors hold is in it"),
        (allocated, "that is what live tensors hold, not what the cache holds"),
        (allocated - reserved, "the difference has the wrong sign"),
        (reserved + allocated, "the two were added: live tensors' memory is a part of what is reserved"),
        (module.max_memory_reserved(device) - allocated, PEAK),
        (reserved - module.max_memory_allocated(device), PEAK),
        (module.max_memory_reserved(device) - module.max_memory_allocated(device), PEAK),
        (_holes(module, device), HOLES),
        *(((reserved - allocated) // size, f"that is a number of {unit}, and bytes are asked")
          for size, unit in UNITS.items()),
    )  # fmt: skip
    got, log = trial.watched(device)
    if current_index() != current:
        words = "asking made another device the current one: a question changes nothing"
        expect.fail(words, f"still {current}", f"{current_index()}")
    if (now := module.memory_reserved(device)) != reserved:
        done = "emptied the cache" if now < reserved else "took more memory"
        expect.fail(
            f"asking {done}: a question changes nothing",
            f"{reserved / MIB:g} MiB reserved, as before",
            f"{now / MIB:g} MiB reserved after the call",
        )
    if module.max_memory_allocated(device) < peak:
        words = "asking reset the peak: a question changes nothing"
        expect.fail(words, f"a peak of {peak:,} bytes", f"{module.max_memory_allocated(device):,} bytes")
    made = "a tensor was made to ask, which takes memory from the cache" if log.bytes_allocated else ""
    otherwise = made or "that is not what the cache of this device holds"
    bytes_equal(got, reserved - allocated, otherwise, *(guesses if not made else ()))


PEAK = "one of the figures is a peak, and what is reserved and allocated now is asked"
HOLES = "those are the holes beside live tensors alone: segments in which nothing lives are cached as well"


def _holes(module, device: torch.device) -> int | None:
    stats = module.memory_stats(device) if hasattr(module, "memory_stats") else {}
    return stats.get("inactive_split_bytes.all.current")


def _count() -> int:
    return torch.accelerator.device_count()


def _account(module, device: torch.device) -> tuple[int, int]:
    return module.memory_reserved(device), module.memory_allocated(device)


def _cached(account: tuple[int, int]) -> int:
    reserved, allocated = account
    return reserved - allocated


@cached_bytes.row("reserved less allocated", only="accelerator")
def reserved_less_allocated(trial):
    with books(trial) as module, gaps_filled(module, 3 * MIB, trial.device):
        live = floats(75 * KIB + trial.seeds[0], trial.device)
        floats(900 * KIB, trial.device)  # dies at once, and its segment stays in the cache
        _judge_cached(trial, module, trial.device)
        del live


@cached_bytes.row("freed tensors join it, new ones take from it", only="accelerator")
def joins_and_leaves(trial):
    with books(trial) as module:
        live = [floats(700 * KIB, trial.device), floats(1 * MIB, trial.device)]
        _judge_cached(trial, module, trial.device)
        live.pop()
        _judge_cached(trial, module, trial.device)
        live.append(floats(200 * KIB, trial.device))
        _judge_cached(trial, module, trial.device)
        live.clear()
        module.empty_cache()
        live.append(floats(100, trial.device))
        _judge_cached(trial, module, trial.device)


@cached_bytes.row("of that device alone", only="accelerator")
def cached_on_that_device(trial):
    with books(trial) as module:
        there = trial.other()
        live = floats(30 * KIB, trial.device), floats(90 * KIB, there)
        floats(3 * MIB, there)
        floats(600 * KIB, trial.device)
        _judge_cached(trial, module, trial.device)
        del live
