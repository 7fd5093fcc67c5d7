"""Which is faster: the size from which the accelerator pays for its transfers."""

import contextlib
import copy
from collections.abc import Callable
from math import inf

from devlab.checks import expect, verbs
from devlab.checks.calls import AnswerRaised
from devlab.lessons.lesson_07_asynchrony import lesson

crossover = lesson.exercise(
    "crossover",
    signature="crossover(sizes, cpu_times, device_times, transfer_times)",
    facts=("V1", "V2", "V4", "V5"),
    hints=(
        "What does a result from the device cost in all, and which time does it have to beat?",
        "Go through the four sequences together, with `zip`, in the order in which they are given. That the "
        "device wins at one size says nothing about the next, and an equal time is no win.",
        "Return the first size for which `device + transfer < cpu`, and `None` after the loop. `math.inf` "
        "needs no care: no time is greater.",
    ),
)


SIZES = [8, 64, 512, 4096]
# Sizes, times on the CPU, on the device and of the transfer; each mistake below shows in some of them.
TABLES = (
    (SIZES, [1.0, 2.0, 9.0, 80.0], [3.0, 3.0, 3.0, 4.0], [1.0, 1.0, 2.0, 6.0]),
    (SIZES, [1.0, 9.0, 2.0, 80.0], [3.0] * 4, [1.0] * 4),
    ([10, 20, 30], [4.0, 5.0, 9.0], [1.0, 1.0, 1.0], [5.0, 6.0, 7.0]),
    ([10, 20], [4.0, 8.0], [3.0, 3.0], [1.0, 1.0]),
    ([10, 20], [1.0, 2.0], [3.0, 3.0], [1.0, 1.0]),
    ([10, 20], [4.0, 9.0], [5.0, 1.0], [2.0, 1.0]),
    ([10, 20], [5.0, 9.0], [3.0, 1.0], [3.0, 1.0]),
    (SIZES, [1.0, 9.0, 9.0, 9.0], [5.0, 5.0, 1.0, 5.0], [1.0] * 4),
    (SIZES, [9.0, 2.0, 8.0, 2.0], [3.0] * 4, [1.0] * 4),
    (SIZES, [9.0, 9.0, 9.0, 80.0], [3.0] * 4, [1.0] * 4),
)
# Sizes in the order in which they were measured, and `inf` for what did not fit into memory. The first win
# in the list is at the smallest size that wins, as the task promises.
UNTIDY = (
    ([512, 8, 64, 4096], [2.0, 1.0, 9.0, 80.0], [3.0] * 4, [1.0] * 4),
    ([4096, 64, 512], [5.0, 9.0, 9.0], [6.0, 5.0, 1.0], [2.0, 1.0, 1.0]),
    ([64, 512, 4096], [9.0, 80.0, 900.0], [inf, inf, 3.0], [1.0, 1.0, 2.0]),
    ([64, 512, 4096], [1.0, 2.0, inf], [3.0, 3.0, 5.0], [1.0, 1.0, 1.0]),
    ([64, 512], [1.0, inf], [3.0, inf], [1.0, 1.0]),
)


def _first(wins: Callable) -> Callable:
    """Return the answer that gives the first size for which `wins(cpu, device, transfer)`."""

    def answer(sizes, *times):
        return next((size for size, *row in zip(sizes, *times, strict=True) if wins(*row)), None)

    return answer


def _one_win(chosen: Callable) -> Callable:
    """Return the answer that gives what `chosen` makes of the wins, if any: their gains, places and sizes."""

    def answer(sizes, cpu, device, transfer):
        gains = [one - other - third for one, other, third in zip(cpu, device, transfer, strict=True)]
        wins = [(gain, place, sizes[place]) for place, gain in enumerate(gains) if gain > 0]
        return chosen(wins) if wins else None

    return answer


def _by_halving(sizes, cpu, device, transfer):
    """Return what a binary search finds, which takes it that no win is lost again."""
    low, high = 0, len(sizes)
    while low < high:
        middle = (low + high) // 2
        if device[middle] + transfer[middle] < cpu[middle]:
            high = middle
        else:
            low = middle + 1
    return sizes[low] if low < len(sizes) else None


def _sorted_apart(sizes, *times):
    """Return the first win after the sizes alone were sorted."""
    return _first(lambda cpu, device, transfer: device + transfer < cpu)(sorted(sizes), *times)


def _without_the_unfit(sizes, *times):
    """Return the first win among the sizes all of whose times are finite."""
    return _first(lambda *row: inf not in row and row[1] + row[2] < row[0])(sizes, *times)


MISTAKES = {
    "the transfers were left out": _first(lambda cpu, device, transfer: device < cpu),
    "the transfers are on the CPU's side of the comparison: the device pays for them": _first(
        lambda cpu, device, transfer: device < cpu + transfer
    ),
    "the transfers were counted twice": _first(lambda cpu, device, transfer: device + 2 * transfer < cpu),
    "an equal time was taken for a win": _first(lambda cpu, device, transfer: device + transfer <= cpu),
    "the comparison is the wrong way round: it finds where the CPU wins": _first(
        lambda cpu, device, transfer: cpu < device + transfer
    ),
    "the device's times were compared as if they were the CPU's": _first(
        lambda cpu, device, transfer: cpu + transfer < device
    ),
    "device and transfer were each compared with the CPU by itself: their sum counts": _first(
        lambda cpu, device, transfer: device < cpu and transfer < cpu
    ),
    "that is the place in the list, and the size that stands there is asked": _one_win(lambda w: w[0][1]),
    "that is the last size at which the device wins, and the first is asked": _one_win(lambda w: w[-1][2]),
    "that is where the device gains most, and the first win is asked": _one_win(
        lambda wins: max(wins, key=lambda win: win[0])[2]
    ),
    "only the first size was looked at: `return None` belongs after the loop": _one_win(
        lambda wins: None if wins[0][1] else wins[0][2]
    ),
    "the list was halved again and again, which misses a win that is lost at a later size": _by_halving,
    "the sizes were sorted, and their times stayed in the order in which they were": _sorted_apart,
    "a size that did not fit on the CPU was left out, and there the device wins": _without_the_unfit,
}


def _mistake(trial) -> str:
    """Return what is wrong with an answer that makes one mistake and gives its results in every table."""
    with verbs.aside(trial), contextlib.suppress(AnswerRaised):
        tables = TABLES + UNTIDY
        got = [trial.call(*map(copy.copy, table)) for table in tables]
        found = [words for words, answer in MISTAKES.items() if [answer(*table) for table in tables] == got]
        return found[0] if len(found) == 1 else ""
    return ""


def _judge(trial, sizes, cpu, device, transfer, wanted, headline):
    got = trial.call(*map(copy.copy, (sizes, cpu, device, transfer)))  # copies, which an answer may spoil
    if got is not None:
        expect.kind(got, int, "an int or None")
    if got != wanted:
        missed = f"None, though the device wins at size {wanted}" if got is None else headline
        expect.fail(_mistake(trial) or missed, f"{wanted}", f"{got}")


@crossover.row("the first size where the device wins")
def first_size(trial):
    _judge(trial, *TABLES[0], 512, "not the first size at which the device wins")
    _judge(trial, *TABLES[-1], 8, "the device wins from the start")
    _judge(trial, *TABLES[1], 64, "the first win counts, though a later size loses again")


@crossover.row("the transfer counts")
def transfer_counts(trial):
    headline = "not the first size at which the device wins, with its transfer"
    _judge(trial, *TABLES[2], 30, headline)
    # Each size has a transfer of its own, which need not grow with it.
    _judge(trial, [10, 20, 30], [1.0, 6.0, 9.0], [3.0] * 3, [1.0, 7.0, 5.0], 30, headline)
    _judge(trial, [10, 20, 30], [6.0, 6.0, 6.0], [3.0] * 3, [9.0, 7.0, 1.0], 30, headline)


@crossover.row("an equal time is no win")
def ties(trial):
    _judge(trial, *TABLES[3], 20, "at size 10 the two take equally long, and at 20 the device is faster")
    for gain in (2**-10, 2**-50):  # the second is the smallest that a float can hold here
        _judge(trial, [10, 20], [4.0, 8.0], [3.0, 3.0], [1 - gain, 1.0], 10, "a narrow win is a win, too")


@crossover.row("None where the CPU always wins")
def never(trial):
    _judge(trial, *TABLES[4], None, "the device never wins here")
    _judge(trial, [], [], [], [], None, "there is no size to return")


@crossover.row("measured in any order, some sizes did not fit")
def untidy(trial):
    headline = "not the first size at which the device wins: sizes and times belong together, place by place"
    _judge(trial, *UNTIDY[0], 64, headline)
    _judge(trial, *map(tuple, UNTIDY[1]), 64, headline)
    _judge(trial, *UNTIDY[2], 4096, "the device wins where its time is finite and the smaller one")
    _judge(trial, *UNTIDY[3], 4096, "the device wins at a size that did not fit on the CPU")
    _judge(trial, *UNTIDY[4], None, "at size 512 neither fits, so the device does not win")
