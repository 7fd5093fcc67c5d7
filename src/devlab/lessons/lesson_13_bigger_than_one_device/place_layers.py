"""Layers placed one after the other by the devices' budgets."""

import contextlib
import itertools
import re
from collections.abc import Callable, Sequence

from devlab.checks import expect, verbs
from devlab.lessons.lesson_13_bigger_than_one_device import lesson

place_layers = lesson.exercise(
    "place_layers",
    signature="place_layers(sizes, budgets)",
    facts=("Q3",),
    hints=(
        "Keep two things while you walk through the layers: the number of the current device, and how much "
        "room it has left. When does the number change, and can it change more than once for one layer?",
        "`while device < len(budgets) and size > left:` go on to the next device, and `left` is then the "
        "whole budget of that device.",
        'Where that loop ends with `device == len(budgets)`, `raise ValueError(f"layer {number} ...")`. '
        "Otherwise append `device` to the answer, and take `size` from `left`.",
    ),
)

Sizes = Sequence[int]


def _place(sizes: Sizes, budgets: Sizes) -> list[int] | int:
    """Return the placement, or the number of the layer that does not fit.

    Another road than most answers take: each device in turn takes as many layers as it holds.
    """
    found: list[int] = []
    for device, budget in enumerate(budgets):
        taken = 0
        while len(found) < len(sizes) and (taken := taken + sizes[len(found)]) <= budget:
            found.append(device)
    return found if len(found) == len(sizes) else len(found)


def _place_strictly(sizes: Sizes, budgets: Sizes) -> list[int] | int:
    return _place([2 * size + (size > 0) for size in sizes], [2 * budget for budget in budgets])


def _place_each_alone(sizes: Sizes, budgets: Sizes) -> list[int]:
    device, found = 0, []
    for size in sizes:
        while size > budgets[device]:
            device += 1
        found.append(device)
    return found


# Those that do not look at the sizes come first, for they may agree with others by chance.
SLIPS: dict[str, Callable[[Sizes, Sizes], object]] = {
    "every layer is placed on device 0": lambda sizes, budgets: [0] * len(sizes),
    "the layers are shared out by their number, and not by their sizes": lambda sizes, budgets: [
        number * len(budgets) // len(sizes) for number in range(len(sizes))
    ],
    "the layers are dealt out in turn, and not by their sizes": lambda sizes, budgets: [
        number % len(budgets) for number in range(len(sizes))
    ],
    "devices are counted from 1, and the first one is number 0": lambda sizes, budgets: [
        device + 1 for device in _place(sizes, budgets)
    ],
    "a layer that fills a device to the last byte fits, and was sent on": _place_strictly,
    "each layer is compared with the whole budget, and not with what is left of it": _place_each_alone,
}


def _expect(trial, sizes: list[int], budgets: list[int]) -> None:
    got, wanted = trial.call(sizes, budgets), _place(sizes, budgets)
    expect.kind(got, list, "a list", "the answer")
    for item in got:
        expect.kind(item, int, "an int", "an item of the list")
    if got == wanted:
        return
    asked = f"{wanted} for sizes {sizes} and budgets {budgets}"
    if len(got) != len(sizes):
        expect.fail(f"{verbs.times(len(got), 'place')} for {verbs.times(len(sizes), 'layer')}", asked, got)
    for words, slip in SLIPS.items():
        with contextlib.suppress(IndexError):  # the slip finds no place for a layer
            if got == slip(sizes, budgets):
                expect.fail(words, asked, got)
    if [later for layer, later in itertools.pairwise(got) if later < layer]:
        expect.fail("a later layer goes back to an earlier device: x would cross there and back", asked, got)
    for device, budget in enumerate(budgets):
        held = sum(size for size, at in zip(sizes, got, strict=True) if at == device)
        if held > budget:
            expect.fail(f"device {device} is given {held}, and its budget is {budget}", asked, got)
    expect.fail("the layers are placed in another way", asked, got)


@place_layers.row("each device is filled before the next one")
def filled_in_order(trial):
    first = trial.seeds[0]
    _expect(trial, [30 + first, 20, 40, 10, 70 + first], [60 + first, 55, 100 + first])
    _expect(trial, [5, 5, 5, 5, 5, 5], [13, 8, 20])
    _expect(trial, [7 + first], [9 + first, 40])
    _expect(trial, [], [10])


@place_layers.row("a layer that fills the rest exactly still fits")
def to_the_last_byte(trial):
    second = trial.seeds[1]
    _expect(trial, [10, 20 + second, 15, 15], [30 + second, 30])
    # A layer without parameters takes no bytes, and so it fits a full device.
    _expect(trial, [30 + second, 0, 20, 20, 0], [30 + second, 40, 9])


@place_layers.row("a device that is too small is passed over")
def passed_over(trial):
    _expect(trial, [10, 40, 10, 10, 5], [30, 5, 0, 75])
    _expect(trial, [10, 50, 10, 15], [35, 60, 40])
    _expect(trial, [50, 10], [20, 60])


@place_layers.row("a ValueError names the layer that does not fit")
def names_the_layer(trial):
    cases = [([10, 90, 10, 10], [40, 60])]  # a layer is larger than all
    cases += [([30, 30, 30, 20, 20], [60, 30, 20])]  # no device is left
    cases += [([5, 50, 40], [48, 60])]  # only an earlier device has room
    cases += [([30, 20, 90], [40]), ([11], [])]  # the first of two that do not fit; no device at all
    for sizes, budgets in cases:
        number = _place(sizes, budgets)
        missing = f"the error does not name layer {number}, counted from 0"
        verbs.raises(
            trial,
            sizes,
            budgets,
            kind=ValueError,
            asked=f"a ValueError that names layer {number}, for sizes {sizes} and budgets {budgets}",
            nothing=f"layer {number} has no place, and nothing was raised",
            says={missing: re.compile(rf"(?<![\d.]){number}(?![\d.]*\d)").search},
        )
    _expect(trial, [], [])  # no layer, and so none without a place
