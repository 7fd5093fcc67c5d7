"""Which is faster: the size from which the accelerator pays for its transfers."""

import copy
from math import inf

from devlab.checks import expect
from devlab.checks.scenes import scene
from devlab.checks.seen import Seen
from devlab.lessons.lesson_07_asynchrony import lesson

crossover = lesson.exercise(
    "crossover(sizes, cpu_times, device_times, transfer_times)",
    ("V1", "V2", "V4", "V5"),
    "What does a result from the device cost in all, and which time does it have to beat?",
    "Go through the four sequences together, with `zip`, in the order in which they are given. That the "
    "device wins at one size says nothing about the next, and an equal time is no win.",
    "Return the first size for which `device + transfer < cpu`, and `None` after the loop. `math.inf` needs "
    "no care: no time is greater.",
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


WINS = "the first size at which the device wins, with its transfer"


def ours(sizes, cpu_times, device_times, transfer_times):
    rows = zip(sizes, cpu_times, device_times, transfer_times, strict=True)
    return next((size for size, cpu, device, transfer in rows if device + transfer < cpu), None)


def see_size(t, table, asked=WINS):
    """Yield the size that the answer gives for sizes and times, of which it gets copies that it may spoil."""
    got = t.call(*map(copy.copy, table))
    if got is not None:
        expect.kind(got, int, "an int or None")
    yield Seen("the size", str(got), asked=asked)


@scene(crossover, ours, "the first size where the device wins")
def first_size(t):
    yield from see_size(t, TABLES[0])
    yield from see_size(t, TABLES[-1], "the first size: the device wins from the start")
    yield from see_size(t, TABLES[1], "the first win counts, though a later size loses again")


@scene(crossover, ours, "the transfer counts")
def transfer_counts(t):
    yield from see_size(t, TABLES[2])
    # Each size has a transfer of its own, which need not grow with it.
    yield from see_size(t, ([10, 20, 30], [1.0, 6.0, 9.0], [3.0] * 3, [1.0, 7.0, 5.0]))
    yield from see_size(t, ([10, 20, 30], [6.0, 6.0, 6.0], [3.0] * 3, [9.0, 7.0, 1.0]))


@scene(crossover, ours, "an equal time is no win")
def ties(t):
    yield from see_size(t, TABLES[3], "at size 10 the two take equally long, and at 20 the device is faster")
    for gain in (2**-10, 2**-50):  # the second is the smallest that a float can hold here
        narrow = [10, 20], [4.0, 8.0], [3.0, 3.0], [1 - gain, 1.0]
        yield from see_size(t, narrow, "the size of a narrow win, which is a win, too")


@scene(crossover, ours, "None where the CPU always wins")
def never(t):
    yield from see_size(t, TABLES[4], "None: the device never wins here")
    yield from see_size(t, ([], [], [], []), "None: there is no size to return")
    for table in TABLES[5:-1]:  # each tells two mistakes apart
        yield from see_size(t, table)


@scene(crossover, ours, "measured in any order, some sizes did not fit")
def untidy(t):
    yield from see_size(t, UNTIDY[0], "sizes and times belong together, place by place")
    yield from see_size(t, tuple(map(tuple, UNTIDY[1])), "sizes and times belong together, place by place")
    yield from see_size(t, UNTIDY[2], "the device wins where its time is finite and the smaller one")
    yield from see_size(t, UNTIDY[3], "the device wins at a size that did not fit on the CPU")
    yield from see_size(t, UNTIDY[4], "None: at size 512 neither fits, so the device does not win")
