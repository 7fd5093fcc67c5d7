"""Giving memory back: an entry of a dict, and what the device gets of it."""

import contextlib
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from unittest import mock

import torch

from devlab.checks import expect, verbs
from devlab.checks.scenes import scene
from devlab.checks.seen import Seen, must
from devlab.checks.settings import current_index
from devlab.lessons.lesson_08_memory import MIB, books, floats, gaps_filled, lesson

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
ASKED = "by how much reserved memory fell during the call"
SAME = "0 bytes: both looks saw the same, and one belongs before the entry is dropped, one after emptying"


def ours(cache, key, device):
    memory = torch.get_device_module(device)
    before = memory.memory_reserved(device)
    del cache[key]
    memory.empty_cache()
    return before - memory.memory_reserved(device)


def make_cache(device: torch.device) -> dict[str, torch.Tensor]:
    """Return three tensors, each so large that it has a segment of its own where gaps are filled."""
    return {name: floats(size // 4, device) for name, size in SIZES.items()}


def drop_entry(t, cache: dict, key: object) -> object:
    """Return what the answer says, once it has taken the entry out of the dict."""
    got = t.call(cache, key, t.device, changes=True)
    expect.that(key not in cache, "the entry is still in the cache", f"no key {key!r}", cache)
    return got


def release_entry(t, module, cache: dict, key: object, least: int) -> Seen:
    """See what the answer says, where reserved memory fell by at least so many bytes."""
    tensor, holders = weakref.ref(cache[key]), []  # what holds the tensor as the cache is emptied

    def note_holder(empty: Callable) -> None:
        there = key in cache and cache[key] is tensor()
        holders.append("nothing" if tensor() is None else "the entry" if there else "a name")
        empty()

    before = module.memory_reserved(t.device)
    with contextlib.ExitStack() as stack:
        for home in (module, torch.accelerator):
            noted = partial(note_holder, home.empty_cache)
            stack.enter_context(mock.patch.object(home, "empty_cache", noted))
        got = drop_entry(t, cache, key)
    fell = before - module.memory_reserved(t.device)
    fault = next((words for holder, words in FAULTS.items() if holder in holders), NOT_EMPTIED)
    asked = f"reserved memory falls by at least {least / MIB:.1f} MiB"
    expect.that(fell >= least, fault, asked, f"it falls by {fell / MIB:.1f} MiB")
    return Seen("the number of bytes", got, right=fell)


def see_number(t, number: Seen) -> Iterator[Seen]:
    where = "" if t.device.index == current_index() else f", both at {t.device}"
    same = isinstance(number.value, int) and number.value == 0 < number.right
    yield must(not same, f"{SAME}{where}", ASKED, "0 bytes")
    yield number


@scene(release, ours, "the entry is gone, the others stay", only="accelerator")
def the_entry_is_gone(t):
    with books(t):
        keys = ("a", "b", 3, 0, ("layer", 2))
        cache = {key: floats(1000, t.device).fill_(number) for number, key in enumerate(keys)}
        # The same tensor under another key, another one that is equal, and a key that reads alike.
        cache |= {"the same": cache["b"], "equal": cache["b"].clone(), "0": floats(1000, t.device)}
        for key in ("b", 0, ("layer", 2)):
            others = {other: value for other, value in cache.items() if other != key}
            drop_entry(t, cache, key)
            for other, value in others.items():
                headline = f"the entry {other!r} was lost or replaced"
                yield must(cache.get(other) is value, headline, "the other entries as they were", cache)
        for key in ("a", 3, "the same"):
            yield f"the entry {key!r}", cache[key]


@release.row("reserved memory falls", only="accelerator")
def reserved_memory_falls(t):
    with books(t) as module, gaps_filled(module, SMALLEST, t.device):
        cache = make_cache(t.device)
        for key in ("activations", "weights"):
            release_entry(t, module, cache, key, SIZES[key])
        cache.clear()


@scene(release, ours, "it returns what the device got back", ASKED, only="accelerator")
def returns_what_was_given_back(t):
    with books(t) as module, gaps_filled(module, SMALLEST, t.device):
        cache = make_cache(t.device)
        for key, spare in (("weights", 0), ("logits", 31 * MIB)):
            floats(spare // 4, t.device)  # dies at once: in the cache when the answer is called
            seen = release_entry(t, module, cache, key, SIZES[key])
            # The first entry is smaller than its two neighbours, so an answer that gives what is left fails
            # there. Later the same number may come of another mistake by chance.
            left = seen.value == module.memory_reserved(t.device) and not spare
            yield must(
                not left, "that is what is still reserved, and the task asks by how much it fell", ASKED
            )
            yield from see_number(t, seen)
        cache.clear()


@scene(release, ours, "0 where something else holds the memory", ASKED, only="accelerator")
def shared_memory_stays(t):
    with books(t) as module, gaps_filled(module, 13 * MIB, t.device):
        x = floats(13 * MIB // 4, t.device)
        cache = {"whole": x, "first": x[:1000]}
        del x
        seen = release_entry(t, module, cache, "whole", 0)
        yield seen._replace(asked="0: a view of the same memory lives on, so nothing was given back")
        yield from see_number(t, release_entry(t, module, cache, "first", 13 * MIB))


@scene(release, ours, "of that device alone", ASKED, only="accelerator")
def of_that_device(t):
    with books(t) as module, verbs.current(t.second()), gaps_filled(module, SMALLEST, t.device):
        cache = make_cache(t.device)
        yield from see_number(t, release_entry(t, module, cache, "logits", SIZES["logits"]))
        cache.clear()
