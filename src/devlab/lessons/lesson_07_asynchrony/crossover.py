"""Which is faster: the size from which the accelerator pays for its transfers."""

import contextlib
from collections.abc import Callable

from devlab.checks import expect, verbs
from devlab.checks.calls import AnswerRaised
from devlab.lessons.lesson_07_asynchrony import lesson

crossover = lesson.exercise(
    "crossover",
    signature="crossover(sizes, cpu_times, device_times, transfer_times)",
    facts=("V1", "V2", "V4", "V5"),
    hints=(
        "What does a result from the device cost in all, and what does it have to beat?",
        "Go through the four lists together, in order, with `zip`. An equal time beats nothing.",
        "Return the first size where `device + transfer < cpu`; after the loop, `return None`.",
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
    (SIZES, [9.0, 9.0, 9.0, 80.0], [3.0] * 4, [1.0] * 4),
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
}


def _mistake(trial) -> str:
    """Return what is wrong with an answer that makes one mistake and gives its results in every table."""
    with verbs.aside(trial), contextlib.suppress(AnswerRaised):
        got = [trial.call(*table) for table in TABLES]
        found = [words for words, answer in MISTAKES.items() if [answer(*table) for table in TABLES] == got]
        return found[0] if len(found) == 1 else ""
    return ""


def _judge(trial, sizes, cpu, device, transfer, wanted, headline):
    got = trial.call(sizes, cpu, device, transfer)
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
    _judge(trial, *TABLES[2], 30, "not the first size at which the device wins, with its transfer")


@crossover.row("an equal time is no win")
def ties(trial):
    _judge(trial, *TABLES[3], 20, "at size 10 the two take equally long, and at 20 the device is faster")
    _judge(trial, [10, 20], [4.0, 8.0], [3.0, 3.0], [0.999, 1.0], 10, "a narrow win is a win, too")


@crossover.row("None where the CPU always wins")
def never(trial):
    _judge(trial, *TABLES[4], None, "the device never wins here")
    _judge(trial, [], [], [], [], None, "there is no size to return")
