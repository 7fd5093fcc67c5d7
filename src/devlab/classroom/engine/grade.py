"""Grades many submissions: starts templates, hands them out, and makes a record of each answer."""

import hashlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from queue import Empty, SimpleQueue

from devlab.classroom import course
from devlab.classroom.collect import Collection, Submission
from devlab.classroom.engine import merge
from devlab.classroom.engine.family import CannotBegin, EngineError, Family, Handle, Settings
from devlab.classroom.record import Graded, Record
from devlab.classroom.unpack import Unreadable, kept_open

OUTCOMES = frozenset(
    {"passed", "failed", "not attempted", "skipped", "error", "timeout", "killed", "memory", "grader error"}
)
AHEAD = 4  # submissions a job: about as long as PyTorch takes to be imported
# What the walls of a level keep even right answers from, by exercise.
WALLED_OFF = {
    2: {"ddp_gradients": "its processes meet over the network, which level 2 closes: grade it at level 3"}
}


def grade(
    found: Collection,
    folder: Path,
    settings: Settings,
    done: set[tuple[str, str, str]] = frozenset(),
    first: Family | None = None,
) -> Iterator[Record]:
    """Grade what was collected against a course, and yield a record as each is finished.

    `done` holds (student, assignment, digest) of what was graded before, which is passed over. `first` may be
    a family that has not begun yet, which whoever gives it closes.
    """
    spare = [first] if first else []
    try:
        with kept_open():
            for one in found.problems:
                yield Record(one.student, one.assignment, one.path, problem=one.problem, remarks=one.remarks)
            todo = _by_assignment(one for one in found.gradable if key(one) not in done)
            for number, (assignment, waiting) in enumerate(todo.items(), start=1):
                source = course.read(Path(folder) / "source" / assignment / f"{assignment}.ipynb")
                yield from _assignment(waiting, source, settings, spare, first, last=number == len(todo))
    finally:
        for family in spare:  # nobody came to need it
            if family is not first:
                family.close()


def _by_assignment(submissions: Iterable[Submission]) -> dict[str, list[Submission]]:
    found: dict[str, list[Submission]] = {}
    for one in sorted(submissions, key=attrgetter("assignment")):
        found.setdefault(one.assignment, []).append(one)
    return found


def key(one: Submission) -> tuple[str, str, str]:
    """Return what tells a submission from all others, and from an earlier one of the same student."""
    return one.student, one.assignment, digest(one)


def digest(one: Submission) -> str:
    """Return the SHA-256 of what was handed in."""
    return hashlib.sha256(one.file.read()).hexdigest()


def _assignment(
    waiting: Sequence[Submission],
    source: dict,
    settings: Settings,
    spare: list[Family],
    lent: Family | None,
    last: bool,
) -> Iterator[Record]:
    idle: SimpleQueue[Handle] = SimpleQueue()
    jobs = max(1, min(settings.jobs, len(waiting)))
    steps = _plain(merge.merged(source, None))
    families = []
    starting, stopping = threading.Lock(), threading.Event()

    def start(count: int) -> None:
        with starting:
            for family in [one for one in families if one.ended]:
                family.close()
                families.remove(family)
            families.append(family := spare.pop() if spare else Family(count))
            family.begin(replace(settings, jobs=count), steps)
        if stopping.is_set():
            raise EngineError("it was interrupted")
        for handle in family.handles:
            idle.put(handle)

    def one(submission: Submission) -> Record:
        try:
            handle = idle.get_nowait()
        except Empty:  # no more run at a time than there are threads, each with one: a template has ended
            start(1)
            handle = idle.get_nowait()
        try:
            return record(submission, source, settings, handle.ask)
        finally:
            if not handle.ended:
                idle.put(handle)

    with ThreadPoolExecutor(jobs) as pool:
        pending, rest = set(), deque(waiting)
        try:
            start(jobs)
            while True:
                # Few at a time, so that a large class is not read into memory at once.
                while len(pending) < jobs and rest:
                    pending.add(pool.submit(one, rest.popleft()))
                # The next assignment's processes import PyTorch while this one comes to its end.
                if not last and not spare and len(rest) <= AHEAD * jobs:
                    spare.append(Family(settings.jobs))
                if not pending:
                    break
                finished, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield future.result()
        except BaseException:  # Ctrl-C, or nobody wants the rest
            stopping.set()
            for family in list(families):
                family.end(patience=0)
            raise
        finally:
            wait(pending)
            for family in families:  # of one that is lent the processes end while reports are written
                family.dismiss() if family is lent else family.close()


def record(submission: Submission, source: dict, settings: Settings, ask: Callable[[dict], dict]) -> Record:
    """Have one submission run, and return its record: points are worked out here, from the rows."""
    facts = {"late": submission.late, "path": submission.path, "remarks": submission.remarks}
    who = (submission.student, submission.assignment)
    try:
        notebook = submission.notebook()
    except Unreadable as problem:
        return Record(*who, problem=str(problem), **facts)
    steps = merge.merged(source, notebook)
    tasks = merge.tasks(source)
    try:
        answer = ask({"steps": _plain(steps), "names": [task.name for task in tasks]})
    except CannotBegin:
        raise
    except EngineError as problem:
        answer = {"problem": str(problem)}
    verdicts, labels = answer.get("exercises", {}), answer.get("labels", {})
    answers = merge.answers(steps, answer.get("own", {}))
    ours = {"outcome": "grader error", "headline": answer.get("problem", "the grader has no verdict")}
    for name, why in WALLED_OFF.get(settings.level, {}).items():
        if name in verdicts and verdicts[name].get("outcome") not in ("passed", "not attempted"):
            verdicts[name] = {"outcome": "grader error", "headline": why}
    exercises = tuple(
        _graded(task, verdicts.get(task.name, ours), labels.get(task.name, []), answers.get(task.name, ""))
        for task in tasks
    )
    tampered = [name for name, verdict in verdicts.items() if verdict.get("tampered")]
    facts["remarks"] += (f"tampered: {', '.join(tampered)}; read what was handed in",) if tampered else ()
    unread = [name for name, verdict in verdicts.items() if verdict.get("unread")]
    said = f"not confirmed: {', '.join(unread)}, whose results could not be judged a second time"
    facts["remarks"] += (said,) if unread else ()
    changed = submission.file.changed
    return Record(
        *who,
        exercises=exercises,
        submitted=time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(changed)) if changed else "",
        isolation=settings.level,
        seconds=round(float(answer.get("seconds", 0)), 3),
        digest=digest(submission),
        **facts,
    )


def _graded(task: merge.Task, verdict: dict, labels: list[str], source: str) -> Graded:
    """Make an exercise's record of what the submission's process claims; nonsense earns nothing.

    `labels` are those of the exercise's rows, as the template knows them.
    """
    try:
        rows = tuple((str(label), dict(marks)) for label, marks in verdict.get("rows", ()))
        details = tuple((_whole(label), _whole(text)) for label, text in verdict.get("details", ()))
        outcome, headline = verdict["outcome"], str(verdict.get("headline", ""))
        if outcome not in OUTCOMES or (rows and [label for label, _ in rows] != labels):
            raise ValueError
    except (TypeError, ValueError, KeyError):
        rows, details, outcome, headline = (
            (),
            (),
            "error",
            "tampered with what judges it: no verdict of devlab's",
        )
    judged = [[one for one in marks.values() if one] for _, marks in rows]
    right = sum(bool(marks) and all(one == "passed" for one in marks) for marks in judged)
    if task.by_rows:
        points = min(float(right), task.possible) if rows else 0.0
    else:
        points = task.possible if outcome == "passed" and rows and right == len(rows) else 0.0
    points = int(points) if float(points).is_integer() else points
    facts = (outcome, points, task.possible, _whole(headline), rows, details, _whole(source))
    return Graded(task.name, *facts, confirmed=str(verdict.get("confirmed", "")))


def _whole(text: object) -> str:
    """Return text without halves of characters, which escapes in a notebook make and no file can hold."""
    return str(text).encode("utf-8", "replace").decode("utf-8")


def _plain(steps: Sequence[merge.Step]) -> list:
    return [(step.kind, step.name, step.source) for step in steps]


def finished(path: Path) -> set[tuple[str, str, str]]:
    """Return who was graded before, by a file of results; where something was not judged is not finished."""
    found = set()
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            one = Record.from_line(line)
        except (ValueError, json.JSONDecodeError):
            continue
        if one.digest and not one.unjudged:
            found.add((one.student, one.assignment, one.digest))
    return found
