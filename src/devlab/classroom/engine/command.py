"""`devlab grade`: what it says while it marks, and the files it leaves."""

import argparse
import contextlib
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from devlab.classroom import course, feedback, results
from devlab.classroom.collect import collect
from devlab.classroom.engine import grade, sandbox, shards
from devlab.classroom.engine.family import Family
from devlab.classroom.engine.limits import Limits
from devlab.classroom.engine.progress import shown


def run(arguments: argparse.Namespace, jobs: int, first: Family | None) -> int:
    """Grade as the command line says; return 0 where every submission was graded.

    `first` is a family that has not begun yet, None where each assignment starts its own.
    """
    least = max(arguments.require_isolation or 0, 1)
    level = sandbox.isolation_available()
    # What a submission detaches is found in /proc, and ended. A cluster's machines look for themselves.
    if (level < 1 or not Path("/proc/self").exists()) and arguments.dask in (None, "local"):
        return _stop("devlab grade needs Linux. On Windows, run it in WSL; on a Mac, in a container.")
    if level < least and arguments.dask is None:
        return _stop(
            f"This machine allows isolation level {level}, and {least} is required: nothing was graded."
        )
    paths = [Path(path) for path in arguments.submissions]
    folder, out = Path(arguments.course), Path(arguments.out)
    if missing := [str(path) for path in paths if not path.exists()]:
        return _stop(f"Not there: {', '.join(missing)}")
    hidden = (*paths, folder, out.parent)
    if level >= 2 and arguments.dask is None and (blocked := sandbox.in_the_way(hidden)):
        return _stop(f"Nothing was graded: {blocked}.")
    try:
        found = collect(paths, course.handouts_of(folder))
        found = shards.sharded(found, arguments.shard) if arguments.shard else found
    except (course.CourseError, ValueError) as problem:
        return _stop(str(problem))
    limits = Limits(arguments.seconds, arguments.memory)
    before = grade.finished(out)
    waiting = [one for one in found.gradable if grade.key(one) not in before]
    if arguments.dask and waiting:
        graded = shards.on_dask(arguments.dask, paths, folder, found, limits, least, before, jobs, out.parent)
    else:
        settings = grade.Settings(level, limits, jobs, tuple(str(path.resolve()) for path in hidden))
        graded = grade.grade(found, folder, settings, before, first)
    if before:
        print(f"{len(found.gradable) - len(waiting)} were graded before, {len(waiting)} are to do.")
    try:
        with ended_like_ctrl_c():
            write(graded, out, len(waiting) + len(found.problems))
    except grade.EngineError as problem:
        why = str(problem).removesuffix(".")
        return _stop(f"Grading stopped: {why}. What is finished is in {out}; run it again to go on.")
    except KeyboardInterrupt:
        return _stop(f"\nStopped. What is finished is in {out}; the same command goes on from there.", 130)
    records = list(results.read([out]))
    print(summary(records))
    print(feedback.write(records, out.parent).text())
    return 1 if any(one.problem or one.unjudged for one in records) else 0


@contextlib.contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """Have SIGTERM, by which clusters end what takes too long, do what Ctrl-C does: leave nothing behind."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def write(graded: Iterator[results.Record], out: Path, total: int) -> None:
    """Add records to a file, a line each, as they come, and show them; `total` says how many will come."""
    out.parent.mkdir(parents=True, exist_ok=True)
    # A line that an interrupted run left unfinished must not swallow the next one.
    torn = out.exists() and out.stat().st_size > 0 and not out.read_bytes().endswith(b"\n")
    with contextlib.closing(graded), out.open("a", encoding="utf-8") as stream, shown(total) as show:
        stream.write("\n" if torn else "")
        for one in graded:
            stream.write(one.line() + "\n")
            stream.flush()
            show(line(one))


def line(one: results.Record) -> str:
    """Return what is shown of a submission: who, the marks, and what a teacher should look at."""
    if one.problem:
        return f"{one.student}, {one.assignment}: not graded, {one.problem}"
    odd = [f"{exercise.name} {exercise.outcome}" for exercise in one.exercises if exercise.outcome in ODD]
    notes = "; ".join([*odd, *one.remarks])
    marks = f"{one.student}, {one.assignment}: {one.points:g} of {one.possible:g}"
    return f"{marks}  ({notes})" if notes else marks


# What a submission could do for want of walls.
OPEN = {
    1: "a submission could read and change all that you can, and use the network",
}
ODD = ("timeout", "killed", "memory", *results.UNJUDGED)


def summary(records: list[results.Record]) -> str:
    """Return the lines at the end: how many, how they came out, and at which isolation."""
    outcomes = Counter(exercise.outcome for one in records for exercise in one.exercises)
    counted = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    ungraded = sum(bool(one.problem) for one in records)
    levels = sorted({one.isolation for one in records if one.isolation is not None})
    told = f"{len(records) - ungraded} graded, {ungraded} not, at isolation level "
    told += f"{' and '.join(map(str, levels)) or 'none'} of 3"
    lacking = [f"level {level}: {OPEN[level]}" for level in levels if level in OPEN]
    lines = [told, *lacking, f"exercises: {counted}"]
    if again := sum(one.unjudged for one in records):
        lines.append(f"not judged in full: {again}; the same command grades these again")
    return "\n".join(lines)


def _stop(words: str, status: int = 1) -> int:
    print(words, file=sys.stderr)
    return status
