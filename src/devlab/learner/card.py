"""A verdict in a live notebook: buttons for a hint and a solution, and words while an answer still runs."""

import contextlib
import importlib.util
import os
from collections.abc import Callable, Iterator

from devlab.checks.exercise import Exercise, find
from devlab.checks.help import Hint, solution_of
from devlab.checks.result import CHIPS, Outcome, Result
from devlab.checks.time_limits import SECONDS, SPEAKS
from devlab.checks.values import times
from devlab.explore.controls import Action
from devlab.explore.explorer import Explorer
from devlab.explore.scene import Scene
from devlab.explore.still import PAGE
from devlab.learner import progress
from devlab.panel import Panel, card, notebook_shell, prose


class Card(Explorer):
    """A verdict with buttons below, which add the next hint and, when it is due, a solution to the card.

    The state is what they have added. `counts` says whether hints are remembered: not of an answer that a
    notebook of the course prints.
    """

    def __init__(self, result: Result, exercise: Exercise, counts: bool):
        self.result, self.exercise, self.counts = result, exercise, counts
        self.seen = progress.hints_seen(exercise.name)
        self.passed = result.passed or progress.has_passed(exercise.name)
        hint = Action("Show a hint", self._add_hint, self._left)
        solution = Action("Show a solution", self._add_solution, self._can_solve)
        controls = [solution] if result.passed else [hint, solution]
        super().__init__("", (), self._draw, lambda added: added[-1].text() if added else "", controls)

    def _left(self, added: tuple[Panel, ...]) -> int:
        shown = sum(isinstance(one, Hint) for one in added)
        return max(0, len(self.exercise.hints) - self.seen - shown)

    def _draw(self, added: tuple[Panel, ...]) -> Scene:
        left = self._left(added)
        return Scene(0, [], "" if self.passed or not left else f"{times(left, 'hint')} left, then a solution")

    def _can_solve(self, added: tuple[Panel, ...]) -> bool:
        return (self.passed or not self._left(added)) and all(isinstance(one, Hint) for one in added)

    def _add_hint(self, added: tuple[Panel, ...]) -> tuple[Panel, ...]:
        number = len(self.exercise.hints) - self._left(added) + 1
        if self.counts:
            progress.record_hint(self.exercise.name, number)
        return (*added, Hint(self.exercise, number))

    def _add_solution(self, added: tuple[Panel, ...]) -> tuple[Panel, ...]:
        return (*added, solution_of(self.exercise))

    def text(self) -> str:
        """Return the verdict, and what the buttons have added."""
        return "\n\n".join(panel.text() for panel in (self.result, *self.state))

    def html(self, mark: str = "") -> str:
        """Return the same as a card."""
        added = "".join(f'<div style="margin-top:0.8em">{one.html()}</div>' for one in self.state)
        return f"{PAGE}<span data-devlab-still></span>{card(self.result.html() + added, self.result.accent)}"


def show(result: Result, counts: bool) -> None:
    """Show a verdict where the reader is; in a live notebook, and not to a grader, with buttons below."""
    shell, exercise = notebook_shell(), find(result.name)
    live = hasattr(shell, "kernel") and importlib.util.find_spec("anywidget")
    if not (live and exercise and result.rows) or os.environ.get("DEVLAB_STRICT") == "1":
        result.show()
        return
    result._shown_in_cell = shell.execution_count
    Card(result, exercise, counts).show()


@contextlib.contextmanager
def told_while_running(name: str) -> Iterator[Callable[[], None]]:
    """Give a block a function, for any thread, that says that an answer still runs, until the block ends."""
    shown = []
    words = (
        f"Your `{name}` has been running for more than {SPEAKS:g} seconds. It is stopped after {SECONDS:g}"
    )
    words += " seconds of computing. To stop it yourself, press ■ above, or the key I twice."
    told = {"text/plain": words, "text/html": card(prose(words), CHIPS[Outcome.ERROR].edge)}

    def speak() -> None:
        from IPython.display import display

        shown.append(display(told, raw=True, display_id=True))

    yield speak
    for one in shown:
        one.update(dict.fromkeys(told, ""), raw=True)
