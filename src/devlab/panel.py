"""How devlab shows things: complete as plain text, richer as HTML, once a cell."""

import html
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

# JupyterLab's own style breaks a line of a `pre` in the middle of a word.
WRAPPED = "white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere;margin:0"
# Said by a screen reader, not shown to the eye.
UNSEEN = "position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap"
# The bar of a card that judges nothing; this grey stands out from either theme (tests/test_palette.py).
QUIET = "#808080"
# The looks of a cell: the label of a row.
LABEL = 'style="text-align:left;font-weight:normal"'
CODE = re.compile(r"`([^`]+)`")


def notebook_shell():
    """Return the running IPython shell, or None outside IPython, without importing IPython."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


class Panel:
    """Something devlab shows; `text()` says all of it, `html()` says the same more readably.

    In a notebook it stands in a card, whose bar has the colour `accent`; empty for no card.

    >>> class Note(Panel):
    ...     def text(self):
    ...         return "a note"
    >>> Note().show()
    a note
    """

    accent = QUIET
    _shown_in_cell = None

    def text(self) -> str:
        """Return the whole content as plain text."""
        raise NotImplementedError

    def html(self) -> str:
        """Return the whole content as HTML that needs no style sheet and no script."""
        return preformat(self.text())

    def show(self) -> None:
        """Show it where the reader is: rich output in a notebook, printed text elsewhere."""
        shell = notebook_shell()
        if shell is None:
            print(self.text())
            return
        from IPython.display import display

        self._shown_in_cell = shell.execution_count
        display(self._content(), raw=True)

    def _content(self) -> dict[str, str]:
        content = self.html()
        shown = card(content, self.accent) if self.accent else content
        return {"text/plain": self.text(), "text/html": shown}

    def _ipython_display_(self) -> None:
        # A panel is shown when it is made, so as a cell's last value it must not appear a second time.
        if self._shown_in_cell != notebook_shell().execution_count:
            self.show()

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<{self.text().partition(chr(10))[0]}>"


def page(title: str, style: str, body: str) -> str:
    """Return a page of HTML with a title, a style sheet and a body; it loads nothing from elsewhere."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def card(content: str, accent: str) -> str:
    """Return HTML as the card that every panel is, with a bar in a colour at its left.

    >>> card("words", "#808080").endswith(">words</div>")
    True
    """
    return (
        f'<div style="border-left:4px solid {accent};padding:0.3em 0.8em;max-width:60em;font-size:14px;'
        f'line-height:1.5">{content}</div>'
    )


def escape(text: str) -> str:
    """Return the text with HTML's special characters made harmless.

    >>> escape("a < b")
    'a &lt; b'
    """
    return html.escape(text)


def prose(text: str) -> str:
    """Return the text as HTML in which what stands between backticks is set as code.

    >>> prose("`a` < b")
    '<code>a</code> &lt; b'
    """
    return CODE.sub(r"<code>\1</code>", escape(text))


def join_words(words: list[str]) -> str:
    """Write a list as prose does.

    >>> join_words(["x"]), join_words(["x", "y"]), join_words(["x", "y", "z"])
    ('x', 'x and y', 'x, y and z')
    """
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def preformat(text: str) -> str:
    """Return the text as an HTML block that keeps its line breaks and wraps long lines between words.

    >>> preformat("x = 1") == f'<pre style="{WRAPPED}">x = 1</pre>'
    True
    """
    return f'<pre style="{WRAPPED}">{escape(text)}</pre>'


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, and how its cells are aligned in text and written in HTML.

    `look` holds the HTML attributes of its cells, and of its heading too unless `head` gives others. `html`
    turns a cell into HTML. Where `labels` is set, each cell is the heading of its row.
    """

    name: str = ""
    look: str = 'style="text-align:left"'
    html: Callable[[object], str] = escape
    right: bool = False
    labels: bool = False
    head: str | None = None

    def th(self) -> str:
        """Return the heading as HTML; a heading without words is an empty cell, as screen readers need it."""
        look = self.look if self.head is None else self.head
        return _tag("th", f'scope="col" {look}', escape(self.name)) if self.name else _tag("td", look, "")

    def td(self, cell: object) -> str:
        """Return a cell as HTML."""
        look = f'scope="row" {self.look}' if self.labels else self.look
        return _tag("th" if self.labels else "td", look, self.html(cell))


class Table:
    """Rows of cells under their headings, if there are any: aligned text, and HTML for screen readers too.

    `look` and `row_look` hold the HTML attributes of the table and of each row of its body; a `caption` is
    read to a screen reader alone.

    >>> table = Table([Column("device"), Column("bytes", right=True)], [("cpu", "8"), ("sim:0", "1,024")])
    >>> print(table.text())
    device  bytes
    cpu         8
    sim:0   1,024
    >>> Table([Column(labels=True), Column()], [("a", "<b>")]).html().count("&lt;b&gt;")
    1
    """

    def __init__(
        self,
        columns: Sequence[Column],
        rows: Iterable[Sequence],
        *,
        look: str = "",
        row_look: str = "",
        caption: str = "",
    ):
        self.columns, self.rows = columns, list(rows)
        self.look, self.row_look, self.caption = look, row_look, caption
        self.headed = any(column.name for column in columns)

    def text(self) -> str:
        """Return the table as aligned text, two spaces between its columns."""
        rows = [[column.name for column in self.columns]] * self.headed + self.rows
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if column.right else cell.ljust(width)
                for cell, width, column in zip(row, widths, self.columns, strict=True)
            ).rstrip()
            for row in rows
        )

    def html(self) -> str:
        """Return the table as HTML; nothing where it has no rows."""
        if not self.rows:
            return ""
        head = _tag("thead", "", _tag("tr", "", "".join(column.th() for column in self.columns)))
        body = (
            "".join(column.td(cell) for column, cell in zip(self.columns, row, strict=True))
            for row in self.rows
        )
        body = _tag("tbody", "", "".join(_tag("tr", self.row_look, row) for row in body))
        caption = _tag("caption", f'style="{UNSEEN}"', escape(self.caption)) if self.caption else ""
        return _tag("table", self.look, caption + head * self.headed + body)


def _tag(name: str, attributes: str, content: str) -> str:
    return f"<{f'{name} {attributes}'.strip()}>{content}</{name}>"


class Note(Panel):
    """A short message, which needs no card.

    >>> Note("one line").show()
    one line
    """

    accent = ""

    def __init__(self, message: str):
        self.message = message

    def text(self) -> str:
        """Return the message."""
        return self.message
