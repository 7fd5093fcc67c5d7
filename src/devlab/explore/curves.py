"""Curves of a training, drawn from its numbers as a picture that a stored notebook keeps."""

from collections.abc import Mapping, Sequence

from devlab import palette
from devlab.explore.axes import apart, guide
from devlab.explore.scene import SMALL, WIDE, Path, Scene, Shape, Words
from devlab.explore.still import image
from devlab.panel import Panel, escape

LEFT, RIGHT, TOP, LOW = 60, WIDE - 120, 24, 200
COLOURS = palette.HOST, palette.COPY, *palette.DEVICES


class Curves(Panel):
    """A picture of numbers over the steps in which they came, a curve for each name."""

    accent = ""

    def __init__(self, title: str, curves: Mapping[str, Sequence[float]]):
        self.title = title
        self.curves = {name: [float(value) for value in values] for name, values in curves.items()}

    def text(self) -> str:
        """Return the title, and for each curve where it begins, where it ends, and its extremes."""
        said = [
            f"{name}: {len(values)} values from {values[0]:.3g} to {values[-1]:.3g}, "
            f"the least {min(values):.3g}, the most {max(values):.3g}"
            for name, values in self.curves.items()
        ]
        return "\n".join([self.title, *said])

    def html(self) -> str:
        """Return the picture as an image below its title."""
        return (
            f'<figure style="margin:0"><div><strong>{escape(self.title)}</strong></div>'
            f"{image(self.scene, self.text())}</figure>"
        )

    @property
    def scene(self) -> Scene:
        """Return the curves as a scene: the first value at the left edge, 0 at the bottom."""
        most = max(max(values) for values in self.curves.values()) or 1.0
        shapes: list[Shape] = []
        for share in (0, 0.5, 1):
            y, value = LOW - share * (LOW - TOP), f"{share * most:.2g}"
            shapes.append(guide(f"line {share}", (LEFT, y), (RIGHT, y)))
            shapes.append(Words(id=f"at {share}", x=LEFT - 8, y=y, words=value, size=SMALL, anchor="end"))
        ends = {}
        for (name, values), colour in zip(self.curves.items(), COLOURS, strict=False):
            wide = (RIGHT - LEFT) / (len(values) - 1)
            points = [
                (round(LEFT + place * wide, 1), round(LOW - value / most * (LOW - TOP), 1))
                for place, value in enumerate(values)
            ]
            shapes.append(Path(id=name, points=tuple(points), edge=colour, thick=2))
            ends[name] = points[-1][1]
        for name, y in apart(ends).items():
            shapes.append(Words(id=f"name of {name}", x=RIGHT + 8, y=y, words=name, size=SMALL))
        shapes.append(Words(id="first", x=LEFT, y=LOW + 17, words="first step", size=SMALL))
        shapes.append(Words(id="last", x=RIGHT, y=LOW + 17, words="last step", size=SMALL, anchor="end"))
        return Scene(LOW + 26, shapes, "")


def curves(title: str, **named: Sequence[float]) -> Curves:
    """Draw curves, each named by its argument, whose underscores become spaces; return the picture.

    All curves share one axis up, which begins at 0, and each is as wide as the picture: so one value for each
    epoch can stand beside one for each step.

    Raises:
        ValueError: when there is no curve, more than four, or one with fewer than two values or with one that
            cannot be drawn, such as nan or a negative number.

    >>> shown = curves("The loss falls", training=[2.0, 1.0, 0.5])
    The loss falls
    training: 3 values from 2 to 0.5, the least 0.5, the most 2
    """
    if not 1 <= len(named) <= len(COLOURS):
        raise ValueError(f"one to {len(COLOURS)} curves can be drawn, not {len(named)}")
    for name, values in named.items():
        if len(values) < 2 or not all(0 <= float(value) < float("inf") for value in values):
            raise ValueError(f"{name} needs two values or more, all of them finite and none negative")
    drawn = Curves(title, {name.replace("_", " "): values for name, values in named.items()})
    drawn.show()
    return drawn
