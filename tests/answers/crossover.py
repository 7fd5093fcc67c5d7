"""Answers to crossover."""

from bank import right, wrong


@right
def loop(sizes, cpu_times, device_times, transfer_times):
    for size, cpu, device, transfer in zip(sizes, cpu_times, device_times, transfer_times, strict=True):
        if device + transfer < cpu:
            return size
    return None


@right
def by_next(sizes, cpu_times, device_times, transfer_times):
    rows = zip(sizes, cpu_times, device_times, transfer_times, strict=True)
    return next((s for s, c, d, t in rows if c > d + t), None)


@right
def by_index(sizes, cpu_times, device_times, transfer_times):
    for i in range(len(sizes)):
        if cpu_times[i] - device_times[i] - transfer_times[i] > 0:
            return sizes[i]
    return None


@right
def by_list(sizes, cpu_times, device_times, transfer_times):
    wins = [s for s, c, d, t in zip(sizes, cpu_times, device_times, transfer_times, strict=True) if d + t < c]
    return wins[0] if wins else None


@wrong("the transfers were left out", row="the transfer counts")
def no_transfer(sizes, cpu_times, device_times, transfer_times):
    return next((s for s, c, d in zip(sizes, cpu_times, device_times, strict=True) if d < c), None)


@wrong("an equal time was taken for a win", row="an equal time is no win")
def or_equal(sizes, cpu_times, device_times, transfer_times):
    rows = zip(sizes, cpu_times, device_times, transfer_times, strict=True)
    return next((s for s, c, d, t in rows if d + t <= c), None)


@wrong(
    "that is the last size at which the device wins, and the first is asked",
    row="the first size where the device wins",
)
def last(sizes, cpu_times, device_times, transfer_times):
    rows = zip(sizes, cpu_times, device_times, transfer_times, strict=True)
    wins = [s for s, c, d, t in rows if d + t < c]
    return wins[-1] if wins else None


@wrong("None, though the device wins at size 512", row="the first size where the device wins")
def nothing(sizes, cpu_times, device_times, transfer_times):
    return None


@wrong(
    "that is the place in the list, and the size that stands there is asked",
    row="the first size where the device wins",
)
def index(sizes, cpu_times, device_times, transfer_times):
    rows = enumerate(zip(cpu_times, device_times, transfer_times, strict=True))
    return next((i for i, (c, d, t) in rows if d + t < c), None)


@wrong("the device never wins here", row="None where the CPU always wins")
def the_largest_at_least(sizes, cpu_times, device_times, transfer_times):
    rows = zip(sizes, cpu_times, device_times, transfer_times, strict=True)
    return next((s for s, c, d, t in rows if d + t < c), sizes[-1] if sizes else None)


@wrong(
    "not the first size at which the device wins, with its transfer",
    row="the first size where the device wins",
)
def transfers_both_ways(sizes, cpu_times, device_times, transfer_times):
    rows = zip(sizes, cpu_times, device_times, transfer_times, strict=True)
    return next((s for s, c, d, t in rows if d + 3 * t < c), None)


@wrong("the first win counts, though a later size loses again", row="the first size where the device wins")
def wins_ever_after(sizes, cpu_times, device_times, transfer_times):
    found = None
    for s, c, d, t in zip(sizes, cpu_times, device_times, transfer_times, strict=True):
        found = (found if found is not None else s) if d + t < c else None
    return found


@wrong("a narrow win is a win, too", row="an equal time is no win")
def by_a_clear_margin(sizes, cpu_times, device_times, transfer_times):
    for size, cpu, there, transfer in zip(sizes, cpu_times, device_times, transfer_times, strict=True):
        if there + transfer < 0.99 * cpu:
            return size
    return None


@wrong("a narrow win is a win, too", row="an equal time is no win")
def rounded_times(sizes, cpu_times, device_times, transfer_times):
    for size, cpu, there, transfer in zip(sizes, cpu_times, device_times, transfer_times, strict=True):
        if round(there + transfer, 1) < round(cpu, 1):
            return size
    return None


@wrong(
    "the transfers are on the CPU's side of the comparison: the device pays for them",
    row="the transfer counts",
)
def transfer_to_the_cpu(sizes, cpu_times, device_times, transfer_times):
    for s, c, d, t in zip(sizes, cpu_times, device_times, transfer_times, strict=False):
        if d < c + t:
            return s
    return None


@wrong(
    "only the first size was looked at: `return None` belongs after the loop",
    row="the first size where the device wins",
)
def gives_up_at_once(sizes, cpu_times, device_times, transfer_times):
    for s, c, d, t in zip(sizes, cpu_times, device_times, transfer_times, strict=False):
        if d + t < c:
            return s
        return None
    return None


@wrong(
    "the comparison is the wrong way round: it finds where the CPU wins",
    row="the first size where the device wins",
)
def cpu_wins(sizes, cpu_times, device_times, transfer_times):
    for i in range(len(sizes)):
        if cpu_times[i] < device_times[i] + transfer_times[i]:
            return sizes[i]
    return None


@wrong(
    "that is where the device gains most, and the first win is asked",
    row="the first size where the device wins",
)
def the_largest_gain(sizes, cpu_times, device_times, transfer_times):
    best = [
        (c - d - t, s) for s, c, d, t in zip(sizes, cpu_times, device_times, transfer_times, strict=False)
    ]
    return max(best)[1] if best and max(best)[0] > 0 else None


@wrong(
    "device and transfer were each compared with the CPU by itself: their sum counts",
    row="an equal time is no win",
)
def each_by_itself(sizes, cpu_times, device_times, transfer_times):
    for s, c, d, t in zip(sizes, cpu_times, device_times, transfer_times, strict=False):
        if d < c and t < c:
            return s
    return None


@wrong("your code raised StopIteration", row="None where the CPU always wins")
def raises(sizes, cpu_times, device_times, transfer_times):
    return next(
        s for s, c, d, t in zip(sizes, cpu_times, device_times, transfer_times, strict=False) if d + t < c
    )


@wrong("the device never wins here", row="None where the CPU always wins")
def minus_one(sizes, cpu_times, device_times, transfer_times):
    for s, c, d, t in zip(sizes, cpu_times, device_times, transfer_times, strict=False):
        if d + t < c:
            return s
    return -1


@right
def by_numpy(sizes, cpu_times, device_times, transfer_times):
    import numpy as np

    w = np.nonzero(np.array(device_times) + np.array(transfer_times) < np.array(cpu_times))[0]
    return sizes[int(w[0])] if len(w) else None


@right
def the_smallest_that_wins(sizes, cpu_times, device_times, transfer_times):
    return min(
        (s for s, c, d, t in zip(sizes, cpu_times, device_times, transfer_times, strict=False) if d + t < c),
        default=None,
    )


@right
def sorted_together(sizes, cpu_times, device_times, transfer_times):
    for s, c, d, t in sorted(zip(sizes, cpu_times, device_times, transfer_times, strict=True)):
        if d + t < c:
            return s
    return None


@wrong(
    "the list was halved again and again, which misses a win that is lost at a later size",
    row="the first size where the device wins",
)
def by_bisection(sizes, cpu_times, device_times, transfer_times):
    import bisect

    wins = [d + t < c for c, d, t in zip(cpu_times, device_times, transfer_times, strict=True)]
    place = bisect.bisect_left(wins, True)
    return sizes[place] if place < len(sizes) else None


@wrong(
    "the sizes were sorted, and their times stayed in the order in which they were",
    row="measured in any order, some sizes did not fit",
)
def sizes_sorted_alone(sizes, cpu_times, device_times, transfer_times):
    for s, c, d, t in zip(sorted(sizes), cpu_times, device_times, transfer_times, strict=True):
        if d + t < c:
            return s
    return None


@wrong(
    "a size that did not fit on the CPU was left out, and there the device wins",
    row="measured in any order, some sizes did not fit",
)
def finite_times_only(sizes, cpu_times, device_times, transfer_times):
    from math import isfinite

    for s, *row in zip(sizes, cpu_times, device_times, transfer_times, strict=True):
        if all(map(isfinite, row)) and row[1] + row[2] < row[0]:
            return s
    return None


@wrong(
    "at size 512 neither fits, so the device does not win",
    row="measured in any order, some sizes did not fit",
)
def unfit_on_the_cpu_is_enough(sizes, cpu_times, device_times, transfer_times):
    for s, c, d, t in zip(sizes, cpu_times, device_times, transfer_times, strict=True):
        if c == float("inf") or d + t < c:
            return s
    return None


@wrong("a narrow win is a win, too", row="an equal time is no win")
def by_a_small_tolerance(sizes, cpu_times, device_times, transfer_times):
    for size, cpu, there, transfer in zip(sizes, cpu_times, device_times, transfer_times, strict=True):
        if there + transfer < cpu - 1e-9:
            return size
    return None


@wrong("not the first size at which the device wins, with its transfer", row="the transfer counts")
def with_the_first_transfer(sizes, cpu_times, device_times, transfer_times):
    for size, cpu, there in zip(sizes, cpu_times, device_times, strict=True):
        if there + transfer_times[0] < cpu:
            return size
    return None


@wrong("not the first size at which the device wins, with its transfer", row="the transfer counts")
def with_the_shortest_transfer(sizes, cpu_times, device_times, transfer_times):
    for size, cpu, there in zip(sizes, cpu_times, device_times, strict=True):
        if there + min(transfer_times) < cpu:
            return size
    return None


@wrong("the transfers were counted twice", row="the transfer counts")
def each_transfer_there_and_back(sizes, cpu_times, device_times, transfer_times):
    rows = zip(sizes, cpu_times, device_times, transfer_times, strict=True)
    return next((s for s, c, d, t in rows if d + 2 * t < c), None)


@wrong(
    "the device's times were compared as if they were the CPU's", row="the first size where the device wins"
)
def the_cpu_with_transfers(sizes, cpu_times, device_times, transfer_times):
    rows = zip(sizes, cpu_times, device_times, transfer_times, strict=True)
    return next((s for s, c, d, t in rows if c + t < d), None)
