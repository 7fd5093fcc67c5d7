"""How far a learner has come: every exercise of the course with what is known of it, and what is next."""

from dataclasses import dataclass

from devlab.carried import notebook
from devlab.checks.exercise import Exercise, Lesson
from devlab.checks.progress import Record, file
from devlab.checks.result import Outcome

HOW_TO_SAVE = 'for a teacher: devlab.progress().save("me.html"), or .csv, or .json'


@dataclass(frozen=True)
class Line:
    """One exercise, where it stands in the course, and what is known of it."""

    lesson: Lesson
    exercise: Exercise
    record: Record

    @property
    def name(self) -> str:
        """Return the exercise's name."""
        return self.exercise.name

    @property
    def outcome(self) -> Outcome:
        """Return what counts: a pass once is a pass, whatever was tried since."""
        record = self.record
        return Outcome.PASSED if record.passed else _known(record.last) or Outcome.NOT_ATTEMPTED

    @property
    def touched(self) -> bool:
        """Tell whether it was tried, or a hint for it asked for; checking a blank answer is neither."""
        return bool(self.record.attempts or self.record.hints)

    @property
    def points(self) -> int:
        """Return the most points of any try; an exercise may have had more rows when it was tried."""
        return max(0, min(self.record.points, self.exercise.possible))

    def on(self, device: str) -> Outcome | None:
        """Return what counts on one device, None where nothing was judged there."""
        return _known(self.record.on(device))

    @property
    def remark(self) -> str:
        """Return points, tries, a failure after a pass and hints, as far as there is something to say."""
        record, remarks = self.record, []
        if record.attempts and not record.passed:
            remarks.append(f"{self.points} of {self.exercise.possible} points")
        if record.attempts > 1:
            remarks.append(f"{record.attempts} tries")
        if record.passed and record.last != Outcome.PASSED:
            remarks.append(f"last try {record.last}")
        if record.hints:
            remarks.append(f"{record.hints} hint{'s' * (record.hints > 1)}")
        return ", ".join(remarks)


class Standing:
    """The course, and what is known of each exercise of it."""

    def __init__(self, course: list[Lesson], records: dict[str, Record], damaged: int = 0):
        self.course = course
        self.records = records
        self.damaged = damaged
        self.lines = [
            Line(lesson, exercise, records.get(exercise.name, Record()))
            for lesson in course
            for exercise in lesson.exercises
        ]

    @property
    def passed(self) -> int:
        """Return how many exercises have been passed."""
        return sum(line.record.passed for line in self.lines)

    @property
    def possible(self) -> int:
        """Return how many exercises there are."""
        return len(self.lines)

    @property
    def begun(self) -> bool:
        """Tell whether any exercise was touched."""
        return any(line.touched for line in self.lines)

    @property
    def devices(self) -> list[str]:
        """Return every device that judged something: the CPU, real accelerators, simulated ones."""
        judged = {device for line in self.lines for device in line.record.devices}
        return sorted(judged, key=lambda device: (device != "cpu", simulated(device), _numbered(device)))

    @property
    def next(self) -> str | None:
        """Return the name of the exercise to do next, None when all are passed."""
        return self.next_line.name if self.next_line else None

    @property
    def next_line(self) -> Line | None:
        """Return the first exercise not passed, from the lesson worked on last, then from the beginning.

        Whoever skips what they know is not sent back to it before the rest is done.
        """
        latest = max(self.lines, key=lambda line: line.record.latest, default=None)
        if latest is None:
            return None
        start = next(n for n, line in enumerate(self.lines) if line.lesson is latest.lesson)
        start = start if latest.record.latest else 0
        onwards = self.lines[start:] + self.lines[:start]
        return next((line for line in onwards if not line.record.passed), None)

    @property
    def outcomes(self) -> list[Outcome]:
        """Return every outcome that occurs, of an exercise or on a device: what a legend explains."""
        met = {line.outcome for line in self.lines}
        met |= {line.on(device) for line in self.lines for device in self.devices}
        return [outcome for outcome in Outcome if outcome in met]

    @property
    def strangers(self) -> list[str]:
        """Return the names of exercises that were tried and that this course does not have."""
        own = {line.name for line in self.lines}
        return sorted(name for name, record in self.records.items() if record.attempts and name not in own)

    def of(self, lesson: Lesson) -> list[Line]:
        """Return the lines of one lesson."""
        return [line for line in self.lines if line.lesson is lesson]

    def tally(self, lesson: Lesson) -> str:
        """Return how many of a lesson's exercises are passed, in words."""
        lines = self.of(lesson)
        return f"{sum(line.record.passed for line in lines)} of {len(lines)} passed"

    @property
    def step(self) -> str:
        """Return what to do next, in one line."""
        line = self.next_line
        if line is None:
            return "every exercise passed"
        where = f"{line.name} in {notebook('exercises', line.lesson.id)}"
        read = f"read {notebook('notebooks', line.lesson.id)}, then solve {where}"
        if not self.begun:
            return f"nothing tried yet: {read}"
        if any(other.touched for other in self.of(line.lesson)):
            return f"next: {where} (lesson {heading(line.lesson)})"
        return f"next: lesson {heading(line.lesson)}: {read}"

    def notes(self) -> list[str]:
        """Return what is simulated, and what is odd about the stored progress."""
        lines = []
        if any(map(simulated, self.devices)):
            lines.append("a sim device is a simulated accelerator: it follows a real one's rules")
        if self.strangers:
            lines.append(f"kept, but not in this devlab's course: {', '.join(self.strangers)}")
        if self.damaged:
            lines.append(f"lines of {file()} that could not be read, and were left alone: {self.damaged}")
        return lines


def heading(lesson: Lesson) -> str:
    """Return a lesson's number and title.

    >>> heading(Lesson("04_transfers", "Transfers"))
    '04 Transfers'
    """
    return f"{lesson.id.partition('_')[0]} {lesson.title}"


def simulated(device: str) -> bool:
    """Tell whether a device, named as PyTorch names it, is the simulated accelerator.

    >>> simulated("sim:1"), simulated("cuda:0")
    (True, False)
    """
    return device.partition(":")[0] == "sim"


def label(device: str) -> str:
    """Return a device's name, which says so where it is simulated.

    >>> label("sim:0"), label("cpu")
    ('sim:0 (simulated)', 'cpu')
    """
    return f"{device} (simulated)" if simulated(device) else device


def _numbered(device: str) -> tuple[str, int]:
    kind, _, index = device.partition(":")
    return kind, int(index or 0)


def _known(word: str | None) -> Outcome | None:
    # A newer devlab may have written an outcome that this one has no name for.
    return Outcome(word) if word in set(Outcome) else None
