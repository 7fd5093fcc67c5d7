"""The next batch is copied while this one is worked on."""

import contextlib
import threading

import torch

from devlab.checks import cases, expect
from devlab.checks.expect import is_alike
from devlab.checks.known import is_readable
from devlab.checks.probes import CountingLoader
from devlab.checks.trial import Elsewhere
from devlab.lessons.lesson_07_asynchrony import Work, lesson
from devlab.sim import clock, events, races, rule
from devlab.watching.watch import watch

Prefetcher = lesson.exercise(
    "class Prefetcher(loader, device)",
    ("Y1", "Y2", "P5"),
    "Work on one stream runs in order, copies included. So the copies need a stream of their own, and the "
    "next copy has to be started before the batch at hand is given out.",
    "`self.stream = torch.Stream(device)`. Inside `with self.stream:` start the next copy with "
    "`non_blocking=True`. Before you yield a batch, let the current stream wait for its copy: by an event "
    "recorded after the copy, or by `wait_stream`.",
    "In `__iter__`: keep `waiting = None`; for each batch of the loader start its copy and record an event "
    "in the side stream; if something is waiting, let the current stream wait for its event and yield it; "
    "then the new one is what waits. After the loop, yield the last. The CPU has no streams.",
    "A later copy may be given the memory of a batch that was dropped while work on it was still queued. So "
    "call `part.record_stream(current)` for each tensor that you give out, or let the side stream wait for "
    "the current stream before each copy.",
)

# float32 numbers of a tensor. A simulated copy of 256 KiB takes 24 µs, longer than the launches beside it; a
# real host takes longer to ask. Where the simulator's races show contents, a few numbers are enough.
SIZE, FEW, SIZE_ON_A_GPU = 1 << 16, 64, 1 << 23
LONG = 4e-3  # seconds of work on a batch: longer than any copy here
COUNT = 6  # batches of a loader whose copies are watched
MOST_BATCHES = 32  # no loader here has so many
AHEAD = 3
CHANGED = -1.0  # no batch holds it
WITHOUT = "which is made without `non_blocking=True`"

# Real seconds that a host about to wait gives a thread which loads ahead. On a busy machine, such as one that
# grades a class, the thread may get no processor in the shortest; a wrong answer is wrong in all three.
TURNS = (clock.TURN, 0.01, 0.05)


def _pin(tensor: torch.Tensor, trial) -> torch.Tensor:
    return tensor if trial.device.type in ("cpu", "mps") else tensor.pin_memory()


def _make_batches(trial, count: int, parts: int = 1, first: int = 1, size: int = FEW) -> list:
    """Return pinned batches, the last one smaller; each part holds one number, counted from `first`."""
    # Few rows, because an answer that takes a tensor for a tuple goes through the rows.
    rows = [4] * (count - 1) + [3]
    made = [torch.full((rows[n // parts], size // 4), float(first + n)) for n in range(count * parts)]
    made = [_pin(one, trial) for one in made]
    return made if parts == 1 else list(zip(*(made[part::parts] for part in range(parts)), strict=True))


def _choose_size(trial, simulated: int) -> int:
    return simulated if trial.device.type == "sim" else SIZE_ON_A_GPU


def _list_parts(batch: object) -> tuple:
    return batch if isinstance(batch, tuple) else (batch,)


def _make_prefetcher(trial, batches: list) -> tuple[object, CountingLoader]:
    """Return the answer's Prefetcher of a loader of these batches, and that loader."""
    loader = CountingLoader(batches)
    return trial.call(loader, trial.device, changes=True), loader


def _iterate(trial, prefetcher, size: int, step, inside: str = "step") -> int:
    """Iterate as a training loop would until `step(number, batch)` is true; return the number of batches."""

    def loop() -> int:
        count = -1
        for count, batch in enumerate(prefetcher):
            if count > MOST_BATCHES or step(count, batch):
                break
        return count + 1

    shown = f"for batch in Prefetcher(loader of {size}, device): {inside}"
    count = trial.run(loop, label=shown, changes=True)
    if count > MOST_BATCHES:
        expect.fail("the batches do not come to an end", "as many as the loader has", f"{count}, and so on")
    return count


def _expect_batches(trial, prefetcher, wanted: list, when: str = "") -> None:
    """Expect all batches of the loader; `when` says in which epoch, for the end of a headline."""
    found: list = []
    _iterate(trial, prefetcher, len(wanted), lambda number, batch: found.append(_copy_batch(batch)))
    if trial.device.type != "cpu":
        torch.accelerator.synchronize(trial.device)
    headline = f"the Prefetcher gave {len(found)} batches, and the loader has {len(wanted)}"
    expect.that(len(found) == len(wanted), headline + when, f"{len(wanted)} batches", f"{len(found)}")
    for number, (got, batch) in enumerate(zip(found, wanted, strict=True)):
        same = [is_readable(got) and isinstance(one, torch.Tensor) and is_alike(got, one) for one in wanted]
        other = same.index(True) if True in same else number
        headline = f"batch {other} came in the place of batch {number}{when}"
        expect.that(other == number, headline, "the loader's batches in their order", f"batch {other}")
        _expect_batch(trial, got, batch, f"batch {number}")


def _expect_batch(trial, got: object, batch: object, what: str) -> None:
    """Expect a batch on the device, or on the CPU, where nothing moves, the loader's own memory."""
    if isinstance(batch, tuple):
        expect.kind(got, tuple, "a tuple of tensors", what)
        if len(got) != len(batch):
            expect.fail(f"{what} has {len(got)} parts, not {len(batch)}", "all parts", got)
        for part, pair in enumerate(zip(got, batch, strict=True)):
            _expect_batch(trial, *pair, f"part {part} of {what}")
        return
    expect.tensor(got, batch, trial.device, what)
    if got.is_cpu and got.data_ptr() != batch.data_ptr():
        expect.fail(f"{what} was copied: it was there already", "the batch itself on the CPU", "a copy of it")


def _copy_batch(batch: object) -> object:
    """Return a batch as it is now: its memory may be used for another one when that is asked for."""
    if isinstance(batch, tuple):
        return tuple(map(_copy_batch, batch))
    there = isinstance(batch, torch.Tensor) and batch.device.type not in ("cpu", "meta")
    return batch.clone() if there else batch


@Prefetcher.row("every batch, in order, on the device")
def every_batch(trial):
    tensors = _make_batches(trial, 5)
    pairs = [(batch, _pin(torch.arange(len(batch)), trial)) for batch in tensors]
    loaders = [tensors, pairs, [(*pairs[0], tensors[0]), (tensors[1],)], tensors[:1], []]
    if cases.holds(trial.device, torch.float64):
        loaders.append([_pin(batch.double() + 1e-12, trial) for batch in tensors])
    for batches in loaders:
        _expect_batches(trial, _make_prefetcher(trial, batches)[0], batches)


@Prefetcher.row("len, and again from the start")
def again(trial):
    tensors = _make_batches(trial, 4)
    prefetcher, _ = _make_prefetcher(trial, tensors)
    if not hasattr(prefetcher, "__len__"):
        expect.fail("the Prefetcher has no len", "len(prefetcher), as the loader has", "no __len__")
    length = trial.run(lambda: len(prefetcher), label="Prefetcher(loader, device).__len__")
    expect.equal(length, 4, "len is not the loader's")
    for epoch in ("first", "second"):
        _expect_batches(trial, prefetcher, tensors, f", in the {epoch} epoch")
        tensors.reverse()  # as a loader that shuffles gives them in another order each time
    for last in (0, 2):  # an epoch that is broken off leaves nothing to the next one
        threads = threading.active_count()

        def break_off(number: int, batch: object, last=last, threads=threads) -> bool:
            # A thread that loads ahead might stay for good, and hold up whatever waits after it.
            return number == last and threading.active_count() <= threads

        _iterate(trial, prefetcher, 4, break_off, "break")
        _expect_batches(trial, prefetcher, tensors, ", after an epoch that was broken off")


@Prefetcher.row("a few batches ahead, and not all of them")
def few_ahead(trial):
    prefetcher, loader = _make_prefetcher(trial, _make_batches(trial, 12))
    ahead = []
    _iterate(trial, prefetcher, 12, lambda number, batch: ahead.append(loader.taken - number - 1))
    most = max(ahead, default=0)
    headline = f"{most} batches were fetched before they were wanted: memory holds a few, not all"
    expect.that(most <= AHEAD, headline, f"at most {AHEAD} batches ahead", f"{most} batches ahead")


def _require_streams(trial) -> None:
    if trial.device.type == "mps" or (trial.device.type == "sim" and rule.following() == "mps"):
        raise Elsewhere("an Apple GPU has one stream; DEVLAB_DEVICE=sim judges it on simulated devices")


def _show_races(trial) -> contextlib.AbstractContextManager:
    """Return a block in which a simulated device, like a GPU, lets work find what has arrived by then."""
    return races() if trial.device.type == "sim" else contextlib.nullcontext()


def _find_wrong(trial, parts: int, seconds: float, epochs: int) -> tuple[int, int, float] | None:
    """Work on each batch for some seconds: in the current stream, then in another, then each in a new stream.

    Return the epoch, the batch in which other numbers were found, and whose numbers those are, or None.
    """
    batches: list = [None] * COUNT
    prefetcher, _ = _make_prefetcher(trial, batches)
    work = Work(trial.device, lambda call: seconds) if seconds else lambda: None
    # The first epoch on a GPU takes memory, which may take longer than a copy: it is not judged.
    for epoch in range(0 if trial.device.type == "sim" else -1, epochs):
        first = 1 + (epoch + 1) * COUNT * parts  # no number comes twice, so old ones are not right ones
        batches[:] = _make_batches(trial, COUNT, parts, first, _choose_size(trial, FEW))
        found: list = []

        def step(number: int, batch: object, first=first, found=found, changing=epoch == 2) -> None:
            work()
            for part, one in enumerate(_list_parts(batch)):
                found.append((number, first + number * parts + part, torch.aminmax(one)))
            if changing:
                current = torch.accelerator.current_device_index()
                torch.accelerator.set_stream(torch.Stream(trial.device))
                torch.accelerator.set_device_index(current)  # which a new stream changes

        with torch.Stream(trial.device) if epoch > 0 else contextlib.nullcontext(), _show_races(trial):
            _iterate(trial, prefetcher, COUNT, step)
            torch.accelerator.synchronize(trial.device)
            for number, wanted, ends in found:
                told = [end.item() for end in ends if end.item() != wanted]
                if told and epoch >= 0:
                    return epoch, number, (told[-1] - first) // parts
    return None


@Prefetcher.row("no batch is used before its copy has ended", only="accelerator")
def no_race(trial):
    _require_streams(trial)
    for parts in (1, 2):
        if early := _find_wrong(trial, parts, 0.0, 3):
            waits = "the stream that is current then does not wait" if early[0] == 2 else "nothing waits"
            expect.fail(
                f"batch {early[1]} was given out before its copy had ended, and {waits} for the copy",
                "the stream that computes waits for the copy",
                "work on the batch began before the batch was there",
            )


@Prefetcher.row("copies run while batches are worked on", only="accelerator")
def copies_overlap(trial):
    _require_streams(trial)
    for parts in (1, 2):
        with trial.assumed(), _show_races(trial):
            prefetcher, loader = _make_prefetcher(trial, _make_batches(trial, 4, parts))
            for _ in ("in order", "in another order"):
                _expect_batches(trial, prefetcher, loader.batches)
                loader.batches.reverse()
        _expect_no_wait_of_the_host(trial, parts)
    for parts in (1, 2):
        _expect_early_copies(trial, parts)


# The host asks whether a copy is under way by a change of the copy's source, which the copy takes along until
# it has ended. No clock is read: on an H200 the time between two marks in an idle stream refused nine right
# answers. The last column is changed when the batch is given out, the one before when an earlier batch is.
AN_EARLIER, ITS_OWN = -2, -1


def _last_row(batch: object) -> torch.Tensor:
    return _list_parts(batch)[-1][-1]


def _find_changes(trial, prefetcher, loader, parts: int, seconds: float = 0.0) -> list[tuple[float, ...]]:
    """Iterate, with so many seconds of work on each batch, and change the sources of copies meanwhile.

    Return of each batch the number that it held, and what came of it in the column of each kind of change.
    """
    batches, found = loader.batches, []
    batches[:] = _make_batches(trial, COUNT, parts, size=_choose_size(trial, SIZE))
    work = Work(trial.device, lambda call: seconds)

    def change_sources(number: int, batch: object) -> None:
        _last_row(batches[number])[ITS_OWN] = CHANGED
        if seconds:
            # From the end of this wait on, the stream that computes could work on the batch.
            torch.accelerator.current_stream(trial.device).record_event().synchronize()
            for coming in batches[number + 1 : loader.taken]:
                _last_row(coming)[AN_EARLIER] = CHANGED
            work()
            torch.accelerator.synchronize(trial.device)
        found.append(_last_row(batch)[AN_EARLIER:].clone())

    with _show_races(trial):
        _iterate(trial, prefetcher, COUNT, change_sources)
        torch.accelerator.synchronize(trial.device)
        return [(_last_row(one)[0].item(), *got.tolist()) for one, got in zip(batches, found, strict=False)]


def _expect_no_wait_of_the_host(trial, parts: int) -> None:
    """Expect copies that need no wait of the host, and batches that are given out while they are copied."""
    prefetcher, loader = _make_prefetcher(
        trial, _make_batches(trial, COUNT, parts, size=_choose_size(trial, SIZE))
    )
    with watch() as log:
        _iterate(trial, prefetcher, COUNT, lambda number, batch: None)
    moved, waits = log.events.transfers, log.events.synchronizations
    for told, found in (
        ("a copy from pageable memory, not from the loader's pinned tensor", [c for c in moved if c.staged]),
        (f"the host waits for the copy, {WITHOUT}", [copy for copy in moved if copy.blocking]),
        ("the host waits for the device ({}), where only a stream has to", waits),
    ):
        if found:
            headline = f"copies and work took turns: {told.format(found[0].cause)}"
            asked = "copies from pinned memory, for which only a stream waits"
            expect.fail(headline, asked, f"{found[0].line}")
    for _ in TURNS:
        if any(own != held for held, _, own in _find_changes(trial, prefetcher, loader, parts)):
            return
    expect.fail(
        "the host waited until each batch had arrived, and only a stream has to wait",
        "batches that are given out while they are still being copied",
        f"no copy of {COUNT} batches was under way when its batch was given out",
    )


def _expect_early_copies(trial, parts: int) -> None:
    """Expect batches that are there when asked for after work, and work that begins while copies run."""
    prefetcher, loader = _make_prefetcher(trial, [])
    streams, overlap = set(), False

    def note_stream(event: object) -> None:
        if isinstance(event, events.Transfer) and event.target == str(trial.device):
            streams.add(torch.accelerator.current_stream(trial.device))

    # A verdict on a busy machine must not be wrong: what is there at once in any of three epochs was early.
    for turn in TURNS:
        with clock.turns_of(turn), contextlib.ExitStack() as stack:
            stack.callback(events.observers.remove, note_stream)
            events.observers.append(note_stream)
            changes = _find_changes(trial, prefetcher, loader, parts, LONG)
        late = [number for number, (*_, own) in enumerate(changes) if number and own == CHANGED]
        overlap |= any(earlier == CHANGED for _, earlier, _ in changes)
        if overlap and not late:
            return
    cause = "the stream that computes waits for the copy of the next batch as well"
    if streams == {torch.accelerator.current_stream(trial.device)}:
        cause = "the copies stand in the stream that computes, behind its work"
    elif late:
        cause = "each copy is started when its batch is asked for, and none while the last one is worked on"
    expect.fail(
        f"copies and work took turns where each step waits: {cause}",
        f"each batch is there when it is asked for, after work of some {LONG * 1e3:.0f} ms",
        f"batch {late[0]} was still being copied then" if late else "work began when all copies had ended",
    )


@Prefetcher.row("no batch's memory is reused while work reads it", only="accelerator")
def memory_is_kept(trial):
    _require_streams(trial)
    for parts in (1, 2):
        if overwritten := _find_wrong(trial, parts, LONG, 2):
            _, number, other = overwritten
            expect.fail(
                f"batch {number} was copied over while work still read it",
                "its numbers, until the work that was launched on it has ended",
                f"the numbers of batch {other:.0f}, whose copy got the memory (H200, measured: 175 of 200)",
            )
