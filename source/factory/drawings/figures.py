"""Drawings of figures: times, and what a processor is made of."""

import math

from devlab import palette
from devlab.explore.scene import SMALL, Scene
from devlab.sim.specs import HOST as HOST_SPEC
from devlab.watching.memory import duration
from factory.drawings.sheet import FIRST, HOST, Sheet, drawing
from factory.numbers import numbers

COLOURS = {"host": HOST, "device": FIRST, "transfer": palette.COPY}


@drawing
def numbers_to_know() -> Scene:
    """Lesson 00: what common work takes on the reference machine, on an axis in steps of ten."""
    sheet = Sheet()
    left, right, first, last = 300, 700, -6, 0  # the axis goes from 1 µs to 1 s
    row, top = 21, 26
    found = numbers()
    low = top + row * len(found)

    def along(seconds: float) -> float:
        return left + (right - left) * (math.log10(seconds) - first) / (last - first)

    for power in range(first, last + 1):
        x = along(10**power)
        sheet.arrow((x, top - 6), (x, low), arrow=False, thick=1, faint=True)
        sheet.write(x, 8, duration(10**power), size=SMALL)
    for number, one in enumerate(found):
        y = top + row * number + row / 2
        colour = COLOURS[one.by]
        wide = max(along(one.seconds) - left, 3)
        sheet.write(left - 12, y, one.work, anchor="end", size=SMALL)
        sheet.box(left, y - 6, wide, 12, edge="", fill=colour, round=0, hatched=one.by == "transfer")
        sheet.write(left + wide + 8, y, duration(float(f"{one.seconds:.2g}")), anchor="start", size=SMALL)
    for x, (by, words) in zip(
        (300, 430, 560),
        (("host", "the host"), ("device", "the device"), ("transfer", "a transfer")),
        strict=True,
    ):
        sheet.box(x, low + 12, 14, 12, edge="", fill=COLOURS[by], round=0, hatched=by == "transfer")
        sheet.write(x + 22, low + 18, words, anchor="start", size=SMALL)
    return sheet.scene(low + 30)


@drawing
def few_and_many() -> Scene:
    """Lesson 00: a CPU spends its chip on a few cores that decide, a GPU on many units that calculate."""
    sheet = Sheet()
    for x, name, colour in ((0, "a CPU", HOST), (400, "a GPU", FIRST)):
        sheet.box(x, 0, 360, 190, edge=colour, thick=2, top=name)
    for number in range(4):
        x, y = 16 + 168 * (number % 2), 34 + 60 * (number // 2)
        sheet.box(x, y, 160, 52, edge=HOST)
        sheet.write(x + 54, y + 26, "decides", size=SMALL)
        for unit in range(4):
            sheet.box(
                x + 108 + 22 * (unit % 2), y + 6 + 21 * (unit // 2), 18, 17, edge="", fill=HOST, round=1
            )
    sheet.box(16, 154, 328, 28, "large caches", edge=HOST)
    for row in range(6):
        y = 34 + 19 * row
        sheet.box(416, y, 22, 15, edge=FIRST, round=1)
        for unit in range(18):
            sheet.box(443 + 17 * unit, y, 13, 15, edge="", fill=FIRST, round=1)
    sheet.box(416, 154, 328, 28, "a wide connection to its memory", edge=FIRST)
    return sheet.scene(195)


@drawing
def inside_a_cpu() -> Scene:
    """Lesson 01: cores with units for several numbers at once, their caches, and the memory behind them."""
    sheet = Sheet()
    sheet.box(0, 0, 500, 190, top="one CPU", edge=HOST, thick=2)
    for number in range(4):
        x = 14 + 120 * number
        sheet.box(x, 30, 112, 100, edge=HOST)
        sheet.write(x + 56, 44, f"core {number}", size=SMALL)
        for unit in range(8):
            sheet.box(x + 8 + 12 * unit, 56, 10, 18, edge="", fill=HOST, round=1)
        sheet.write(x + 56, 86, "8 at once", size=SMALL)
        sheet.box(x + 8, 98, 96, 24, edge=HOST)
        sheet.write(x + 56, 110, "own caches", size=SMALL)
    sheet.box(14, 142, 472, 36, "a cache that all cores share", edge=HOST)
    sheet.box(600, 0, 160, 190, "gigabytes,", "in pages of 4 KiB", top="system memory", edge=HOST, thick=1.5)
    sheet.arrow((500, 160), (600, 160), arrow=False, edge=HOST, thick=8)
    sheet.write(550, 140, f"{HOST_SPEC.bandwidth / 1e9:.0f} GB/s", size=SMALL)
    return sheet.scene(195)
