"""How devlab shows things: complete as plain text, richer as HTML, once a cell."""

import re
import sys

# JupyterLab's own style breaks a line of a `pre` in the middle of a word.
WRAPPED = "white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere;margin:0"
CODE = re.compile(r"`([^`]+)`")


def notebook_shell():
    """Return the running IPython shell, or None outside IPython, without importing IPython."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


class Panel:
    """Something devlab shows; `text()` says all of it, `html()` says the same more readably.

    >>> class Note(Panel):
    ...     def text(self):
    ...         return "a note"
    >>> Note().show()
    a note
    """

    _shown_in_cell = None

    def text(self) -> str:
        """Return the whole content as plain text."""
        raise NotImplementedError

    def html(self) -> str:
        """Return the whole content as HTML that needs no style sheet and no script."""
        return preformatted(self.text())

    def show(self) -> None:
        """Show it where the reader is: rich output in a notebook, printed text elsewhere."""
        shell = notebook_shell()
        if shell is None:
            print(self.text())
            return
        from IPython.display import display

        self._shown_in_cell = shell.execution_count
        display({"text/plain": self.text(), "text/html": self.html()}, raw=True)

    def _ipython_display_(self) -> None:
        # A panel is shown when it is made. As a cell's last value it would appear a second time.
        if self._shown_in_cell != notebook_shell().execution_count:
            self.show()

    def __str__(self) -> str:
        return self.text()


def escape(text: str) -> str:
    """Return the text with HTML's special characters made harmless.

    >>> escape("a < b")
    'a &lt; b'
    """
    from html import escape

    return escape(text, quote=True)


def prose(text: str) -> str:
    """Return the text as HTML in which what stands between backticks is set as code.

    >>> prose("`a` < b")
    '<code>a</code> &lt; b'
    """
    return CODE.sub(r"<code>\1</code>", escape(text))


def preformatted(text: str) -> str:
    """Return the text as an HTML block that keeps its line breaks and wraps long lines between words.

    >>> preformatted("x = 1") == f'<pre style="{WRAPPED}">x = 1</pre>'
    True
    """
    return f'<pre style="{WRAPPED}">{escape(text)}</pre>'


class Note(Panel):
    """A short message.

    >>> Note("one line").show()
    one line
    """

    def __init__(self, message: str):
        self.message = message

    def text(self) -> str:
        """Return the message."""
        return self.message

    def __repr__(self) -> str:
        return f"Note({self.message!r})"
