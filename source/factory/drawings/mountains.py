"""Drawings of lesson 08: what fills a device's memory, and the two moments at which a step needs most."""

from devlab import palette
from devlab.explore.scene import SMALL, Scene
from factory.drawings.sheet import FIRST, HOST, SECOND, Sheet, drawing


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


@drawing
def two_moments() -> Scene:
    """Lesson 08: memory over a training step, for a large batch and for a small one."""
    sheet = Sheet()
    left, right, low = 130, 740, 190
    turn, done = 320, 530
    sheet.box(left, low - 50, right - left, 50, edge="", fill=HOST, round=0)
    sheet.write(left - 8, low - 34, "parameters,", anchor="end", size=SMALL)
    sheet.write(left - 8, low - 16, "optimizer's state", anchor="end", size=SMALL)
    base = low - 50
    large = (left, base), (turn, base - 110), (done, base - 34), (right - 60, base - 48), (right, base - 34)
    small = (left, base), (turn, base - 20), (done, base - 34), (right - 60, base - 48), (right, base - 34)
    sheet.arrow(*large, arrow=False, edge=FIRST, thick=2.5)
    sheet.arrow(*small, arrow=False, edge=SECOND, thick=2.5, dashed=True)
    sheet.write(turn, base - 122, "large batch: the peak is at the turn")
    sheet.write(right, base - 64, "small batch: the peak is in the step", anchor="end")
    for start, end, name in (
        (left, turn, "forward: activations pile up"),
        (turn, done, "backward: they go, gradients come"),
        (done, right, "the optimizer's step"),
    ):
        sheet.arrow((end, low), (end, low + 8), arrow=False, edge=palette.WAIT)
        sheet.write((start + end) / 2, low + 16, name, size=SMALL)
    return sheet.scene(214)
