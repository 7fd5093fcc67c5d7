"""A batch of any shape: every tensor in it moves, and nothing else changes."""

import dataclasses
from collections import namedtuple
from collections.abc import Mapping
from types import SimpleNamespace

import numpy
import torch

from devlab.checks import expect
from devlab.checks.values import describe
from devlab.checks.verbs import at_once, counts, keep_busy, times
from devlab.lessons.lesson_04_transfers import lesson

move = lesson.exercise(
    "move",
    signature="move(batch, device)",
    facts=("M1", "M2", "M6", "P2"),
    hints=(
        "A batch is a tree: tensors at its ends, containers in between. Let `move` call itself for what "
        "a container holds. What does a tensor need, and what does anything else need?",
        "A dict: `{key: move(value, device) for key, value in batch.items()}`. A list or tuple: the same "
        "with brackets. A namedtuple is a tuple with an attribute `_fields`; how is one made from values?",
        "`type(batch)(*[move(value, device) for value in batch])` makes a namedtuple, `type(batch)([...])` a "
        "list or a plain tuple. For a tensor, `.to(device)` returns the tensor itself if it is there.",
    ),
)

Pair = namedtuple("Pair", ["inputs", "labels"])
Single = namedtuple("Single", ["only"])


@dataclasses.dataclass
class Sample:
    """An object with a tensor inside: it is no container, and comes back as it is."""

    x: torch.Tensor


class Words:
    """An object that is no tensor and has a `.to` of its own, which makes another object."""

    def to(self, *args: object, **kwargs: object) -> "Words":
        """Return another object."""
        return Words()


def _expect_moved(got: object, given: object, device: torch.device, path: str) -> None:
    """Expect `got` to be the tree `given`, which nothing has changed, with its tensors on the device."""
    if isinstance(given, torch.Tensor):
        expect.kind(got, torch.Tensor, "a tensor", path)
        if got.device != device:
            words = "stayed on" if got.device == given.device else "went to"
            expect.fail(f"{path} {words} {got.device}", f"{path} on {device}", f"{path} on {got.device}")
        if given.device == device and got.data_ptr() != given.data_ptr():
            expect.fail(f"{path} was there already, and was copied", "the tensor itself", "a copy of it")
        expect.tensor(got, given, device, path)
    elif isinstance(given, Mapping | list | tuple):
        _expect_container(got, given, path)
        found = _items(got)
        for step, item in _items(given).items():
            _expect_moved(found[step], item, device, path + step)
    elif isinstance(given, Words) and got is not given:
        headline = f"{path} is no tensor, and yet its own `.to` was called"
        expect.fail(headline, "any other object as it is, the same object", got)
    elif got is not given:
        if describe(got) == describe(given):
            headline = f"{path}, which is no tensor, was copied"
            expect.fail(headline, "the object itself", f"a copy, {describe(got)}")
        expect.fail(f"{path}, which is no tensor, came back changed", describe(given), got)


def _expect_container(got: object, given: Mapping | list | tuple, path: str) -> None:
    name = type(given).__name__
    if type(got) is not type(given):
        if hasattr(given, "_fields") and type(got) is tuple:
            expect.fail(f"{path}: the namedtuple {name} became a plain tuple", f"{name}(...)", got)
        expect.kind(got, type(given), f"a {name}", path)
        expect.fail(f"{path} is {expect.a_type(got)}, not a {name}", f"a {name}", got)
    if isinstance(given, Mapping) and list(got) != list(given):
        said = f"the keys of {path} came in another order"
        if set(got) != set(given):
            said = f"{path} has other keys than before"
        expect.fail(said, describe(list(given)), list(got))
    if len(got) != len(given):
        expect.fail(f"{path} has {len(got)} items, not {len(given)}", describe(given), got)


def _items(value: Mapping | list | tuple) -> dict[str, object]:
    """Return what a container holds, by the step that leads to it."""
    if fields := getattr(value, "_fields", ()):
        return {f".{field}": item for field, item in zip(fields, value, strict=True)}
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
    return {f"[{key!r}]": item for key, item in pairs}


def _expect_move(trial, batch: object) -> None:
    _expect_moved(at_once(trial, batch, trial.device), batch, trial.device, "batch")


def _tensors(trial, source: torch.device, seed: int) -> list[torch.Tensor]:
    """Return tensors of many kinds, on the device `source`."""
    numbers = trial.randn(4, 3, seed=seed, on=source)
    # float32 on the way would lose digits of these.
    labels = (5 * trial.randn(4, seed=seed + 1, on=source)).long() + 2**24 + 1
    return [numbers, labels, numbers[:, ::2].t(), numbers.half(), numbers > 0, numbers[1, 2], numbers[:0]]


@move.row("every tensor reaches the device, at any depth")
def reaches_the_device(trial):
    for source, seed in zip(trial.others, trial.seeds, strict=False):
        keep_busy(source)
        x, y, view, half, mask, scalar, empty = _tensors(trial, source, seed)
        for batch in (x, [x, y], (x, y), {"x": x, "y": y}) if seed == trial.seeds[0] else (y,):
            _expect_move(trial, batch)
        _expect_move(trial, {"x": [x, (view, {"half": half})], "more": {"deep": {"mask": mask}}, "y": y})
        _expect_move(trial, [[[scalar]], (empty, [y]), {"": {0: x}}])
        _expect_move(trial, [torch.nn.Parameter(x), x.clone().requires_grad_()])
    trial.second()


@move.row("containers keep their type, order and names")
def containers_stay(trial):
    x, y, view, half, *_ = _tensors(trial, (trial.device, *trial.others)[-1], trial.seeds[0])
    for batch in (
        Pair(x, y),
        Single(x),
        {"pair": Pair(Single(view), [half]), "also": (Pair(x, None),)},
        {"z": x, "a": y, 3: half, ("k", 1): view, "m": x},
        {"list": [], "dict": {}, "tuple": (), "x": [x]},
    ):
        _expect_move(trial, batch)


@move.row("other values come back as they are")
def other_values(trial):
    x, y, *_ = _tensors(trial, (*trial.others, trial.device)[0], trial.seeds[1])
    array, thing = numpy.arange(3.0), object()
    plain = {"x": x, "name": "a text", "empty": "", "n": 7, "rate": 0.5, "flag": True, "no": None}
    listed = [x, array, thing, b"bytes", {"a", "b"}, range(3), (y, "two")]
    holding = [Sample(x), SimpleNamespace(x=x), [0.5, 1.5], (2, 3)]
    for batch in (plain, listed, {"x": x, "words": Words()}, holding, "text", None, 3):
        _expect_move(trial, batch)


@move.row("what is there already is not copied")
def not_copied(trial):
    here = _tensors(trial, trial.device, trial.seeds[0])
    _expect_move(trial, {"x": here[0], "rest": here[1:], "none": None})
    elsewhere = [_tensors(trial, other, trial.seeds[1])[:2] for other in trial.others]
    batch = {"here": here[:2], "elsewhere": elsewhere, "pair": (here[2], "text")}
    got, log = trial.watched(batch, trial.device)
    _expect_moved(got, batch, trial.device, "batch")
    copies, there, needed = log.events.transfers, str(trial.device), 2 * len(elsewhere)
    headline = f"a tensor went to {{one.target}}, and should have gone straight to {there}"
    asked, way = f"one transfer each, straight to {there}", "{one.source} → {one.target}"
    counts([copy for copy in copies if copy.target != there], 0, headline, asked, way)
    headline = f"{{times}} for {times(needed, 'tensor')} that had to move"
    asked = f"one transfer each: {needed}"
    counts(copies, needed, headline, asked, f"{{count}}, such as {way}", least=needed)
    trial.second()
