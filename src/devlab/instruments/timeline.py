"""`log.timeline()`: the host and its devices side by side in time, as text and as a drawing."""

from itertools import groupby

from devlab import palette
from devlab.instruments.events import Events
from devlab.instruments.lanes import (
    COMPUTING,
    COPYING,
    HOST,
    STAGING,
    STARTING,
    WAITING,
    Span,
    lay_out,
    paint,
)
from devlab.instruments.sizes import duration
from devlab.panel import Panel, escape

COLUMNS = 72
SIGNS = {STARTING: "▪", STAGING: "▓", WAITING: "░", COMPUTING: "█", COPYING: "▒", "": "·"}
MOST_WAITS = 5

# As in every picture; what a device computes is in the device's own colour. Heights differ, too.
_COLOURS = {
    STARTING: palette.HOST,
    STAGING: palette.COPY,
    WAITING: palette.WAIT,
    COPYING: palette.COPY,
    COMPUTING: palette.DEVICES[0],
}
_HEIGHTS = {STARTING: 14, STAGING: 14, WAITING: 5, COMPUTING: 14, COPYING: 9}
_WIDTH, _LANE, _LEFT = 720, 24, 130
# A notebook that is not trusted loses its drawings and keeps the words in them: those in here are to be read
# then and not otherwise, all others not then.
_INSTEAD = (
    '<foreignObject width="0" height="0">'
    '<span style="font-size:13px">Run this cell, and the drawing is here.</span></foreignObject>'
)


class Timeline(Panel):
    """A log in time.

    `lanes` holds, by name, what the host and each device did: spans with `start`, `end`, `state`, `name` and
    `line`, in seconds; `total` is how long it all took, `waited` how long the host stood still.
    """

    def __init__(self, events: Events):
        self.lanes = lay_out(events)
        self.simulated = any(name.startswith("sim") for name in self.lanes)
        self.total = max((span.end for lane in self.lanes.values() for span in lane), default=0.0)

    @property
    def waited(self) -> float:
        """Return how long the host waited altogether, in seconds."""
        return sum(span.seconds for span in self._host_waits())

    def _host_waits(self) -> list[Span]:
        return [span for span in self.lanes[HOST] if span.state == WAITING]

    def text(self) -> str:
        """Return the lanes as rows of signs, and the longest waits."""
        if not self.lanes[HOST]:
            return "nothing left the CPU, so there are no lanes to draw"
        left = max(map(len, self.lanes)) + 2
        ruler = f"{'0':<{COLUMNS - len(duration(self.total))}}{duration(self.total)}"
        lines = [self._title(), " " * left + ruler]
        lines += [
            f"{name:<{left}}" + "".join(SIGNS[state] for state in paint(lane, self.total, COLUMNS))
            for name, lane in self.lanes.items()
        ]
        return "\n".join([*lines, self._legend(), *self._waits()])

    def html(self) -> str:
        """Return the lanes as a drawing, and the longest waits."""
        if not self.lanes[HOST]:
            return f"<div>{escape(self.text())}</div>"
        waits = "".join(f'<div style="white-space:pre-wrap">{escape(line)}</div>' for line in self._waits())
        title = f"<div><strong>{escape(self._title())}</strong></div>"
        return f"{title}{self._drawing()}<div>{self._html_legend()}</div>{waits}"

    def _title(self) -> str:
        if self.simulated:
            host = "starts work, stages bytes and waits" if self._stages() else "starts work and waits"
            return f"{duration(self.total)} of simulated time, in which the host only {host}"
        return f"{duration(self.total)}, measured"

    def _stages(self) -> bool:
        return any(span.state == STAGING for span in self.lanes[HOST])

    def _states(self) -> list[str]:
        shown = {span.state for lane in self.lanes.values() for span in lane}
        return [state for state in SIGNS if state in shown]

    def _legend(self) -> str:
        return "  ".join(f"{SIGNS[state]} {state}" for state in self._states())

    def _html_legend(self) -> str:
        return "".join(
            f'<span style="display:inline-block;width:18px;height:{_HEIGHTS[state]}px;'
            f'background:{_COLOURS[state]}"></span> {state} &ensp;'
            for state in self._states()
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

    def _drawing(self) -> str:
        parts = []
        for row, (name, lane) in enumerate(self.lanes.items()):
            base = (row + 1) * _LANE
            parts.append(
                f'<text x="0" y="{base - 4}" fill="currentColor" font-size="12">{escape(name)}</text>'
            )
            parts.append(
                f'<line x1="{_LEFT}" y1="{base}" x2="{_LEFT + _WIDTH}" y2="{base}" stroke="currentColor" '
                'stroke-opacity="0.4"/>'
            )
            own = _COLOURS | {COMPUTING: palette.of(name.split()[0])}
            parts += _rectangles(lane, self.total, base, own)
        height = _LANE * (len(self.lanes) + 1)
        for x, anchor, label in ((_LEFT, "start", "0"), (_LEFT + _WIDTH, "end", duration(self.total))):
            parts.append(
                f'<text x="{x}" y="{height - 6}" fill="currentColor" font-size="12" '
                f'text-anchor="{anchor}">{label}</text>'
            )
        drawing = (
            f'<svg role="img" aria-label="{escape(self._spoken())}" viewBox="0 0 {_LEFT + _WIDTH} {height}" '
            f'style="width:100%;max-width:{_LEFT + _WIDTH}px;height:auto">{_INSTEAD}{"".join(parts)}</svg>'
        )
        return f'<div style="font-size:0px">{drawing}</div>'

    def _spoken(self) -> str:
        lanes = [
            f"{name}: busy {duration(sum(span.seconds for span in lane))}"
            for name, lane in self.lanes.items()
            if name != HOST
        ]
        return "; ".join([f"timeline of {self._title()}", *lanes, self._waits()[0]])

    def __repr__(self) -> str:
        return f"<Timeline of {duration(self.total)}: {', '.join(self.lanes)}>"


def _rectangles(lane: list[Span], total: float, base: int, colours: dict[str, str]) -> list[str]:
    """Return a lane's stretches as rectangles, one for each run of pixels in one state."""
    found, x = [], 0
    for state, run in groupby(paint(lane, total, _WIDTH)):
        width = len(list(run))
        if state:
            height = _HEIGHTS[state]
            found.append(
                f'<rect x="{_LEFT + x}" y="{base - height}" width="{width}" height="{height}" '
                f'fill="{colours[state]}"><title>{state}</title></rect>'
            )
        x += width
    return found
