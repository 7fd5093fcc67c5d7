"""Drawings of memories, processors and the connections between them."""

from devlab import palette
from devlab.explore.scene import LARGE, SMALL, Scene
from devlab.sim import specs
from factory.drawings.sheet import FIRST, HOST, Sheet, drawing


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
    sheet.write(416, 38, "a control unit decides for its whole row", anchor="start", size=SMALL)
    for row in range(6):
        y = 50 + 17 * row
        sheet.box(416, y, 22, 14, edge=FIRST, round=1)
        for unit in range(18):
            sheet.box(443 + 17 * unit, y, 13, 14, edge="", fill=FIRST, round=1)
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
    sheet.write(550, 140, f"{specs.HOST.bandwidth / 1e9:.0f} GB/s", size=SMALL)
    return sheet.scene(195)


@drawing
def gpu_beside_cpu() -> Scene:
    """Lesson 02: each has a processor and a memory of its own, and computes on what is in its own memory."""
    sheet = Sheet()
    for x, place, processor, colour, rate in (
        (0, "cpu", "CPU", HOST, specs.HOST.bandwidth),
        (440, "cuda:0", "GPU", FIRST, specs.CUDA_LIKE.bandwidth),
    ):
        sheet.box(x, 0, 320, 150, edge=colour, thick=2)
        sheet.write(x + 160, 16, place, bold=True, size=LARGE)
        memory = x + 194 if place == "cpu" else x + 16
        core = x + 16 if place == "cpu" else x + 194
        sheet.box(memory, 40, 110, 90, "its memory:", "tensors on", place, edge=colour)
        sheet.box(core, 40, 110, 90, f"the {processor}", "computes", edge=colour)
        near = min(memory, core) + 110
        sheet.arrow((near, 85), (near + 68, 85), arrow=False, edge=colour, thick=6 if place == "cpu" else 18)
        sheet.write(near + 34, 116, f"{rate / 1e9:.0f} GB/s", size=SMALL)
    sheet.arrow((304, 85), (456, 85), arrow=False, edge=palette.COPY, thick=2)
    sheet.write(380, 62, ".to(…) copies", size=SMALL)
    sheet.write(380, 106, f"at best {specs.CUDA_LIKE.pinned / 1e9:.0f} GB/s", size=SMALL)
    return sheet.scene(155)


@drawing
def one_memory_two_addresses() -> Scene:
    """Lesson 03: an Apple chip has one memory, and PyTorch still keeps two kinds of tensors in it."""
    sheet = Sheet()
    sheet.box(190, 0, 380, 150, top="one memory", thick=2)
    sheet.box(205, 38, 165, 96, "tensors whose", "device is cpu", edge=HOST, thick=1.5)
    sheet.box(390, 38, 165, 96, "tensors whose", "device is mps", edge=FIRST, thick=1.5)
    sheet.box(0, 45, 110, 70, "the CPU", edge=HOST, thick=2)
    sheet.box(650, 45, 110, 70, "the GPU", edge=FIRST, thick=2)
    sheet.arrow((110, 80), (205, 80), arrow=False, edge=HOST, thick=10)
    sheet.arrow((650, 80), (555, 80), arrow=False, edge=FIRST, thick=10)
    sheet.arrow((288, 134), (288, 172), (472, 172), (472, 134), edge=palette.COPY, thick=2)
    sheet.write(380, 186, '.to("mps") copies within the one memory', size=SMALL)
    return sheet.scene(195)
