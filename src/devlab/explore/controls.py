"""What a reader can turn in a picture, as plain data: the page makes controls of it, and tests need none.

A control that is `drawn` has no widget: a shape of the picture asks for it by a click or a drag.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any


class Refused(ValueError):
    """A change that the picture cannot make; its message says why and what to do instead."""


@dataclass(frozen=True)
class Choice:
    """One of several values of a field of the state; an option is a value, or (text, value)."""

    field: str
    label: str
    options: Sequence
    drawn: bool = False

    @property
    def pairs(self) -> list[tuple[str, Any]]:
        """Return every option as (text, value)."""
        return [one if isinstance(one, tuple) else (str(one), one) for one in self.options]

    def text_of(self, value: object) -> str:
        """Return the text of a value that the state has."""
        return next(text for text, own in self.pairs if own is value or own == value)

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
    drawn: bool = False

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
    drawn: bool = False

    def accept(self, value: object) -> int:
        """Return the value; raise Refused for what is no whole number within the bounds."""
        if type(value) is int and self.least <= value <= self.most:
            return value
        raise Refused(f"{self.field} is a whole number from {self.least} to {self.most}, not {value!r}.")


@dataclass(frozen=True)
class Amount:
    """Any number, which can be changed while `can` says so; `look` is "right", "wrong" or ""."""

    field: str
    label: str
    can: Callable[[Any], bool] = lambda state: True
    look: Callable[[Any], str] = lambda state: ""
    drawn: bool = False

    def accept(self, value: object) -> float:
        """Return the value; raise Refused for what is no finite number."""
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return value
        raise Refused(f"{self.field} is a number, not {value!r}.")


@dataclass(frozen=True)
class Lines:
    """The lines of a program, which are written and moved in the picture; `most` of them at the most."""

    field: str
    label: str
    most: int
    drawn: bool = True

    def accept(self, value: object) -> tuple[str, ...]:
        """Return the lines that are not empty; raise Refused where there are too many, or none."""
        if isinstance(value, list | tuple) and all(isinstance(line, str) for line in value):
            lines = tuple(line.strip() for line in value if line.strip())
            if 1 <= len(lines) <= self.most:
                return lines
        raise Refused(f"{self.field} is a list of 1 to {self.most} lines of code, not {value!r}.")


@dataclass(frozen=True)
class Action:
    """A button: `act` makes the next state of a state, `can` tells whether there is one.

    `pressed` tells whether it is the chosen of several; `look` is "right", "wrong" or "".
    """

    label: str
    act: Callable[[Any], Any]
    can: Callable[[Any], bool] = lambda state: True
    drawn: bool = False
    pressed: Callable[[Any], bool] | None = None
    look: Callable[[Any], str] = lambda state: ""


@dataclass(frozen=True)
class Measurement:
    """A button for what takes long: `steps` yields (share done, state so far), each under a second."""

    label: str
    steps: Callable[[Any], Iterator[tuple[float, Any]]]
    drawn: bool = False


Setting = Choice | Switch | Number | Amount | Lines
Control = Setting | Action | Measurement


def set_fields(state: Any, controls: Sequence[Control], values: dict[str, object]) -> Any:
    """Return the state with some fields set; raise Refused, naming what can be set, for anything wrong.

    >>> @dataclass(frozen=True)
    ... class State:
    ...     pinned: bool = False
    >>> set_fields(State(), [Switch("pinned", "pinned memory")], {"pinned": True})
    State(pinned=True)
    """
    settings = {one.field: one for one in controls if isinstance(one, Setting)}
    for field in values:
        if field not in settings:
            raise Refused(f"There is no {field!r} to set here; there is: {', '.join(settings)}.")
    return replace(state, **{field: settings[field].accept(value) for field, value in values.items()})


def with_settings_of(other: Any, state: Any, controls: Sequence[Control]) -> Any:
    """Return a state with the settings of another: what a reader chose while a measurement ran stays.

    >>> @dataclass(frozen=True)
    ... class State:
    ...     side: int = 1
    ...     found: int = 0
    >>> with_settings_of(State(side=5), State(found=7), [Number("side", "n", 1, 9)])
    State(side=5, found=7)
    """
    fields = [one.field for one in controls if isinstance(one, Setting)]
    return replace(state, **{field: getattr(other, field) for field in fields})
