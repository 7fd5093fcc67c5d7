"""What known mistakes are seen to do: a table for each exercise, and the look-up in it.

The table is JSON beside the exercise's file. `make notebooks` makes it from the bank's wrong answers, none of
whose code it holds: `{"words": [...], "rows": {label: {place: {"ours": print, "known": [entry, ...]}}}}`. A
place is what was seen and how often that came before, `"the result#2"`. A print is a value in short. An entry
is the number of a mistake's words, the print of what the mistake shows there, and the prints of what it shows
later, by which two mistakes are told apart that look alike at first.
"""

import functools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from devlab.checks.expect import Mismatch, is_alike
from devlab.checks.seen import Seen
from devlab.checks.values import on_cpu

if TYPE_CHECKING:
    from devlab.checks.trial import Trial

FEW = 6  # elements of a large tensor that a print keeps where it is furthest off, and as many spread over it
LATER = 24  # things seen after the first that differs, by which two mistakes are told apart
# What another device may round differently, relative and absolute; of a mistake also a share of its distance.
NOISE = {torch.float16: (4e-3, 1e-4), torch.bfloat16: (3.2e-2, 1e-3), torch.float64: (1e-9, 1e-9)}
PLAIN_NOISE = (2e-5, 2e-6)
SHARE = 0.02


@functools.cache
def read(path: Path) -> dict:
    """Return the table in a file, an empty one where there is no file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"words": [], "rows": {}}


def find_words(
    table: dict, label: str, seen: Sequence[Seen], ours: Sequence[Seen], later: Sequence, trial: "Trial"
) -> str:
    """Return the words for the mistake that shows what `seen` shows last of all.

    They are "" where no known mistake does so, or where several do and nothing in `later`, which goes on with
    the learner's scenes, tells which.
    """
    here = table["rows"].get(label, {}).get(name_place(seen, trial))
    if not here or len(seen) > len(ours):
        return ""
    mine, theirs = seen[-1], ours[len(seen) - 1]
    right = theirs.value if mine.right is None else mine.right
    if not matches(right, here["ours"], theirs, trial, right=0.0):
        return ""  # the inputs are others than when the table was made
    found: list = []
    for known in (None, right):  # as closely as can be, then as another device may round the mistake
        found = found or [e for e in here["known"] if matches(mine.value, e[1], mine, trial, right=known)]
    if len({entry[0] for entry in found}) > 1:
        found = follow(found, later, trial)
    words = {entry[0] for entry in found}
    return fill_devices(table["words"][words.pop()], trial) if len(words) == 1 else ""


def follow(entries: list, later: Sequence[Iterator], trial: "Trial") -> list:
    """Return the entries that still show what the learner's scenes show later, until one mistake is left."""

    def shows(kept: list, number: int, thing: Seen | str | None) -> bool:
        if number >= len(kept):  # the table goes no further: this mistake was told from all others before
            return True
        there = kept[number]
        is_print = isinstance(there, list) and not isinstance(thing, str | None)
        return matches(thing.value, there, thing, trial) if is_print else thing == there

    for number, thing in zip(range(LATER), see_on(*later), strict=False):
        left = [entry for entry in entries if shows(entry[2], number, thing)]
        entries = left or entries
        if not left or len({entry[0] for entry in left}) == 1:
            break
    return entries


def see_on(*scenes: Iterator) -> Iterator[Seen | str | None]:
    """Yield what scenes see, in words where it is a finding or an exception, and None when all have ended."""
    for scene in scenes:
        try:
            for thing in scene:
                if not (thing.must and thing.value):
                    yield thing.what if thing.must else thing
        except Exception as error:
            ended = type(getattr(error, "error", error)).__name__
            yield error.headline if isinstance(error, Mismatch) else ended
    yield None


def name_place(seen: Sequence[Seen], trial: "Trial") -> str:
    """Return where the last thing seen stands: its name, and how often that came before."""
    last = seen[-1]
    return f"{strip_devices(last.what, trial)}#{sum(thing.what == last.what for thing in seen) - 1}"


def make_print(value: object, trial: "Trial", right: object = None, within: float | None = None) -> list:
    """Return a value in short; of a large tensor a few numbers, among them those furthest from `right`.

    >>> make_print(2.5, None), make_print([torch.float32], None)
    (['value', 'float', 2.5], ['value', 'list', ['torch.float32']])
    """
    if not isinstance(value, torch.Tensor):
        return ["value", type(value).__name__, write_plainly(value)]
    form = [str(value.dtype)[6:], list(value.shape), name_home(value.device, trial)]
    if not is_readable(value):
        return ["tensor", *form, None, [], 0]
    if is_readable(right) and not is_alike(value, right, within):
        form[0] = form[2] = None  # the numbers tell the mistake, whatever dtype and device they came in
    flat, digits = flatten(value), 17 if value.dtype in (torch.float64, torch.complex128) else 7
    places = set(range(len(flat)))
    if len(flat) > 2 * FEW:
        places = {round(step * (len(flat) - 1) / (FEW - 1)) for step in range(FEW)}
        if is_readable(right) and right.shape == value.shape and len(flatten(right)) == len(flat):
            off = (flat - flatten(right)).abs().nan_to_num(nan=float("inf"))
            places |= set(off.topk(FEW).indices.tolist())
    numbers = [shorten_number(flat[place].item(), digits) for place in sorted(places)]
    return ["tensor", *form, numbers, sorted(places), int(flat.isnan().sum())]


def matches(value: object, kept: list, thing: Seen, trial: "Trial", right: object = None) -> bool:
    """Tell whether a value is the one of a print, as closely as it is judged and as devices agree.

    With `right` the value may also be off by a share of the print's distance from the right value; a `right`
    of 0.0 allows that share of the print itself.
    """
    kind, dtype, shape, *rest = kept
    if kind == "value":
        if isinstance(value, torch.Tensor) or type(value).__name__ != dtype:
            return False
        if not (isinstance(value, float) and isinstance(shape, float)):
            return write_plainly(value) == shape
        loose = max(thing.within or 0, 0.02 if thing.most is not None else 1e-5) * max(1, abs(shape))
        return abs(value - shape) <= loose + (SHARE * abs(shape - right) if isinstance(right, float) else 0)
    where, numbers, places, nans = rest
    if not isinstance(value, torch.Tensor) or list(value.shape) != shape:
        return False
    if dtype and [str(value.dtype)[6:], name_home(value.device, trial)] != [dtype, where]:
        return False
    if numbers is None or not is_readable(value):
        return numbers is None and not is_readable(value)
    flat = flatten(value)
    if len(flat) <= max(places, default=-1) or int(flat.isnan().sum()) != nans:
        return False
    found, other = flat[places], torch.tensor([float(number) for number in numbers], dtype=torch.float64)
    if not (value.is_floating_point() or value.is_complex()):
        return [shorten_number(number) for number in found.tolist()] == numbers
    relative, absolute = NOISE.get(value.dtype, PLAIN_NOISE)
    theirs = torch.zeros_like(other) if isinstance(right, float) else None
    if is_readable(right) and right.shape == value.shape and len(flatten(right)) == len(flat):
        theirs = flatten(right)[places]
    off = torch.zeros_like(other) if theirs is None else (other - theirs).abs()
    loose = (relative * other.abs() + SHARE * off).nan_to_num(0, 0, 0) + max(absolute, thing.within or 0)
    near = ((found - other).abs() <= loose) | (found == other) | (found.isnan() & other.isnan())
    return bool(near.all())


def is_readable(value: object) -> bool:
    """Tell whether a value is a tensor whose numbers lie in memory."""
    return isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_meta


def flatten(value: torch.Tensor) -> torch.Tensor:
    """Return a tensor's elements in a row on the CPU, as float64, or whole numbers as they are."""
    flat = on_cpu(value.detach()).reshape(-1)
    if flat.is_complex():
        flat = torch.view_as_real(flat.resolve_conj()).reshape(-1)
    return flat.double() if flat.is_floating_point() else flat.long() if flat.dtype is torch.bool else flat


def shorten_number(number: float, digits: int = 9) -> float | int | str:
    """Return a number with few digits; JSON has no word for inf and nan, which become text."""
    if isinstance(number, bool | int):
        return int(number)
    return float(f"{number:.{digits}g}") if abs(number) < float("inf") else str(number)


def name_home(device: torch.device, trial: "Trial") -> str:
    """Return where a tensor is, in words that hold on every machine."""
    elsewhere = device.type if device.type in ("cpu", "meta") else "elsewhere"
    return "here" if device == trial.device else elsewhere


def write_plainly(value: object) -> object:
    """Return a plain value as JSON can hold it; of any other value only the name of its type."""
    if isinstance(value, tuple | list):
        return [write_plainly(item) for item in value]
    if isinstance(value, bool | int | str | float | None):
        return shorten_number(value) if isinstance(value, float) else value
    return str(value) if isinstance(value, torch.device | torch.dtype) else type(value).__name__


def name_devices(trial: "Trial") -> dict[str, str]:
    """Return what stands in a table, as in a bank of answers, for the names of the trial's accelerators."""
    found = [str(one) for one in (trial.device, *trial.others) if one.type != "cpu"]
    return dict(zip(("{device}", "{second}"), found, strict=False))


def strip_devices(words: str, trial: "Trial") -> str:
    """Return words without the names of the trial's accelerators, which `fill_devices` puts in again."""
    for placeholder, name in name_devices(trial).items():
        words = words.replace(name, placeholder)
    return words


def fill_devices(words: str, trial: "Trial") -> str:
    """Return words with the names of the trial's accelerators in them, "" where there are too few."""
    for placeholder, name in name_devices(trial).items():
        words = words.replace(placeholder, name).replace("{kind}", name.partition(":")[0])
    return "" if "{device}" in words or "{second}" in words else words
