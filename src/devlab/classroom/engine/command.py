"""`devlab grade`: what it says while it marks, the files it leaves, and how a class is graded in parts."""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from devlab.classroom import course, feedback
from devlab.classroom.collect import Collection, collect
from devlab.classroom.download import printable
from devlab.classroom.engine import grade, walls
from devlab.classroom.engine.quota import Limits
from devlab.classroom.results import UNJUDGED, Record, read_all


def run(arguments: argparse.Namespace) -> int:
    """Grade as the command line says; return 0 where every submission was graded."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    jobs = max(arguments.jobs or cores, 1)
    least = max(arguments.require_isolation or 0, 1)
    level = walls.isolation_available()
    # Processes that a submission detaches are found in /proc and ended. On a cluster each machine looks for
    # itself what it allows.
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
    if level >= 2 and arguments.dask is None and (blocked := walls.in_the_way(hidden)):
        return _stop(f"Nothing was graded: {blocked}.")
    try:
        found = collect(paths, course.handouts_of(folder))
        found = take_shard(found, arguments.shard) if arguments.shard else found
    except (course.CourseError, ValueError) as problem:
        return _stop(str(problem))
    for text in found.set_aside(FEW):
        print(text)
    limits = Limits(arguments.seconds, arguments.memory)
    before = grade.find_finished(out)
    waiting = [one for one in found.gradable if grade.key(one) not in before]
    if arguments.dask and waiting:
        graded = on_dask(arguments.dask, paths, folder, found, limits, least, before, jobs, out.parent)
    else:
        settings = grade.Settings(level, limits, jobs, tuple(str(path.resolve()) for path in hidden))
        graded = grade.grade(found, folder, settings, before)
    if before:
        print(f"{len(found.gradable) - len(waiting)} were graded before, {len(waiting)} are to do.")
    known = {one[:2] for one in before}
    if stale := [one for one in waiting if grade.key(one)[:2] in known]:
        print(f"{len(stale)} of these are graded anew: what was handed in or its source/ changed since.")
    try:
        with end_like_ctrl_c():
            write(graded, out, len(waiting) + len(found.problems))
    except grade.EngineError as problem:
        why = str(problem).removesuffix(".")
        return _stop(f"Grading stopped: {why}. What is finished is in {out}; run it again to go on.")
    except KeyboardInterrupt:
        return _stop(f"\nStopped. What is finished is in {out}; the same command goes on from there.", 130)
    records = list(read_all([out]))
    print(summary(records))
    written = feedback.write(records, out.parent)
    print(written.text())
    return 1 if written.problems or any(one.problem or one.unjudged for one in records) else 0


@contextlib.contextmanager
def end_like_ctrl_c() -> Iterator[None]:
    """Have SIGTERM do what Ctrl-C does, leaving nothing behind: clusters end slow jobs with it."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def write(graded: Iterator[Record], out: Path, total: int) -> None:
    """Add records to a file, a line each, as they come, and print a line; `total` says how many will come."""
    out.parent.mkdir(parents=True, exist_ok=True)
    # A line that an interrupted run left unfinished must not swallow the next line.
    torn = out.exists() and out.stat().st_size > 0 and not out.read_bytes().endswith(b"\n")
    with contextlib.closing(graded), out.open("a", encoding="utf-8") as stream:
        stream.write("\n" if torn else "")
        for number, one in enumerate(graded, start=1):
            stream.write(one.line() + "\n")
            stream.flush()
            print(f"{number:{len(str(total))}}/{total}  {printable(line(one))}", flush=True)


def line(one: Record) -> str:
    """Return what is shown of a submission: the student, the marks, and what a teacher should look at."""
    who = ", ".join(filter(None, (one.student, one.assignment)))
    if one.problem:
        return f"{who or one.path}: not graded, {one.problem}"
    odd = [f"{exercise.name} {exercise.outcome}" for exercise in one.exercises if exercise.outcome in ODD]
    notes = "; ".join([*odd, *one.remarks])
    marks = f"{who}: {one.points:g} of {one.possible:g}"
    return f"{marks}  ({notes})" if notes else marks


FEW = 50  # files beside notebooks that are named, since a student may hand in a thousand
OPEN = "level 1: a submission could read and change all that you can, and use the network"
ODD = ("timeout", "killed", "memory", *UNJUDGED)


def summary(records: list[Record]) -> str:
    """Return the lines at the end: how many were graded, at which isolation, and with which outcomes."""
    outcomes = Counter(exercise.outcome for one in records for exercise in one.exercises)
    counted = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    ungraded = sum(bool(one.problem) for one in records)
    levels = sorted({one.isolation for one in records if one.isolation is not None})
    told = f"{len(records) - ungraded} graded, {ungraded} not"
    told += f", at isolation level {' and '.join(map(str, levels))} of 3" if levels else ""
    lines = [told, *([OPEN] if 1 in levels else ()), *([f"exercises: {counted}"] if counted else ())]
    if again := sum(one.unjudged for one in records):
        lines.append(f"not judged in full: {again}; the same command grades these again")
    return "\n".join(lines)


def _stop(words: str, status: int = 1) -> int:
    print(words, file=sys.stderr)
    return status


PATIENCE = "30s"  # for a scheduler to answer
ANY_PORT = "127.0.0.1:0"  # without an address Dask wants port 8787, even for no dashboard
# Submissions in a part. An interruption loses the part that a worker is at, and for each part a template has
# to start.
A_PART = 50
START = "from devlab.classroom.engine.command import main; main()"
SET_PARENT_DEATH_SIGNAL = 1


def take_shard(found: Collection, shard: str) -> Collection:
    """Return every n-th submission from the i-th on, for a shard written as i/n; raises ValueError.

    >>> take_shard(Collection([1, 2, 3], []), "1/2").submissions
    [1, 3]
    """
    part, _, parts = shard.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise ValueError(f"--shard {shard} is no part: write 2/5 for the second of five")
    return Collection(found.submissions[int(part) - 1 :: int(parts)], found.ignored)


def on_dask(
    address: str,
    paths: Sequence[Path],
    folder: Path,
    found: Collection,
    limits: Limits,
    least: int,
    done: set[tuple[str, str, str]],
    workers: int,
    results: Path | None = None,
) -> Iterator[Record]:
    """Grade on a Dask cluster, one task a part, and yield the records of each part as it is finished.

    `address` is a scheduler's, or "local" for `workers` processes on this machine; `results` is the folder
    that records go to, which submissions may not read. The workers must find devlab, the class and the course
    at the same paths. A machine that allows less isolation than `least` grades nothing. Raises EngineError
    where a part cannot be graded.
    """
    try:
        from distributed import Client, LocalCluster, as_completed
    except ImportError as missing:
        raise grade.EngineError("--dask needs Dask: pip install 'devlab[dask]'") from missing
    hidden = [str(path.resolve()) for path in (*paths, folder, results) if path]
    request = {
        "hidden": hidden,
        "paths": [str(path.resolve()) for path in paths],
        "course": str(folder.resolve()),
        "limits": asdict(limits),
        "least": least,
        "done": sorted(done),
    }
    here = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": ANY_PORT}
    place = LocalCluster(**here) if address == "local" else address
    try:
        with Client(place, timeout=PATIENCE) as client:
            slots = sum(client.nthreads().values()) or 1
            parts = max(1, min(len(found.submissions), max(slots, -(-len(found.submissions) // A_PART))))
            requests = [request | {"shard": f"{part}/{parts}"} for part in range(1, parts + 1)]
            # `pure=False`, or the cluster could answer with what it remembers of an earlier call.
            tasks = client.map(part, requests, pure=False, retries=0)
            for _, lines in as_completed(tasks, with_results=True):
                yield from map(Record.from_line, lines)
    except OSError as problem:
        raise grade.EngineError(f"no Dask scheduler at {address} ({problem})") from problem
    finally:
        if address == "local":
            place.close()


def part(request: dict) -> list[str]:
    """Grade one part in a process of its own, and return the lines of its records."""
    ended = subprocess.run(
        [sys.executable, "-P", "-c", START], input=json.dumps(request), capture_output=True, text=True
    )
    if ended.returncode:
        said = ended.stderr.strip().splitlines() or [f"it ended with {ended.returncode}"]
        raise grade.EngineError(f"{os.uname().nodename}, part {request['shard']}: {said[-1]}")
    return ended.stdout.splitlines()


def main() -> None:
    """Grade the part that stdin asks for, and print its records, a line each."""
    walls.prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)  # where the Dask worker ends, this process ends, too
    request = json.load(sys.stdin)
    level = walls.isolation_available()
    if level < request["least"]:
        sys.exit(f"it allows isolation level {level}, and {request['least']} is required")
    folder = Path(request["course"])
    found = collect([Path(path) for path in request["paths"]], course.handouts_of(folder))
    if level >= 2 and (blocked := walls.in_the_way(map(Path, request["hidden"]))):
        sys.exit(blocked)
    settings = grade.Settings(level, Limits(**request["limits"]), hidden=tuple(request["hidden"]))
    done = {tuple(one) for one in request["done"]}
    for one in grade.grade(take_shard(found, request["shard"]), folder, settings, done):
        print(one.line())
