"""Drawings of memory: what fills it, and how much of it a training step needs from moment to moment."""

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


@drawing
def memory_of_a_step() -> Scene:
    """Lesson 11: what a training step keeps, and when."""
    sheet = Sheet()
    left, right, low = 150, 740, 170
    forward, backward, step = 330, 540, right
    sheet.box(left, low - 30, right - left, 30, edge="", fill=HOST, round=0)
    sheet.box(left, low - 60, right - left, 30, edge="", fill=SECOND, round=0)
    base = low - 60
    all_of_it = (
        (left, base),
        (forward, base - 80),
        (backward, base - 30),
        (step - 50, base - 44),
        (step, base - 30),
    )
    gradients = (forward, base), (backward, base - 30), (step, base - 30)
    sheet.arrow(*all_of_it, arrow=False, edge=FIRST, thick=2.5)
    sheet.arrow(*gradients, arrow=False, edge=palette.COPY, thick=2.5, dashed=True)
    sheet.write(left - 8, low - 15, "parameters", anchor="end")
    sheet.write(left - 8, low - 45, "optimizer's state", anchor="end")
    sheet.write(forward, low - 152, "all of it: activations, kept for backward, make the peak", colour="ink")
    sheet.write(585, base - 12, "of it the gradients", size=SMALL)
    for start, end, name in (
        (left, forward, "forward"),
        (forward, backward, "backward"),
        (backward, step, "step"),
    ):
        sheet.arrow((end, low), (end, low + 8), arrow=False)
        sheet.write((start + end) / 2, low + 14, name, size=SMALL)
    sheet.write(left - 8, low - 130, "memory", anchor="end", quiet=True)
    sheet.write(left - 8, low + 14, "time", anchor="end", quiet=True)
    return sheet.scene(195)


@drawing
def one_mountain_or_many() -> Scene:
    """Lesson 12: activations kept from forward to backward, or computed again block by block."""
    sheet = Sheet()
    left, low, forward, blocks = 20, 165, 175, 4
    # Backward takes twice as long as forward, and with checkpoints a forward more.
    middle, end, later = left + forward, left + 3 * forward, left + 4 * forward
    sheet.arrow((left, low), (later + 20, low))
    peak = (left, low), (middle, low - 120), (end, low)
    sheet.arrow(*peak, arrow=False, edge=FIRST, thick=2.5)
    sheet.write(middle, low - 134, "all blocks kept: the peak", colour="ink")
    points = [(left, low), (middle, low - 24)]
    wide = (later - middle) / blocks
    for block in range(blocks):
        start, base = middle + block * wide, low - 24 + 6 * block
        points += [(start + wide / 3, base - 34), (start + wide, base + 6)]
    sheet.arrow(*points, arrow=False, edge=palette.COPY, thick=2.5, dashed=True)
    sheet.write(580, low - 70, "one block at a time, computed again", colour="ink")
    sheet.write((left + middle) / 2, low + 14, "forward", size=SMALL)
    sheet.write((middle + end) / 2, low + 14, "backward", size=SMALL)
    sheet.write((end + later) / 2, low + 14, "longer, and lower", size=SMALL)
    return sheet.scene(190)
