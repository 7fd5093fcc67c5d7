"""An explorer: a picture, its state, what a reader can turn in it, and the words that say the same."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from devlab.explore import paper
from devlab.panel import Panel, escape, notebook_shell


class Refused(ValueError):
    """A change that the picture cannot make; its message says why and what to do instead."""


@dataclass(frozen=True)
class Choice:
    """One of several values of a field of the state; an option is a value, or (text, value)."""

    field: str
    label: str
    options: Sequence

    @property
    def pairs(self) -> list[tuple[str, Any]]:
        """Return every option as (text, value)."""
        return [one if isinstance(one, tuple) else (str(one), one) for one in self.options]

    def accept(self, value: object) -> Any:
        """Return the value that this stands for, given as the value or as its text; else raise Refused."""
        for text, own in self.pairs:
            if value is own or value == text or (type(value) is type(own) and value == own):
                return own
        texts = ", ".join(text for text, _ in self.pairs)
        raise Refused(f"{self.field} cannot be {value!r}; choose one of: {texts}.")


@dataclass(frozen=True)
class Switch:
    """A field that is on or off."""

    field: str
    label: str

    def accept(self, value: object) -> bool:
        """Return the value; raise Refused for anything but True and False."""
        if value is True or value is False:
            return value
        raise Refused(f"{self.field} is switched on or off: give True or False, not {value!r}.")


@dataclass(frozen=True)
class Number:
    """A whole number within bounds, both included."""

    field: str
    label: str
    least: int
    most: int

    def accept(self, value: object) -> int:
        """Return the value; raise Refused for what is no whole number within the bounds."""
        if type(value) is int and self.least <= value <= self.most:
            return value
        raise Refused(f"{self.field} is a whole number from {self.least} to {self.most}, not {value!r}.")


@dataclass(frozen=True)
class Action:
    """A button: `act` makes the next state of a state, `can` tells whether there is one."""

    label: str
    act: Callable[[Any], Any]
    can: Callable[[Any], bool] = lambda state: True


@dataclass(frozen=True)
class Measurement:
    """A button for what takes long: `steps` yields (share done, state so far), each under a second."""

    label: str
    steps: Callable[[Any], Iterator[tuple[float, Any]]]


Setting = Choice | Switch | Number
Control = Setting | Action | Measurement


def changed(state: Any, controls: Sequence[Control], values: dict[str, object]) -> Any:
    """Return the state with some fields set; raise Refused, naming what can be set, for anything wrong.

    >>> @dataclass(frozen=True)
    ... class State:
    ...     pinned: bool = False
    >>> changed(State(), [Switch("pinned", "pinned memory")], {"pinned": True})
    State(pinned=True)
    """
    settings = {one.field: one for one in controls if isinstance(one, Setting)}
    for field in values:
        if field not in settings:
            raise Refused(f"There is no {field!r} to set here; there is: {', '.join(settings)}.")
    return replace(state, **{field: settings[field].accept(value) for field, value in values.items()})


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
