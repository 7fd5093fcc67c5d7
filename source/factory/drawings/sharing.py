"""Drawings of arrays and tensors over one memory, and of what stands between a tensor and NumPy."""

from devlab import palette
from devlab.explore.scene import SMALL, Scene
from factory.drawings.sheet import FIRST, HOST, SECOND, Sheet, drawing


@drawing
def two_names_one_memory() -> Scene:
    """Lesson 06: an array and a tensor describe the same bytes, and a copy has bytes of its own."""
    sheet = Sheet()
    names = (
        (0, "a, an array", "4 numbers, float64", HOST),
        (265, "t, a tensor over a", "4 numbers, float64", FIRST),
        (530, "torch.tensor(a), a copy", "4 numbers, float64", SECOND),
    )
    for x, name, described, colour in names:
        sheet.box(x, 0, 230, 62, described, top=name, edge=colour, thick=2)
    for left, values, colour in ((100, "7 0 0 -1", HOST), (565, "0 0 0 0", SECOND)):
        for place, value in enumerate(values.split()):
            sheet.box(left + 40 * place, 122, 38, 34, value, edge=colour, thick=1.5)
    sheet.arrow((60, 62), (60, 139), (98, 139), edge=HOST, thick=2)
    sheet.arrow((380, 62), (380, 139), (262, 139), edge=FIRST, thick=2)
    sheet.arrow((645, 62), (645, 120), edge=SECOND, thick=2)
    sheet.write(180, 172, "one memory: each write shows under both names", size=SMALL)
    sheet.write(645, 172, "memory of its own", size=SMALL)
    sheet.write(220, 104, "t[0] = 7, a[3] = -1", size=SMALL, colour=palette.COPY, bold=True)
    return sheet.scene(182)
