"""An explorer: a state, the picture of it, the words for it, and what a reader can change."""

from collections.abc import Callable, Sequence
from typing import Any

from devlab.explore import still
from devlab.explore.controls import Action, Control, Measurement, Refused, set_fields
from devlab.explore.scene import Scene
from devlab.panel import Panel, escape, notebook_shell

NEEDS = "The pictures need anywidget, which is missing here: pip install 'devlab[lab]'"


class Explorer(Panel):
    """A picture to play with: `set(...)` and `press(...)` do what the controls above it do.

    `draw(state)` returns a new scene and changes nothing; `describe(state)` says the same in one to three
    sentences and whether it was measured or simulated. `follows(before, now)` returns the state that a
    setting leads to, where it is more than `now`: such as one that remembers the state before.
    """

    def __init__(
        self,
        title: str,
        state: Any,
        draw: Callable[[Any], Scene],
        describe: Callable[[Any], str],
        controls: Sequence[Control],
        follows: Callable[[Any, Any], Any] = lambda before, now: now,
    ):
        self.title = title
        self.state = state
        self.draw = draw
        self.describe = describe
        self.controls = list(controls)
        self.follows = follows
        self.problem = ""
        self._drawn: list[Callable[[], None]] = []

    @property
    def scene(self) -> Scene:
        """Return the present state as a scene."""
        return self.draw(self.state)

    def button(self, label: str) -> Action | Measurement:
        """Return the button of this label; raises Refused where there is none."""
        buttons = {one.label: one for one in self.controls if isinstance(one, Action | Measurement)}
        if label not in buttons:
            raise Refused(f"There is no button {label!r} here; there is: {', '.join(buttons) or 'none'}.")
        return buttons[label]

    def set(self, **values: object) -> None:
        """Change fields of the state and draw it anew; raises Refused for what cannot be."""
        self.state = self.follows(self.state, set_fields(self.state, self.controls, values))
        self.redraw()

    def press(self, label: str) -> None:
        """Do what the button of this label does, a measurement to its end; raises Refused where it cannot."""
        button = self.button(label)
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

    def html(self, mark: str = "") -> str:
        """Return the picture as an image, with one sentence below; `mark` names it for a live picture."""
        scene = self.scene
        caption = escape(self.problem or scene.caption)
        picture = (
            f"<div><strong>{escape(self.title)}</strong></div>{still.image(scene, self.words)}"
            f'<figcaption style="max-width:60em">{caption}</figcaption>'
        )
        return still.framed(picture, mark, "play")

    def bundle(self, mark: str = "") -> dict[str, str]:
        """Return the still picture in the forms that a notebook stores."""
        return {"text/plain": self.text(), "text/html": self.html(mark)}

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
            from devlab.explore import live
        except ImportError:
            from IPython.display import display

            display(self.bundle(), raw=True)
            print(NEEDS)
            return
        self._drawn.append(live.show(self))
