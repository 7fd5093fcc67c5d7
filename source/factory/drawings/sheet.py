"""A drawing: a scene that stands still, written into the prose of a lesson as an image.

A lesson names a drawing in the place of an image's address, `![what it shows](drawing:all_reduce)`, and its
words are what a screen reader says. An image in the prose is shown without running a cell, and in a notebook
that is not trusted yet.
"""

import base64
import re
from collections.abc import Callable

from devlab import palette
from devlab.explore.scene import SMALL, Box, Path, Scene, Shape, Words
from devlab.explore.still import svg
from factory.reading import SourceError

IMAGE = re.compile(r"!\[([^\]]+)\]\(drawing:(\w+)\)")
HOST, FIRST, SECOND = palette.HOST, *palette.DEVICES
DRAWINGS: dict[str, Callable[[], Scene]] = {}


def drawn(prose: str) -> str:
    """Return prose in which every drawing that it names is an image.

    Raises:
        SourceError: when there is no drawing of a name.

    >>> drawn("![words](drawing:all_reduce)")[:48]
    '![words](data:image/svg+xml;base64,PHN2ZyB4bWxuc'
    """

    def image(found: re.Match) -> str:
        said, name = found.groups()
        if name not in DRAWINGS:
            raise SourceError(f"there is no drawing {name!r}; there is: {', '.join(DRAWINGS)}")
        data = base64.b64encode(svg(DRAWINGS[name](), said).encode()).decode()
        return f"![{said}](data:image/svg+xml;base64,{data})"

    return IMAGE.sub(image, prose)


def drawing(make: Callable[[], Scene]) -> Callable[[], Scene]:
    """Put a function among the drawings, under its name."""
    DRAWINGS[make.__name__] = make
    return make


class Sheet:
    """Shapes that are put down one after the other."""

    def __init__(self):
        self.shapes: list[Shape] = []

    def box(self, x: float, y: float, wide: float, high: float, *lines: str, top: str = "", **look) -> None:
        """Draw a box with lines of words in its middle, and a name at its top."""
        self.shapes.append(Box(id=self._id(), x=x, y=y, wide=wide, high=high, **look))
        for number, line in enumerate(lines):
            middle = y + high / 2 + (number - (len(lines) - 1) / 2) * 17 + (9 if top else 0)
            self.write(x + wide / 2, middle, line)
        if top:
            self.write(x + wide / 2, y + 15, top, bold=True)

    def write(self, x: float, y: float, words: str, **look) -> None:
        """Write a line of words, centred unless told otherwise."""
        self.shapes.append(Words(id=self._id(), x=x, y=y, words=words, **({"anchor": "middle"} | look)))

    def arrow(self, *points: tuple[float, float], words: str = "", **look) -> None:
        """Draw an arrow through points, with words above its middle."""
        self.shapes.append(Path(id=self._id(), points=points, **({"arrow": True} | look)))
        if words:
            (x, y), (to_x, to_y) = points[0], points[-1]
            self.write((x + to_x) / 2, (y + to_y) / 2 - 11, words, size=SMALL)

    def scene(self, high: float) -> Scene:
        """Return all of it."""
        return Scene(high, self.shapes, "")

    def _id(self) -> str:
        return str(len(self.shapes))
