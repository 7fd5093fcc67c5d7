"""An explorer: a state, the picture of it, the words for it, and what a reader can change."""

from collections.abc import Callable, Sequence
from typing import Any

from devlab.explore import paper
from devlab.explore.controls import Action, Control, Measurement, Refused, changed
from devlab.panel import Panel, escape, notebook_shell

NEEDS = "The pictures need matplotlib and ipywidgets, which are missing here: pip install 'devlab[lab]'"


class Explorer(Panel):
    """A picture to play with: `set(...)` and `press(...)` do what the controls below it do.

    `draw(state)` returns a new matplotlib figure and changes nothing, `describe(state)` says the same in
    one to three sentences and whether it was measured or simulated.
    """

    def __init__(
        self,
        title: str,
        state: Any,
        draw: Callable[[Any], Any],
        describe: Callable[[Any], str],
        controls: Sequence[Control],
    ):
        self.title = title
        self.state = state
        self.draw = draw
        self.describe = describe
        self.controls = list(controls)
        self.problem = ""
        self._drawn: list[Callable[[], None]] = []

    @property
    def figure(self):
        """Return a new matplotlib figure of the present state, to save or to print."""
        return self.draw(self.state)

    def set(self, **values: object) -> None:
        """Change fields of the state and draw it anew; raises Refused for what cannot be."""
        self.state = changed(self.state, self.controls, values)
        self.redraw()

    def press(self, label: str) -> None:
        """Do what the button of this label does, a measurement to its end; raises Refused where it cannot."""
        buttons = {one.label: one for one in self.controls if isinstance(one, Action | Measurement)}
        button = buttons.get(label)
        if button is None:
            raise Refused(f"There is no button {label!r} here; there is: {', '.join(buttons) or 'none'}.")
        if isinstance(button, Measurement):
            for _, state in button.steps(self.state):
                self.state = state
        elif not button.can(self.state):
            raise Refused(f"{label!r} can do nothing in this state.")
        else:
            self.state = button.act(self.state)
        self.redraw()

    def redraw(self) -> None:
        """Show the present state wherever this explorer is shown."""
        for draw_there in self._drawn:
            draw_there()

    def text(self) -> str:
        """Return the title and the words for the picture."""
        return f"{self.title}\n{self.words}"

    def html(self) -> str:
        """Return the picture with its words below, for readers who cannot see the picture."""
        words = self.words
        return (
            f'<figure style="margin:0" aria-label="{escape(self.title)}">'
            f"<div><strong>{escape(self.title)}</strong></div>"
            f"{paper.svg(self.figure, words)}"
            f'<figcaption style="max-width:60em">{escape(words)}</figcaption></figure>'
        )

    @property
    def words(self) -> str:
        """Return what the picture says, and what was refused last."""
        words = self.describe(self.state)
        return f"{words} {self.problem}" if self.problem else words

    def show(self) -> None:
        """Show picture and controls in a notebook, the words alone elsewhere."""
        shell = notebook_shell()
        if shell is None:
            print(self.text())
            return
        self._shown_in_cell = shell.execution_count
        try:
            from devlab.explore import widgets
        except ImportError:
            print(f"{self.text()}\n{NEEDS}")
            return
        self._drawn.append(widgets.show(self))

    def __repr__(self) -> str:
        return f"<Explorer {self.title!r}: {self.state}>"
