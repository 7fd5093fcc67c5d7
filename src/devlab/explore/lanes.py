"""Lanes of time in a scene: bars that grow as time goes, the run before as an outline, and a head that moves.

All of it is drawn to a scale from 0 to a round time, so that two runs can be compared, and is played at one
speed: `PLAYED` seconds for the whole scale.
"""

from collections.abc import Iterable

from devlab import palette
from devlab.explore.scene import INK, SMALL, WIDE, Box, Path, Shape, Words
from devlab.watching.memory import duration
from devlab.watching.timeline import round_up

LEFT, RIGHT = 112, WIDE - 14  # where the time begins and ends
STEPS = (1, 1.6, 2.4, 4, 5, 8, 10)  # of the round times: a quarter of each is short to write, too
PLAYED = 5.0
GHOST = 10  # how high the outline of the run before is
LETTER = 7.6  # the width of a bold letter on a bar, on average
Times = tuple[float, float]  # from when to when, in seconds
Place = tuple[float, float, float, float]  # x, y, width, height


class Chart:
    """The lanes of a run that takes `end` seconds on a device, to a scale that holds the times `beside` too.

    >>> chart = Chart("sim:0", 110e-6, [158e-6], top=0, bottom=100)
    >>> round(1e6 * chart.scale), chart.played, round(chart.x(80e-6))
    (160, 3.4375, 429)
    """

    def __init__(self, device: str, end: float, beside: Iterable[float], top: float, bottom: float):
        self.how = "simulated" if device.startswith("sim") else "measured"
        self.end, self.top, self.bottom = end, top, bottom
        self.scale = round_up(max([end, *beside]), STEPS)
        self.shapes: list[Shape] = []

    @property
    def played(self) -> float:
        """Return for how many seconds the run is played."""
        return PLAYED * self.end / self.scale

    def x(self, when: float) -> float:
        """Return where a moment lies."""
        return round(LEFT + (RIGHT - LEFT) * when / self.scale, 2)

    def share(self, start: float, end: float) -> Times:
        """Return in which share of the playing time something comes about.

        A device's clock and the host's may differ, so that the device seems to end after the run.
        """
        return min(1.0, start / self.end), min(1.0, end / self.end)

    def words(self, name: str, x: float, y: float, words: str, when: float | None = None, **look) -> None:
        """Write words, which appear at a moment where that is given."""
        during = None if when is None else self.share(when, when)
        self.shapes.append(Words(id=name, x=x, y=y, words=words, during=during, **({"size": SMALL} | look)))

    def line(self, name: str, *points: tuple[float, float], **look) -> None:
        """Draw a thin line."""
        self.shapes.append(Path(id=name, points=points, **({"edge": palette.WAIT, "thick": 1} | look)))

    def lane(
        self, name: str, y: float, high: float, label: str, below: str, ghost: bool, says: str = "", when=None
    ) -> None:
        """Draw the ground of a lane and its label, and words below that, at a moment if it is given."""
        self.line(f"lane {name}", (LEFT, y + high), (RIGHT, y + high))
        x, middle, look = LEFT - 10, y + high / 2, {"anchor": "end", "quiet": True}
        self.words(f"lane {name} label", x, middle - 7, label, anchor="end", says=says)
        self.words(f"lane {name} below", x, middle + 7, below, when, **look)
        if ghost:
            self.words(f"lane {name} before", x, y + high + 8, "before", **look, size=11)

    def box(self, name: str, times: Times, place: Place, fill: str, says: str = "") -> None:
        """Draw a rectangle that grows as the time goes, hatched if it has no fill."""
        x, y, wide, high = place
        self.shapes.append(
            Box(
                id=name, x=x, y=y, wide=wide, high=high, fill=fill, hatched=not fill, round=2,
                edge=INK if fill else palette.WAIT, says=says, during=self.share(*times),
            )
        )  # fmt: skip

    def bar(self, name: str, times: Times, y: float, high: float, fill: str, label: str, says: str) -> None:
        """Draw what goes on from when to when, with the label, or the first word of it, where that fits."""
        x, wide = self._across(times)
        self.box(name, times, (x, y, wide, high), fill, f"{says}, {self._span(times)}")
        fitting = [
            words for words in (label, label.split(" ")[0]) if words and LETTER * len(words) + 3 <= wide
        ]
        if fitting:
            # The label appears when the bar has grown to the label's end.
            share = 0.5 + LETTER * len(fitting[0]) / 2 / wide
            when = times[0] + share * (times[1] - times[0])
            self.words(
                f"{name} label", x + wide / 2, y + high / 2, fitting[0], when,
                anchor="middle", bold=True, size=min(SMALL, high), colour=palette.LETTERS if fill else INK,
            )  # fmt: skip

    def ghost(self, name: str, times: Times, y: float, high: float, says: str, hatched: bool = False) -> None:
        """Draw the outline of what the run before did."""
        x, wide = self._across(times)
        self.shapes.append(
            Box(
                id=f"before {name}", x=x, y=y, wide=wide, high=high, edge=palette.WAIT, hatched=hatched,
                round=2, says=f"before: {says}, {self._span(times)}",
            )
        )  # fmt: skip

    def _span(self, times: Times) -> str:
        start, end = times
        return f"from {duration(start) if start else '0'} to {duration(end)}, {self.how}"

    def _across(self, times: Times) -> tuple[float, float]:
        """Return the left edge and the width of a bar, which can be seen even if it takes no time at all."""
        start, end = map(self.x, times)
        return start, max(1.5, round(end - start, 2))

    def finish(self, name: str, before: float | None) -> None:
        """Write the time below the lanes, and draw the head, which ends where the run does."""
        for quarter in range(5):
            x = self.x(self.scale * quarter / 4)
            self.line(f"tick {quarter}", (x, self.bottom), (x, self.bottom + 5))
            written = duration(self.scale * quarter / 4) if quarter else "0"
            side = {"anchor": "end"} if quarter == 4 else {"anchor": "middle"}
            self.words(f"time {quarter}", x, self.bottom + 13, written, quiet=True, **side)
        taken = f"{name} takes {duration(self.end)}"
        if before is not None:
            x = self.x(before)
            said = f"before, it took {duration(before)}"
            self.line("end before", (x, self.top + 16), (x, self.bottom), dashed=True, says=said)
            taken += f", {compare(self.end, before)}"
        x = self.x(self.end)
        self.line(
            "head", (x, self.top + 16), (x, self.bottom), edge=INK, thick=2,
            during=(0.0, 1.0), comes=(x - LEFT, 0.0),
        )  # fmt: skip
        left = self.end > 0.42 * self.scale  # where there is more room for the words
        wide = LETTER * len(taken)
        x, anchor = (max(x - 8, wide), "end") if left else (min(x + 8, WIDE - wide), "start")
        self.words("takes", x, self.top + 8, taken, self.end, bold=True, anchor=anchor)


def compare(now: float, before: float) -> str:
    """Say how many times longer or shorter something takes than it did.

    >>> compare(157e-6, 221e-6), compare(4.0, 2.0), compare(1.0, 1.01)
    ('1.4 times shorter than before', '2 times longer than before', 'about as long as before')
    """
    times = float(f"{max(now, before) / min(now, before):.2g}")
    if times == 1:
        return "about as long as before"
    return f"{times:g} times {'longer' if now > before else 'shorter'} than before"
