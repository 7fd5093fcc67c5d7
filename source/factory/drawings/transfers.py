"""Drawings of transfers: between the host and a GPU, and between two GPUs."""

from devlab import palette
from devlab.explore.scene import SMALL, Scene
from factory.drawings.sheet import FIRST, HOST, SECOND, Sheet, drawing


@drawing
def staged_or_pinned() -> Scene:
    """Lesson 04: from pageable memory the host copies first, from pinned memory the GPU copies alone."""
    sheet = Sheet()
    sheet.box(0, 0, 480, 236, edge=HOST, thick=2)
    sheet.write(240, 16, "host memory", bold=True)
    sheet.box(590, 0, 170, 236, edge=FIRST, thick=2)
    sheet.write(675, 16, "device memory", bold=True)
    copying = {"edge": palette.COPY, "thick": 2.5}

    sheet.box(16, 48, 140, 44, "pageable tensor", edge=HOST)
    sheet.arrow((156, 70), (318, 70), words="the host copies", edge=HOST, thick=2.5)
    sheet.box(318, 48, 146, 44, "staging buffer", edge=HOST, thick=3)
    sheet.arrow((464, 70), (610, 70), words="the GPU copies", **copying)
    sheet.box(610, 48, 130, 44, "its copy", edge=FIRST)
    sheet.write(
        16,
        112,
        "non_blocking=True: a small tensor keeps the host for the first arrow, a large one to the end",
        size=SMALL,
        anchor="start",
    )

    sheet.box(16, 158, 140, 44, "pinned tensor", edge=HOST, thick=3)
    sheet.arrow((156, 180), (610, 180), words="the GPU copies", **copying)
    sheet.box(610, 158, 130, 44, "its copy", edge=FIRST)
    sheet.write(16, 221, "non_blocking=True: the host does not wait", size=SMALL, anchor="start")

    below = "A thick edge is pinned memory. A blocking transfer keeps the host to its end, in both rows."
    sheet.write(380, 254, below, size=SMALL)
    return sheet.scene(264)


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
