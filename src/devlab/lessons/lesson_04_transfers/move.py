"""A batch of any shape: every tensor in it moves, and nothing else changes."""

from collections import namedtuple
from dataclasses import make_dataclass
from types import SimpleNamespace

import numpy
import torch

from devlab.checks.late_copies import keep_busy
from devlab.checks.scenes import scene
from devlab.checks.seen import must
from devlab.checks.values import a_type, describe
from devlab.checks.verbs import at_once
from devlab.lessons.lesson_04_transfers import lesson

move = lesson.exercise(
    "move(batch, device)",
    ("M1", "M2", "M6", "P2"),
    "A batch is a tree: tensors at its ends, containers in between. Let `move` call itself for what a "
    "container holds. What does a tensor need, and what does anything else need?",
    "A dict: `{key: move(value, device) for key, value in batch.items()}`. A list or tuple: the same with "
    "brackets. A namedtuple is a tuple with an attribute `_fields`; how is one made from values?",
    "`type(batch)(*[move(value, device) for value in batch])` makes a namedtuple, `type(batch)([...])` a "
    "list or a plain tuple. For a tensor, `.to(device)` returns the tensor itself if it is there.",
)

Pair, Single = namedtuple("Pair", ["inputs", "labels"]), namedtuple("Single", ["only"])
Sample = make_dataclass("Sample", ["x"])


def ours(batch, device):
    if isinstance(batch, dict):
        return {key: ours(value, device) for key, value in batch.items()}
    if isinstance(batch, list | tuple):
        return getattr(batch, "_make", type(batch))([ours(value, device) for value in batch])
    return batch.to(device) if isinstance(batch, torch.Tensor) else batch


def walk(value, path="batch"):
    """Yield a value and all its parts, each with its path."""
    yield path, value
    if isinstance(value, dict | list | tuple):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from walk(item, f"{path}[{key!r}]")


def see_moved(t, *batches):
    for batch in batches:
        for (path, mine), (_, given) in zip(walk(at_once(t, batch, t.device)), walk(batch), strict=False):
            if isinstance(given, torch.Tensor):
                yield path, mine
                if given.device == t.device and mine.data_ptr() != given.data_ptr():
                    yield must(False, f"{path} was there already, and was copied", "the tensor itself")
            elif isinstance(given, dict | list | tuple):
                yield path, a_type(mine)
                yield f"what {path} holds", list(mine) if isinstance(mine, dict) else f"{len(mine)} items"
            elif mine is not given:
                came = "was copied" if describe(mine) == describe(given) else "came back changed"
                came = "has a `.to` of its own, which was called" if hasattr(given, "to") else came
                yield must(False, f"{path}, which is no tensor, {came}", describe(given), mine)


def make_tensors(t, source, seed):
    """Return tensors of many kinds, among them labels that would lose digits as float32."""
    numbers = t.randn(4, 3, seed=seed, on=source)
    labels = (5 * t.randn(4, seed=seed + 1, on=source)).long() + 2**24 + 1
    return [numbers, labels, numbers[:, ::2].t(), numbers.half(), numbers > 0, numbers[1, 2], numbers[:0]]


@scene(move, ours, "every tensor reaches the device, at any depth")
def reaches_the_device(t):
    for source, seed in zip(t.others, t.seeds, strict=False):
        keep_busy(source)
        x, y, view, half, mask, scalar, empty = make_tensors(t, source, seed)
        plain = (x, [x, y], (x, y), {"x": x, "y": y}) if seed == t.seeds[0] else (y,)
        deep = {"x": [x, (view, {"half": half})], "more": {"deep": {"mask": mask}}, "y": y}
        odd = [torch.nn.Parameter(x), x.clone().requires_grad_(), [[scalar]], (empty, [y]), {"": {0: x}}]
        yield from see_moved(t, *plain, deep, odd)
    t.second()


@scene(move, ours, "containers keep their type, order and names")
def containers_stay(t):
    x, y, view, half, *_ = make_tensors(t, (t.device, *t.others)[-1], t.seeds[0])
    pairs = {"pair": Pair(Single(view), [half]), "also": (Pair(x, None),)}
    keys, empty = {"z": x, "a": y, 3: half, ("k", 1): view, "m": x}, {"list": [], "dict": {}, "tuple": ()}
    yield from see_moved(t, x, Pair(x, y), Single(x), pairs, keys, empty | {"x": [x]})


@scene(move, ours, "other values come back as they are")
def other_values(t):
    x, y, *_ = make_tensors(t, (*t.others, t.device)[0], t.seeds[1])
    plain = {"x": x, "name": "a text", "empty": "", "n": 7, "rate": 0.5, "flag": True, "no": None}
    listed = [x, numpy.arange(3.0), object(), b"bytes", {"a", "b"}, range(3), (y, "two"), (2, 3)]
    holding = [Sample(x), SimpleNamespace(x=x), SimpleNamespace(to=lambda *_, **__: object()), [0.5, 1.5]]
    yield from see_moved(t, plain, listed, holding, "text", None, 3)


@scene(move, ours, "what is there already is not copied")
def not_copied(t):
    here = make_tensors(t, t.device, t.seeds[0])
    elsewhere = [make_tensors(t, other, t.seeds[1])[:2] for other in t.others]
    batch = {"here": here[:2], "elsewhere": elsewhere, "pair": (here[2], "text")}
    yield from see_moved(t, {"x": here[0], "rest": here[1:], "none": None}, batch)
    copies = t.watched(batch, t.device)[1].events.transfers
    for copy in copies:
        words = f"a tensor went to {copy.target}, and should have gone straight to {t.device}"
        yield must(copy.target == str(t.device), words, "one transfer each", f"{copy.source} → {copy.target}")
    yield "the number of transfers", len(copies)
    t.second()
