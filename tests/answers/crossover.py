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


@wrong("the transfers were left out")
def no_transfer(sizes, cpu_times, device_times, transfer_times):
    return next((s for s, c, d in zip(sizes, cpu_times, device_times, strict=True) if d < c), None)


@wrong("an equal time was taken for a win")
def or_equal(sizes, cpu_times, device_times, transfer_times):
    rows = zip(sizes, cpu_times, device_times, transfer_times, strict=True)
    return next((s for s, c, d, t in rows if d + t <= c), None)


@wrong("not the first size")
def last(sizes, cpu_times, device_times, transfer_times):
    rows = zip(sizes, cpu_times, device_times, transfer_times, strict=True)
    wins = [s for s, c, d, t in rows if d + t < c]
    return wins[-1] if wins else None


@wrong("None, though the device wins at size 512")
def nothing(sizes, cpu_times, device_times, transfer_times):
    return None


@wrong("not the first size")
def index(sizes, cpu_times, device_times, transfer_times):
    rows = enumerate(zip(cpu_times, device_times, transfer_times, strict=True))
    return next((i for i, (c, d, t) in rows if d + t < c), None)


@wrong("the device never wins here")
def the_largest_at_least(sizes, cpu_times, device_times, transfer_times):
    rows = zip(sizes, cpu_times, device_times, transfer_times, strict=True)
    return next((s for s, c, d, t in rows if d + t < c), sizes[-1] if sizes else None)


@wrong("not the first size")
def transfers_both_ways(sizes, cpu_times, device_times, transfer_times):
    rows = zip(sizes, cpu_times, device_times, transfer_times, strict=True)
    return next((s for s, c, d, t in rows if d + 3 * t < c), None)


@wrong("the first win counts")
def wins_ever_after(sizes, cpu_times, device_times, transfer_times):
    found = None
    for s, c, d, t in zip(sizes, cpu_times, device_times, transfer_times, strict=True):
        found = (found if found is not None else s) if d + t < c else None
    return found


@wrong("a narrow win is a win, too")
def by_a_clear_margin(sizes, cpu_times, device_times, transfer_times):
    for size, cpu, there, transfer in zip(sizes, cpu_times, device_times, transfer_times, strict=True):
        if there + transfer < 0.99 * cpu:
            return size
    return None


@wrong("a narrow win is a win, too")
def rounded_times(sizes, cpu_times, device_times, transfer_times):
    for size, cpu, there, transfer in zip(sizes, cpu_times, device_times, transfer_times, strict=True):
        if round(there + transfer, 1) < round(cpu, 1):
            return size
    return None
