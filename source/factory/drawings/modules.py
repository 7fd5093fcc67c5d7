"""Drawings of modules, of what moves with them, and of where a mistake is made."""

from devlab import palette
from devlab.explore.scene import SMALL, Scene
from factory.drawings.sheet import FIRST, HOST, Sheet, drawing


@drawing
def registered_or_loose() -> Scene:
    """Lesson 05: `.to` moves what the module has registered, and leaves what only hangs on it."""
    sheet = Sheet()
    sheet.box(0, 0, 250, 190, top="a module on cpu", edge=HOST, thick=2)
    rows = (("parameter", "weight"), ("buffer", "running_mean"), ("an attribute", "mask"))
    for row, (kind, name) in enumerate(rows):
        sheet.box(20, 32 + 52 * row, 210, 40, f"{kind}: {name}", edge=HOST, faint=False)
    sheet.box(510, 0, 250, 130, top="after .to(device)", edge=FIRST, thick=2)
    for row, (kind, name) in enumerate(rows[:2]):
        sheet.box(530, 32 + 52 * row, 210, 40, f"{kind}: {name}", edge=FIRST, thick=2)
        sheet.arrow((230, 52 + 52 * row), (530, 52 + 52 * row), edge=palette.COPY, thick=2)
    sheet.write(380, 36, "registered: moves", size=SMALL)
    sheet.box(510, 142, 250, 48, "mask: still on cpu", edge=HOST, thick=2)
    sheet.write(380, 156, "a plain tensor: stays where it is", size=SMALL)
    return sheet.scene(195)


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
