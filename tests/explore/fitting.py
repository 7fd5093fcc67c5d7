"""Whether a picture's text can be read: nothing cut off, nothing written over other text."""

from functools import cache
from itertools import combinations

from devlab.explore.scene import WIDE, Scene, Words

OVERLAP = 1.5  # pixels that two texts may share: letters do not fill their boxes
SMALLEST = 7.5  # points
SMALLEST_LETTERS = 11  # pixels
Extent = tuple[float, float, float, float]  # left, top, right, bottom


def faults(picture) -> list[str]:
    """Return what is wrong with the text of a scene or of a matplotlib figure, one line each."""
    return _of_scene(picture) if isinstance(picture, Scene) else _of_figure(picture)


def _of_scene(scene: Scene) -> list[str]:
    texts = [shape for shape in scene.shapes if isinstance(shape, Words)]
    found = [f"too small: {text.words!r}" for text in texts if text.size < SMALLEST_LETTERS]
    return found + _misplaced([(text.words, extent(text)) for text in texts], (0, 0, WIDE, scene.high))


def extent(text: Words) -> Extent:
    """Return where words are, in the letters of DejaVu Sans, which are wider than those of most systems."""
    wide = _wide(text.words, text.size, text.mono, text.bold)
    left = text.x - wide * {"start": 0, "middle": 0.5, "end": 1}[text.anchor]
    return left, text.y - text.size / 2, left + wide, text.y + text.size / 2


@cache
def _wide(words: str, size: float, mono: bool, bold: bool) -> float:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    family = "DejaVu Sans Mono" if mono else "DejaVu Sans"
    font = FontProperties(family=family, weight="bold" if bold else "normal")
    return TextPath((0, 0), words, size=size, prop=font).get_extents().width


def _of_figure(figure) -> list[str]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    unseen = {label for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for label in _outside(axis)}
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    texts = [text for text in texts if text not in unseen]
    boxes = [(text.get_text(), text.get_window_extent(renderer).extents) for text in texts]
    found = [f"too small: {text.get_text()!r}" for text in texts if text.get_fontsize() < SMALLEST]
    return found + _misplaced(boxes, figure.bbox.extents)


def _misplaced(boxes: list[tuple[str, Extent]], whole: Extent) -> list[str]:
    """Return which words are cut off by the edge of the picture, or lie over others."""
    left, low, right, high = whole
    found = [
        f"cut off: {words!r}"
        for words, (x0, y0, x1, y1) in boxes
        if x0 < left - 1 or x1 > right + 1 or y0 < low - 1 or y1 > high + 1
    ]
    for (one, first), (other, second) in combinations(boxes, 2):
        width = min(first[2], second[2]) - max(first[0], second[0])
        height = min(first[3], second[3]) - max(first[1], second[1])
        if width > OVERLAP and height > OVERLAP:
            found.append(f"one over the other: {one!r} and {other!r}")
    return found


def _outside(axis) -> list:
    """Return the labels of ticks beyond the ends of an axis: matplotlib keeps them and draws none."""
    low, high = sorted(axis.get_view_interval())
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    margin = (high - low) * 1e-9
    return [
        label
        for tick in ticks
        if not low - margin <= tick.get_loc() <= high + margin
        for label in (tick.label1, tick.label2)
    ]
