"""The drawings of the lessons: scenes that stand still, written into the prose as images.

A lesson names a drawing in the place of an image's address, `![what it shows](drawing:all_reduce)`, and its
words are what a screen reader says. An image in the prose is shown without running a cell, and in a notebook
that is not trusted yet.
"""

import base64
import re
from collections.abc import Callable

from devlab import palette
from devlab.explore.scene import LARGE, SMALL, Box, Path, Scene, Shape, Words
from devlab.explore.still import svg
from factory.reading import SourceError

IMAGE = re.compile(r"!\[([^\]]+)\]\(drawing:(\w+)\)")
HOST, FIRST, SECOND = palette.HOST, *palette.DEVICES
DRAWINGS: dict[str, Callable[[], Scene]] = {}


def drawn(prose: str) -> str:
    """Return prose in which every drawing that it names is an image.

    Raises:
        SourceError: when there is no drawing of a name.

    >>> drawn("![words](drawing:all_reduce)")[:48]
    '![words](data:image/svg+xml;base64,PHN2ZyB4bWxuc'
    """

    def image(found: re.Match) -> str:
        said, name = found.groups()
        if name not in DRAWINGS:
            raise SourceError(f"there is no drawing {name!r}; there is: {', '.join(DRAWINGS)}")
        data = base64.b64encode(svg(DRAWINGS[name](), said).encode()).decode()
        return f"![{said}](data:image/svg+xml;base64,{data})"

    return IMAGE.sub(image, prose)


def drawing(make: Callable[[], Scene]) -> Callable[[], Scene]:
    """Put a function among the drawings, under its name."""
    DRAWINGS[make.__name__] = make
    return make


class Sheet:
    """Shapes that are put down one after the other."""

    def __init__(self):
        self.shapes: list[Shape] = []

    def box(self, x: float, y: float, wide: float, high: float, *lines: str, top: str = "", **look) -> None:
        """Draw a box with lines of words in its middle, and a name at its top."""
        self.shapes.append(Box(id=self._id(), x=x, y=y, wide=wide, high=high, **look))
        for number, line in enumerate(lines):
            middle = y + high / 2 + (number - (len(lines) - 1) / 2) * 17 + (9 if top else 0)
            self.write(x + wide / 2, middle, line)
        if top:
            self.write(x + wide / 2, y + 15, top, bold=True)

    def write(self, x: float, y: float, words: str, **look) -> None:
        """Write a line of words, centred unless told otherwise."""
        self.shapes.append(Words(id=self._id(), x=x, y=y, words=words, **({"anchor": "middle"} | look)))

    def arrow(self, *points: tuple[float, float], words: str = "", **look) -> None:
        """Draw an arrow through points, with words above its middle."""
        self.shapes.append(Path(id=self._id(), points=points, **({"arrow": True} | look)))
        if words:
            (x, y), (to_x, to_y) = points[0], points[-1]
            self.write((x + to_x) / 2, (y + to_y) / 2 - 11, words, size=SMALL)

    def scene(self, high: float) -> Scene:
        """Return all of it."""
        return Scene(high, self.shapes, "")

    def _id(self) -> str:
        return str(len(self.shapes))


@drawing
def data_arrives_at_the_cpu() -> Scene:
    """Lesson 01: whatever comes in and goes out passes through the CPU's memory."""
    sheet = Sheet()
    for row, name in enumerate(("files", "the network", "NumPy arrays", "Python lists")):
        sheet.box(0, 10 + 44 * row, 130, 34, name)
        sheet.arrow((130, 27 + 44 * row), (250, 27 + 44 * row))
    sheet.box(250, 0, 200, 190, "decode, shuffle,", "cut, pad, print, save", top="cpu", edge=HOST, thick=2)
    sheet.box(610, 40, 150, 110, "large products", top="the accelerator", edge=FIRST, thick=2)
    sheet.arrow((450, 75), (610, 75), words="minibatches", edge=palette.COPY, thick=2.5)
    sheet.arrow((610, 125), (450, 125), words="a loss, a metric", edge=palette.COPY, thick=1.5)
    return sheet.scene(195)


@drawing
def gpu_beside_cpu() -> Scene:
    """Lesson 02: each has a processor and a memory of its own, and computes on what is in its own memory."""
    sheet = Sheet()
    for x, place, processor, colour in ((0, "cpu", "CPU", HOST), (440, "cuda:0", "GPU", FIRST)):
        sheet.box(x, 0, 320, 150, edge=colour, thick=2)
        sheet.write(x + 160, 16, place, bold=True, size=LARGE)
        memory = x + 190 if place == "cpu" else x + 20
        core = x + 20 if place == "cpu" else x + 190
        sheet.box(memory, 40, 110, 90, "its memory:", "tensors on", place, edge=colour)
        sheet.box(core, 40, 110, 90, f"the {processor}", "computes", edge=colour)
        near = min(memory, core) + 110
        sheet.arrow((near, 85), (near + 60, 85), arrow=False, edge=colour, thick=12)
    sheet.arrow((300, 85), (460, 85), arrow=False, edge=palette.COPY, thick=2)
    sheet.write(380, 62, ".to(…) copies", size=SMALL)
    sheet.write(380, 106, "on a narrow road", size=SMALL)
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


@drawing
def registered_or_loose() -> Scene:
    """Lesson 05: `.to` moves what the module has registered, and leaves what only hangs on it."""
    sheet = Sheet()
    sheet.box(0, 0, 250, 190, top="a module on cpu", edge=HOST, thick=2)
    rows = (("parameter", "weight"), ("buffer", "running_mean"), ("an attribute", "mask"))
    for row, (kind, name) in enumerate(rows):
        sheet.box(20, 32 + 52 * row, 210, 40, f"{kind}: {name}", edge=HOST, faint=False)
    sheet.box(510, 0, 250, 190, top="after .to(device)", edge=FIRST, thick=2)
    for row, (kind, name) in enumerate(rows[:2]):
        sheet.box(530, 32 + 52 * row, 210, 40, f"{kind}: {name}", edge=FIRST, thick=2)
        sheet.arrow((230, 52 + 52 * row), (530, 52 + 52 * row), edge=palette.COPY, thick=2)
    sheet.write(380, 36, "registered: moves", size=SMALL)
    sheet.box(530, 136, 210, 40, "mask: still on cpu", edge=HOST, thick=2)
    sheet.write(380, 156, "a plain tensor: stays where it is", size=SMALL)
    return sheet.scene(195)


@drawing
def all_reduce() -> Scene:
    """Lesson 09: each process computes on its own rows; the gradients are averaged, and all get the mean."""
    sheet = Sheet()
    for row, (rank, rows, colour) in enumerate(
        ((0, "rows 0, 2, 4, 6", FIRST), (1, "rows 1, 3, 5, 7", SECOND))
    ):
        y = 95 * row
        sheet.box(0, y, 130, 70, rows, top=f"rank {rank}", edge=colour, thick=2)
        sheet.box(200, y, 130, 70, "forward,", "backward", edge=colour, thick=2)
        sheet.arrow((130, y + 35), (200, y + 35))
        sheet.arrow((330, y + 35), (430, y + 35), words="own gradient", edge=palette.COPY, thick=2)
        sheet.arrow((540, y + 35), (630, y + 35), words="the mean", edge=palette.COPY, thick=2)
        sheet.box(630, y, 130, 70, "the same step,", "equal models", edge=colour, thick=2)
    sheet.box(430, 0, 110, 165, "all-reduce:", "add up,", "divide by 2", thick=2)
    return sheet.scene(170)


@drawing
def from_maker_to_failure() -> Scene:
    """Lesson 10: the line that fails is seldom the line that is wrong."""
    sheet = Sheet()
    lines = (
        (0, "mask = torch.ones(3)", "made here: on cpu", HOST),
        (262, "batch = (x, mask)", "handed on", HOST),
        (524, "x * mask", "fails here", palette.COPY),
    )
    for x, code, what, colour in lines:
        sheet.box(x, 30, 236, 46, edge=colour, thick=2)
        sheet.write(x + 118, 53, code, mono=True, size=SMALL)
        sheet.write(x + 118, 16, what, bold=True)
    sheet.arrow((236, 53), (262, 53), thick=2)
    sheet.arrow((498, 53), (524, 53), thick=2)
    sheet.arrow((642, 76), (642, 112), (118, 112), (118, 76), dashed=True)
    sheet.write(
        380, 127, "read the message, then go back to the line that made it, and mend that one", size=SMALL
    )
    return sheet.scene(138)


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


@drawing
def shares_of_a_model() -> Scene:
    """Lesson 13: what each of four ranks holds: everything, the state in parts, or all in parts."""
    sheet = Sheet()
    kinds = (("parameters", 28, HOST), ("gradients", 28, FIRST), ("Adam's state", 56, SECOND))
    for row, (name, whole) in enumerate((("DDP", 3), ("state in parts", 2), ("FSDP", 0))):
        x, y, total = 150.0, 18 + 68 * row, 0
        sheet.write(0, y + 22, name, anchor="start", bold=True)
        for number, (kind, size, colour) in enumerate(kinds):
            held = size if number < whole else size / 4
            sheet.box(x, y, 3.8 * held, 44, edge=colour, thick=2)
            sheet.write(x + 1.9 * held, y + 22, f"{held:g}", size=SMALL)
            if row == 0:
                sheet.write(x + 1.9 * held, 8, kind, size=SMALL)
            x, total = x + 3.8 * held + 6, total + held
        sheet.write(x + 8, y + 22, f"{total:g} GB a rank", anchor="start", size=SMALL)
    return sheet.scene(206)
