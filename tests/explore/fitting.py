"""Whether a picture's text can be read: nothing cut off, nothing written over other text."""

from functools import cache
from itertools import combinations

from devlab.explore.scene import WIDE, Scene, Words

OVERLAP = 1.5  # pixels that two texts may share: letters do not fill their boxes
SMALLEST = 11  # pixels
Extent = tuple[float, float, float, float]  # left, top, right, bottom


def faults(scene: Scene) -> list[str]:
    """Return what is wrong with the text of a scene, one line each."""
    texts = [shape for shape in scene.shapes if isinstance(shape, Words)]
    found = [f"too small: {text.words!r}" for text in texts if text.size < SMALLEST]
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
