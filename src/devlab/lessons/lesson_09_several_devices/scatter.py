"""A batch cut into parts, one for each device."""

import torch

from devlab.checks import cases, expect
from devlab.checks.scenes import scene
from devlab.checks.seen import must
from devlab.checks.values import times
from devlab.lessons.lesson_09_several_devices import (
    CPU,
    cut,
    each,
    have_float64,
    lesson,
    make_batch,
    see_alike,
    see_transfers,
    still_under_way,
    tensors_in,
)

scatter = lesson.exercise(
    "scatter",
    signature="scatter(batch, devices)",
    facts=("U1", "U2", "U5"),
    hints=(
        "First cut, then move. For one tensor: as many consecutive parts as there are devices, and their "
        "lengths differ by one at most. `torch.chunk` does not promise that, and may give fewer parts.",
        "`torch.tensor_split(x, len(devices))` gives as many parts as you ask for, some of them empty. A "
        "batch that nests is scattered item by item, and the parts are put together again for each device.",
        "For a tensor: `[part.to(d) for part, d in zip(x.tensor_split(len(devices)), devices)]`. For a dict: "
        "scatter each value, then `[{key: cut[key][i] for key in cut} for i in range(len(devices))]`. Lists "
        "and tuples likewise.",
    ),
)


def ours(batch, devices):
    return [
        each(lambda x, n=n, device=device: x.tensor_split(len(devices))[n].to(device), batch)
        for n, device in enumerate(devices)
    ]


def see_parts(t, batch, devices):
    """See consecutive parts of the batch, as equal as can be: which of them are longer is free."""
    rows, count, start = len(tensors_in(batch)[0]), len(devices), 0
    parts = t.call(batch, devices)
    yield see_count(parts, count)
    sizes = [len(found[0]) if (found := tensors_in(part)) and found[0].dim() else 0 for part in parts]
    headline = f"{times(rows, 'row')} for {times(count, 'device')} became parts of {sizes}"
    for number, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        equal = rows // count <= size <= -(-rows // count)
        yield must(equal, headline, "lengths that differ by one at most", f"lengths {sizes}")
        yield from see_alike(part, cut(batch, start, start + size), f"part {number}")
        start += size
    yield must(start == rows, f"{start} of {rows} rows are in the parts", "every row in one part")


def see_count(parts, count):
    """See as many parts as there are devices."""
    expect.kind(parts, (list, tuple), "a list of parts")
    headline = f"{times(len(parts), 'part')} for {times(count, 'device')}"
    return must(len(parts) == count, headline, "a part for each device", parts)


@scene(scatter, ours, "consecutive parts, each on its device", "consecutive rows in each part")
def consecutive(t):
    devices = [t.device, t.other()]
    for seed, rows in zip(t.seeds, (8, 2, 6), strict=True):
        yield from see_parts(t, t.randn(rows, 3, seed=seed), devices)
        yield from see_parts(t, t.randn(rows, 3, seed=seed, on=CPU), devices[::-1])
    for dtype in [torch.bfloat16] + [torch.float64] * have_float64(t):
        yield from see_parts(t, t.randn(5, 2, seed=7).to(dtype) / 3, devices[::-1])


@scene(scatter, ours, "as equal as possible, one part for each device", "consecutive rows in each part")
def near_equal(t):
    for rows, count in ((7, 2), (10, 4), (9, 6), (2, 3), (0, 2), (4, 1)):
        yield from see_parts(t, t.randn(rows, 3, seed=rows), (cases.places(t) * count)[:count])
    yield from see_parts(t, t.randn(3, 2), [t.other()])


@scene(scatter, ours, "nested batches keep their form")
def nested(t):
    here, there = t.device, t.other()
    for rows in (6, 5):
        yield from see_parts(t, make_batch(t, rows), [here, there])
        yield from see_parts(t, make_batch(t, rows, on=there), [there, here])
    for rows, devices in ((10, [here, there] * 2), (2, [there, here, here]), (3, [there])):
        yield from see_parts(t, make_batch(t, rows), devices)
    x, y = t.randn(5, 2, seed=t.seeds[2]), t.randint(0, 9, (5,))
    for batch in ((x, y), [y, x], (x,), [{"x": x}]):
        yield from see_parts(t, batch, [there, here])


@scene(scatter, ours, "a part moves once, or not at all")
def parts_move_once(t):
    for devices in ([t.device, t.other()], [t.other(), t.device], [t.device] * 2):
        parts, log = t.watched(make_batch(t, 7), devices)
        yield see_count(parts, len(devices))
        away = [part for part, device in zip(parts, devices, strict=True) if device != t.device]
        away = tensors_in(away)
        needed, size = "one for each tensor of a part that is elsewhere", sum(one.nbytes for one in away)
        yield from see_transfers(log, len(away), needed, size, "cut first, then move")
    t.second()


@scene(scatter, ours, "a part on the CPU has arrived", only="accelerator")
def parts_have_arrived(t):
    for batch in (make_batch(t, 5), t.randn(5, 2)):
        _, log = t.watched(batch, [CPU, t.device])
        late = still_under_way(log)
        headline = (
            "a part for the CPU was returned while its copy was still under way, and nothing waits for it"
        )
        got = ", ".join(f"{one.manner}, {one.line}" for one in late[:1])
        yield must(not late, headline, "a copy that the host waits for", got)
