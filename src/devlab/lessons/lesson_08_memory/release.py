"""Giving memory back: an entry of a dict, and what the device gets of it."""

import contextlib
import weakref
from collections.abc import Callable
from functools import partial
from unittest import mock

import torch

from devlab.checks import expect, verbs
from devlab.checks.settings import current_index
from devlab.lessons.lesson_08_memory import MIB, books, expect_bytes, floats, gaps_filled, in_units, lesson

release = lesson.exercise(
    "release(cache, key, device)",
    ("H3", "H4", "K1", "K2", "K4", "K5"),
    "Two steps, and their order matters: `empty_cache` gives back only what no tensor holds any more.",
    "`x = cache.pop(key)` takes the entry out of the dict, and then `x` holds it.",
    "Read `memory_reserved(device)`, `del cache[key]`, `empty_cache()`, read again, subtract.",
)

SIZES = {"weights": 12 * MIB + 5000, "activations": 15 * MIB, "logits": 23 * MIB - 800}
SMALLEST = min(SIZES.values())
NOT_EMPTIED = "the cache was not emptied, so the memory is still reserved"
FAULTS = {
    "nothing": "the memory is still reserved, although the cache was emptied",
    "a name": "a name of yours still held the tensor when the cache was emptied: delete the name before",
    "the entry": "the cache was emptied while the entry still held the tensor: drop the entry before",
}
OTHERWISE = "that is not by how much reserved memory fell during the call"


def _make_cache(device: torch.device) -> dict[str, torch.Tensor]:
    """Return three tensors, each so large that it has a segment of its own where gaps are filled."""
    return {name: floats(size // 4, device) for name, size in SIZES.items()}


def _let_it_drop(trial, cache: dict, key: object) -> object:
    """Return what the answer says, once it has taken the entry out of the dict."""
    got = trial.call(cache, key, trial.device, changes=True)
    expect.that(key not in cache, "the entry is still in the cache", f"no key {key!r}", cache)
    return got


def _let_it_release(trial, module, cache: dict, key: object, least: int) -> tuple[object, int]:
    """Return what the answer says, and by how much reserved memory fell, which is at least so many bytes."""
    tensor, holders = weakref.ref(cache[key]), []  # what holds the tensor as the cache is emptied

    def note_holder(empty: Callable) -> None:
        there = key in cache and cache[key] is tensor()
        holders.append("nothing" if tensor() is None else "the entry" if there else "a name")
        empty()

    before = module.memory_reserved(trial.device)
    with contextlib.ExitStack() as stack:
        for home in (module, torch.accelerator):
            noted = partial(note_holder, home.empty_cache)
            stack.enter_context(mock.patch.object(home, "empty_cache", noted))
        got = _let_it_drop(trial, cache, key)
    fell = before - module.memory_reserved(trial.device)
    if fell < least:
        fault = next((words for holder, words in FAULTS.items() if holder in holders), NOT_EMPTIED)
        asked = f"reserved memory falls by at least {least / MIB:.1f} MiB"
        expect.fail(fault, asked, f"it falls by {fell / MIB:.1f} MiB")
    return got, fell


@release.row("the entry is gone, the others stay", only="accelerator")
def the_entry_is_gone(trial):
    with books(trial):
        keys = ("a", "b", 3, 0, ("layer", 2))
        cache = {key: floats(1000, trial.device).fill_(number) for number, key in enumerate(keys)}
        # The same tensor under another key, another one that is equal, and a key that reads alike.
        cache |= {"the same": cache["b"], "equal": cache["b"].clone(), "0": floats(1000, trial.device)}
        for key in ("b", 0, ("layer", 2)):
            others = {other: value for other, value in cache.items() if other != key}
            _let_it_drop(trial, cache, key)
            for other, value in others.items():
                headline = f"the entry {other!r} was lost or replaced"
                expect.that(cache.get(other) is value, headline, "the other entries as they were", cache)
        for number, key in ((0, "a"), (2, 3), (1, "the same")):
            expect.tensor(cache[key], torch.full((1000,), float(number)), trial.device, f"the entry {key!r}")


@release.row("reserved memory falls", only="accelerator")
def reserved_memory_falls(trial):
    with books(trial) as module, gaps_filled(module, SMALLEST, trial.device):
        cache = _make_cache(trial.device)
        for key in ("activations", "weights"):
            _let_it_release(trial, module, cache, key, SIZES[key])
        cache.clear()


@release.row("it returns what the device got back", only="accelerator")
def returns_what_was_given_back(trial):
    with books(trial) as module, gaps_filled(module, SMALLEST, trial.device):
        cache = _make_cache(trial.device)
        for key, spare in (("weights", 0), ("logits", 31 * MIB)):
            reserved = module.memory_reserved(trial.device)
            floats(spare // 4, trial.device)  # dies at once: in the cache when the answer is called
            before, allocated = module.memory_reserved(trial.device), module.memory_allocated(trial.device)
            got, fell = _let_it_release(trial, module, cache, key, SIZES[key])
            freed = allocated - module.memory_allocated(trial.device)
            slips = {
                "that is the tensor's size, not the fall of reserved memory": SIZES[key],
                "that is the fall of allocated memory, not of reserved": freed,
                "the difference has the wrong sign": -fell,
                _explain_zero(trial): 0,
                # The first entry is smaller than its two neighbours, so an answer that gives what is left
                # fails there. Later the same number may come of another mistake by chance.
                "that is what is still reserved, and the task asks by how much it fell": (
                    None if spare else before - fell
                ),
                "the cache was emptied before the first look: what went back then counts as well": (
                    fell - (before - reserved) if spare else None
                ),
                **in_units(fell),
            }
            expect_bytes(got, fell, OTHERWISE, slips)
        cache.clear()


SAME = "0 bytes: both looks saw the same, and one belongs before the entry is dropped, one after emptying"


def _explain_zero(trial) -> str:
    """Return what is wrong where two looks at the account saw the same."""
    return SAME if trial.device.index == current_index() else f"{SAME}, both at {trial.device}"


@release.row("0 where something else holds the memory", only="accelerator")
def shared_memory_stays(trial):
    with books(trial) as module, gaps_filled(module, 13 * MIB, trial.device):
        x = floats(13 * MIB // 4, trial.device)
        cache = {"whole": x, "first": x[:1000]}
        del x
        for key, falls in (("whole", False), ("first", True)):
            got, fell = _let_it_release(trial, module, cache, key, 13 * MIB if falls else 0)
            held = "a view of the same memory lives on, so nothing was given back"
            expect_bytes(got, fell, OTHERWISE if fell else held, {_explain_zero(trial): 0 if fell else None})


@release.row("of that device alone", only="accelerator")
def of_that_device(trial):
    with books(trial) as module, verbs.current(trial.second()), gaps_filled(module, SMALLEST, trial.device):
        cache = _make_cache(trial.device)
        got, fell = _let_it_release(trial, module, cache, "logits", SIZES["logits"])
        expect_bytes(got, fell, OTHERWISE, {_explain_zero(trial): 0})
        cache.clear()
