"""What a learner has done, kept as lines that are only ever added to one small file.

Adding a line is one write, so two notebooks may write at once; a damaged line costs only itself, and
a disk that takes no writes costs only what this kernel remembers.
"""

import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from devlab.checks.result import Result
from devlab.panel import Note

_unsaved: list[dict] = []
_told: set[str] = set()


def file() -> Path:
    """Return where progress is kept: DEVLAB_PROGRESS, or `.devlab/progress.jsonl` in the home folder."""
    chosen = os.environ.get("DEVLAB_PROGRESS")
    return Path(chosen) if chosen else Path.home() / ".devlab" / "progress.jsonl"


@dataclass
class Record:
    """What is known of one exercise.

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

        A pass once is a pass, whatever was tried since.
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


def hints_seen(name: str) -> int:
    """Return how many hints of an exercise were shown."""
    return load()[0].get(name, Record()).hints


def has_passed(name: str) -> bool:
    """Tell whether an exercise was ever passed."""
    return load()[0].get(name, Record()).passed


def load() -> tuple[dict[str, Record], int]:
    """Return a Record for each exercise that was touched, and how many lines could not be read."""
    records: dict[str, Record] = {}
    damaged = 0
    for number, line in enumerate(_lines(), start=1):
        try:
            entry = json.loads(line) if isinstance(line, str) else line
            name, change = str(entry["exercise"]), _hint(entry) if "hint" in entry else _try(entry)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            damaged += 1
            continue
        known = records.setdefault(name, Record())
        change(known)
        known.latest = number
    return records, damaged


# Each reads its whole line before anything changes, so that a damaged line leaves no half of itself behind.
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
