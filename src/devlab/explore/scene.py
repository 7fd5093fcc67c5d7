"""A scene: what there is to see, as plain data. `still` writes it as an SVG, `live.js` moves it in a page.

A shape keeps its id from scene to scene, so that the live picture can move it from its old place to its new
one. Lengths are pixels of a picture that is `WIDE` pixels wide; y grows downwards. Colours are those of
`palette`, or `INK`, the colour of the text around the picture.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields

WIDE = 760
SMALL, USUAL, LARGE = 12, 13, 15  # the sizes of letters
INK = "ink"


@dataclass(frozen=True)
class Stop:
    """A place to which a shape can be dragged, and what the explorer is asked for there.

    `asks` is what a click asks for, too: `{"set": {field: value}}` or `{"press": label}`; None for nothing.
    """

    x: float
    y: float
    asks: Mapping[str, object] | None
    says: str = ""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What every shape has.

    `says` is shown when the pointer or the keyboard is on the shape, and read by a screen reader; `asks` is
    what a click on the shape asks the explorer for; `stops` are the places to which the shape can be dragged,
    the nearest to it being the present one. A shape that is dragged `along` its stops asks at each of them,
    so that the picture follows, any other when it is let go. The keys ask at each stop that they come to; a
    `carried` shape they only hold there, and Enter asks. While the scene is played, the shape comes about in
    the share `during` of the playing time: a box grows from its left edge, another shape appears; a shape
    with `comes` moves to its place by that much; a shape that `goes` is seen until that share alone. A shape
    is dragged `along` from anywhere in its `ground`: left, top, width, height. `faint` is for the state
    before, for what is not there yet, and for lines that only guide the eye.
    """

    id: str
    says: str = ""
    asks: Mapping[str, object] | None = None
    stops: tuple[Stop, ...] = ()
    along: bool = False
    carried: bool = False
    during: tuple[float, float] | None = None
    comes: tuple[float, float] | None = None
    goes: float | None = None
    ground: tuple[float, float, float, float] | None = None
    faint: bool = False


@dataclass(frozen=True, kw_only=True)
class Box(Shape):
    """A rectangle. `fill` and `edge` are colours, or empty for none; waiting is `hatched`."""

    x: float
    y: float
    wide: float
    high: float
    fill: str = ""
    edge: str = INK
    thick: float = 1
    hatched: bool = False
    round: float = 3


@dataclass(frozen=True, kw_only=True)
class Words(Shape):
    """One line of text: `x` and `y` are the anchor and the middle of its height.

    A reader can write another text in the place of words that have `writes`: a field, all its lines, and
    which of them this is, from 0; a number behind the last adds a line.
    """

    x: float
    y: float
    words: str
    size: float = USUAL
    anchor: str = "start"  # or "middle" or "end", as in SVG
    bold: bool = False
    mono: bool = False
    quiet: bool = False
    colour: str = INK
    writes: tuple[str, tuple[str, ...], int] | None = None


@dataclass(frozen=True, kw_only=True)
class Path(Shape):
    """A line through points, with an arrow's head at its end if wanted, or an area with a `fill`.

    A line that `flows` is a row of dots, which go so far along it while it comes about.
    """

    points: tuple[tuple[float, float], ...]
    fill: str = ""
    edge: str = INK
    thick: float = 1.5
    dashed: bool = False
    arrow: bool = False
    flows: float = 0

    @property
    def line(self) -> str:
        """Return the points as the data of an SVG path."""
        return "M" + "L".join(f"{x:g} {y:g}" for x, y in self.points)

    @property
    def head(self) -> str:
        """Return the triangle at the end of the line as the data of an SVG path; empty without an arrow.

        >>> Path(id="a", points=((0, 0), (20, 0)), arrow=True).head
        'M20 0L12 4L12 -4Z'
        """
        if not self.arrow:
            return ""
        (x, y), (to_x, to_y) = self.points[-2:]
        length = max(math.dist((x, y), (to_x, to_y)), 1e-9)
        half = 4 * max(1.0, self.thick / 2)
        along, across = (to_x - x) / length * half, (to_y - y) / length * half
        back_x, back_y = to_x - 2 * along, to_y - 2 * across
        corners = (back_x - across, back_y + along), (back_x + across, back_y - along)
        return f"M{to_x:g} {to_y:g}" + "".join(f"L{x:g} {y:g}" for x, y in corners) + "Z"


@dataclass(frozen=True)
class Scene:
    """Shapes, the first behind all others, and one sentence below them.

    A scene with `seconds` can be played, for that long, and starts by itself whenever `take` is a new number.
    `seconds` is 0 where there is nothing to play at the moment, and None where there never is. A scene with a
    `guess` waits for the reader instead: until it has been played to its end, the guess stands in the
    caption's place.
    """

    high: float
    shapes: Sequence[Shape]
    caption: str
    seconds: float | None = None
    take: int = 0
    guess: str = ""

    def __post_init__(self):
        ids = [shape.id for shape in self.shapes]
        twice = sorted({one for one in ids if ids.count(one) > 1})
        if twice:
            raise ValueError(f"two shapes cannot share an id: {', '.join(twice)}")

    def data(self) -> dict:
        """Return the scene as data for the page; what has its usual value is left out.

        >>> Scene(9, [Words(id="a", x=1, y=2, words="hi")], "A word.").data()["shapes"]
        [{'kind': 'Words', 'id': 'a', 'x': 1, 'y': 2, 'words': 'hi'}]
        """
        shapes = [{"kind": type(shape).__name__, **_list_changed_fields(shape)} for shape in self.shapes]
        return {
            "wide": WIDE,
            "high": self.high,
            "shapes": shapes,
            "caption": self.caption,
            "seconds": self.seconds,
            "take": self.take,
            "guess": self.guess,
        }


def _list_changed_fields(shape: Shape) -> dict:
    values = dict(vars(shape))  # asdict copies everything, and takes most of the time of a picture
    if shape.stops:
        values["stops"] = [asdict(stop) for stop in shape.stops]
    if isinstance(shape, Path):
        values |= {"points": shape.line, "head": shape.head, "arrow": False}
    usual = {one.name: one.default for one in fields(shape)} | {"head": ""}
    return {name: value for name, value in values.items() if value != usual[name]}
