"""`devlab.progress`: the whole course at a glance."""

from pathlib import Path

from devlab.checks import progress as log
from devlab.checks.overview_html import render
from devlab.checks.registry import lessons
from devlab.checks.result import Outcome
from devlab.checks.standing import HOW_TO_SAVE, Line, Standing, heading
from devlab.panel import Note, Panel


class Progress(Standing, Panel):
    """The course as lessons and exercises, each with its outcome on each device, and what to do next.

    `save` writes it to a file for a teacher.
    """

    def text(self) -> str:
        """Return the overview as plain text."""
        titles = {lesson.id: f"{heading(lesson)} ({self.tally(lesson)})" for lesson in self.course}
        width = max(len(text) for text in [*titles.values(), *(line.name for line in self.lines)]) + 4
        head = "".join(f"  {device}" for device in self.devices)
        parts = [f"{self.passed} of {self.possible} exercises passed"]
        for lesson in self.course:
            parts.append(f"{titles[lesson.id]:<{width}}{head}".rstrip())
            parts += [self._row(line, width) for line in self.of(lesson)]
        parts.append("  ".join(f"{outcome.sign} {outcome}" for outcome in self.outcomes))
        return "\n".join([*parts, *self.notes(), HOW_TO_SAVE, self.step])

    def _row(self, line: Line, width: int) -> str:
        signs = "".join(f"  {_sign(line.on(device)):^{len(device)}}" for device in self.devices)
        return f"  {line.outcome.sign} {line.name:<{width - 4}}{signs}  {line.remark}".rstrip()

    def html(self) -> str:
        """Return the overview as HTML: a line for each lesson, which opens to a table of its exercises."""
        return render(self)

    def save(self, path: str | Path) -> "Saved":
        """Write the progress to a file that a teacher can read, and say where it is or why it is not.

        The file's ending chooses: `.html` is a page to read or print, `.csv` a table with a line for each
        exercise, `.json` the same for programs. A file that is there is replaced.
        """
        from devlab.checks.export import CannotSave, write

        try:
            where = write(self, path)
            saved = Saved(f"saved: {where}", where)
        except CannotSave as problem:
            saved = Saved(str(problem))
        saved.show()
        return saved

    def __repr__(self) -> str:
        return f"<Progress: {self.passed} of {self.possible}>"


class Saved(Note):
    """What became of saving: `path` is the file, None where nothing was written."""

    def __init__(self, message: str, path: Path | None = None):
        super().__init__(message)
        self.path = path


def _sign(outcome: Outcome | None) -> str:
    return outcome.sign if outcome else ""


def standing() -> Progress:
    """Return how far the learner has come, without showing it."""
    records, damaged = log.load()
    return Progress(lessons(), records, damaged)


def progress() -> Progress:
    """Show every lesson and exercise with its outcome on each device, and what to do next.

    `devlab.progress().save("progress.html")` also writes it to a file for a teacher (.html, .csv or .json).
    """
    panel = standing()
    panel.show()
    return panel
