"""The cache of the allocator: what it holds, and how to give it back."""

import torch

from devlab.checks import expect
from devlab.checks.isolation import current_index
from devlab.lessons.lesson_08_memory.base import KIB, MIB, books, bytes_equal, floats, gaps_filled, lesson

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


def _of_the_current_one(module, device: torch.device) -> int | None:
    """Return what the cache of the current device holds, if that is another one."""
    current = torch.device(device.type, torch.accelerator.current_device_index())
    if current == device:
        return None
    return module.memory_reserved(current) - module.memory_allocated(current)


def _judge_cached(trial, module, device: torch.device) -> None:
    allocated, reserved = module.memory_allocated(device), module.memory_reserved(device)
    peak, current = module.max_memory_allocated(device), current_index()
    bytes_equal(
        trial.call(device),
        reserved - allocated,
        "that is not what the cache of this device holds",
        (_of_the_current_one(module, device), "that is the cache of the current device, not of this one"),
        (reserved, "that is all that is reserved: what live tensors hold is in it"),
        (allocated, "that is what live tensors hold, not what the cache holds"),
        (allocated - reserved, "the difference has the wrong sign"),
        (
            module.max_memory_reserved(device) - allocated,
            "the peak of reserved memory is not what is reserved now",
        ),
        (reserved - module.max_memory_allocated(device), "the peak is not what live tensors hold now"),
    )
    if current_index() != current:
        words = "asking made another device the current one: a question changes nothing"
        expect.fail(words, f"still {current}", f"{current_index()}")
    if module.max_memory_allocated(device) < peak:
        words = "asking reset the peak: a question changes nothing"
        expect.fail(words, f"a peak of {peak:,} bytes", f"{module.max_memory_allocated(device):,} bytes")
    if (now := module.memory_reserved(device)) != reserved:
        done = "emptied the cache" if now < reserved else "took more memory"
        expect.fail(
            f"asking {done}: a question changes nothing",
            f"{reserved / MIB:g} MiB reserved, as before",
            f"{now / MIB:g} MiB reserved after the call",
        )


@cached_bytes.row("reserved less allocated", only="accelerator")
def reserved_less_allocated(trial):
    with books(trial) as module, gaps_filled(module, 3 * MIB, trial.device):
        live = floats(75 * KIB + trial.seeds[0], trial.device)
        floats(900 * KIB, trial.device)  # dies at once, and its segment stays in the cache
        _judge_cached(trial, module, trial.device)
        del live


@cached_bytes.row("what dies joins it, what is made leaves it", only="accelerator")
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


release = lesson.exercise(
    "release",
    signature="release(cache, key, device)",
    facts=("H3", "H4", "K1", "K2", "K4", "K5"),
    hints=(
        "Two steps, and their order matters: `empty_cache` gives back only what no tensor holds any more.",
        "`x = cache.pop(key)` takes the entry out of the dict, and then `x` holds it.",
        "Read `memory_reserved(device)`, `del cache[key]`, `empty_cache()`, read again, subtract.",
    ),
)

SIZES = {"weights": 12 * MIB + 5000, "activations": 15 * MIB, "logits": 23 * MIB - 800}
SMALLEST = min(SIZES.values())


def _cache(device: torch.device) -> dict[str, torch.Tensor]:
    """Return three tensors, each so large that it has a segment of its own where gaps are filled."""
    return {name: floats(size // 4, device) for name, size in SIZES.items()}


@release.row("the entry is gone, the others stay", only="accelerator")
def the_entry_is_gone(trial):
    with books(trial):
        keys = ("a", "b", 3, 0, ("layer", 2))
        cache = {key: floats(1000, trial.device).fill_(number) for number, key in enumerate(keys)}
        # The same tensor under another key, another one that is equal, and a key that reads alike.
        cache |= {"the same": cache["b"], "equal": cache["b"].clone(), "0": floats(1000, trial.device)}
        for key in ("b", 0, ("layer", 2)):
            others = {other: value for other, value in cache.items() if other != key}
            trial.call(cache, key, trial.device, changes=True)
            if key in cache:
                expect.fail("the entry is still in the cache", f"no key {key!r}", cache)
            for other, value in others.items():
                if cache.get(other) is not value:
                    expect.fail(
                        f"the entry {other!r} was lost or replaced", "the other entries as they were", cache
                    )
        for number, key in ((0, "a"), (2, 3), (1, "the same")):
            expect.tensor(cache[key], torch.full((1000,), float(number)), trial.device, f"the entry {key!r}")


@release.row("reserved memory falls", only="accelerator")
def reserved_memory_falls(trial):
    with books(trial) as module, gaps_filled(module, SMALLEST, trial.device):
        cache = _cache(trial.device)
        for key in ("activations", "weights"):
            before = module.memory_reserved(trial.device)
            trial.call(cache, key, trial.device, changes=True)
            fell = before - module.memory_reserved(trial.device)
            if fell < SIZES[key]:
                expect.fail(
                    "the memory is still reserved: was the cache emptied once nothing held the tensor?",
                    f"reserved memory falls by at least {SIZES[key] / MIB:.1f} MiB",
                    f"it falls by {fell / MIB:.1f} MiB",
                )
        cache.clear()


@release.row("it returns what the device got back", only="accelerator")
def returns_what_was_given_back(trial):
    with books(trial) as module, gaps_filled(module, SMALLEST, trial.device):
        cache = _cache(trial.device)
        for key, spare in (("weights", 0), ("logits", 31 * MIB)):
            floats(spare // 4, trial.device)  # dies at once: in the cache when the answer is called
            before, allocated = module.memory_reserved(trial.device), module.memory_allocated(trial.device)
            got = trial.call(cache, key, trial.device, changes=True)
            freed = allocated - module.memory_allocated(trial.device)
            fell = before - module.memory_reserved(trial.device)
            if not fell:
                expect.fail("reserved memory did not fall at all", "the cache emptied", "nothing given back")
            bytes_equal(
                got,
                fell,
                "that is not the fall of reserved memory during the call",
                (SIZES[key], "that is the tensor's size, not the fall of reserved memory"),
                (freed, "that is the fall of allocated memory, not of reserved"),
                (-fell, "the difference has the wrong sign"),
                (0, "0 bytes: the second look came too early, or was at another device"),
                (before - fell, "that is what is still reserved, not the fall"),
            )
        cache.clear()


@release.row("0 where something else holds the memory", only="accelerator")
def shared_memory_stays(trial):
    with books(trial) as module, gaps_filled(module, 13 * MIB, trial.device):
        x = floats(13 * MIB // 4, trial.device)
        cache = {"whole": x, "first": x[:1000]}
        del x
        for key, fall in (("whole", False), ("first", True)):
            before = module.memory_reserved(trial.device)
            got = trial.call(cache, key, trial.device, changes=True)
            fell = before - module.memory_reserved(trial.device)
            if fall and not fell:
                expect.fail(
                    "the last view was dropped, and the memory is still reserved",
                    "reserved memory falls",
                    "0 bytes",
                )
            bytes_equal(
                got,
                fell,
                "a view of the same memory lives on: nothing was given back"
                if not fall
                else "that is not the fall of reserved memory during the call",
            )
