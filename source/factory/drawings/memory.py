"""Drawings of memory over time."""

from devlab import palette
from devlab.explore.scene import SMALL, Scene
from factory.drawings.sheet import FIRST, HOST, SECOND, Sheet, drawing


@drawing
def memory_of_a_step() -> Scene:
    """Lesson 11: what a training step keeps, and when."""
    sheet = Sheet()
    left, right, low = 150, 740, 170
    forward, backward, step = 330, 540, right
    sheet.box(left, low - 30, right - left, 30, edge="", fill=HOST, round=0)
    sheet.box(left, low - 60, right - left, 30, edge="", fill=SECOND, round=0)
    kept = (left, low - 60), (forward, low - 140), (backward, low - 60)
    sheet.arrow(*kept, arrow=False, edge=FIRST, thick=2.5)
    gradients = (forward, low - 60), (backward, low - 100), (step, low - 100)
    sheet.arrow(*gradients, arrow=False, edge=palette.COPY, thick=2.5, dashed=True)
    sheet.write(left - 8, low - 15, "parameters", anchor="end")
    sheet.write(left - 8, low - 45, "optimizer's state", anchor="end")
    sheet.write(forward, low - 152, "activations, kept for backward: the peak", colour="ink")
    sheet.write(650, low - 112, "gradients", anchor="middle")
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
