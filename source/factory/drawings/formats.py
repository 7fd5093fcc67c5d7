"""Drawings of how numbers are stored."""

from devlab import palette
from devlab.explore.scene import SMALL, Scene
from factory.drawings.sheet import FIRST, SECOND, Sheet, drawing


@drawing
def four_formats() -> Scene:
    """Lesson 12: the bits of float32, TF32, float16 and bfloat16: sign, exponent and fraction."""
    sheet, left, wide, high = Sheet(), 110.0, 17.0, 28
    formats = (("float32", 8, 23), ("TF32", 8, 10), ("float16", 5, 10), ("bfloat16", 8, 7))
    sheet.write(left + wide / 2, 8, "sign", size=SMALL)
    sheet.write(left + 5 * wide, 8, "exponent: range", size=SMALL)
    sheet.write(left + 18 * wide, 8, "fraction: precision", size=SMALL)
    for row, (name, exponent, fraction) in enumerate(formats):
        y = 22 + 44 * row
        sheet.write(0, y + high / 2, name, anchor="start", bold=True)
        sheet.box(left, y, wide, high, edge=palette.COPY, thick=2)
        sheet.box(left + wide, y, exponent * wide, high, str(exponent), edge=FIRST, thick=2)
        start = left + (1 + exponent) * wide
        sheet.box(start, y, fraction * wide, high, str(fraction), edge=SECOND, thick=2)
    return sheet.scene(196)
