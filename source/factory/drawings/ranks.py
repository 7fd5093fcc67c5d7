"""Drawings of several processes that train together."""

from devlab import palette
from devlab.explore.scene import SMALL, Scene
from factory.drawings.sheet import FIRST, HOST, SECOND, Sheet, drawing


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
        sheet.write(x + 8, y + 22, f"{total:g} GB per rank", anchor="start", size=SMALL)
    return sheet.scene(206)
