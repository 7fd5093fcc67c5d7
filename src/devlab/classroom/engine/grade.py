"""Grades many submissions: starts templates, hands them out, and makes a record of each answer."""

import base64
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from queue import Empty, SimpleQueue

from devlab.classroom import course
from devlab.classroom.collect import Collection, Submission
from devlab.classroom.download import reason_of, whole
from devlab.classroom.engine import cells
from devlab.classroom.engine.processes import CannotBegin, EngineError, Family, Handle, Settings
from devlab.classroom.handout import Handout
from devlab.classroom.results import Graded, Record, row_passed

# Why the walls of a level keep even right answers from passing, by exercise.
WALLED_OFF = {
    2: dict.fromkeys(
        ("accumulated_gradients", "ddp_gradients", "mean_of_all", "sharded_step"),
        "its processes meet over the network, which level 2 closes: grade it at level 3",
    )
}


def grade(
    found: Collection,
    folder: Path,
    settings: Settings,
    done: set[tuple[str, str, str]] = frozenset(),
) -> Iterator[Record]:
    """Grade what was collected against a course, and yield a record as each is finished.

    `done` holds (student, assignment, digest) of what was graded before, which is passed over. Where
    `settings` hide nothing, the course and what was handed in are hidden.
    """
    if not settings.hidden:
        handed_in = {str(one.file.path.resolve()) for one in found.submissions if one.file}
        settings = replace(settings, hidden=(str(Path(folder).resolve()), *sorted(handed_in)))
    for one in found.problems:
        yield Record(one.student, one.assignment, problem=one.problem, **_facts(one))
    by_assignment = attrgetter("assignment")
    todo = sorted((one for one in found.gradable if key(one) not in done), key=by_assignment)
    handouts = course.handouts_of(folder) if todo else {}
    for assignment, waiting in groupby(todo, by_assignment):
        yield from _assignment(list(waiting), handouts[assignment], settings)


def key(one: Submission) -> tuple[str, str, str]:
    """Return what tells a submission from all others, and from an earlier one of the same student."""
    return one.student, one.assignment, one.digest


def _assignment(waiting: Sequence[Submission], handout: Handout, settings: Settings) -> Iterator[Record]:
    idle: SimpleQueue[Handle] = SimpleQueue()
    jobs = max(1, min(settings.jobs, len(waiting)))
    steps = cells.reference(handout)
    families = []
    starting, stopping = threading.Lock(), threading.Event()

    def start(count: int) -> None:
        with starting:
            for family in [one for one in families if all(handle.ended for handle in one.handles)]:
                family.close()
                families.remove(family)
            families.append(family := Family(replace(settings, jobs=count), steps))
        if stopping.is_set():
            raise EngineError("it was interrupted")
        for handle in family.handles:
            idle.put(handle)

    def one(submission: Submission) -> Record:
        try:
            handle = idle.get_nowait()
        except Empty:  # there was a handle for each thread, so a watcher has ended
            start(1)
            handle = idle.get_nowait()
        try:
            return record_of(submission, handout, settings, handle.ask)
        finally:
            if not handle.ended:
                idle.put(handle)

    with ThreadPoolExecutor(jobs) as pool:
        pending, rest = set(), deque(waiting)
        try:
            start(jobs)
            while pending or rest:
                # Few at a time, so that a large class is not read into memory at once.
                while len(pending) < jobs and rest:
                    pending.add(pool.submit(one, rest.popleft()))
                finished, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield future.result()
        except BaseException:  # Ctrl-C, or the caller closes this generator
            stopping.set()
            for family in list(families):
                family.end(patience=0)
            raise
        finally:
            wait(pending)
            for family in families:
                family.close()


def record_of(
    submission: Submission, handout: Handout, settings: Settings, ask: Callable[[dict], dict]
) -> Record:
    """Have one submission run, and return its record; whatever goes wrong over its file is its own problem.

    Raises CannotBegin where no submission can be graded at all.
    """
    facts = _facts(submission)
    who = (submission.student, submission.assignment)
    try:
        steps = cells.merge_cells(handout, submission.notebook())
        return Record(*who, **facts | _marks(submission, steps, handout, settings, ask))
    except CannotBegin:
        raise
    except Exception as problem:
        kind, reason = type(problem).__name__, reason_of(problem)
        why = f"devlab could not grade it ({kind}: {reason}): look into it yourself"
        return Record(*who, problem=why, **facts)


def _facts(one: Submission) -> dict:
    """Return what a record says of how a submission came."""
    return {name: getattr(one, name) for name in ("path", "remarks", "late", "number", "prefix")}


def _marks(
    submission: Submission, steps: Sequence[cells.Step], handout: Handout, settings: Settings, ask: Callable
) -> dict:
    """Return what a record holds of marks: points are worked out here, from the rows."""
    tasks = cells.tasks(handout.source)
    try:
        beside = {name: base64.b64encode(file.read()).decode() for name, file in submission.beside.items()}
        answer = ask({"steps": steps, "names": [task.name for task in tasks], "beside": beside})
    except CannotBegin:
        raise
    except EngineError as problem:
        answer = {"problem": str(problem)}
    verdicts = answer.get("exercises", {})
    answers = cells.answers(steps, answer.get("own", {}))
    ours = {"outcome": "grader error", "headline": answer.get("problem", "the grader has no verdict")}
    for name, why in WALLED_OFF.get(settings.level, {}).items():
        if name in verdicts and verdicts[name].get("outcome") not in ("passed", "not attempted"):
            verdicts[name] = {"outcome": "grader error", "headline": why}
    exercises = tuple(
        _record_exercise(task, verdicts.get(task.name, ours), answers.get(task.name, "")) for task in tasks
    )
    remarks = submission.remarks
    tampered = [name for name, verdict in verdicts.items() if verdict.get("tampered")]
    remarks += (f"tampered: {', '.join(tampered)}; read what was handed in",) if tampered else ()
    exchanged = sorted({one for verdict in verdicts.values() for one in verdict.get("exchanged", ())})
    remarks += (f"exchanged, and put back before it judged: {', '.join(exchanged)}",) if exchanged else ()
    unread = [name for name, verdict in verdicts.items() if verdict.get("unread")]
    lost = "in rows that therefore earn nothing; read what was handed in"
    unsure = f"not confirmed: {', '.join(unread)}, whose results could not be judged a second time {lost}"
    remarks += (unsure,) if unread else ()
    return {
        "exercises": exercises,
        "remarks": remarks,
        "submitted": submission.file.date,
        "isolation": settings.level,
        "seconds": round(float(answer.get("seconds", 0)), 3),
        "digest": submission.digest,
    }


def _record_exercise(task: cells.Task, verdict: dict, source: str) -> Graded:
    """Make an exercise's record of a verdict, whose form the watcher has checked."""
    rows = tuple((label, dict(marks)) for label, marks in verdict.get("rows", ()))
    details = tuple((whole(label), whole(text)) for label, text in verdict.get("details", ()))
    outcome = verdict["outcome"]
    right = sum(row_passed(marks) for _, marks in rows)
    points = task.points(right, outcome == "passed" and right == len(rows)) if rows else 0.0
    points = int(points) if float(points).is_integer() else points
    facts = (outcome, points, task.possible, whole(verdict.get("headline", "")), rows, details, whole(source))
    return Graded(task.name, *facts, confirmed=str(verdict.get("confirmed", "")))


def find_finished(path: Path) -> set[tuple[str, str, str]]:
    """Return the keys of submissions that a file of results says were judged in full."""
    found = set()
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else ():
        try:
            one = Record.from_line(line)
        except ValueError:
            continue
        if one.digest and not one.unjudged:
            found.add((one.student, one.assignment, one.digest))
    return found
