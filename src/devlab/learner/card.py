"""A verdict in a live notebook: buttons for a hint and a solution, and words while an answer still runs."""

import importlib.util
import os
from dataclasses import dataclass, replace

from devlab.checks.exercise import Exercise, find
from devlab.checks.help import Hint, Solution, solution_source
from devlab.checks.result import CHIPS, Outcome, Result
from devlab.checks.time_limits import SECONDS, SPEAKS
from devlab.checks.values import times
from devlab.explore.controls import Action
from devlab.explore.explorer import Explorer
from devlab.explore.scene import Scene
from devlab.explore.still import PAGE
from devlab.learner import progress
from devlab.panel import Panel, card, notebook_shell, prose


@dataclass(frozen=True)
class Shown:
    """How many hints have been shown so far, and what stands in the card below the verdict."""

    hints: int
    panels: tuple[Panel, ...] = ()


class Card(Explorer):
    """A verdict with buttons below, which add the next hint and, when it is due, a solution to the card.

    `counts` says whether the hints are remembered: not of an answer that a notebook of the course prints.
    """

    def __init__(self, result: Result, exercise: Exercise, counts: bool):
        self.result, self.exercise, self.counts = result, exercise, counts
        self.passed = result.passed or progress.has_passed(exercise.name)
        hint = Action("Show a hint", self._add_hint, lambda state: self._left(state) > 0)
        solution = Action("Show a solution", self._add_solution, self._can_solve)
        controls = [solution] if result.passed else [hint, solution]
        seen = progress.hints_seen(exercise.name)
        super().__init__("", Shown(seen), lambda state: Scene(0, [], self._say_left(state)), _read, controls)

    def _left(self, state: Shown) -> int:
        return len(self.exercise.hints) - state.hints

    def _say_left(self, state: Shown) -> str:
        left = self._left(state)
        return "" if self.passed or not left else f"{times(left, 'hint')} left, then a solution"

    def _can_solve(self, state: Shown) -> bool:
        shown = any(isinstance(one, Solution) for one in state.panels)
        return not shown and (self.passed or self._left(state) <= 0)

    def _add_hint(self, state: Shown) -> Shown:
        number = state.hints + 1
        if self.counts:
            progress.record_hint(self.exercise.name, number)
        return Shown(number, (*state.panels, Hint(self.exercise, number)))

    def _add_solution(self, state: Shown) -> Shown:
        shown = Solution(self.exercise.name, solution_source(self.exercise))
        return replace(state, panels=(*state.panels, shown))

    def text(self) -> str:
        """Return the verdict, and what the buttons have added."""
        return "\n\n".join(panel.text() for panel in (self.result, *self.state.panels))

    def html(self, mark: str = "") -> str:
        """Return the same as a card."""
        added = "".join(f'<div style="margin-top:0.8em">{one.html()}</div>' for one in self.state.panels)
        marked = f"{PAGE}<span data-devlab-still></span>"
        return marked + card(self.result.html() + added, self.result.accent)


def _read(state: Shown) -> str:
    return state.panels[-1].text() if state.panels else ""


def show(result: Result, counts: bool) -> None:
    """Show a verdict where the reader is; in a live notebook, and not to a grader, with buttons below."""
    shell, exercise = notebook_shell(), find(result.name)
    live = hasattr(shell, "kernel") and importlib.util.find_spec("anywidget")
    if not (live and exercise and result.rows) or os.environ.get("DEVLAB_STRICT") == "1":
        result.show()
        return
    result.hold_back()
    Card(result, exercise, counts).show()


class Waiting:
    """Says in a live notebook that an answer still runs, as soon as it is called; `end` takes that back."""

    def __init__(self, name: str):
        self.name, self.take_back = name, lambda: None

    def __call__(self) -> None:
        """Say it, from any thread."""
        from IPython.display import display

        words = (
            f"Your `{self.name}` is still running, for {SPEAKS:g} seconds now. It is stopped after "
            f"{SECONDS:g} seconds of computing. To stop it yourself, press ■ above, or the key I twice."
        )
        held = {"text/plain": words, "text/html": card(prose(words), CHIPS[Outcome.ERROR].edge)}
        shown = display(held, raw=True, display_id=True)
        self.take_back = lambda: shown.update({"text/plain": "", "text/html": ""}, raw=True)

    def end(self) -> None:
        """Take it back: the verdict comes in its place."""
        self.take_back()
