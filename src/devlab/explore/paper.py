"""The paper that pictures are drawn on: a matplotlib figure, and the SVG that a notebook shows of it.

What is drawn in black takes the colour of the text around it, so that one picture reads in the light and in
the dark theme.
"""

import io
import re
import zlib

WIDTH = 8.0  # inches; with the letters below, what 800 px of a notebook show legibly
LETTERS = 10  # points
WAITING_HATCH = "////"


def sheet(height: float, rows: int = 1, columns: int = 1, **grid):
    """Return a new figure `height` inches high and its axes, laid out so that no text is cut off.

    `rows`, `columns` and `grid` go to `Figure.subplots`. The figure belongs to no window and to no
    `pyplot`: nothing of it outlives its last reference.
    """
    from matplotlib.figure import Figure

    with _style():
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = figure.subplots(rows, columns, **grid)
    figure.patch.set_alpha(0)
    for one in figure.axes:
        one.patch.set_alpha(0)
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def margins(figure, **fractions: float) -> None:
    """Lay a figure out by hand: half of the time, since nothing need be drawn once to find the room it takes.

    `fractions` go to `Figure.subplots_adjust`; that no text is cut off is then for a test to tell.
    """
    figure.set_layout_engine(None)
    figure.subplots_adjust(**fractions)


def svg(figure, spoken: str) -> str:
    """Return a figure as inline SVG that a screen reader says as `spoken`.

    Its own text is shapes, so that it looks the same without the fonts that drew it.
    """
    from html import escape

    held = io.StringIO()
    with _style():
        figure.savefig(held, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = held.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"#000000|#000(?![0-9a-f])", "currentColor", text)
    # Pictures share a page, and so do their ids: one picture's letters must not be another's to take away.
    mark = f"{zlib.crc32(text.encode()):08x}"
    text = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{mark}-", text)
    width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text).groups()
    head = (
        f'<svg role="img" aria-label="{escape(spoken, quote=True)}" viewBox="0 0 {width} {height}" '
        f'fill="currentColor" style="width:100%;max-width:{float(width) * 1.6:.0f}px;height:auto" '
        'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" version="1.1">'
    )
    return head + text[text.index(">") + 1 :]


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
            "hatch.linewidth": 0.8,
        }
    )
