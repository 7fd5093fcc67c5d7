"""Whether a picture's text can be read: nothing cut off, nothing written over other text."""

from itertools import combinations

OVERLAP = 1.5  # pixels that two texts may share: letters do not fill their boxes
SMALLEST = 7.5  # points


def faults(figure) -> list[str]:
    """Return what is wrong with the text of a figure, one line each."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    unseen = {label for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for label in _outside(axis)}
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    texts = [text for text in texts if text not in unseen]
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in texts]
    whole = figure.bbox
    found = [f"too small: {text.get_text()!r}" for text in texts if text.get_fontsize() < SMALLEST]
    for words, box in boxes:
        if box.x0 < whole.x0 - 1 or box.x1 > whole.x1 + 1 or box.y0 < whole.y0 - 1 or box.y1 > whole.y1 + 1:
            found.append(f"cut off: {words!r}")
    for (one, first), (other, second) in combinations(boxes, 2):
        width = min(first.x1, second.x1) - max(first.x0, second.x0)
        height = min(first.y1, second.y1) - max(first.y0, second.y0)
        if width > OVERLAP and height > OVERLAP:
            found.append(f"one over the other: {one!r} and {other!r}")
    return found


def _outside(axis) -> list:
    """Return the labels of ticks beyond the ends of an axis: matplotlib keeps them and draws none."""
    low, high = sorted(axis.get_view_interval())
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    margin = (high - low) * 1e-9
    return [
        label
        for tick in ticks
        if not low - margin <= tick.get_loc() <= high + margin
        for label in (tick.label1, tick.label2)
    ]
