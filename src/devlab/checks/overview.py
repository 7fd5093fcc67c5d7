"""`devlab.progress`: the whole course at a glance."""

from devlab.checks import progress as log
from devlab.checks.exercise import Exercise, Lesson
from devlab.checks.progress import Record
from devlab.checks.registry import lessons
from devlab.checks.result import Outcome
from devlab.panel import Panel, escape


class Progress(Panel):
    """The course as lessons and exercises, each with its outcome on each device, and what to do next."""

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

    @property
    def devices(self) -> list[str]:
        """Return every device that anything was judged on, in the order first met."""
        known = (device for record in self.records.values() for device in record.devices)
        return list(dict.fromkeys(known))

    def text(self) -> str:
        """Return the overview as plain text."""
        head = "".join(f"  {device}" for device in self.devices)
        names = [exercise.name for lesson in self.course for exercise in lesson.exercises]
        width = max(len(text) for text in [*names, *map(self._title, self.course)]) + 4
        lines = [f"{self.passed} of {self.possible} exercises passed"]
        for lesson in self.course:
            lines.append(f"{self._title(lesson):<{width}}{head}".rstrip())
            for exercise in lesson.exercises:
                record = self._record(exercise.name)
                signs = "".join(
                    f"  {outcome.sign if outcome else '':^{len(device)}}"
                    for device, outcome in self._outcomes(record).items()
                )
                name = f"  {_outcome_of(record).sign} {exercise.name:<{width - 4}}"
                lines.append(f"{name}{signs}  {_remark(exercise, record)}".rstrip())
        return "\n".join(lines + self._closing())

    def html(self) -> str:
        """Return the overview as one table, a section for each lesson."""
        left = "text-align:left"
        head = "".join(f'<th scope="col">{escape(device)}</th>' for device in self.devices)
        parts = []
        for lesson in self.course:
            parts.append(
                f'<tbody><tr style="background:none"><th scope="rowgroup" style="{left};padding-top:1em">'
                f"{escape(self._title(lesson))}</th>{head}<td></td></tr>"
            )
            for exercise in lesson.exercises:
                record = self._record(exercise.name)
                signs = "".join(
                    f'<td style="text-align:center">{outcome.html_sign if outcome else ""}</td>'
                    for outcome in self._outcomes(record).values()
                )
                parts.append(
                    f'<tr style="background:none"><th scope="row" style="{left};font-weight:normal">'
                    f"{_outcome_of(record).html_sign} {escape(exercise.name)}</th>{signs}"
                    f'<td style="{left}">{escape(_remark(exercise, record))}</td></tr>'
                )
            parts.append("</tbody>")
        closing = "".join(f"<div>{escape(line)}</div>" for line in self._closing())
        title = f"<div><strong>{self.passed} of {self.possible}</strong> exercises passed</div>"
        return f"{title}<table>{''.join(parts)}</table>{closing}"

    def __repr__(self) -> str:
        return f"<Progress: {self.passed} of {self.possible}>"

    def _passed_in(self, lesson: Lesson) -> int:
        return sum(self._record(exercise.name).passed for exercise in lesson.exercises)

    def _title(self, lesson: Lesson) -> str:
        number = lesson.id.partition("_")[0]
        return f"{number} {lesson.title} ({self._passed_in(lesson)} of {len(lesson.exercises)})"

    def _record(self, name: str) -> Record:
        return self.records.get(name, Record())

    def _outcomes(self, record: Record) -> dict[str, Outcome | None]:
        return {device: _known(record.devices.get(device)) for device in self.devices}

    def _closing(self) -> list[str]:
        where = {exercise.name: lesson.id for lesson in self.course for exercise in lesson.exercises}
        name = self.next
        lines = [f"next: {name} in exercises/{where[name]}.ipynb" if name else "every exercise passed"]
        if self.damaged:
            lines.append(f"lines of {log.file()} that could not be read, and were left alone: {self.damaged}")
        return lines


def _outcome_of(record: Record) -> Outcome:
    """Return what counts for an exercise: a pass once is a pass, whatever was tried since."""
    return Outcome.PASSED if record.passed else _known(record.last) or Outcome.NOT_ATTEMPTED


def _known(word: str | None) -> Outcome | None:
    # A newer devlab may have written an outcome that this one has no name for.
    return Outcome(word) if word in set(Outcome) else None


def _remark(exercise: Exercise, record: Record) -> str:
    """Return points, a later failure and hints taken, as far as there is something to say."""
    remarks = []
    if record.attempts and not record.passed:
        remarks.append(f"{record.points} of {exercise.possible}")
    if record.passed and record.last != Outcome.PASSED:
        remarks.append(f"last try {record.last}")
    if record.hints:
        remarks.append(f"{record.hints} hint{'s' * (record.hints > 1)}")
    return ", ".join(remarks)


def progress() -> Progress:
    """Show every lesson and exercise with its outcome on each device, and what to do next."""
    records, damaged = log.load()
    panel = Progress(lessons(), records, damaged)
    panel.show()
    return panel
