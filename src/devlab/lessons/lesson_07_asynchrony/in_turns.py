"""Why copies and work take turns: what is in the way, and at which line of the answer."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from devlab.lessons.lesson_07_asynchrony import keep_busy
from devlab.sim import clock, events
from devlab.watching.watch import watch

WORK = 100e-6  # seconds of the work on each batch


class _Copy(NamedTuple):
    """A copy to the device: its stream, when it ends, and how many batches were given out before."""

    stream: int
    end: float
    given: int


def reason(device: torch.device, parts: int, run: Callable) -> tuple[str, str]:
    """Return why nothing overlaps, and the line that tells it; ("", "") where nothing is found.

    `run(step)` goes once through the answer, calling `step(number, batch)` for each batch of so many tensors.
    """
    copies: list[_Copy] = []
    waits: list[float] = []  # until when the stream that computes is kept from each batch
    log = watch()

    def note(event: tuple) -> None:
        if isinstance(event, events.Transfer) and event.target == str(device):
            copies.append(_Copy(clock.current.queues[device.index].stream_id, event.end, len(waits)))

    def step(number: int, batch: object) -> None:
        waits.append(max(clock.current.queues[device.index].free_at, clock.now()))
        keep_busy(device, WORK)

    events.observers.append(note)
    try:
        with log:
            run(step)
    finally:
        events.observers.remove(note)
    return _told(log, copies, waits, parts)


def _told(log, copies: list[_Copy], waits: list[float], parts: int) -> tuple[str, str]:
    """Return the first thing that is in the way."""
    moved = log.events.transfers
    for copy in moved:
        if not copy.pinned:
            return "a copy from ordinary memory, not from the loader's pinned tensor", f"{copy.line}"
    for copy in moved:
        if copy.blocking:
            return "the host waits for the copy, which is made without `non_blocking=True`", f"{copy.line}"
    for wait in log.events.synchronizations:
        return f"the host waits for the device ({wait.cause}), where only a stream has to", f"{wait.line}"
    if not copies:
        return "", ""
    line = f"{moved[0].line}" if moved else ""
    if not any(copy.stream for copy in copies):
        return "the copies are queued in the stream that computes, behind its work", line
    if all(
        sum(copy.given <= number for copy in copies) <= (number + 1) * parts for number in range(len(waits))
    ):
        return (
            "each copy is started when its batch is asked for, and none while the last one is worked on",
            line,
        )
    nexts = [copies[parts * (number + 1) - 1] for number in range(1, min(len(waits), len(copies) // parts))]
    if nexts and all(wait >= copy.end - 1e-9 for wait, copy in zip(waits, nexts, strict=False)):
        return "the stream that computes waits for the copy of the next batch as well", line
    return "", ""
