"""A log laid out in time: what the host did, and what each device did meanwhile."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from devlab.watching.events import Events, Launch, Transfer, When
from devlab.watching.marks import Mark

# Staging is the host's own copy of bytes into pinned memory, by the driver or by `pin_memory()`.
STARTING, STAGING, WAITING = "starting work", "staging", "waiting"
COMPUTING, COPYING = "computing", "copying"
HOST = "host"


class Span(NamedTuple):
    """One stretch of a lane, in seconds from the lane's start: what it is, and what the program called it."""

    start: float
    end: float
    state: str
    name: str
    line: object

    @property
    def seconds(self) -> float:
        """Return how long it lasts."""
        return self.end - self.start


def lay_out(events: Events) -> dict[str, list[Span]]:
    """Return the lanes of a log: `host`, and for each accelerator where it computes and where it copies.

    Times are the simulator's where it took part, else the host's; a device that keeps no marks has no lane.
    """
    pinnings = events.pinnings
    simulated = [event for event in events if _is_simulated(event)]
    events = simulated or list(events)
    origins: dict[str, tuple] = {}
    lanes: dict[str, list[Span]] = {HOST: []}
    works = Counter(id(event.when) for event in events if _devices(event))
    seen = set()
    for event in events:
        if id(event.when) in seen:
            continue  # the wait for a copy, which its transfer has told
        seen.add(id(event.when))
        lanes[HOST].append(_on_host(event))
        for device in _devices(event):
            times = _on_device(event.when, device, origins, works[id(event.when)] == 1)
            if times is not None:
                state = COPYING if type(event) is Transfer else COMPUTING
                name = event.operator if type(event) is Launch else event.cause
                lanes.setdefault(f"{device} {state}", []).append(Span(*times, state, name, event.line))
    lanes[HOST] += [Span(*one.when[:2], STAGING, "pin_memory()", one.line) for one in pinnings]
    lanes[HOST].sort(key=lambda span: span.start)
    first = min((span.start for lane in lanes.values() for span in lane), default=0.0)
    return {
        name: [span._replace(start=span.start - first, end=span.end - first) for span in lane]
        for name, lane in [(HOST, lanes.pop(HOST)), *sorted(lanes.items())]
    }


def _devices(event) -> list[str]:
    """Return the accelerators that an event kept busy."""
    if type(event) is Transfer:
        return [device for device in (event.source, event.target) if device != "cpu"]
    return [event.device] if type(event) is Launch else []


def _is_simulated(event) -> bool:
    devices = (event.source, event.target) if type(event) is Transfer else (event.device,)
    return any(device.startswith("sim") for device in devices)


def _on_host(event) -> Span:
    name = event.operator if type(event) is Launch else event.cause
    return Span(event.when.began, event.when.ended, _state(event), name, event.line)


def _state(event) -> str:
    """Return what an event kept the host busy with."""
    if type(event) is Launch:
        return STARTING
    if type(event) is Transfer and not event.blocking:
        return STAGING if event.staged else STARTING
    return WAITING


def _on_device(when: When, device: str, origins: dict[str, tuple], alone: bool) -> tuple[float, float] | None:
    """Return when a device was busy with something, on the host's clock; `alone` where it was one thing."""
    if when.marks is None or None in when.marks:
        return None
    before, after = when.marks
    if isinstance(before, Mark):
        free, done = before.free_at, after.free_at
        if alone and after.began_at >= free:
            return after.began_at, done
        # The stream was free before the host had started the work: it began when that was done.
        return (when.ended if free < when.ended < done else free), done
    after.synchronize()
    start, origin = origins.setdefault(device, (when.began, before))
    return tuple(start + origin.elapsed_time(mark) / 1e3 for mark in (before, after))


def paint(lane: Iterable[Span], total: float, columns: int) -> list[str]:
    """Return what a lane mostly does in each of some columns of time, "" for nothing at all.

    >>> paint([Span(0.0, 1.0, COMPUTING, "mm", None)], 2.0, 4)
    ['computing', 'computing', '', '']
    """
    shares: list[dict[str, float]] = [{} for _ in range(columns)]
    width = total / columns if total else 1.0
    for span in lane:
        first = min(columns - 1, int(span.start / width))
        last = min(columns - 1, max(first, -int(-span.end // width) - 1))
        for column in range(first, last + 1):
            part = min(span.end, (column + 1) * width) - max(span.start, column * width)
            share = shares[column]
            share[span.state] = share.get(span.state, 0.0) + max(part, 0.0)
    return [max(share, key=share.get) if share else "" for share in shares]
