"""The next batch is copied while this one is worked on."""

import contextlib
import threading

import torch

from devlab.checks import cases, expect
from devlab.checks.probes import CountingLoader
from devlab.checks.trial import Elsewhere
from devlab.lessons.lesson_07_asynchrony import Work, lesson
from devlab.sim import clock, events, races, rule
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
        "A later copy may be given the memory of a batch that was dropped while work on it was still queued. "
        "So call `part.record_stream(current)` for each tensor that you give out, or let the side stream "
        "wait for the current stream before each copy.",
    ),
)

# float32 numbers of a tensor: on the simulated device 1 MiB, some 90 µs from pinned memory. On a GPU it is
# 32 MiB, because the host takes longer there to ask for a batch, and the copy has to be the longer one. What
# simulated memory holds does not depend on how long a copy takes, so a few numbers do.
SIZE, FEW, SIZE_ON_A_GPU = 1 << 18, 64, 1 << 23
LONG = 4e-3  # seconds of work on a batch: longer than any copy here
COUNT = 6  # batches of a loader whose copies are watched
MOST_BATCHES = 32  # no loader here has so many
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
    _through(trial, prefetcher, len(wanted), lambda number, batch: found.append(_kept(batch)))
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


def _kept(batch: object) -> object:
    """Return a batch as it is now: its memory may be used for another one when that is asked for."""
    if isinstance(batch, tuple):
        return tuple(map(_kept, batch))
    there = isinstance(batch, torch.Tensor) and batch.device.type not in ("cpu", "meta")
    return batch.clone() if there else batch


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


def _large(trial, parts: int, first: int = 1, size: int = SIZE) -> list:
    """Return pinned batches that take long to copy, tensors or tuples of several.

    Each tensor holds one number, and they count from `first` up.
    """

    def made(number: int) -> torch.Tensor:
        # Few rows, because an answer that takes a tensor for a tuple goes through its rows.
        columns = (size if trial.device.type == "sim" else SIZE_ON_A_GPU) // 4
        return _pinned(torch.full((4, columns), float(number)), trial.device)

    starts = range(first, first + COUNT * parts, parts)
    return [made(start) if parts == 1 else tuple(map(made, range(start, start + parts))) for start in starts]


def _require_streams(trial) -> None:
    if trial.device.type == "mps" or (trial.device.type == "sim" and rule.following() == "mps"):
        raise Elsewhere("an Apple GPU has one stream; DEVLAB_DEVICE=sim judges it on simulated devices")


class _Reader:
    """Reads batches in the current stream, after other work there, and knows what was to be found."""

    def __init__(self, trial, parts: int, busy: float):
        self.trial, self.parts = trial, parts
        self.work = Work(trial.device, lambda call: busy) if busy else lambda: None
        self.epochs, self.batches = 0, [None] * COUNT
        self.prefetcher, _ = _made(trial, self.batches)

    def wrong(self, changing: bool = False) -> tuple[int, float] | None:
        """Return the first batch of an epoch in which other numbers were found, and one of those, or None.

        If the stream is `changing`, each batch is worked on in another one.
        """
        first = 1 + self.epochs * COUNT * self.parts  # no number comes twice, so old ones are not right ones
        self.batches[:] = _large(self.trial, self.parts, first, FEW)
        self.epochs += 1
        found: list = []

        def step(number: int, batch: object) -> None:
            self.work()
            parts = batch if isinstance(batch, tuple) else (batch,)
            found.append([torch.aminmax(part) for part in parts])
            if changing:
                current = torch.accelerator.current_device_index()
                torch.accelerator.set_stream(torch.Stream(self.trial.device))
                torch.accelerator.set_device_index(current)  # which a new stream changes

        with races() if self.trial.device.type == "sim" else contextlib.nullcontext():
            _through(self.trial, self.prefetcher, COUNT, step)
            torch.accelerator.synchronize(self.trial.device)
            for number, parts in enumerate(found):
                for part, ends in enumerate(parts):
                    told = [end.item() for end in ends if end.item() != first + number * self.parts + part]
                    if told:
                        return number, (told[-1] - first) // self.parts
        return None


@Prefetcher.row("no batch is used before its copy has ended", only="accelerator")
def no_race(trial):
    _require_streams(trial)
    for parts in (1, 2):
        reader = _Reader(trial, parts, 0.0)
        if trial.device.type != "sim":
            reader.wrong()  # memory is taken, which may take longer than a copy
        early, waits = reader.wrong(), "nothing waits for the copy"
        with torch.Stream(trial.device):
            early = early or reader.wrong()
            if not early:
                early = reader.wrong(changing=True)
                waits = "the stream that is current then does not wait for the copy"
        if early:
            expect.fail(
                f"batch {early[0]} was given out before its copy had ended, and {waits}",
                "the stream that computes waits for the copy",
                "work on the batch began before the batch was there",
            )


@Prefetcher.row("copies run while batches are worked on", only="accelerator")
def overlapping(trial):
    _require_streams(trial)
    for parts in (1, 2):
        _expect_no_wait_of_the_host(trial, parts)
    for parts in (1, 2):
        _expect_early_copies(trial, parts)


def _mark(stream: torch.Stream) -> torch.Event:
    return stream.record_event(torch.Event(stream.device, enable_timing=True))


def _copying(trial, parts: int) -> float:
    """Return the milliseconds in which a device copies a batch, at best."""
    side, batch = torch.Stream(trial.device), _large(trial, 1)[0]
    marks = []
    for _ in range(4):
        with side:
            marks.append(_mark(side))
            batch.to(trial.device, non_blocking=True)
            marks.append(_mark(side))
    torch.accelerator.synchronize(trial.device)
    return parts * min(start.elapsed_time(end) for start, end in zip(marks[::2], marks[1::2], strict=True))


def _expect_no_wait_of_the_host(trial, parts: int) -> None:
    """Expect copies that need no wait of the host, and batches that are given out while they are copied."""
    prefetcher, _ = _made(trial, _large(trial, parts))
    with watch() as log:
        _through(trial, prefetcher, COUNT, lambda number, batch: None)
    moved = log.events.transfers
    ordinary, blocking = [copy for copy in moved if copy.staged], [copy for copy in moved if copy.blocking]
    for told, found in (
        ("a copy from pageable memory, not from the loader's pinned tensor", ordinary),
        ("the host waits for the copy, which is made without `non_blocking=True`", blocking),
        ("the host waits for the device ({}), where only a stream has to", log.events.synchronizations),
    ):
        if found:
            expect.fail(
                f"copies and work took turns: {told.format(found[0].cause)}",
                "copies from pinned memory, for which only a stream waits",
                f"{found[0].line}",
            )
    idle = torch.Stream(trial.device)  # its marks are reached at once, and tell when the host set them

    def took() -> float:
        torch.accelerator.synchronize(trial.device)
        begun = _mark(idle)
        _through(trial, prefetcher, COUNT, lambda number, batch: None)
        ended = _mark(idle)
        torch.accelerator.synchronize(trial.device)
        return begun.elapsed_time(ended)

    least, most = min(took() for _ in TURNS), COUNT * _copying(trial, parts) / 2
    if least > most:
        expect.fail(
            "the host waited until each batch had arrived, and only a stream has to wait",
            "batches that are given out while they are still being copied",
            f"{least * 1e3:.0f} µs for {COUNT} batches, whose copies take {2 * most * 1e3:.0f} µs",
        )


def _expect_early_copies(trial, parts: int) -> None:
    """Expect that a batch is there when it is asked for after work that was longer than its copy."""
    most, work = _copying(trial, parts) / 2, Work(trial.device, lambda call: LONG)
    prefetcher, _ = _made(trial, _large(trial, parts))
    late = [float("inf")] * (COUNT - 1)
    # A verdict on a busy machine must not be wrong: what is there at once in any of three epochs was early.
    for turn in TURNS:
        marks: list[torch.Event] = []

        def step(number: int, batch: object, marks: list = marks) -> None:
            main = torch.accelerator.current_stream(trial.device)
            marks.append(_mark(main))
            work()
            torch.accelerator.synchronize(trial.device)
            marks.append(_mark(main))

        with clock.turns_of(turn):
            _through(trial, prefetcher, COUNT, step)
        torch.accelerator.synchronize(trial.device)
        pairs = zip(marks[1:-1:2], marks[2::2], strict=True)
        late = [min(one, asked.elapsed_time(there)) for one, (asked, there) in zip(late, pairs, strict=False)]
        if max(late) <= most:
            return
    told = _in_the_way(trial, parts) if trial.device.type == "sim" else ""
    expect.fail(
        f"copies and work took turns where each step waits{told}",
        f"each batch is there when it is asked for, after work of some {LONG * 1e3:.0f} ms",
        f"batch {1 + late.index(max(late))} was there after {max(late) * 1e3:.0f} µs, and its copy takes "
        f"{2 * most * 1e3:.0f} µs",
    )


def _in_the_way(trial, parts: int) -> str:
    """Return in words why nothing overlaps on the simulated device, "" where nothing is found."""
    copies: list[tuple[int, float, int]] = []  # the stream, the end, how many batches were given out before
    waits: list[float] = []  # until when the stream that computes is kept from each batch
    queue = clock.current.queues[trial.device.index]
    work = Work(trial.device, lambda call: 100e-6)

    def note(event: object) -> None:
        if isinstance(event, events.Transfer) and event.target == str(trial.device):
            own = clock.current.queues[trial.device.index]
            copies.append((own.stream_id, event.end, len(waits)))

    def step(number: int, batch: object) -> None:
        waits.append(max(queue.free_at, clock.now()))
        work()

    prefetcher, _ = _made(trial, _large(trial, parts))
    events.observers.append(note)
    try:
        _through(trial, prefetcher, COUNT, step)
    finally:
        events.observers.remove(note)
    if not any(stream for stream, _, _ in copies):
        return ": the copies stand in the stream that computes, behind its work"
    started = [sum(given <= number for _, _, given in copies) for number in range(len(waits))]
    if all(count <= (number + 1) * parts for number, count in enumerate(started)):
        return ": each copy is started when its batch is asked for, and none while the last one is worked on"
    nexts = [end for _, end, _ in copies[2 * parts - 1 :: parts]]  # of the last part of each next batch
    if nexts and all(wait >= end - 1e-9 for wait, end in zip(waits, nexts, strict=False)):
        return ": the stream that computes waits for the copy of the next batch as well"
    return ""


@Prefetcher.row("no batch's memory is reused while work reads it", only="accelerator")
def kept_while_read(trial):
    _require_streams(trial)
    for parts in (1, 2):
        reader = _Reader(trial, parts, LONG)
        overwritten = reader.wrong()
        with torch.Stream(trial.device):
            overwritten = overwritten or reader.wrong()
        if overwritten:
            number, other = overwritten
            expect.fail(
                f"batch {number} was copied over while work still read it",
                "its numbers, until the work that was launched on it has ended",
                f"the numbers of batch {other:.0f}, whose copy got the memory (H200, measured: 175 of 200)",
            )
