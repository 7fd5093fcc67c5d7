"""What a learner has done, kept as lines that are only ever added to one small file.

Adding a line is one write, so two notebooks may write at once; a damaged line costs only itself, and
a disk that takes no writes costs only what this kernel remembers.
"""

import json
import os
import time
from dataclasses import dataclass, field
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
    """What is known of one exercise: the last and the best outcome, by device, and the help taken."""

    attempts: int = 0
    passed: bool = False
    last: str = "not attempted"
    points: int = 0
    devices: dict[str, str] = field(default_factory=dict)
    hints: int = 0


def record(result: Result) -> None:
    """Remember a verdict."""
    _add(
        {
            "exercise": result.name,
            "outcome": str(result.outcome),
            "points": result.points,
            "devices": {device: str(result.on(device)) for device in result.devices},
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
    for line in _lines():
        try:
            entry = json.loads(line) if isinstance(line, str) else line
            _fold(records.setdefault(str(entry["exercise"]), Record()), entry)
        except (ValueError, KeyError, TypeError):
            damaged += 1
    return records, damaged


def _fold(known: Record, entry: dict) -> None:
    if "hint" in entry:
        known.hints = max(known.hints, int(entry["hint"]))
        return
    known.last = str(entry["outcome"])
    known.passed = known.passed or known.last == "passed"
    known.points = max(known.points, int(entry["points"]))
    known.devices = {str(device): str(outcome) for device, outcome in entry["devices"].items()}
    known.attempts += known.last != "not attempted"


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
