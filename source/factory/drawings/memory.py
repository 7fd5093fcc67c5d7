"""The drawing of a device's memory: what fills it. Memory over time is drawn by the lessons from a run."""

from devlab.explore.scene import SMALL, Scene
from factory.drawings.sheet import FIRST, Sheet, drawing


@drawing
def books_of_a_device() -> Scene:
    """Lesson 08: a device's memory, the segments that PyTorch has taken, and the blocks in them."""
    sheet = Sheet()
    top, high = 30, 46
    sheet.box(0, top, 760, high, thick=2)
    sheet.box(0, top, 90, high, "CUDA's own", thick=2)
    sheet.write(380, 14, "the memory of the device", bold=True)
    for left, wide, blocks in ((100, 200, ((0, 60), (60, 80))), (310, 150, ((50, 55),)), (470, 120, ())):
        sheet.box(left, top + 5, wide, high - 10, edge=FIRST, thick=2)
        for start, long in blocks:
            sheet.box(left + start, top + 5, long, high - 10, edge=FIRST, fill=FIRST)
    sheet.write(675, top + high / 2, "not taken", quiet=True)
    y = top + high + 14
    sheet.arrow((100, y), (590, y), arrow=False, thick=2)
    sheet.write(345, y + 14, "reserved: the segments that PyTorch has taken", size=SMALL)
    sheet.box(100, y + 30, 24, 14, edge=FIRST, fill=FIRST)
    sheet.write(132, y + 37, "allocated: blocks of live tensors", size=SMALL, anchor="start")
    sheet.box(400, y + 30, 24, 14, edge=FIRST, thick=2)
    sheet.write(432, y + 37, "the cache: free, and kept for the next tensor", size=SMALL, anchor="start")
    return sheet.scene(y + 50)
