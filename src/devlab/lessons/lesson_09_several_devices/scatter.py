"""A batch cut into parts, one for each device."""

import torch

from devlab.checks import expect
from devlab.devices import has_float64
from devlab.lessons.lesson_09_several_devices import (
    CPU,
    expect_alike,
    expect_at_most,
    lesson,
    make_batch,
    places,
    rows_of,
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


def _expect_parts(parts: object, count: int) -> None:
    expect.kind(parts, (list, tuple), "a list of parts")
    if len(parts) != count:
        expect.fail(f"{len(parts)} parts for {count} devices", f"{count} parts, one for each device", parts)


def _expect_scattered(trial, batch: object, devices: list[torch.device]) -> None:
    rows = len(tensors_in(batch)[0])
    whole = rows_of(batch, 0, rows)
    parts = trial.call(batch, devices)
    _expect_parts(parts, len(devices))
    start = 0
    for number, (part, device) in enumerate(zip(parts, devices, strict=True)):
        found = tensors_in(part)
        size = len(found[0]) if found and found[0].dim() else 0
        if not rows // len(devices) <= size <= -(-rows // len(devices)):
            sizes = [len(tensors_in(one)[0]) if tensors_in(one) else 0 for one in parts]
            expect.fail(
                f"{rows} rows for {len(devices)} devices became parts of {sizes}",
                "lengths that differ by one at most",
                f"lengths {sizes}",
            )
        _expect_consecutive(part, whole, number, len(devices))
        expect_alike(part, rows_of(whole, start, start + size), device, f"part {number}")
        start += size
    if start != rows:
        expect.fail(f"{start} of {rows} rows are in the parts", "every row in one part", f"{start} rows")


def _expect_consecutive(part: object, whole: object, number: int, count: int) -> None:
    """Expect of a part that it is not dealt out row by row."""
    if isinstance(part, torch.Tensor) and isinstance(whole, torch.Tensor) and len(whole) > count > 1:
        dealt = whole[number::count]
        if part.shape == dealt.shape and torch.equal(part.detach().cpu(), dealt):
            nth = {2: "2nd", 3: "3rd"}.get(count, f"{count}th")
            asked = "consecutive rows in each part"
            expect.fail(f"part {number} holds every {nth} row", asked, f"rows {number}, {number + count}, …")


@scatter.row("consecutive parts, each on its device")
def consecutive(trial):
    for seed, rows in zip(trial.seeds, (8, 2, 6), strict=True):
        x = trial.randn(rows, 3, seed=seed)
        _expect_scattered(trial, x, [trial.device, trial.other()])
        _expect_scattered(trial, x.cpu(), [trial.other(), trial.device])
    for dtype in (torch.bfloat16, *([torch.float64] if all(map(has_float64, places(trial))) else ())):
        _expect_scattered(trial, trial.randn(5, 2, seed=7).to(dtype) / 3, [trial.other(), trial.device])


@scatter.row("as equal as can be, one part a device")
def near_equal(trial):
    here = places(trial)
    for rows, count in ((7, 2), (10, 4), (9, 6), (2, 3), (0, 2), (4, 1)):
        devices = [here[number % len(here)] for number in range(count)]
        _expect_scattered(trial, trial.randn(rows, 3, seed=rows), devices)
    _expect_scattered(trial, trial.randn(3, 2), [trial.other()])


@scatter.row("nested batches keep their form")
def nested(trial):
    for rows in (6, 5):
        _expect_scattered(trial, make_batch(trial, rows), [trial.device, trial.other()])
        _expect_scattered(trial, make_batch(trial, rows, on=trial.other()), [trial.other(), trial.device])


@scatter.row("a part moves once, or not at all")
def parts_move_once(trial):
    for devices in ([trial.device, trial.other()], [trial.other(), trial.device], [trial.device] * 2):
        batch = make_batch(trial, 7)
        parts, log = trial.watched(batch, devices)
        away = [part for part, device in zip(parts, devices, strict=True) if device != trial.device]
        needed = "one for each tensor of a part that is elsewhere"
        expect_at_most(log, len(away) * len(tensors_in(batch)), needed)
        size = sum(tensor.nbytes for tensor in tensors_in(away))
        if log.bytes_moved > size:
            expect.fail(
                f"{log.bytes_moved} bytes were transferred, and the parts have {size}: cut first, then move",
                f"{size} bytes",
                f"{log.bytes_moved} bytes",
            )


@scatter.row("a part on the CPU has arrived", only="accelerator")
def parts_have_arrived(trial):
    _, log = trial.watched(make_batch(trial, 5), [CPU, trial.device])
    pending = [copy for copy in log.events.transfers if copy.target == "cpu" and not copy.blocking]
    if pending and not log.synchronizations:
        headline = (
            "a part for the CPU was returned while its copy was still under way, and nothing waits for it"
        )
        expect.fail(headline, "a copy that the host waits for", f"{pending[0].manner}, {pending[0].line}")
