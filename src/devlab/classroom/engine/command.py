"""`devlab grade`: what it says while it marks, and the files it leaves."""

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

from devlab.classroom import course, record, reports
from devlab.classroom.collect import Collection, collect
from devlab.classroom.engine import grade, sandbox
from devlab.classroom.engine.limits import Limits


def run(arguments: argparse.Namespace) -> int:
    """Grade as the command line says; return 0 where every submission was graded."""
    level = sandbox.isolation_available()
    if level < 1 or not Path("/proc/self").exists():  # what a submission detaches is found there, and ended
        return _stop("devlab grade needs Linux. On Windows, run it in WSL; on a Mac, in a container.")
    wanted = arguments.require_isolation
    if wanted is not None and level < wanted:
        return _stop(
            f"This machine allows isolation level {level}, and {wanted} is required: nothing was graded."
        )
    paths, folder, out = (
        [Path(path) for path in arguments.submissions],
        Path(arguments.course),
        Path(arguments.out),
    )
    if missing := [str(path) for path in paths if not path.exists()]:
        return _stop(f"Not there: {', '.join(missing)}")
    try:
        found = collect(paths, course.cells_of(folder))
        found = sharded(found, arguments.shard) if arguments.shard else found
    except (course.CourseError, ValueError) as problem:
        return _stop(str(problem))
    jobs = arguments.jobs or len(os.sched_getaffinity(0))
    settings = grade.Settings(level, Limits(arguments.seconds, arguments.memory), jobs)
    out.parent.mkdir(parents=True, exist_ok=True)
    before = grade.finished(out)
    # A line that an interrupted run left unfinished must not swallow the next one.
    torn = out.exists() and out.stat().st_size > 0 and not out.read_bytes().endswith(b"\n")
    try:
        with out.open("a", encoding="utf-8") as stream:
            stream.write("\n" if torn else "")
            for count, one in enumerate(grade.grade(found, folder, settings, before), start=1):
                stream.write(one.line() + "\n")
                stream.flush()
                print(f"{count:5}  {line(one)}", flush=True)
    except grade.EngineError as problem:
        return _stop(f"Grading stopped: {problem}. What is finished is in {out}; run it again to go on.")
    except KeyboardInterrupt:
        return _stop(f"\nStopped. What is finished is in {out}; the same command goes on from there.", 130)
    records = list(record.read([out]))
    print(summary(records, level))
    print(reports.write(records, out.parent).text())
    return 1 if any(one.problem or failed(one) for one in records) else 0


def sharded(found: Collection, shard: str) -> Collection:
    """Return every n-th submission from the i-th on, for a shard written as i/n; raises ValueError.

    >>> sharded(Collection([1, 2, 3], []), "1/2").submissions
    [1, 3]
    """
    part, _, parts = shard.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise ValueError(f"--shard {shard} is no part: write 2/5 for the second of five")
    return Collection(found.submissions[int(part) - 1 :: int(parts)], found.ignored)


def line(one: record.Record) -> str:
    """Return what is shown of a submission: who, the marks, and what a teacher should look at."""
    if one.problem:
        return f"{one.student}, {one.assignment}: not graded, {one.problem}"
    odd = [f"{exercise.name} {exercise.outcome}" for exercise in one.exercises if exercise.outcome in ODD]
    notes = "; ".join([*odd, *(note for note in one.remarks if note.startswith("tampered"))])
    marks = f"{one.student}, {one.assignment}: {one.points:g} of {one.possible:g}"
    return f"{marks}  ({notes})" if notes else marks


ODD = ("timeout", "killed", "memory", "grader error")


def failed(one: record.Record) -> bool:
    """Tell whether the grader itself failed at a part of a submission."""
    return any(exercise.outcome == "grader error" for exercise in one.exercises)


def summary(records: list[record.Record], level: int) -> str:
    """Return the lines at the end: how many, how they came out, and at which isolation."""
    outcomes = Counter(exercise.outcome for one in records for exercise in one.exercises)
    counted = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    ungraded = sum(bool(one.problem) for one in records)
    told = f"{len(records) - ungraded} graded, {ungraded} not, at isolation level {level} of 3"
    return f"{told}\nexercises: {counted}"


def _stop(words: str, status: int = 1) -> int:
    print(words, file=sys.stderr)
    return status
