"""`log.timeline()`: the host and its devices side by side in time, as text and as a drawing."""

import math
import os
import zlib
from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from devlab import palette
from devlab.panel import Panel, escape, join_words
from devlab.watching import trace
from devlab.watching.memory import duration
from devlab.watching.record import Events, Launch, Mark, Transfer, When

# Staging is the host's own copy of bytes into pinned memory, by the driver or by `pin_memory()`.
STARTING, STAGING, WAITING = "starting work", "staging", "waiting"
COMPUTING, COPYING = "computing", "copying"
HOST = "host"


class Span(NamedTuple):
    """One stretch of a lane, in seconds from the lane's start, with its state, name and recorded event."""

    start: float
    end: float
    state: str
    name: str
    line: object
    event: object = None

    @property
    def seconds(self) -> float:
        """Return how long the span lasts."""
        return self.end - self.start


def lay_out(events: Events) -> dict[str, list[Span]]:
    """Return the lanes of a log: `host`, and for each accelerator a lane of computing and a lane of copies.

    Times are the simulator's if a simulated device took part, else the host's. A device that keeps
    no marks has no lane.
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
            continue  # the wait for a copy: the lane has the copy already
        seen.add(id(event.when))
        lanes[HOST].append(_on_host(event))
        for device in _devices(event):
            times = _on_device(event.when, device, origins, works[id(event.when)] == 1)
            if times is not None:
                state = COPYING if type(event) is Transfer else COMPUTING
                name = event.operator if type(event) is Launch else event.cause
                lanes.setdefault(f"{device} {state}", []).append(Span(*times, state, name, event.line, event))
    lanes[HOST] += [
        Span(*pinning.when[:2], STAGING, "pin_memory()", pinning.line, pinning) for pinning in pinnings
    ]
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
    return Span(event.when.began, event.when.ended, _state(event), name, event.line, event)


def _state(event) -> str:
    """Return what an event kept the host busy with."""
    if type(event) is Launch:
        return STARTING
    if type(event) is Transfer and not event.blocking:
        return STAGING if event.staged else STARTING
    return WAITING


def _on_device(when: When, device: str, origins: dict[str, tuple], alone: bool) -> tuple[float, float] | None:
    """Return when a device was busy with an event, on the host's clock.

    `alone` tells whether the operator that made the event made no other.
    """
    if when.marks is None or None in when.marks:
        return None
    before, after = when.marks
    if isinstance(before, Mark):
        free, done = before.free_at, after.free_at
        if alone and after.began_at >= free:
            return after.began_at, done
        # If the stream was free early, the work began when the host had started the work.
        return (when.ended if free < when.ended < done else free), done
    if str(getattr(before, "device", None) or device) != device:
        return None  # a copy between two GPUs has its marks on one of them, and their clocks do not compare
    after.synchronize()
    start, origin = origins.setdefault(device, (when.began, before))
    return tuple(start + origin.elapsed_time(mark) / 1e3 for mark in (before, after))


def paint(lane: Iterable[Span], total: float, columns: int) -> list[str]:
    """Return what a lane shows in each of some columns of time, "" for nothing at all.

    Where a column holds several states, they take turns from column to column, so that each state, idle time
    among them, has as many columns as its time asks for. What comes after an idle column is always shown.

    >>> paint([Span(0.0, 1.0, COMPUTING, "mm", None)], 2.0, 4)
    ['computing', 'computing', '', '']
    >>> waits = [Span(n + 0.75, n + 1.0, WAITING, "item()", None) for n in range(8)]
    >>> starts = [Span(n + 0.0, n + 0.75, STARTING, "mm", None) for n in range(8)]
    >>> paint(waits + starts, 8.0, 8).count(WAITING)
    2
    """
    shares: list[dict[str, float]] = [{} for _ in range(columns)]
    width = total / columns if total else 1.0
    for span in lane:
        first = min(columns - 1, int(span.start / width + NEAR))
        last = min(columns - 1, max(first, math.ceil(span.end / width - NEAR) - 1))
        for column in range(first, last + 1):
            part = min(span.end, (column + 1) * width) - max(span.start, column * width)
            share = shares[column]
            share[span.state] = share.get(span.state, 0.0) + max(part, 0.0) / width
    painted, owed = [], Counter()
    for share in shares:
        idle = max(0.0, 1.0 - sum(share.values()))
        owed.update(share | {"": idle})
        states = list(share) or [""]
        if idle > NEAR and painted and painted[-1]:
            states.append("")
        painted.append(max(states, key=owed.__getitem__))
        owed[painted[-1]] -= 1.0
    return painted


COLUMNS = 72
NEAR = 1e-6  # of a column: sums of seconds are not exact, and a border may lie on a column's own
SIGNS = {STARTING: "▪", STAGING: "▓", WAITING: "░", COMPUTING: "█", COPYING: "▒", "": "·"}
MOST_WAITS = 5

# The colours of every picture; computing has the device's own colour, and waiting is hatched.
_COLOURS = {
    STARTING: palette.HOST,
    STAGING: palette.COPY,
    WAITING: "",
    COPYING: palette.COPY,
    COMPUTING: palette.DEVICES[0],
}
_LEFT, _RIGHT, _WIDE, _LANE, _BAR = 124, 746, 760, 34, 24
_STRIPES = f"repeating-linear-gradient(45deg,{palette.WAIT} 0 2px,transparent 2px 6px)"
_LETTER = 6.8  # the width of a letter on a bar, on average
# A notebook that is not trusted loses its drawings and keeps the words of the drawings. The words in here
# show only then; a font size of 0 hides all other words of the drawing then.
_INSTEAD = (
    '<foreignObject width="0" height="0">'
    '<span style="font-size:13px">Run this cell, and the drawing is here.</span></foreignObject>'
)


class Timeline(Panel):
    """A log in time.

    `lanes` holds, by name, what the host and each device did: spans with `start`, `end`, `state`, `name` and
    `line`, in seconds; `total` is how long it all took, `waited` how long the host stood still. The drawing
    goes from 0 to `scale`, a round number of seconds; the timeline `beside` stands above this one in it, to
    the same scale, and so do those that it stands beside itself.
    """

    def __init__(self, events: Events, beside: "Timeline | None" = None):
        self.lanes = lay_out(events)
        self.simulated = any(name.startswith("sim") for name in self.lanes)
        self.total = max((span.end for lane in self.lanes.values() for span in lane), default=0.0)
        self.scale = max(round_up(self.total), beside.scale if beside else 0.0)
        self.other_scale = beside.scale if beside and beside.scale < self.scale else None
        self._stack = [*(beside._stack if beside else ()), self]

    @property
    def waited(self) -> float:
        """Return how long the host waited altogether, in seconds."""
        return sum(span.seconds for span in self._host_waits())

    def save(self, path: str | os.PathLike) -> None:
        """Write the lanes as a Chrome trace, which ui.perfetto.dev opens; `.gz` at the end compresses it.

        A trace of simulated times says so in `otherData`, in the names of its processes and in each slice.
        """
        trace.save(path, self.lanes, self.simulated)

    def _host_waits(self) -> list[Span]:
        return [span for span in self.lanes[HOST] if span.state == WAITING]

    def text(self) -> str:
        """Return the lanes as rows of signs, and the longest waits."""
        if not self.lanes[HOST]:
            return "nothing left the CPU, so there are no lanes to draw"
        left = max(map(len, self.lanes)) + 2
        ruler = f"{'0':<{COLUMNS - len(duration(self.scale))}}{duration(self.scale)}"
        drawn = max(1, math.ceil(COLUMNS * self.total / self.scale - 1e-9)) if self.scale else COLUMNS
        lines = [self._title(), " " * left + ruler]
        lines += [
            f"{name:<{left}}" + "".join(SIGNS[state] for state in paint(lane, self.scale, COLUMNS)[:drawn])
            for name, lane in self.lanes.items()
        ]
        return "\n".join([*lines, self._legend(), *self._waits(), *self._pins()])

    def html(self) -> str:
        """Return the lanes as a drawing, and the longest waits."""
        if not self.lanes[HOST]:
            return f"<div>{escape(self.text())}</div>"
        said = [*self._waits(), *self._pins()]
        waits = "".join(f'<div style="white-space:pre-wrap">{escape(line)}</div>' for line in said)
        title = f"<div><strong>{escape(self._title())}</strong></div>" if len(self._stack) == 1 else ""
        return f"{title}{self._draw_svg()}<div>{self._html_legend()}</div>{waits}"

    def _title(self) -> str:
        # On an idle GPU the first mark is reached when it is set, so a stretch holds the launch as well.
        marked = ", on the device between two marks" if len(self.lanes) > 1 else ""
        title = f"{duration(self.total)}, measured{marked}"
        if self.simulated:
            deeds = ["starts work", *["stages bytes"] * self._stages(), *["waits"] * bool(self._host_waits())]
            title = f"{duration(self.total)} of simulated time, in which the host only {join_words(deeds)}"
        if self.other_scale is None:
            return title
        return f"{title}; drawn over {duration(self.scale)}, the one before over {duration(self.other_scale)}"

    def _stages(self) -> bool:
        return any(span.state == STAGING for span in self.lanes[HOST])

    @staticmethod
    def _states(stack: "list[Timeline]") -> list[str]:
        shown = {span.state for one in stack for lane in one.lanes.values() for span in lane}
        return [state for state in SIGNS if state in shown]

    def _legend(self) -> str:
        return "  ".join(f"{SIGNS[state]} {state}" for state in self._states([self]))

    def _html_legend(self) -> str:
        return "".join(
            '<span style="display:inline-block;width:18px;height:12px;'
            f'background:{_COLOURS[state] or _STRIPES}"></span> {state} &ensp;'
            for state in self._states(self._stack)
        )

    def _waits(self) -> list[str]:
        """Return how long the host waited, and where: the same wait on the same line counts as one."""
        places: dict[tuple, list[float]] = {}
        for span in self._host_waits():
            places.setdefault((span.name, span.line), []).append(span.seconds)
        if not places:
            return ["the host never waited"]
        longest = sorted(places.items(), key=lambda place: -sum(place[1]))
        rows = [
            f"  {duration(sum(seconds)):>8}  {len(seconds):,} × {name}  {line}".rstrip()
            for (name, line), seconds in longest[:MOST_WAITS]
        ]
        more = ", longest:" if len(places) > MOST_WAITS else ":"
        return [
            f"the host waited {duration(self.waited)}, {self.waited / self.total:.0%} of the time{more}",
            *rows,
        ]

    def _pins(self) -> list[str]:
        """Return what lines of the program pinned again and again: the copy is paid for each time."""
        places: dict[object, list[float]] = {}
        for span in self.lanes[HOST]:
            if span.name == "pin_memory()" and "pin_memory(" in str(span.line):
                places.setdefault(span.line, []).append(span.seconds)
        return [
            f"  {duration(sum(spent)):>8}  {len(spent):,} × pin_memory(), paid for each time  {line}"
            for line, spent in places.items()
            if len(spent) > 1
        ]

    def _draw_svg(self) -> str:
        """Draw this timeline below those that it stands beside, all to one scale."""
        ink, y, drawn = 'fill="currentColor" font-size="12"', 0, []
        for one in self._stack:
            if len(self._stack) > 1:
                drawn.append(
                    f'<text x="0" y="{y + 14}" {ink} font-weight="600">{escape(one._title())}</text>'
                )
                y += 20
            for name, lane in one.lanes.items():
                drawn.append(
                    f'<text x="{_LEFT - 10}" y="{y + 22}" {ink} text-anchor="end">{escape(name)}</text>'
                    f'<path d="M{_LEFT} {y + _LANE - 4}H{_RIGHT}" stroke="{palette.WAIT}"/>'
                )
                drawn += _bars(name, lane, self.scale, y + _LANE - 4 - _BAR)
                y += _LANE
            x = _LEFT + (_RIGHT - _LEFT) * one.total / (self.scale or 1.0)
            drawn.append(f'<path d="M{x:.1f} {y - _LANE * len(one.lanes) + 2}V{y}" stroke="currentColor"/>')
        for quarter in range(5):
            x, anchor = _LEFT + (_RIGHT - _LEFT) * quarter / 4, "end" if quarter == 4 else "middle"
            label = duration(self.scale * quarter / 4) if quarter else "0"
            drawn.append(
                f'<text x="{x}" y="{y + 16}" {ink} text-anchor="{anchor}">{label}</text>'
                f'<path d="M{x} {y}v5" stroke="{palette.WAIT}"/>'
            )
        hatch = f"devlab-wait-{zlib.crc32(''.join(drawn).encode()):x}"  # a name of its own in the whole page
        pattern = (
            f'<pattern id="{hatch}" width="6" height="6" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate(45)"><path d="M0 0V6" stroke="{palette.WAIT}" stroke-width="2.5"/>'
            "</pattern>"
        )
        drawing = (
            f'<svg role="img" aria-label="{escape(self._label())}" viewBox="0 0 {_WIDE} {y + 22}" '
            f'style="display:block;width:100%;height:auto">{_INSTEAD}{pattern}'
            f"{''.join(drawn).replace(_HATCH, f'url(#{hatch})')}</svg>"
        )
        return f'<div style="font-size:0px">{drawing}</div>'

    def _label(self) -> str:
        lanes = [
            f"{name}: busy {duration(sum(span.seconds for span in lane))}"
            for name, lane in self.lanes.items()
            if name != HOST
        ]
        return "; ".join([f"timeline of {self._title()}", *lanes, self._waits()[0]])

    def __repr__(self) -> str:
        return f"<Timeline of {duration(self.total)}: {', '.join(self.lanes)}>"


def round_up(seconds: float, steps: tuple[float, ...] = (1, 2.5, 5, 10)) -> float:
    """Return the next of `steps`, times any power of ten, so that similar times are drawn alike.

    >>> round(1e6 * round_up(221e-6)), round(1e6 * round_up(157e-6)), round_up(0.5)
    (250, 250, 0.5)
    """
    if seconds <= 0:
        return 0.0
    unit = 10.0 ** math.floor(math.log10(seconds))
    return next(float(f"{step * unit:.3g}") for step in steps if seconds <= step * unit * (1 + 1e-9))


_HATCH = "the hatch of this drawing"


def _bars(name: str, lane: list[Span], scale: float, top: int) -> list[str]:
    """Return a lane as rectangles, each of which says what it is and by which line of code.

    A stretch that can be seen has its own; what is too short shares one with the pixels beside it.
    """
    wide = _RIGHT - _LEFT
    colours = _COLOURS | {COMPUTING: palette.of(name.split()[0])}

    def bar(x: float, width: float, state: str, says: str, words: str = "") -> str:
        edge = f'stroke="{palette.LETTERS}" stroke-opacity="0.6" rx="2"' if words else ""
        place = f'x="{x:.1f}" y="{top}" width="{width:.1f}" height="{_BAR}"'
        drawn = f'<rect {place} fill="{colours[state] or _HATCH}" {edge}><title>{escape(says)}</title></rect>'
        if len(words) * _LETTER + 4 > width:
            return drawn
        fill = palette.LETTERS if colours[state] else "currentColor"
        look = f'font-size="12" text-anchor="middle" fill="{fill}" pointer-events="none"'
        return f'{drawn}<text x="{x + width / 2:.1f}" y="{top + 16}" {look}>{escape(words)}</text>'

    short, found = [], []
    for span in lane:
        x, width = _LEFT + wide * span.start / scale, wide * span.seconds / scale
        if width < 3:
            short.append(span)
            continue
        says = f"{span.state}: {span.name}, {duration(span.seconds)}\n{span.line or ''}".rstrip()
        found.append(bar(x, width, span.state, says, span.name or span.state))
    x = _LEFT
    runs = []
    for state, run in groupby(paint(short, scale, wide)):
        width = len(list(run))
        if state:
            begin, end = ((at - _LEFT) * scale / wide for at in (x, x + width))
            own = Counter(
                f"{one.name}  {one.line or ''}".rstrip()
                for one in short
                if one.state == state and one.end > begin and one.start < end
            )
            rows = [f"{count:,} × {what}" for what, count in own.most_common(MOST_WAITS)]
            runs.append(bar(x, width, state, "\n".join([f"{state}:", *rows])))
        x += width
    return runs + found
