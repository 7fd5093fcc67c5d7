"""`devlab.progress`: the whole course at a glance."""

from devlab.checks import progress as log
from devlab.checks.exercise import Lesson
from devlab.checks.progress import Record
from devlab.checks.registry import lessons
from devlab.checks.result import Outcome
from devlab.panel import Panel, escape


class Progress(Panel):
    """The course as lessons and exercises, each with its last outcome, and what to do next."""

    def __init__(self, course: list[Lesson], records: dict[str, Record], damaged: int = 0):
        self.course = course
        self.records = records
        self.damaged = damaged

    @property
    def passed(self) -> int:
        """Return how many exercises have been passed."""
        return sum(self._passed_in(lesson) for lesson in self.course)

    @property
    def possible(self) -> int:
        """Return how many exercises there are."""
        return sum(len(lesson.exercises) for lesson in self.course)

    @property
    def next(self) -> str | None:
        """Return the first exercise not passed yet, None when all are."""
        names = (exercise.name for lesson in self.course for exercise in lesson.exercises)
        return next((name for name in names if not self._record(name).passed), None)

    def _passed_in(self, lesson: Lesson) -> int:
        return sum(self._record(exercise.name).passed for exercise in lesson.exercises)

    def _record(self, name: str) -> Record:
        return self.records.get(name, Record())

    def _closing(self) -> list[str]:
        where = {exercise.name: lesson.id for lesson in self.course for exercise in lesson.exercises}
        name = self.next
        lines = [f"next: {name} in exercises/{where[name]}.ipynb" if name else "every exercise passed"]
        if self.damaged:
            lines.append(f"lines of {log.file()} that could not be read, and were left alone: {self.damaged}")
        return lines

    def _lines(self, lesson: Lesson) -> list[tuple[str, str, str]]:
        lines = []
        for exercise in lesson.exercises:
            known = self._record(exercise.name)
            outcome = Outcome.PASSED if known.passed else _outcome(known.last)
            extra = [f"{known.points} of {exercise.possible}"] if known.attempts and not known.passed else []
            if known.passed and known.last != "passed":
                extra.append(f"last try {known.last}")
            extra += [f"{known.hints} hint{'s' * (known.hints > 1)}"] if known.hints else []
            lines.append((outcome, exercise.name, ", ".join(extra)))
        return lines

    def text(self) -> str:
        """Return the overview as plain text."""
        lines = [f"{self.passed} of {self.possible} exercises passed"]
        for lesson in self.course:
            done = f"({self._passed_in(lesson)} of {len(lesson.exercises)})"
            lines.append(f"{lesson.id}: {lesson.title}  {done}")
            lines += [
                f"  {outcome.sign} {name:<22}{extra}".rstrip() for outcome, name, extra in self._lines(lesson)
            ]
        return "\n".join(lines + self._closing())

    def html(self) -> str:
        """Return the overview as a table a lesson."""
        parts = [f"<div><strong>{self.passed} of {self.possible}</strong> exercises passed</div>"]
        for lesson in self.course:
            rows = "".join(
                f'<tr><td style="text-align:left">{outcome.html_sign}</td>'
                f'<th scope="row" style="text-align:left;font-weight:normal">{escape(name)}</th>'
                f'<td style="text-align:left">{escape(extra)}</td></tr>'
                for outcome, name, extra in self._lines(lesson)
            )
            parts.append(
                f'<table><caption style="text-align:left">{escape(lesson.id)}: {escape(lesson.title)}'
                f"</caption><tbody>{rows}</tbody></table>"
            )
        parts += [f"<div>{escape(line)}</div>" for line in self._closing()]
        return "".join(parts)

    def __repr__(self) -> str:
        return f"<Progress: {self.passed} of {self.possible}>"


def _outcome(word: str) -> Outcome:
    return Outcome(word) if word in set(Outcome) else Outcome.NOT_ATTEMPTED


def progress() -> Progress:
    """Show every lesson and exercise with its outcome, and what to do next."""
    records, damaged = log.load()
    panel = Progress(lessons(), records, damaged)
    panel.show()
    return panel
