"""The paper of the pictures: figures, axes whose steps are factors, and the SVG that a notebook shows."""

import io
import re
import zlib
from collections.abc import Sequence

import torch

from devlab.devices import bench, name_of
from devlab.watching.sizes import duration, size

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


SECONDS = [10.0**power for power in range(-7, 3)]


def of_time(axis, limits: tuple[float, float]) -> None:
    """Make a y axis one of time, in factors of ten: µs, ms and s."""
    _factors(axis, limits, SECONDS, [duration(one) for one in SECONDS])


def of_bytes(axis, limits: tuple[float, float], ticks: Sequence[int]) -> None:
    """Make an x axis one of bytes, with these ticks."""
    _factors(axis, limits, ticks, [size(one) for one in ticks])


def of_counts(axis, limits: tuple[float, float], ticks: Sequence[int]) -> None:
    """Make an x axis one of whole numbers, with these ticks."""
    _factors(axis, limits, ticks, [f"{one:,}" for one in ticks])


def _factors(axis, limits: tuple[float, float], ticks: Sequence[float], labels: Sequence[str]) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    low, high = limits
    shown = [(tick, label) for tick, label in zip(ticks, labels, strict=True) if low <= tick <= high]
    axis.axes.set(**{f"{axis.axis_name}scale": "log", f"{axis.axis_name}lim": limits})
    axis.set_major_locator(FixedLocator([tick for tick, _ in shown]))
    axis.set_major_formatter(FixedFormatter([label for _, label in shown]))
    axis.set_minor_locator(NullLocator())  # ticks cost most of the time that a picture takes


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
