"""Drawings of two GPUs in one machine."""

from devlab import palette
from devlab.explore.scene import Scene
from factory.drawings.sheet import FIRST, HOST, SECOND, Sheet, drawing


@drawing
def two_memories() -> Scene:
    """Lesson 09: from GPU to GPU directly, and by way of the host's memory."""
    sheet = Sheet()
    sheet.box(0, 100, 190, 70, "its own memory", top="GPU first", edge=FIRST, thick=2)
    sheet.box(570, 100, 190, 70, "its own memory, with y", top="GPU second", edge=SECOND, thick=2)
    sheet.box(285, 0, 190, 60, "the host's memory", top="CPU", edge=HOST, thick=2)
    look = {"edge": palette.COPY, "thick": 2}
    sheet.arrow((570, 135), (190, 135), **look)
    sheet.write(380, 122, "y.to(first): one transfer")
    sheet.write(380, 152, "with peer access, over NVLink or PCIe", quiet=True)
    sheet.arrow((665, 100), (665, 30), (475, 30), dashed=True, **look)
    sheet.arrow((285, 30), (95, 30), (95, 100), dashed=True, **look)
    sheet.write(570, 18, "y.cpu()")
    sheet.write(190, 18, ".to(first)")
    sheet.write(380, 78, "two transfers, twice the bytes", quiet=True)
    return sheet.scene(176)
