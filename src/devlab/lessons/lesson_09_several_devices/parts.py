"""A batch cut into parts for several devices, and parts joined again."""

from collections.abc import Mapping

import torch

from devlab.checks import expect
from devlab.checks.calls import leaves
from devlab.devices import has_float64
from devlab.lessons.lesson_09_several_devices import (
    expect_at_most,
    expect_gradient,
    expect_graph,
    expect_straight,
    lesson,
    places,
    ranks,
)

CPU = torch.device("cpu")

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

gather = lesson.exercise(
    "gather",
    signature="gather(parts, device)",
    facts=("U1", "U2", "U5"),
    hints=(
        "The way back: bring every part to the device, and join them along dimension 0, in their order.",
        "`torch.cat` joins only what is in one place. For parts that nest: gather the same place of all "
        "parts together, and build one container from the results.",
        "For tensors: `torch.cat([part.to(device) for part in parts])`. For dicts: "
        "`{key: gather([part[key] for part in parts], device) for key in parts[0]}`. Lists and tuples "
        "likewise.",
    ),
)


def _batch(trial, rows: int, on: torch.device | None = None) -> dict:
    """Return a nested batch of `rows` rows, on the trial's device or another."""
    x = trial.randn(rows, 3, seed=trial.seeds[0], on=on)
    y = trial.randint(0, 9, (rows,), seed=trial.seeds[1]).to(on or trial.device)
    return {"x": x, "more": [y, (x[:, 1] * 2, x[:, :2, None])], "large": y > 4}


def _rows_of(value: object, start: int, stop: int) -> object:
    """Return the reference of a part: rows `start` up to `stop` of every tensor, on the CPU."""
    if isinstance(value, torch.Tensor):
        return value[start:stop].cpu()
    return _rebuilt(value, lambda item: _rows_of(item, start, stop))


def _rebuilt(value: object, change) -> object:
    if isinstance(value, Mapping):
        return {key: change(item) for key, item in value.items()}
    return type(value)(change(item) for item in value)


def _tensors(value: object) -> list[torch.Tensor]:
    return [leaf for _, leaf in leaves(value) if isinstance(leaf, torch.Tensor)]


def _expect_alike(got: object, wanted: object, device: torch.device, what: str) -> None:
    """Expect the same containers, and in them equal tensors on the device."""
    if isinstance(wanted, torch.Tensor):
        expect.tensor(got, wanted, device, what, within=0.0)  # copies differ in nothing
        return
    if type(got) is not type(wanted):
        words = type(wanted).__name__
        expect.fail(f"{what} is a {type(got).__name__}, not a {words}", f"a {words}", got)
    keys = list(wanted) if isinstance(wanted, Mapping) else range(len(wanted))
    if len(got) != len(wanted) or (isinstance(wanted, Mapping) and list(got) != keys):
        if isinstance(wanted, Mapping) and set(got) == set(wanted):
            expect.fail(f"the keys of {what} are in another order", f"{keys}", f"{list(got)}")
        expect.fail(f"items of {what} are missing or new", f"{len(wanted)} items", got)
    for key in keys:
        _expect_alike(got[key], wanted[key], device, f"{what}[{key!r}]")


def _expect_parts(parts: object, count: int) -> None:
    expect.kind(parts, (list, tuple), "a list of parts")
    if len(parts) != count:
        expect.fail(f"{len(parts)} parts for {count} devices", f"{count} parts, one for each device", parts)


def _expect_scattered(trial, batch: object, devices: list[torch.device]) -> None:
    rows = len(_tensors(batch)[0])
    whole = _rows_of(batch, 0, rows)
    parts = trial.call(batch, devices)
    _expect_parts(parts, len(devices))
    start = 0
    for number, (part, device) in enumerate(zip(parts, devices, strict=True)):
        found = _tensors(part)
        size = len(found[0]) if found and found[0].dim() else 0
        if not rows // len(devices) <= size <= -(-rows // len(devices)):
            sizes = [len(_tensors(one)[0]) if _tensors(one) else 0 for one in parts]
            expect.fail(
                f"{rows} rows for {len(devices)} devices became parts of {sizes}",
                "lengths that differ by one at most",
                f"lengths {sizes}",
            )
        _expect_consecutive(part, whole, number, len(devices))
        _expect_alike(part, _rows_of(whole, start, start + size), device, f"part {number}")
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
        _expect_scattered(trial, _batch(trial, rows), [trial.device, trial.other()])
        _expect_scattered(trial, _batch(trial, rows, on=trial.other()), [trial.other(), trial.device])


@scatter.row("a part moves once, or not at all")
def parts_move_once(trial):
    for devices in ([trial.device, trial.other()], [trial.other(), trial.device], [trial.device] * 2):
        batch = _batch(trial, 7)
        parts, log = trial.watched(batch, devices)
        away = [part for part, device in zip(parts, devices, strict=True) if device != trial.device]
        needed = "one for each tensor of a part that is elsewhere"
        expect_at_most(log, len(away) * len(_tensors(batch)), needed)
        size = sum(tensor.nbytes for tensor in _tensors(away))
        if log.bytes_moved > size:
            expect.fail(
                f"{log.bytes_moved} bytes were transferred, and the parts have {size}: cut first, then move",
                f"{size} bytes",
                f"{log.bytes_moved} bytes",
            )


@scatter.row("a part on the CPU has arrived", only="accelerator")
def parts_have_arrived(trial):
    _, log = trial.watched(_batch(trial, 5), [CPU, trial.device])
    pending = [copy for copy in log.events.transfers if copy.target == "cpu" and not copy.blocking]
    if pending and not log.synchronizations:
        headline = (
            "a part for the CPU was returned while its copy was still under way, and nothing waits for it"
        )
        expect.fail(headline, "a copy that the host waits for", f"{pending[0].manner}, {pending[0].line}")


def _cut(batch: object, sizes: list[int], devices: list[torch.device]) -> list[object]:
    """Return parts of a batch of these lengths, on the devices, by the reference's own hand."""
    parts, start = [], 0
    for size, device in zip(sizes, devices, strict=True):
        parts.append(_moved(_rows_of(batch, start, start + size), device))
        start += size
    return parts


def _moved(value: object, device: torch.device) -> object:
    if isinstance(value, torch.Tensor):
        return value.to(device)
    return _rebuilt(value, lambda item: _moved(item, device))


def _expect_gathered(trial, batch: object, sizes: list[int], devices, target: torch.device) -> None:
    wanted = _rows_of(batch, 0, sum(sizes))
    parts = _cut(batch, sizes, devices)
    _expect_order(got := trial.call(parts, target), parts)
    _expect_alike(got, wanted, target, "the whole")


def _expect_order(got: object, parts: list) -> None:
    """Expect of a joined tensor that its parts are not in the reverse order."""
    if isinstance(got, torch.Tensor) and isinstance(parts[0], torch.Tensor) and len(got):
        reverse = torch.cat([part.detach().cpu() for part in reversed(parts)])
        forward = torch.cat([part.detach().cpu() for part in parts])
        same = got.shape == reverse.shape and torch.equal(got.detach().cpu(), reverse)
        if same and not torch.equal(forward, reverse):
            expect.fail(
                "the parts are joined in reverse order", "the order of the list", "the last part first"
            )


@gather.row("the parts joined in order, on the device")
def joined(trial):
    ranks.wake()  # the exercise after this one needs processes that take seconds to start
    for seed in trial.seeds:
        x = trial.randn(9, 3, seed=seed)
        for target in places(trial):
            _expect_gathered(trial, x, [5, 4], [trial.device, trial.other()], target)
            _expect_gathered(trial, x, [4, 5], [trial.other(), trial.device], target)
    if all(map(has_float64, places(trial))):
        wide = trial.randn(5, 2, seed=trial.seeds[0]).double() + 1e-12
        _expect_gathered(trial, wide, [3, 2], [trial.device, trial.other()], trial.device)
    parts = [trial.randn(2, 3, on=place).requires_grad_() for place in (trial.device, trial.other())]
    whole = trial.call(parts, trial.device)
    expect.kind(whole, torch.Tensor, "a tensor", "the whole")
    expect_graph(whole, "the whole")
    whole.square().sum().backward()
    for number, part in enumerate(parts):
        expect_gradient(part, 2 * part.detach(), f"part {number}")


@gather.row("any number of parts, also empty ones")
def any_parts(trial):
    here = places(trial)
    x = trial.randn(6, 3, seed=trial.seeds[0])
    for sizes in ([6], [2, 2, 2], [3, 3, 0], [0, 6], [1, 2, 0, 3], [0, 0]):
        devices = [here[number % len(here)] for number in range(len(sizes))]
        _expect_gathered(trial, x, sizes, devices, trial.device)
        _expect_gathered(trial, x[:, 0], sizes, devices, trial.other())


@gather.row("nested parts become one batch again")
def joined_nested(trial):
    for target in places(trial):
        _expect_gathered(trial, _batch(trial, 7), [4, 3], [trial.device, trial.other()], target)
    devices = [trial.device, trial.other(), trial.device]
    _expect_gathered(trial, _batch(trial, 4), [2, 1, 1], devices, trial.device)
    x = [trial.randn(2, seed=seed, on=place).requires_grad_() for seed, place in enumerate(devices)]
    whole = trial.call([{"x": one} for one in x], trial.device)
    _expect_alike(whole, {"x": torch.cat([one.detach().cpu() for one in x])}, trial.device, "the whole")
    expect_graph(whole["x"], "the whole['x']")
    whole["x"].square().sum().backward()
    for number, one in enumerate(x):
        expect_gradient(one, 2 * one.detach(), f"part {number}")


@gather.row("each part transferred once, if it is elsewhere")
def gathered_once(trial):
    for target in places(trial):
        devices = [trial.device, trial.other(), trial.device]
        parts = _cut(_batch(trial, 7), [3, 2, 2], devices)
        _, log = trial.watched(parts, target)
        expect_straight(log, _tensors(parts), target)
    parts = _cut(_batch(trial, 6), [3, 3], [trial.device] * 2)
    _, log = trial.watched(parts, trial.device)
    expect_at_most(log, 0, f"all parts are on {trial.device}: nothing has to move")
