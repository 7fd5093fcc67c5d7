"""What an exercise is, and which there are."""

import difflib
import functools
import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch


class Row(NamedTuple):
    """One thing that is judged: a label, the function that judges it, and where it applies.

    It is a NamedTuple, for a submission could change a frozen dataclass, by `object.__setattr__`.
    """

    label: str
    judge: Callable
    only: str | None = None
    scene: object = None  # played by `devlab.checks.scenes`, where the row is a scene

    def applies_to(self, device: torch.device, devices: Sequence[torch.device] = ()) -> bool:
        """Tell whether this is judged on one of the bench's devices.

        `only="accelerator"` leaves out the CPU, `only="first accelerator"` every other device too, and
        `only="cpu"` all but the CPU.
        """
        if self.only is None or self.only == device.type:
            return True
        if self.only == "cpu":
            return False
        accelerators = [one for one in devices or (device,) if one.type != "cpu"]
        return device in (accelerators[:1] if self.only == "first accelerator" else accelerators)


@dataclass(eq=False)
class Exercise:
    """One task: its name is the name of the function or class that a learner writes.

    `signature` is the contract as the task states it, `facts` the ids of the curriculum's facts that
    an answer needs, `hints` go from gentle to plain. `rows` are added with the `row` decorator; each
    is worth one point.
    """

    name: str
    lesson: str
    signature: str
    facts: tuple[str, ...]
    hints: tuple[str, ...]
    rows: tuple[Row, ...] = ()

    @property
    def wants_class(self) -> bool:
        """Tell whether the answer is a class, not a function."""
        return self.signature.startswith("class ")

    @property
    def possible(self) -> int:
        """Return the points of a full pass: each row is worth a point."""
        return len(self.rows)

    def row(self, label: str, only: str | None = None) -> Callable:
        """Add the decorated function, which takes a Trial, as a row of the verdict.

        >>> double = Exercise("double", "00", "double(x)", ("D1",), ("twice", "x + x"))
        >>> @double.row("twice as much")
        ... def twice(trial):
        ...     assert trial.call(3) == 6
        >>> double.possible
        1
        """

        def add(judge: Callable) -> Callable:
            self.rows += (Row(label, judge, only),)
            return judge

        return add


@dataclass
class Lesson:
    """One lesson: its id, as in `01_cpu`, its title, and the names of its exercises in the notebook's order.

    >>> lesson = Lesson("01_cpu", "The CPU", ("f",))
    >>> lesson.exercise("f(x)", ("C1",), "a gentle hint", "a plain hint").lesson
    '01_cpu'
    """

    id: str
    title: str
    order: tuple[str, ...]
    made: dict[str, Exercise] = field(default_factory=dict)

    @property
    def exercises(self) -> list[Exercise]:
        """Return the exercises in the order of the notebook; those not yet imported are missing."""
        return [self.made[name] for name in self.order if name in self.made]

    def exercise(self, signature: str, /, facts: tuple[str, ...], *hints: str) -> Exercise:
        """Add an exercise to the lesson and return it, ready for its rows.

        The signature states the contract, `"f(x)"` or `"class F(n)"`, with the name in it.
        """
        name = signature.removeprefix("class ").partition("(")[0]
        if name not in self.order:
            raise ValueError(f"lesson {self.id} does not list {name} among its exercises")
        self.made[name] = Exercise(name, self.id, signature, facts, hints)
        return self.made[name]


@functools.cache
def lessons() -> list[Lesson]:
    """Return the lessons in course order: each package of `devlab.lessons`, with all its modules imported.

    >>> [lesson.id for lesson in lessons()][0]
    '00_start_here'
    """
    package = importlib.import_module("devlab.lessons")
    found = []
    for _, name, holds_exercises in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(name)
        found += [module.lesson] if holds_exercises else []
    return sorted(found, key=lambda lesson: lesson.id)


def exercises() -> list[Exercise]:
    """Return every exercise in course order."""
    return [exercise for lesson in lessons() for exercise in lesson.exercises]


def find(name: str) -> Exercise | None:
    """Return the exercise of that name, or None.

    >>> find("device_of").lesson
    '00_start_here'
    """
    return next((exercise for exercise in exercises() if exercise.name == name), None)


def nearest(name: str) -> list[str]:
    """Return up to three exercise names that resemble the given one, the best first.

    >>> nearest("device_off")[0]
    'device_of'
    """
    names = {exercise.name.lower(): exercise.name for exercise in exercises()}
    return [names[found] for found in difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.5)]
