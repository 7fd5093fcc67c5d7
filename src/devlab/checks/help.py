"""`devlab.hint` and `devlab.solution`: help in steps, the gentlest first; `devlab.reset` begins anew."""

import re
from collections.abc import Callable

from devlab import carried
from devlab.checks.answered import BadCall, exercise_of, names_of_caller
from devlab.checks.exercise import Exercise
from devlab.checks.placeholder import is_printed
from devlab.checks.values import times
from devlab.learner import progress
from devlab.panel import Note, Panel, escape, prose

MARKERS = ("### BEGIN SOLUTION", "### END SOLUTION")
BROKEN = re.compile(r"^ *### BEGIN BROKEN\n.*?### END BROKEN\n", re.M | re.S)


def hint(answer: Callable | str) -> Panel:
    """Show the next hint of an exercise, given as its function or its name; they go from gentle to plain."""
    try:
        exercise = exercise_of(answer, names_of_caller(answer))
    except BadCall as bad:
        return _show(Note(f"{bad.headline}\nnext: {bad.step}"))
    total = len(exercise.hints)
    number = min(progress.hints_seen(exercise.name) + 1, total)
    if not is_printed(exercise.name, answer):
        progress.record_hint(exercise.name, number)
    return _show(Hint(exercise, number))


def solution(answer: Callable | str, give_up: bool = False) -> Panel:
    """Show a solution of an exercise: after a pass, when its hints are used up, or with `give_up=True`."""
    try:
        exercise = exercise_of(answer, names_of_caller(answer))
    except BadCall as bad:
        return _show(Note(f"{bad.headline}\nnext: {bad.step}"))
    left = len(exercise.hints) - progress.hints_seen(exercise.name)
    if not (give_up or left <= 0 or progress.has_passed(exercise.name)):
        return _show(
            Note(
                f"{exercise.name} has {times(left, 'hint')} left: devlab.hint({exercise.name})\n"
                f"To see a solution all the same: devlab.solution({exercise.name}, give_up=True)"
            )
        )
    return _show(solution_of(exercise))


def solution_of(exercise: Exercise) -> Panel:
    """Return an exercise's solution, or a note where this installation has none."""
    try:
        return Solution(exercise.name, solution_source(exercise))
    except LookupError as missing:
        return Note(str(missing))


def reset(answer: Callable | str) -> Panel:
    """Forget the tries and hints of an exercise, a pass too, and say so in a sentence.

    The exercise is given as its function or its name. Its first hint comes next, and its solution is shown
    after a pass or the last hint, as before the first try. What is written in the notebook stays.

    >>> _ = reset("ddp_gradients")
    No try and no hint of ddp_gradients is remembered, so there is nothing to forget.
    """
    try:
        exercise = exercise_of(answer, names_of_caller(answer))
    except BadCall as bad:
        return _show(Note(f"{bad.headline}\nnext: {bad.step}"))
    name, known = exercise.name, progress.load()[0].get(exercise.name, progress.Record())
    forgotten = [times(known.attempts, "try")] * bool(known.attempts)
    forgotten += [times(known.hints, "hint")] * bool(known.hints)
    if not forgotten:
        return _show(Note(f"No try and no hint of {name} is remembered, so there is nothing to forget."))
    progress.record_reset(name)
    passed = ", a pass among them" if known.passed else ""
    return _show(
        Note(
            f"devlab has forgotten {' and '.join(forgotten)} of {name}{passed}: "
            "it counts as not tried, and its first hint comes next."
        )
    )


def solution_source(exercise: Exercise) -> str:
    """Return the solution's source, the very text that runs in `solutions/`.

    Raises LookupError where the installed package carries no sources, as a student's copy may not.

    >>> from devlab.checks.exercise import find
    >>> "return x.device" in solution_source(find("device_of"))
    True
    >>> "BROKEN" in solution_source(find("fix_hidden_state"))
    False
    """
    for path in carried.files("exercise sources"):
        if path.stem == exercise.lesson:
            cell = re.search(
                rf'^# %% [^\n]*exercise="{exercise.name}"[^\n]*\n(.*?)(?=^# %%|\Z)',
                path.read_text("utf-8"),
                re.M | re.S,
            )
            if cell:
                lines = BROKEN.sub("", cell.group(1)).strip().splitlines()
                return "\n".join(line for line in lines if line.strip() not in MARKERS)
    raise LookupError(
        f"This installation carries no solutions; solutions/{exercise.lesson}.ipynb has this one."
    )


class Hint(Panel):
    """A hint of an exercise, counted from 1; the last hint tells how to see the solution."""

    def __init__(self, exercise: Exercise, number: int):
        self.exercise = exercise
        self.number = number

    @property
    def _title(self) -> str:
        return f"hint {self.number} of {len(self.exercise.hints)} for {self.exercise.name}"

    @property
    def _words(self) -> list[str]:
        words = [self.exercise.hints[self.number - 1]]
        if self.number == len(self.exercise.hints):
            words.append(
                f"That was the last one: `devlab.solution({self.exercise.name})` now shows a solution."
            )
        return words

    def text(self) -> str:
        """Return a line of title, then the hint."""
        return "\n".join([self._title, *self._words])

    def html(self) -> str:
        """Return the same as prose, with its code set as code."""
        words = "".join(f'<div style="margin-top:0.3em">{prose(one)}</div>' for one in self._words)
        return f"<strong>{escape(self._title)}</strong>{words}"


class Solution(Panel):
    """A solution, shown as code."""

    def __init__(self, name: str, source: str):
        self.name = name
        self.source = source

    def text(self) -> str:
        """Return the solution's source under a line of title."""
        return f"one solution of {self.name}\n\n{self.source}"

    def html(self) -> str:
        """Return the source as a block of code."""
        return (
            f"<div>one solution of <strong>{escape(self.name)}</strong></div>"
            f'<pre style="margin:0.5em 0">{escape(self.source)}</pre>'
        )


def _show(panel: Panel) -> Panel:
    panel.show()
    return panel
