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


@drawing
def buckets_behind_backward() -> Scene:
    """Lesson 09: DDP sends a bucket of gradients while backward computes the next, so the last one shows."""
    sheet = Sheet()
    for row, name in enumerate(("computing", "sending")):
        sheet.write(0, 32 + 62 * row, name, anchor="start", bold=True)
    sheet.box(95, 10, 130, 44, "forward", edge=FIRST, thick=2)
    for number in range(3):
        x = 235 + 125 * number
        sheet.box(x, 10, 115, 44, f"backward {3 - number}", edge=FIRST, thick=2)
        sheet.arrow((x + 115, 54), (x + 125, 72), edge=palette.COPY, thick=2)
        sheet.box(x + 125, 72, 105, 44, f"bucket {3 - number}", edge=palette.COPY, thick=2)
    sheet.box(725, 10, 35, 44, "step", edge=FIRST, thick=2)
    return sheet.scene(126)


@drawing
def gathered_layer_by_layer() -> Scene:
    """Lesson 13: FSDP gathers the next block while this one computes, and scatters gradients likewise."""
    sheet = Sheet()
    for row, name in enumerate(("sending", "computing")):
        sheet.write(0, 32 + 62 * row, name, anchor="start", bold=True)
    lanes = (
        ("gather 1", "gather 2", "", "gather 1", "scatter 2", "scatter 1"),
        ("", "forward 1", "forward 2", "backward 2", "backward 1", ""),
    )
    for row, lane in enumerate(lanes):
        for number, words in enumerate(lane):
            if words:
                edge = FIRST if row else palette.COPY
                sheet.box(95 + 112 * number, 10 + 62 * row, 104, 44, words, edge=edge, thick=2)
    return sheet.scene(126)
