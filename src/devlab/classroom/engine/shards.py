"""Parts of a class: one of n by hand, as a Slurm array counts them, or each a task of a Dask cluster.

Every part has a template of its own, so parts share nothing but the files of the class and the course.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from devlab.classroom import course
from devlab.classroom.collect import Collection, collect
from devlab.classroom.engine import grade, kernel, sandbox
from devlab.classroom.engine.limits import Limits
from devlab.classroom.results import Record

PATIENCE = "30s"  # for a scheduler to answer
ANY_PORT = "127.0.0.1:0"  # without an address Dask wants port 8787, even for no dashboard
A_PART = 50  # submissions: so much is graded again after an interruption, and so seldom a template starts
START = "from devlab.classroom.engine.shards import main; main()"
SET_PARENT_DEATH_SIGNAL = 1


def sharded(found: Collection, shard: str) -> Collection:
    """Return every n-th submission from the i-th on, for a shard written as i/n; raises ValueError.

    >>> sharded(Collection([1, 2, 3], []), "1/2").submissions
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
    that records go to, which submissions may not read. The workers must find
    devlab, the class and the course at the same paths. A machine that allows less isolation than `least`
    grades nothing. Raises EngineError where a part cannot be graded.
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
    if address == "local":
        place = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=ANY_PORT)
    else:
        place = address
    try:
        with Client(place, timeout=PATIENCE) as client:
            slots = sum(client.nthreads().values()) or 1
            parts = max(1, min(len(found.submissions), max(slots, -(-len(found.submissions) // A_PART))))
            requests = [request | {"shard": f"{part}/{parts}"} for part in range(1, parts + 1)]
            # Twice would do no harm, but a cluster that remembers a call would not make it again.
            tasks = client.map(part, requests, pure=False, retries=0)
            for _, lines in as_completed(tasks, with_results=True):
                yield from map(Record.from_line, lines)
    except OSError as problem:
        raise grade.EngineError(f"no Dask scheduler at {address} ({problem})") from problem
    finally:
        if address == "local":
            place.close()


def part(request: dict) -> list[str]:
    """Grade one part in a process of its own, with one thread as a template needs it; return its lines."""
    ended = subprocess.run(
        [sys.executable, "-P", "-c", START], input=json.dumps(request), capture_output=True, text=True
    )
    if ended.returncode:
        said = ended.stderr.strip().splitlines() or [f"it ended with {ended.returncode}"]
        raise grade.EngineError(f"{os.uname().nodename}, part {request['shard']}: {said[-1]}")
    return ended.stdout.splitlines()


def main() -> None:
    """Grade the part that stdin asks for, and print its records, a line each."""
    kernel.prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)  # a worker that is ended takes this along
    request = json.load(sys.stdin)
    level = sandbox.isolation_available()
    if level < request["least"]:
        sys.exit(f"it allows isolation level {level}, and {request['least']} is required")
    folder = Path(request["course"])
    found = collect([Path(path) for path in request["paths"]], course.handouts_of(folder))
    if level >= 2 and (blocked := sandbox.in_the_way(map(Path, request["hidden"]))):
        sys.exit(blocked)
    settings = grade.Settings(level, Limits(**request["limits"]), hidden=tuple(request["hidden"]))
    done = {tuple(one) for one in request["done"]}
    for one in grade.grade(sharded(found, request["shard"]), folder, settings, done):
        print(one.line())
