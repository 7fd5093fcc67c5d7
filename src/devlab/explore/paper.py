"""The paper of the pictures: figures, and the SVG that a notebook shows.

What is drawn in black takes the colour of the text around it, so that a picture can be read in the light and
in the dark theme.
"""

import io
import re
import zlib

import torch

from devlab.devices import bench, name_of
from devlab.explore.scene import WIDE, Drawing, Scene

WIDTH = 8.0  # inches; with the letters below, what 800 px of a notebook show legibly
LETTERS = 10  # points
MONO = {"family": "DejaVu Sans Mono", "fontsize": 9}


def first_accelerator() -> str:
    """Return the name of the accelerator that the course uses here; "cpu" where there is none at all."""
    return next((str(device) for device in bench() if device.type != "cpu"), "cpu")


def source(device: str) -> str:
    """Return how every picture says where its numbers are from.

    >>> source("sim:0"), source("cpu")
    ('Simulated', 'Measured on the CPU')
    """
    if device.startswith("sim"):
        return "Simulated"
    if device == "cpu":
        return "Measured on the CPU"
    return f"Measured on {name_of(torch.device(device))} ({device})"


def sheet(height: float, rows: int = 1, columns: int = 1, *, margins: dict[str, float], **grid):
    """Return a new figure `height` inches high and its axes.

    `margins` go to `Figure.subplots_adjust`: a layout by hand takes half of the time that matplotlib's own
    layout takes, and a test finds text that is cut off. `rows`, `columns` and `grid` go to `Figure.subplots`.
    The figure belongs to no window and to no `pyplot`: nothing of it outlives its last reference.
    """
    from matplotlib.figure import Figure

    with _style():
        figure = Figure(figsize=(WIDTH, height))
        axes = figure.subplots(rows, columns, **grid)
    figure.subplots_adjust(**margins)
    figure.patch.set_alpha(0)
    for one in figure.axes:
        one.patch.set_alpha(0)
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def svg(figure) -> str:
    """Return a figure as inline SVG, hidden from screen readers.

    Its own text is shapes, so that it looks the same without the fonts that drew it.
    """
    held = io.StringIO()
    with _style():
        figure.savefig(held, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = held.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"#000000|#000(?![0-9a-f])", "currentColor", text)
    # Pictures share a page and its ids. With equal ids, letters of one picture would be drawn from another
    # and vanish with it.
    mark = f"{zlib.crc32(text.encode()):08x}"
    text = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{mark}-", text)
    width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text).groups()
    head = (
        f'<svg aria-hidden="true" viewBox="0 0 {width} {height}" fill="currentColor" '
        'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" version="1.1">'
    )
    return head + text[text.index(">") + 1 :]


def as_scene(figure, words: str) -> Scene:
    """Return a figure as a scene of one drawing, with the words as its caption."""
    wide, high = figure.get_size_inches()
    high *= WIDE / wide
    return Scene(high, [Drawing(id="plot", x=0, y=0, wide=WIDE, high=high, svg=svg(figure))], words)


def _style():
    """Return the settings that hold while a figure is made and written."""
    import matplotlib

    return matplotlib.rc_context(
        {
            "font.size": LETTERS,
            "axes.titlesize": LETTERS + 1,
            "axes.labelsize": LETTERS,
            "font.family": ["DejaVu Sans"],  # comes with matplotlib, so every machine lays out alike
            "svg.fonttype": "path",
            "svg.hashsalt": "devlab",
        }
    )
