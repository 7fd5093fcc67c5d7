"""A batch cut into parts, one for each device."""

import torch

from devlab.checks import cases, expect, verbs
from devlab.lessons.lesson_09_several_devices import (
    CPU,
    expect_alike,
    expect_at_most,
    have_float64,
    lesson,
    make_batch,
    rows_of,
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


def _scatter(trial, batch: object, devices: list[torch.device]) -> None:
    """Call the answer, and expect consecutive parts of the batch, one on each device, as equal as can be."""
    rows, count = len(tensors_in(batch)[0]), len(devices)
    whole, start = rows_of(batch, 0, rows), 0
    parts = trial.call(batch, devices)
    _expect_count(parts, count)
    given = f"{verbs.times(rows, 'row')} for {verbs.times(count, 'device')}"
    sizes = [len(found[0]) if (found := tensors_in(part)) and found[0].dim() else 0 for part in parts]
    for number, (part, device, size) in enumerate(zip(parts, devices, sizes, strict=True)):
        if not rows // count <= size <= -(-rows // count):
            headline = f"{given} became parts of {sizes}"
            expect.fail(headline, "lengths that differ by one at most", f"lengths {sizes}")
        wanted = rows_of(whole, start, start + size)
        if isinstance(whole, torch.Tensor):
            nth = {2: "2nd", 3: "3rd"}.get(count, f"{count}th")
            dealt = {f"part {number} holds every {nth} row": whole[number::count]}
            expect.named(part, wanted, dealt, "consecutive rows in each part")
        expect_alike(part, wanted, device, f"part {number}")
        start += size
    if start != rows:
        expect.fail(f"{start} of {rows} rows are in the parts", "every row in one part", f"{start} rows")


def _expect_count(parts: object, count: int) -> None:
    """Expect as many parts as there are devices."""
    expect.kind(parts, (list, tuple), "a list of parts")
    if len(parts) != count:
        headline = f"{verbs.times(len(parts), 'part')} for {verbs.times(count, 'device')}"
        expect.fail(headline, f"{verbs.times(count, 'part')}, one for each device", parts)


@scatter.row("consecutive parts, each on its device")
def consecutive(trial):
    here, there = trial.device, trial.other()
    for seed, rows in zip(trial.seeds, (8, 2, 6), strict=True):
        x = trial.randn(rows, 3, seed=seed)
        _scatter(trial, x, [here, there])
        _scatter(trial, x.cpu(), [there, here])
    for dtype in [torch.bfloat16] + [torch.float64] * have_float64(trial):
        _scatter(trial, trial.randn(5, 2, seed=7).to(dtype) / 3, [there, here])


@scatter.row("as equal as possible, one part for each device")
def near_equal(trial):
    places = cases.places(trial)
    for rows, count in ((7, 2), (10, 4), (9, 6), (2, 3), (0, 2), (4, 1)):
        devices = [places[number % len(places)] for number in range(count)]
        _scatter(trial, trial.randn(rows, 3, seed=rows), devices)
    _scatter(trial, trial.randn(3, 2), [trial.other()])


@scatter.row("nested batches keep their form")
def nested(trial):
    here, there = trial.device, trial.other()
    for rows in (6, 5):
        _scatter(trial, make_batch(trial, rows), [here, there])
        _scatter(trial, make_batch(trial, rows, on=there), [there, here])
    for rows, devices in ((10, [here, there] * 2), (2, [there, here, here]), (3, [there])):
        _scatter(trial, make_batch(trial, rows), devices)
    x, y = trial.randn(5, 2, seed=trial.seeds[2]), trial.randint(0, 9, (5,))
    for batch in ((x, y), [y, x], (x,), [{"x": x}]):
        _scatter(trial, batch, [there, here])


@scatter.row("a part moves once, or not at all")
def parts_move_once(trial):
    for devices in ([trial.device, trial.other()], [trial.other(), trial.device], [trial.device] * 2):
        parts, log = trial.watched(make_batch(trial, 7), devices)
        _expect_count(parts, len(devices))
        placed = zip(parts, devices, strict=True)
        away = tensors_in([part for part, device in placed if device != trial.device])
        needed, size = "one for each tensor of a part that is elsewhere", sum(one.nbytes for one in away)
        expect_at_most(log, len(away), needed, size, "cut first, then move")
    trial.second()


@scatter.row("a part on the CPU has arrived", only="accelerator")
def parts_have_arrived(trial):
    for batch in (make_batch(trial, 5), trial.randn(5, 2)):
        _, log = trial.watched(batch, [CPU, trial.device])
        headline = (
            "a part for the CPU was returned while its copy was still under way, and nothing waits for it"
        )
        asked = "a copy that the host waits for"
        verbs.counts(still_under_way(log), 0, headline, asked, "{one.manner}, {one.line}")
