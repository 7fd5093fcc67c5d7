"""What has been passed: the file that remembers it, and where a learner stands."""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from devlab.carried import notebook
from devlab.checks.exercise import Exercise, Lesson
from devlab.checks.result import Outcome, Result
from devlab.checks.values import times
from devlab.panel import Note

_unsaved: list[dict] = []
_told: set[str] = set()


def file() -> Path:
    """Return where progress is kept: DEVLAB_PROGRESS, or `.devlab/progress.jsonl` in the home folder."""
    chosen = os.environ.get("DEVLAB_PROGRESS")
    return Path(chosen) if chosen else Path.home() / ".devlab" / "progress.jsonl"


@dataclass
class Record:
    """What the progress file tells of an exercise.

    `last` is the outcome of the last try and `points` the most that any try earned. `devices` holds the last
    outcome on each device that judged anything, `secured` the devices of tries that passed everywhere, `time`
    the moment of the first pass, or else of the last try, as ISO 8601. `latest` counts lines: the higher, the
    later was the last try or hint.
    """

    attempts: int = 0
    passed: bool = False
    last: str = "not attempted"
    points: int = 0
    devices: dict[str, str] = field(default_factory=dict)
    secured: set[str] = field(default_factory=set)
    hints: int = 0
    time: str = ""
    latest: int = 0

    def on(self, device: str) -> str | None:
        """Return the outcome that counts on a device, None where nothing was judged there.

        An exercise that was passed once stays passed.
        """
        return "passed" if device in self.secured else self.devices.get(device)


def record(result: Result) -> None:
    """Remember a verdict, with its outcome on each device where a row of it was judged."""
    judged = [device for device in result.devices if any(row.outcomes[device] for row in result.rows)]
    _add(
        {
            "exercise": result.name,
            "outcome": str(result.outcome),
            "points": result.points,
            "devices": {device: str(result.on(device)) for device in judged},
        }
    )


def record_hint(name: str, number: int) -> None:
    """Remember that hint `number` of an exercise was shown."""
    _add({"exercise": name, "hint": number})


def record_guess(question: str, choice: str) -> None:
    """Remember what a reader guessed before looking."""
    _add({"guess": question, "choice": choice})


def guesses() -> dict[str, str]:
    """Return the last guess for each question of `devlab.predict`."""
    made = {}
    for entry in _entries():
        if isinstance(entry, dict) and "guess" in entry:
            made[str(entry["guess"])] = str(entry.get("choice"))
    return made


def hints_seen(name: str) -> int:
    """Return how many hints of an exercise were shown."""
    return load()[0].get(name, Record()).hints


def has_passed(name: str) -> bool:
    """Tell whether an exercise was ever passed."""
    return load()[0].get(name, Record()).passed


def record_reset(name: str) -> None:
    """Remember that all that was recorded of an exercise so far counts no more."""
    _add({"exercise": name, "reset": True})


def load() -> tuple[dict[str, Record], int]:
    """Return a Record for each exercise that was touched, and how many lines could not be read."""
    records: dict[str, Record] = {}
    damaged = 0
    for number, entry in enumerate(_entries(), start=1):
        if isinstance(entry, dict) and "guess" in entry:
            continue
        try:
            name, change = str(entry["exercise"]), _change(entry)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            damaged += 1
            continue
        known = records.setdefault(name, Record())
        change(known)
        known.latest = number
    return records, damaged


def _change(entry: dict) -> Callable[[Record], None]:
    """Return what a line does to the record of its exercise."""
    if "reset" in entry:
        return lambda known: vars(known).update(vars(Record()))
    return _hint(entry) if "hint" in entry else _try(entry)


# Each reads its whole line before it changes the record, so that a damaged line changes nothing.
def _hint(entry: dict) -> Callable[[Record], None]:
    number = int(entry["hint"])

    def change(known: Record) -> None:
        known.hints = max(known.hints, number)

    return change


def _try(entry: dict) -> Callable[[Record], None]:
    outcome, points, when = str(entry["outcome"]), int(entry["points"]), _time(entry)
    devices = {_device(name): str(outcome) for name, outcome in entry["devices"].items()}

    def change(known: Record) -> None:
        # A fresh notebook, run before anything is written, is no try and takes nothing back.
        if outcome == "not attempted":
            return
        if not known.passed:
            known.time = when
        known.attempts += 1
        known.last = outcome
        known.points = max(known.points, points)
        known.devices |= devices
        if outcome == "passed":
            known.passed = True
            known.secured |= {device for device, here in devices.items() if here == "passed"}

    return change


def _time(entry: dict) -> str:
    when = str(entry.get("time", ""))
    if when:
        datetime.fromisoformat(when)
    return when


def _device(name: str) -> str:
    if not re.fullmatch(r"[a-z]\w{0,20}(:\d{1,4})?", name, re.ASCII):
        raise ValueError(f"no device's name: {name!r}")
    return name


def _entries() -> Iterator[object]:
    """Yield each line that was written, as an object; None for what is no JSON."""
    for line in _lines():
        try:
            yield json.loads(line) if isinstance(line, str) else line
        except (ValueError, RecursionError):
            yield None


def _lines() -> list[str | dict]:
    try:
        text = file().read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        text = ""
    except OSError as problem:
        _tell_once(f"Earlier progress cannot be read ({problem.strerror}: {file()}).")
        text = ""
    return [line for line in text.splitlines() if line.strip()] + list(_unsaved)


def _add(entry: dict) -> None:
    entry["time"] = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    line = json.dumps(entry) + "\n"
    try:
        path = file()
        path.parent.mkdir(parents=True, exist_ok=True)
        if _ends_mid_line(path):
            line = "\n" + line
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)
    except OSError as problem:
        _unsaved.append(entry)
        _tell_once(
            f"Progress cannot be saved ({problem.strerror}: {file()}). It is kept until this kernel stops. "
            "Set DEVLAB_PROGRESS to a file you may write, and restart the kernel."
        )


def _ends_mid_line(path: Path) -> bool:
    """Tell whether an earlier write was cut off, so that a new line would join its ruins.

    Another kernel's write, seen half way, looks the same: it costs an empty line, which says nothing.
    """
    try:
        with path.open("rb") as stream:
            stream.seek(-1, os.SEEK_END)
            return stream.read(1) != b"\n"
    except OSError:
        return False


def _tell_once(message: str) -> None:
    if message not in _told:
        _told.add(message)
        Note(message).show()


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
        """Return the outcome that counts: an exercise that was passed once stays passed."""
        record = self.record
        return Outcome.PASSED if record.passed else _known_outcome(record.last) or Outcome.NOT_ATTEMPTED

    @property
    def touched(self) -> bool:
        """Tell whether the learner tried the exercise or asked for a hint; a blank answer does not count."""
        return bool(self.record.attempts or self.record.hints)

    @property
    def points(self) -> int:
        """Return the most points of any try; an exercise may have had more rows when it was tried."""
        return max(0, min(self.record.points, self.exercise.possible))

    def on(self, device: str) -> Outcome | None:
        """Return the outcome that counts on a device, None where nothing was judged there."""
        return _known_outcome(self.record.on(device))

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
            remarks.append(times(record.hints, "hint"))
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
        return sorted(judged, key=lambda device: (device != "cpu", is_simulated(device), _split(device)))

    @property
    def next(self) -> str | None:
        """Return the name of the exercise to do next, None when all are passed."""
        return self.next_line.name if self.next_line else None

    @property
    def next_line(self) -> Line | None:
        """Return the first exercise not passed, from the lesson worked on last, then from the beginning.

        A learner who skips a known exercise is not sent back to it before the rest is done.
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
            return f"next: {where} (lesson {heading_of(line.lesson)})"
        return f"next: lesson {heading_of(line.lesson)}: {read}"

    def notes(self) -> list[str]:
        """Return what is simulated, and what is odd about the stored progress."""
        lines = []
        if made := len(guesses()):
            lines.append(f"{times(made, 'guess')} made before looking; they are not graded")
        if any(map(is_simulated, self.devices)):
            lines.append("a sim device is a simulated accelerator: it follows a real one's rules")
        if self.strangers:
            lines.append(f"kept, but not in this devlab's course: {', '.join(self.strangers)}")
        if self.damaged:
            lines.append(f"lines of {file()} that could not be read, and were left alone: {self.damaged}")
        return lines


def heading_of(lesson: Lesson) -> str:
    """Return a lesson's number and title.

    >>> heading_of(Lesson("04_transfers", "Transfers", ()))
    '04 Transfers'
    """
    return f"{lesson.id.partition('_')[0]} {lesson.title}"


def is_simulated(device: str) -> bool:
    """Tell whether a device, named as PyTorch names it, is the simulated accelerator.

    >>> is_simulated("sim:1"), is_simulated("cuda:0")
    (True, False)
    """
    return device.partition(":")[0] == "sim"


def label(device: str) -> str:
    """Return a device's name, which says so where it is simulated.

    >>> label("sim:0"), label("cpu")
    ('sim:0 (simulated)', 'cpu')
    """
    return f"{device} (simulated)" if is_simulated(device) else device


def _split(device: str) -> tuple[str, int]:
    kind, _, index = device.partition(":")
    return kind, int(index or 0)


def _known_outcome(word: str | None) -> Outcome | None:
    # A newer devlab may have written an outcome that this version does not know.
    return Outcome(word) if word in set(Outcome) else None
