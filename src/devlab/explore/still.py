"""A scene as a still SVG: in the stored notebook, on paper, in tests, and where no widget runs."""

import base64
from xml.sax.saxutils import quoteattr

from devlab.explore.scene import INK, WIDE, Box, Path, Scene, Shape, Words
from devlab.panel import escape

# An image is told whether the page around it is dark, and brings its own paper where nobody tells it.
PAPER, PEN = "#ffffff", "#1f2328"
DARK = "<style>@media(prefers-color-scheme:dark){svg{color:#e6e6e6}.paper{fill:#111111}}</style>"
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, 'DejaVu Sans Mono', monospace"
FAINT = 0.3
# What JupyterLab says in place of a widget whose kernel has ended: letters without any element around them.
# JupyterLab tells no image which theme is on; the course's style sheet has the same rule for drawings.
PAGE = (
    "<style>[data-jp-theme-light=true] img{color-scheme:light}"
    "[data-jp-theme-light=false] img{color-scheme:dark}"
    ".jp-OutputArea-child:has([data-devlab-still]) + .jp-OutputArea-child > "
    ".jp-OutputArea-output:not(:has(*)){display:none}</style>"
)
_MARGIN = 10


def svg(scene: Scene, spoken: str, *, gone: bool = False) -> str:
    """Return the SVG of a scene in which everything has come about, which says `spoken` to a screen reader.

    What goes again is drawn only where what is `gone` is asked for.

    >>> svg(Scene(20, [Words(id="a", x=1, y=2, words="1 < 2")], "A word."), "a word").count("1 &lt; 2")
    1
    """
    wide, high = WIDE + 2 * _MARGIN, scene.high + 2 * _MARGIN
    place = f'x="{-_MARGIN}" y="{-_MARGIN}" width="{wide:g}" height="{high:g}"'
    shapes = "".join(_shape(shape) for shape in scene.shapes if gone or shape.goes is None)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:g}" height="{high:g}" '
        f'viewBox="{-_MARGIN} {-_MARGIN} {wide:g} {high:g}" role="img" aria-label={quoteattr(spoken)} '
        f'color="{PEN}" font-family={quoteattr(FONT)}>{DARK}<defs><pattern id="hatch" width="6" height="6" '
        'patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path d="M0 0V6" '
        'stroke="currentColor" stroke-width="1.6" opacity=".55"/></pattern></defs>'
        f'<rect class="paper" {place} fill="{PAPER}"/>{shapes}</svg>'
    )


def image(scene: Scene, spoken: str) -> str:
    """Return the HTML of a scene as an image, which is shown in a notebook that is not trusted, too."""
    held = base64.b64encode(svg(scene, spoken).encode()).decode()
    return (
        f'<img alt={quoteattr(spoken)} width="{WIDE + 2 * _MARGIN}" '
        f'style="max-width:100%;height:auto" src="data:image/svg+xml;base64,{held}">'
    )


def framed(content: str, mark: str = "", deed: str = "") -> str:
    """Return HTML as a still that the widget of this mark hides while it lives, and that outlives the widget.

    >>> framed("a picture")
    '<figure style="margin:0">a picture</figure>'
    """
    if not mark:
        return f'<figure style="margin:0">{content}</figure>'
    invited = f'<div style="opacity:0.8">Run the cell to {deed}.</div>' if deed else ""
    return f'{PAGE}<figure style="margin:0" data-devlab-still="{mark}">{content}{invited}</figure>'


def _colour(name: str) -> str:
    return "currentColor" if name == INK else name or "none"


def _shape(shape: Shape) -> str:
    if isinstance(shape, Box):
        drawn = _box(shape)
    elif isinstance(shape, Words):
        drawn = _words(shape)
    elif isinstance(shape, Path):
        drawn = _path(shape)
    else:
        raise TypeError(f"no picture is known of {type(shape).__name__}")
    look = f' opacity="{FAINT}"' if shape.faint else ""
    said = f"<title>{escape(shape.says)}</title>" if shape.says else ""
    return f"<g id={quoteattr(shape.id)}{look}>{said}{drawn}</g>"


def _box(box: Box) -> str:
    place = f'x="{box.x:g}" y="{box.y:g}" rx="{box.round:g}"'
    place += f' width="{max(0, box.wide):g}" height="{max(0, box.high):g}"'
    edge = f'stroke="{_colour(box.edge)}" stroke-width="{box.thick:g}"'
    hatch = f'<rect {place} fill="url(#hatch)"/>' if box.hatched else ""
    return f'<rect {place} fill="{_colour(box.fill)}" {edge}/>{hatch}'


def _words(words: Words) -> str:
    look = f'font-size="{words.size:g}" text-anchor="{words.anchor}" fill="{_colour(words.colour)}"'
    look += ' font-weight="600"' * words.bold + f" font-family={quoteattr(MONO)}" * words.mono
    look += ' opacity=".72"' * words.quiet
    middle = words.y + words.size * 0.35
    return f'<text x="{words.x:g}" y="{middle:g}" {look} xml:space="preserve">{escape(words.words)}</text>'


def _path(path: Path) -> str:
    look = f'fill="{_colour(path.fill)}" stroke="{_colour(path.edge)}" stroke-width="{path.thick:g}"'
    look += ' stroke-dasharray="5 4"' * path.dashed
    look += ' stroke-dasharray="0 12" stroke-linecap="round"' * bool(path.flows)
    head = f'<path d="{path.head}" fill="{_colour(path.edge)}"/>' if path.arrow else ""
    return f'<path d="{path.line}" {look} stroke-linejoin="round"/>{head}'
