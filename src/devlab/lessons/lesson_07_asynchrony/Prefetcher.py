"""The next batch is copied while this one is worked on."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from devlab.checks import cases, expect, verbs
from devlab.checks.probes import CountingLoader
from devlab.lessons.lesson_07_asynchrony import keep_busy, lesson
from devlab.sim import clock, events, rule, streams
from devlab.watching.watch import watch

Prefetcher = lesson.exercise(
    "Prefetcher",
    signature="class Prefetcher(loader, device)",
    facts=("Y1", "Y2", "P5"),
    hints=(
        "Work on one stream runs in order, copies included. So the copies need a stream of their own, and "
        "the next copy has to be started before the batch at hand is given out.",
        "`self.stream = torch.Stream(device)`. Inside `with self.stream:` start the next copy with "
        "`non_blocking=True`. Before you yield a batch, let the current stream wait for its copy: by an "
        "event recorded after the copy, or by `wait_stream`.",
        "In `__iter__`: keep `waiting = None`; for each batch of the loader start its copy and record an "
        "event in the side stream; if something is waiting, let the current stream wait for its event and "
        "yield it; then the new one is what waits. After the loop, yield the last. The CPU has no streams.",
    ),
)

SIZE = 1 << 18  # float32 numbers of a batch: 1 MiB, some 90 µs from pinned memory
BATCHES = 16
MOST_BATCHES = 2 * BATCHES  # no loader here has so many
AHEAD = 3

# Real seconds that a host about to wait gives a thread which loads ahead. On a busy machine, such as one that
# grades a class, the thread may get no processor in the shortest; a wrong answer is wrong in all three.
TURNS = (clock.TURN, 0.01, 0.05)


def _pinned(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    return tensor if device.type in ("cpu", "mps") else tensor.pin_memory()


def _tensors(trial, count: int) -> list[torch.Tensor]:
    """Return pinned batches, the last one smaller."""
    batches = [trial.randn(4, 3, seed=seed, on=torch.device("cpu")) for seed in range(count)]
    batches[-1] = batches[-1][:3].clone()
    return [_pinned(batch, trial.device) for batch in batches]


def _made(trial, batches: list) -> tuple[object, CountingLoader]:
    """Return the answer's Prefetcher of a loader of these batches, and that loader."""
    loader = CountingLoader(batches)
    return trial.call(loader, trial.device, changes=True), loader


def _loop_over(count: int, inside: str) -> str:
    """Return how verdicts show a loop over a Prefetcher of a loader with so many batches."""
    return f"for batch in Prefetcher(loader of {count}, device): {inside}"


def _through(trial, prefetcher, size: int, step) -> int:
    """Iterate as a training loop would, calling `step(number, batch)`; return the number of batches."""

    def loop() -> int:
        count = -1
        for count, batch in enumerate(prefetcher):
            if count > MOST_BATCHES:
                break
            step(count, batch)
        return count + 1

    count = trial.run(loop, label=_loop_over(size, "step"), changes=True)
    if count > MOST_BATCHES:
        expect.fail("the batches do not come to an end", "as many as the loader has", f"{count}, and so on")
    return count


def _expect_batches(trial, prefetcher, wanted: list, when: str = "") -> None:
    """Expect all batches of the loader; `when` says in which epoch, for the end of a headline."""
    found: list = []
    _through(trial, prefetcher, len(wanted), lambda number, batch: found.append(batch))
    if trial.device.type != "cpu":
        torch.accelerator.synchronize(trial.device)
    if len(found) != len(wanted):
        headline = f"the Prefetcher gave {len(found)} batches, and the loader has {len(wanted)}"
        expect.fail(headline + when, f"{len(wanted)} batches", f"{len(found)}")
    for number, (got, batch) in enumerate(zip(found, wanted, strict=True)):
        other = next((place for place, one in enumerate(wanted) if _same(got, one)), number)
        if other != number:
            headline = f"batch {other} came in the place of batch {number}{when}"
            expect.fail(headline, "the loader's batches in their order", f"batch {other}")
        what = f"batch {number}"
        if isinstance(batch, torch.Tensor):
            _expect_part(trial, got, batch, what)
            continue
        expect.kind(got, tuple, "a tuple of tensors", what)
        if len(got) != len(batch):
            expect.fail(f"{what} has {len(got)} parts, not {len(batch)}", "all parts", got)
        for part, (one, given) in enumerate(zip(got, batch, strict=True)):
            _expect_part(trial, one, given, f"part {part} of {what}")


def _same(got: object, batch: object) -> bool:
    """Tell whether a batch that came is one of the loader's, wherever it is."""
    if not (isinstance(got, torch.Tensor) and isinstance(batch, torch.Tensor)) or got.is_meta:
        return False
    return got.layout is batch.layout and got.shape == batch.shape and torch.equal(got.detach().cpu(), batch)


def _expect_part(trial, got: object, given: torch.Tensor, what: str) -> None:
    """Expect the loader's numbers on the device; on the CPU, where nothing moves, the loader's own memory."""
    expect.tensor(got, given, trial.device, what)
    if got.is_cpu and got.data_ptr() != given.data_ptr():
        expect.fail(f"{what} was copied: it was there already", "the batch itself on the CPU", "a copy of it")


@Prefetcher.row("every batch, in order, on the device")
def every_batch(trial):
    tensors = _tensors(trial, 5)
    pairs = [(batch, _pinned(torch.arange(len(batch)), trial.device)) for batch in tensors]
    loaders = [tensors, pairs, [(*pairs[0], tensors[0]), (tensors[1],)], tensors[:1], []]
    if cases.holds(trial.device, torch.float64):
        loaders.append([_pinned(batch.double() + 1e-12, trial.device) for batch in tensors])
    for batches in loaders:
        _expect_batches(trial, _made(trial, batches)[0], batches)


@Prefetcher.row("len, and again from the start")
def again(trial):
    tensors = _tensors(trial, 4)
    prefetcher, _ = _made(trial, tensors)
    if not hasattr(prefetcher, "__len__"):
        expect.fail("the Prefetcher has no len", "len(prefetcher), as the loader has", "no __len__")
    length = trial.run(lambda: len(prefetcher), label="Prefetcher(loader, device).__len__")
    expect.equal(length, 4, "len is not the loader's")
    for epoch in ("first", "second"):
        _expect_batches(trial, prefetcher, tensors, f", in the {epoch} epoch")
        tensors.reverse()  # as a loader that shuffles gives them in another order each time
    for number in (0, 2):  # an epoch that is broken off leaves nothing to the next one
        _break_off(trial, prefetcher, number)
        _expect_batches(trial, prefetcher, tensors, ", after an epoch that was broken off")


def _break_off(trial, prefetcher, last: int) -> None:
    def loop() -> None:
        threads = threading.active_count()
        for number, _ in enumerate(prefetcher):
            # A thread that loads ahead might stay for good, and hold up whatever waits after it.
            if number == last and threading.active_count() <= threads:
                break

    trial.run(loop, label=_loop_over(4, "break"), changes=True)


@Prefetcher.row("a few batches ahead, and not all of them")
def few_ahead(trial):
    prefetcher, loader = _made(trial, _tensors(trial, 12))
    ahead = []
    _through(trial, prefetcher, 12, lambda number, batch: ahead.append(loader.taken - number - 1))
    most = max(ahead, default=0)
    if most > AHEAD:
        headline = f"{most} batches were fetched before they were wanted: memory holds a few, not all"
        expect.fail(headline, f"at most {AHEAD} batches ahead", f"{most} batches ahead")


@Prefetcher.row("no batch is used before its copy has ended", only="accelerator")
def no_race(trial):
    if trial.device.type != "sim":
        return  # on a real device a race shows only now and then: that none shows proves nothing
    for parts in (1, 2):
        _expect_no_race(trial, parts)


@contextlib.contextmanager
def _observed(device: torch.device, note: Callable[[object], object]) -> Iterator[None]:
    """Call `note` for each copy to the simulated device that a block makes."""

    def noted(event: object) -> None:
        if isinstance(event, events.Transfer) and event.target == str(device):
            note(event)

    events.observers.append(noted)
    try:
        yield
    finally:
        events.observers.remove(noted)


def _free_at(device: torch.device) -> float:
    """Return when the stream that computes is free to begin what is queued now."""
    return max(clock.current.queues[device.index].free_at, clock.now())


def _expect_no_race(trial, parts: int) -> None:
    """Expect that work on a batch of so many parts waits for the copies of all."""
    ends: list[float] = []
    early: list[int] = []

    def step(number: int, batch: object) -> None:
        its = ends[parts * number : parts * (number + 1)]
        if its and _free_at(trial.device) < max(its) - 1e-9:
            early.append(number)
        keep_busy(trial.device, 50e-6)

    def step_elsewhere(number: int, batch: object) -> None:
        step(number, batch)
        clock.current.queues[trial.device.index] = streams.Stream(trial.device)._queue

    prefetcher, _ = _made(trial, _large(trial, 6, parts))
    with _observed(trial.device, lambda copy: ends.append(copy.end)):
        _through(trial, prefetcher, 6, step)
        ends.clear()
        with streams.Stream(trial.device):  # the second epoch is worked on in another stream
            _through(trial, prefetcher, 6, step)
        waits = "nothing waits for the copy"
        if not early:
            ends.clear()
            with streams.Stream(trial.device):  # and the third in another one for each batch
                _through(trial, prefetcher, 6, step_elsewhere)
            waits = "the stream that is current then does not wait for the copy"
    if early:
        expect.fail(
            f"batch {early[0]} was given out before its copy had ended, and {waits}",
            "the stream that computes waits for the copy",
            "work on the batch may begin before the batch is there",
        )


@Prefetcher.row("copies run while batches are worked on", only="accelerator")
def overlapping(trial):
    if trial.device.type != "sim":
        _expect_early_copies(trial)
        return
    for parts in (1, 2):
        _expect_overlap(trial, parts, 1.2)
    _expect_no_wait(trial)
    # A step that waits, as one that reads its loss does, leaves time only to a copy that was started before.
    if rule.following() == "cuda":  # under Apple's rules a copy takes hardly longer than starting it
        _expect_overlap(trial, 1, 1.5, waits=True)


def _expect_overlap(trial, parts: int, most: float, waits: bool = False) -> None:
    """Expect that copies and work take at most so many times as long as either, on the simulated device."""
    for turn in TURNS:
        given = clock.turns
        with clock.turns_of(turn):
            took, least = _times(trial, parts, waits)
        if took <= most * least:
            return
        if clock.turns == given:  # no other thread took part: again it would be the same
            break
    when = " where each step waits" if waits else ""
    prefetcher, _ = _made(trial, _large(trial, 6, parts))
    told, line = _in_the_way(trial.device, parts, lambda step: _through(trial, prefetcher, 6, step))
    spent = f"{took * 1e6:.0f} µs, {took / least:.2f} times as long (simulated)"
    expect.fail(
        f"copies and work took turns{when}" + (f": {told}" if told else ""),
        f"at most {most:.2f} times the {least * 1e6:.0f} µs that either takes alone{when}",
        f"{spent}; {line}" if line else spent,
    )


def _expect_no_wait(trial) -> None:
    """Expect that a batch is given out at once: its copy takes longer than the host needs to start it."""
    ends: list[float] = []
    late: list[int] = []

    def step(number: int, batch: object) -> None:
        if ends[number : number + 1] and clock.now() >= ends[number]:
            late.append(number)

    prefetcher, _ = _made(trial, _large(trial, 6))
    with _observed(trial.device, lambda copy: ends.append(copy.end)):
        _through(trial, prefetcher, 6, step)
    if late:
        expect.fail(
            f"the host waited until batch {late[0]} had arrived, and only a stream has to wait",
            "a batch that is given out while it is still being copied",
            "a wait of the host, such as `event.synchronize()`",
        )


def _times(trial, parts: int, waits: bool) -> tuple[float, float]:
    """Return the simulated seconds that copies and work took together, and those of either alone."""
    spec = clock.devices[trial.device.index].spec
    copying = parts * (spec.shortest + 4 * SIZE / spec.pinned)
    prefetcher, _ = _made(trial, _large(trial, BATCHES, parts))

    def step(number: int, batch: object) -> None:
        keep_busy(trial.device, copying)
        if waits:
            torch.accelerator.synchronize(trial.device)

    torch.accelerator.synchronize(trial.device)
    begun = clock.now()
    count = _through(trial, prefetcher, BATCHES, step)
    torch.accelerator.synchronize(trial.device)
    return clock.now() - begun, max(count, 1) * copying


def _large(trial, count: int, parts: int = 1) -> list:
    """Return pinned batches that take long to copy: tensors, or tuples of several."""

    def made(number: int) -> torch.Tensor:
        # Few rows, because an answer that takes a tensor for a tuple goes through its rows.
        return _pinned(torch.full((4, SIZE // 4), float(number)), trial.device)

    return [made(number) if parts == 1 else tuple(map(made, range(parts))) for number in range(count)]


class _Copy(NamedTuple):
    """A copy to the device: its stream, when it ends, and how many batches were given out before."""

    stream: int
    end: float
    given: int


def _in_the_way(device: torch.device, parts: int, run: Callable) -> tuple[str, str]:
    """Return why nothing overlaps, and the line that tells it; ("", "") where nothing is found.

    `run(step)` goes once through the answer, calling `step(number, batch)` for each batch of so many tensors.
    """
    copies: list[_Copy] = []
    waits: list[float] = []  # until when the stream that computes is kept from each batch

    def note(copy: object) -> None:
        copies.append(_Copy(clock.current.queues[device.index].stream_id, copy.end, len(waits)))

    def step(number: int, batch: object) -> None:
        waits.append(_free_at(device))
        keep_busy(device, 100e-6)

    with _observed(device, note), watch() as log:
        run(step)
    moved = log.events.transfers
    ordinary = [copy for copy in moved if not copy.pinned]
    blocking = [copy for copy in moved if copy.blocking]
    for words, found in (
        ("a copy from pageable memory, not from the loader's pinned tensor", ordinary),
        ("the host waits for the copy, which is made without `non_blocking=True`", blocking),
        ("the host waits for the device ({}), where only a stream has to", log.events.synchronizations),
    ):
        if found:
            return words.format(found[0].cause), f"{found[0].line}"
    if not copies:
        return "", ""
    line = f"{moved[0].line}" if moved else ""
    if not any(copy.stream for copy in copies):
        return "the copies stand in the stream that computes, behind its work", line
    started = [sum(copy.given <= number for copy in copies) for number in range(len(waits))]
    if all(count <= (number + 1) * parts for number, count in enumerate(started)):
        return (
            "each copy is started when its batch is asked for, and none while the last one is worked on",
            line,
        )
    nexts = [copies[parts * (number + 1) - 1] for number in range(1, min(len(waits), len(copies) // parts))]
    if nexts and all(wait >= copy.end - 1e-9 for wait, copy in zip(waits, nexts, strict=False)):
        return "the stream that computes waits for the copy of the next batch as well", line
    return "", ""


def _expect_early_copies(trial) -> None:
    """On a real device: copies from pinned memory for which the host does not wait."""
    prefetcher, _ = _made(trial, _large(trial, 4))
    with watch() as log:
        _through(trial, prefetcher, 4, lambda number, batch: None)
    waits = [copy for copy in log.events.transfers if copy.blocking and trial.device.type != "mps"]
    verbs.counts(waits, 0, "the host waits for a copy", "copies with non_blocking=True")
    staged = [copy for copy in log.events.transfers if copy.staged]
    verbs.counts(
        staged, 0, "a copy from pageable memory is staged", "copies of pinned tensors", "others, too"
    )
