"""Drawings of time: what work takes, on which clock, and what decides how fast a device works."""

from math import log2, log10

from devlab import palette
from devlab.explore.scene import SMALL, Scene
from devlab.sim.specs import CUDA_LIKE
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
        return left + (right - left) * (log10(seconds) - first) / (last - first)

    for power in range(first, last + 1):
        x = along(10**power)
        sheet.arrow((x, top - 6), (x, low), arrow=False, thick=1, faint=True)
        sheet.write(x, 8, duration(10**power), size=SMALL)
    for number, one in enumerate(found):
        y = top + row * number + row / 2
        colour = COLOURS[one.by]
        x = along(one.seconds)
        sheet.write(left - 22, y, one.work, anchor="end", size=SMALL)
        sheet.box(x - 6, y - 6, 12, 12, edge=colour, fill=colour, round=6, hatched=one.by == "transfer")
        sheet.write(x + 12, y, duration(float(f"{one.seconds:.2g}")), anchor="start", size=SMALL)
    for x, by, words in (
        (300, "host", "the host"),
        (430, "device", "the device"),
        (560, "transfer", "a transfer"),
    ):
        sheet.box(x, low + 12, 12, 12, edge=COLOURS[by], fill=COLOURS[by], round=6, hatched=by == "transfer")
        sheet.write(x + 22, low + 18, words, anchor="start", size=SMALL)
    return sheet.scene(low + 30)


@drawing
def launched_and_done() -> Scene:
    """Lesson 07: the host has launched everything long before the device has done it."""
    sheet = Sheet()
    left, launch, work = 120, 28, 112
    sheet.write(left - 12, 44, "the host", anchor="end", bold=True)
    sheet.write(left - 12, 110, "the device", anchor="end", bold=True)
    for number in range(5):
        x, begins = left + launch * number, left + launch + work * number
        sheet.box(x, 28, launch - 2, 32, edge=HOST, fill=HOST)
        sheet.box(begins, 94, work - 2, 32, f"product {number + 1}", edge=FIRST, thick=2)
    launched, done = left + 5 * launch, left + launch + 5 * work
    sheet.arrow((left + launch, 60), (left + launch, 94))
    sheet.write(left, 14, "five launches", anchor="start", size=SMALL)
    sheet.box(launched, 36, done - launched, 16, edge=palette.WAIT, hatched=True)
    sheet.write((launched + done) / 2, 72, "Python may go on, or wait", size=SMALL)
    for x, words, anchor in (
        (launched, "the first clock stops", "middle"),
        (done, "the second clock stops", "end"),
    ):
        sheet.arrow((x, 24), (x, 136), arrow=False, edge=palette.COPY, thick=2, dashed=True)
        sheet.write(x, 148, words, size=SMALL, bold=True, anchor=anchor)
    return sheet.scene(158)


@drawing
def kitchen() -> Scene:
    """Lesson 07: host, stream, processors and memory as a kitchen, and where each regime holds it up."""
    sheet = Sheet()
    sheet.box(14, 34, 112, 84, "the host", top="waiter", edge=HOST, thick=2)
    sheet.arrow((130, 76), (168, 76))
    sheet.arrow((176, 44), (316, 44), arrow=False, thick=3)
    for number in range(4):
        sheet.box(184 + 34 * number, 46, 24, 46, edge=HOST, fill=HOST)
    sheet.write(246, 28, "rail with slips", bold=True)
    sheet.write(246, 112, "the stream with launches", size=SMALL)
    sheet.arrow((324, 76), (362, 76))
    sheet.box(370, 34, 152, 84, edge=FIRST, thick=2)
    sheet.write(446, 50, "cooks at the bench", bold=True)
    for row in range(2):
        for column in range(9):
            sheet.box(381 + 15 * column, 62 + 14 * row, 9, 9, edge=FIRST, fill=FIRST, round=5)
    sheet.write(446, 104, "the processors", size=SMALL)
    sheet.arrow((620, 66), (528, 66), edge=palette.COPY, thick=3)
    sheet.arrow((528, 88), (620, 88), edge=palette.COPY, thick=3)
    sheet.write(574, 52, "fetch", size=SMALL)
    sheet.write(574, 104, "carry back", size=SMALL)
    sheet.box(626, 34, 122, 84, "the memory", top="pantry", edge=FIRST, thick=2)
    for x, regime, reason in (
        (150, "overhead", "slips come too slowly"),
        (430, "compute", "cooking takes longest"),
        (584, "bandwidth", "carrying takes longest"),
    ):
        sheet.write(x, 150, regime, bold=True)
        sheet.write(x, 167, reason, size=SMALL)
    return sheet.scene(182)


# FLOPs per byte: x + 1 reads and writes 4 bytes for each operation; a product of two n × n matrices does 2n³
# operations with three matrices of 4n² bytes, and a layer of the same size with few rows hardly more bytes
# than its weights.
ROOFLINE = (
    (1 / 8, "x + 1"),
    (1 / 2, "a layer, 1 row"),
    (15.5, "a layer, 32 rows"),
    (1024 / 6, "a product, n = 1024"),
)


@drawing
def roofline() -> Scene:
    """Lesson 07: how many operations a second can be done with each byte, on the reference machine."""
    sheet = Sheet()
    left, right, low, high = 110, 740, 220, 20

    def at(intensity: float, rate: float) -> tuple[float, float]:
        return (
            left + (log2(intensity) + 4) / 14 * (right - left),
            low - (log10(rate) - 10) / 3.2 * (low - high),
        )

    balance = CUDA_LIKE.rate / CUDA_LIKE.bandwidth
    corner = at(balance, CUDA_LIKE.rate)
    sheet.arrow((left, low), (right + 15, low))
    sheet.arrow((left, low), (left, high - 12))
    roof = at(1 / 16, CUDA_LIKE.bandwidth / 16), corner, at(1024, CUDA_LIKE.rate)
    sheet.arrow(*roof, arrow=False, edge=FIRST, thick=3)
    sheet.arrow(corner, (corner[0], low), arrow=False, edge=palette.WAIT, dashed=True)
    for intensity, name in ((1 / 8, "1/8"), (1, "1"), (balance, f"{balance:.0f}"), (1024, "1024")):
        sheet.write(at(intensity, 1)[0], low + 14, name, size=SMALL)
    sheet.write((left + right) / 2, low + 34, "arithmetic intensity: operations for each byte", bold=True)
    for rate, name in (
        (1e10, "10 GFLOP/s"),
        (1e11, "100 GFLOP/s"),
        (1e12, "1 TFLOP/s"),
        (CUDA_LIKE.rate, f"{CUDA_LIKE.rate / 1e12:g} TFLOP/s"),
    ):
        sheet.write(left - 10, at(1, rate)[1], name, anchor="end", size=SMALL)
    for intensity, name in ROOFLINE:
        x, y = at(intensity, min(CUDA_LIKE.rate, CUDA_LIKE.bandwidth * intensity))
        sheet.box(x - 5, y - 5, 10, 10, edge=palette.COPY, fill=palette.COPY, round=5)
        near = (x - 12, y - 10, "end") if 8 < intensity < balance else (x + 12, y + 14, "start")
        sheet.write(near[0], near[1], name, anchor=near[2], size=SMALL)
    sheet.write(at(1 / 2, 1)[0], at(1, 1.6e12)[1], "bandwidth decides", bold=True)
    sheet.write(at(230, 1)[0], at(1, 1.2e12)[1], "the operations decide", bold=True)
    sheet.write(at(3, 1)[0], at(1, 3e10)[1], "small work lies anywhere below:", size=SMALL)
    sheet.write(at(3, 1)[0], at(1, 1.7e10)[1], "launches decide", size=SMALL)
    return sheet.scene(264)
