"""A batch of any shape: every tensor in it moves, and nothing else changes."""

import dataclasses
from collections import namedtuple
from collections.abc import Mapping
from types import SimpleNamespace

import numpy
import torch

from devlab.checks import expect
from devlab.checks.calls import leaves
from devlab.checks.describe import describe
from devlab.lessons.lesson_04_transfers import lesson, sources, times

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
    """An object that is no tensor and has a `.to` of its own, which makes another one."""

    def to(self, *args: object, **kwargs: object) -> "Words":
        """Return another object."""
        return Words()


def _expect_moved(got: object, given: object, wanted: object, device: torch.device, path: str) -> None:
    """Expect `got` to be the tree `given`, its tensors on the device with the values of `wanted`."""
    if isinstance(given, torch.Tensor):
        expect.kind(got, torch.Tensor, "a tensor", path)
        if got.device != device:
            words = "stayed on" if got.device == given.device else "went to"
            expect.fail(f"{path} {words} {got.device}", f"{path} on {device}", f"{path} on {got.device}")
        if given.device == device and got.data_ptr() != given.data_ptr():
            expect.fail(f"{path} was there already, and was copied", "the tensor itself", "a copy of it")
        expect.tensor(got, wanted, device, path)
    elif isinstance(given, Mapping | list | tuple):
        _expect_container(got, given, wanted, device, path)
    elif isinstance(given, Words) and got is not given:
        headline = f"{path} is no tensor, and yet its own `.to` was called"
        expect.fail(headline, "any other object as it is, the same object", got)
    elif got is not given:
        if describe(got) == describe(given):
            expect.fail(
                f"{path}, which is no tensor, was copied", "the object itself", f"a copy, {describe(got)}"
            )
        expect.fail(f"{path}, which is no tensor, came back changed", describe(given), got)


def _expect_container(got: object, given: object, wanted: object, device: torch.device, path: str) -> None:
    name = type(given).__name__
    if type(got) is not type(given):
        if hasattr(given, "_fields") and type(got) is tuple:
            expect.fail(f"{path}: the namedtuple {name} became a plain tuple", f"{name}(...)", got)
        expect.kind(got, type(given), f"a {name}", path)
        expect.fail(f"{path} is {expect.a_type(got)}, not a {name}", f"a {name}", got)
    if isinstance(given, Mapping):
        if set(got) != set(given):
            expect.fail(f"{path} has other keys than before", describe(list(given)), list(got))
        if list(got) != list(given):
            expect.fail(f"the keys of {path} came in another order", describe(list(given)), list(got))
        for key, value in given.items():
            _expect_moved(got[key], value, wanted[key], device, f"{path}[{key!r}]")
        return
    if len(got) != len(given):
        expect.fail(f"{path} has {len(got)} items, not {len(given)}", describe(given), got)
    fields = [f".{field}" for field in getattr(given, "_fields", ())]
    fields = fields or [f"[{place}]" for place in range(len(given))]
    for field, *items in zip(fields, got, given, wanted, strict=True):
        _expect_moved(*items, device, path + field)


def _copied(value: object) -> object:
    """Return the tree with its tensors cloned on the CPU: what the values are, whatever the answer does."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(item) for item in value]
    return value


def _expect_move(trial, batch: object) -> None:
    wanted, asked = _copied(batch), (batch, trial.device)
    before = trial.snapshot(*asked)
    got = trial.call(*asked, changes=True)
    # Looked at before anything of ours waits for a device, as whoever uses the batch would look.
    tensors = [(path, leaf) for path, leaf in leaves(got) if isinstance(leaf, torch.Tensor) and leaf.is_cpu]
    seen = [(path, tensor, tensor.detach().clone()) for path, tensor in tensors]
    before.require_untouched(asked)
    _expect_moved(got, batch, wanted, trial.device, "batch")
    for path, now, then in seen:
        if not torch.equal(now, then):
            words = f"batch{path} was returned before the copy had arrived"
            expect.fail(words, "the values at once", "what that memory held before: the values came later")


def _tensors(trial, source: torch.device, seed: int) -> list[torch.Tensor]:
    """Return tensors of many kinds, on the device `source`."""
    numbers = trial.randn(4, 3, seed=seed, on=source)
    labels = (5 * trial.randn(4, seed=seed + 1, on=source)).long()
    return [numbers, labels, numbers[:, ::2].t(), numbers.half(), numbers > 0, numbers[1, 2], numbers[:0]]


@move.row("every tensor reaches the device, at any depth")
def reaches_the_device(trial):
    for source, seed in zip(sources(trial), trial.seeds, strict=False):
        x, y, view, half, mask, scalar, empty = _tensors(trial, source, seed)
        for batch in (x, [x, y], (x, y), {"x": x, "y": y}) if seed == trial.seeds[0] else (y,):
            _expect_move(trial, batch)
        _expect_move(trial, {"x": [x, (view, {"half": half})], "more": {"deep": {"mask": mask}}, "y": y})
        _expect_move(trial, [[[scalar]], (empty, [y]), {"": {0: x}}])
        _expect_move(trial, [torch.nn.Parameter(x), x.clone().requires_grad_()])


@move.row("containers keep their type, order and names")
def containers_stay(trial):
    x, y, view, half, *_ = _tensors(trial, sources(trial)[-1], trial.seeds[0])
    _expect_move(trial, Pair(x, y))
    _expect_move(trial, Single(x))
    _expect_move(trial, {"pair": Pair(Single(view), [half]), "also": (Pair(x, None),)})
    _expect_move(trial, {"z": x, "a": y, 3: half, ("k", 1): view, "m": x})
    _expect_move(trial, {"list": [], "dict": {}, "tuple": (), "x": [x]})


@move.row("other values come back as they are")
def other_values(trial):
    x, y, *_ = _tensors(trial, sources(trial)[0], trial.seeds[1])
    array, thing = numpy.arange(3.0), object()
    _expect_move(
        trial, {"x": x, "name": "a text", "empty": "", "n": 7, "rate": 0.5, "flag": True, "no": None}
    )
    _expect_move(trial, [x, array, thing, b"bytes", {"a", "b"}, range(3), (y, "two")])
    _expect_move(trial, {"x": x, "words": Words()})
    _expect_move(trial, [Sample(x), SimpleNamespace(x=x), [0.5, 1.5], (2, 3)])
    for value in ("text", None, 3):
        _expect_move(trial, value)


@move.row("what is there already is not copied")
def not_copied(trial):
    here = _tensors(trial, trial.device, trial.seeds[0])
    _expect_move(trial, {"x": here[0], "rest": here[1:], "none": None})
    elsewhere = [_tensors(trial, other, trial.seeds[1])[:2] for other in trial.others]
    batch = {"here": here[:2], "elsewhere": elsewhere, "pair": (here[2], "text")}
    wanted = _copied(batch)
    got, log = trial.watched(batch, trial.device)
    _expect_moved(got, batch, wanted, trial.device, "batch")
    needed = 2 * len(elsewhere)
    for one in log.events.transfers:
        if one.target != str(trial.device):
            way = f"{one.source} → {one.target}"
            headline = f"a tensor went to {one.target}, and it was to go to {trial.device} alone"
            expect.fail(headline, f"one transfer each, straight to {trial.device}", way)
    if log.transfers != needed:
        expect.fail(
            f"{times(log.transfers, 'transfer')} for {times(needed, 'tensor')} that had to move",
            f"one transfer each: {needed}",
            f"{log.transfers}, such as {log.events.transfers[0].source} → {log.events.transfers[0].target}",
        )
