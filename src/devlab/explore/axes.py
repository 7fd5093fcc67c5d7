"""Axes on which equal steps are equal factors: where a value lies in a picture, and the lines that say so."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from devlab.explore.scene import SMALL, Box, Path, Shape, Words


@dataclass(frozen=True)
class Axis:
    """An axis from the value `least`, at the pixel `start`, to the value `most`, at the pixel `end`."""

    least: float
    most: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the pixel of a value.

        >>> Axis(1, 100, start=0, end=200).at(10)
        100.0
        """
        share = math.log(value / self.least) / math.log(self.most / self.least)
        return round(self.start + share * (self.end - self.start), 1)

    @property
    def decades(self) -> list[float]:
        """Return the powers of ten on the axis.

        >>> Axis(0.5, 200, start=0, end=1).decades
        [1.0, 10.0, 100.0]
        """
        powers = range(math.ceil(math.log10(self.least) - 1e-9), math.floor(math.log10(self.most) + 1e-9) + 1)
        return [float(f"1e{power}") for power in powers]


def around(values: Iterable[float], start: float, end: float) -> Axis:
    """Return the axis from the power of ten below all values to the one above, so that it seldom changes.

    >>> axis = around([3e-6, 0.02], start=0, end=1)
    >>> axis.least, axis.most
    (1e-06, 0.1)
    """
    values = list(values)
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return Axis(float(f"1e{low}"), float(f"1e{max(high, low + 1)}"), start, end)


@dataclass(frozen=True)
class Axes:
    """An axis across and an axis up."""

    across: Axis
    up: Axis

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return where in the picture two values lie."""
        return self.across.at(x), self.up.at(y)

    def line(self, curve: Mapping[float, float]) -> tuple[tuple[float, float], ...]:
        """Return the points of a curve."""
        return tuple(self.at(x, y) for x, y in curve.items())

    def grid(self, across: Mapping[float, str], up: Callable[[float], str], below: float = 17) -> list[Shape]:
        """Return lines and labels for some values across, and for each power of ten of the axis up.

        The labels of the axis across stand `below` pixels under it.
        """
        left, right, low, high = self.across.start, self.across.end, self.up.start, self.up.end
        shapes: list[Shape] = []
        for value, label in across.items():
            x = self.across.at(value)
            shapes.append(guide(f"line at {value:g}", (x, low), (x, high)))
            shapes.append(
                Words(id=f"label at {value:g}", x=x, y=low + below, words=label, size=SMALL, anchor="middle")
            )
        for value in self.up.decades:
            y = self.up.at(value)
            shapes.append(guide(f"line of {value:g}", (left, y), (right, y)))
            shapes.append(
                Words(id=f"label of {value:g}", x=left - 8, y=y, words=up(value), size=SMALL, anchor="end")
            )
        return shapes


def guide(name: str, start: tuple[float, float], end: tuple[float, float]) -> Path:
    """Return a faint line from one place to another."""
    return Path(id=name, points=(start, end), thick=0.7, faint=True)


def dot(
    name: str, place: tuple[float, float], wide: float, fill: str, *, square: bool = False, **look
) -> Box:
    """Return a dot whose middle is at a place."""
    x, y = place
    look = {"edge": "", "round": 0 if square else wide / 2} | look
    return Box(id=name, x=x - wide / 2, y=y - wide / 2, wide=wide, high=wide, fill=fill, **look)


def apart(heights: Mapping[str, float], least: float = 15) -> dict[str, float]:
    """Return heights for words, in the order of the wanted ones and far enough apart for each to be read.

    >>> apart({"a": 10, "b": 12, "c": 80})
    {'a': 3.5, 'b': 18.5, 'c': 80}
    """
    found = dict(sorted(heights.items(), key=lambda item: item[1]))
    names = list(found)
    for _ in names:
        for upper, lower in pairwise(names):
            missing = least - (found[lower] - found[upper])
            if missing > 0:
                found[upper] -= missing / 2
                found[lower] += missing / 2
    return found
