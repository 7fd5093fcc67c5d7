"""`devlab grade` against nbgrader on one lesson, start-up and all; and a class of a thousand.

Every submission of the first table holds the course's own solutions, so that each row of each exercise is
judged. The promise is 20 times the throughput of nbgrader's `autograde` alone, though `devlab grade` makes
feedback and tables in its time, too: a further row has nbgrader do as much. The class is of lesson 00, one in
twenty hostile; the table has who got other marks than deserved, and the memory of the grader, its watchers
and templates. `--submissions 0` or `--class 0` leaves one of the two out.
"""

import argparse
import contextlib
import itertools
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from classroom.hostile_answers import DEATHS, TAMPERS
from classroom.students import CLASS, LESSON, RIGHT, fill, handed_out
from promises import promise

from devlab.classroom.engine.walls import isolation_available

ONE_IN = 20
# Runs of ours at each of three moments: each takes seconds, and a shared machine has good ones and bad ones,
# while a run of nbgrader's takes minutes, and has its share of both.
RUNS = 3
# Words in capitals are places of the tests' own.
HARMFUL = {name: one for name, one in {**TAMPERS, **DEATHS}.items() if not re.search("[A-Z]{5}", one.source)}


def hand_in(downloads: Path, assignment: str, handout: dict, answers: Mapping[str, dict[str, str]]) -> None:
    """Write everybody's notebook into a folder, as learning platforms export them."""
    for number, (student, written) in enumerate(answers.items()):
        folder = downloads / f"{student}_{4700 + number}_assignsubmission_file_"
        folder.mkdir(parents=True)
        (folder / f"{assignment}.ipynb").write_text(json.dumps(fill(handout, written)), encoding="utf-8")


def timed(command: list[str], folder: Path) -> tuple[float, float]:
    """Run a command; return its wall and CPU seconds. What it says is shown only where it fails."""
    own = folder / "home"
    own.mkdir(exist_ok=True)
    here = str(Path(sys.executable).parent)
    facts = {"PATH": os.pathsep.join([here, os.environ["PATH"]]), "PYTHONUTF8": "1"}
    facts |= {"JUPYTER_CONFIG_DIR": str(own), "IPYTHONDIR": str(own)}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=os.environ | facts, capture_output=True, text=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(root: Path, lesson: str, count: int, jobs: int) -> None:
    """Print both graders' seconds for a class, and their ratio."""
    folder, students = root / "course", [f"Student {number}" for number in range(count)]
    assignment, handout, solutions = handed_out(folder, lesson)
    hand_in(root / "downloads", assignment, handout, dict.fromkeys(students, solutions))
    timed(["nbgrader", "generate_assignment", assignment], folder)
    timed(["devlab", "collect", "../downloads"], folder)
    # Ours runs before, between and after: machines are faster at one time than at another.
    ours, slow = [], {}
    for step in (None, "autograde", "generate_feedback"):
        if step:
            slow[f"nbgrader {step}"] = timed(["nbgrader", step, assignment], folder)
        ours += [graded(folder, count, jobs, folder / f"results {step} {run}") for run in range(RUNS)]
    marks = slow["nbgrader autograde"]
    fast = tuple(sum(one) / len(ours) for one in zip(*ours, strict=True))
    every = [*slow.values(), timed(["nbgrader", "export"], folder)]
    rows = {"devlab grade": fast, "nbgrader autograde": marks}
    rows["and feedback, export"] = tuple(map(sum, zip(*every, strict=True)))
    print(f"{assignment}, {count} submissions, start-up included; devlab grade with --jobs {jobs}")
    low, high = min(ours)[0], max(ours)[0]
    print(f"at isolation level {isolation_available()}, with feedback and tables")
    print(f"devlab grade: the mean of {len(ours)} runs, which took {low:.1f} to {high:.1f} s")
    print(f"{'':<22}{'wall s':>10}{'CPU s':>10}{'wall s each':>14}{'times as long':>16}")
    for name, (wall, cpu) in rows.items():
        print(f"{name:<22}{wall:>10.1f}{cpu:>10.1f}{wall / count:>14.2f}{wall / fast[0]:>16.1f}")
    beside = f"nbgrader autograde, {marks[0] / count:.2f} s a submission"
    promise(f"devlab grade, {count} of {assignment}", marks[0] / fast[0], "times", beside=beside, least=20)


def graded(folder: Path, count: int, jobs: int, results: Path) -> tuple[float, float]:
    """Return the seconds that devlab grade takes, and ask of it that every answer has passed."""
    command = [
        "devlab",
        "grade",
        "../downloads",
        "--jobs",
        str(jobs),
        "--out",
        str(results / "results.jsonl"),
    ]
    took = timed([*command, "--require-isolation", str(isolation_available())], folder)
    told = [json.loads(line) for line in (results / "results.jsonl").open(encoding="utf-8")]
    full = sum(all(one["outcome"] == "passed" for one in line["exercises"]) for line in told)
    if not full == len(told) == count:
        sys.exit(f"devlab grade gave {full} of {count} submissions their marks")
    return took


def classroom(count: int) -> Iterator[tuple[str, dict[str, str], dict[str, float]]]:
    """Yield students, what they wrote and the points they deserve: one in twenty hostile, of all kinds."""
    honest, hostile = itertools.cycle(CLASS.items()), itertools.cycle(HARMFUL.items())
    for number in range(count):
        if number % ONE_IN == ONE_IN - 1:
            name, one = next(hostile)
            points = dict(zip(RIGHT, one.points, strict=True))
            yield f"{number} {name}", {**RIGHT, one.answers: one.source}, points
        else:
            name, (written, points) = next(honest)
            yield f"{number} {name}", written, points


def resident(process: int) -> float:
    """Return the MiB that a process has in memory."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def children(process: int) -> list[int]:
    """Return a process's children, the oldest first."""
    found = [path.read_text().split() for path in Path(f"/proc/{process}/task").glob("*/children")]
    return sorted(int(one) for ones in found for one in ones)


def footprint(grader: int) -> tuple[float, float]:
    """Return the MiB of the grader, and of the largest watcher or template beside it."""
    # The grader's only child, the zygote, forks first what forks the watchers, and each of those a template.
    starters = [first for zygote in children(grader) for first in children(zygote)[:1]]
    watchers = [one for starter in starters for one in children(starter)]
    templates = [one for watcher in watchers for one in children(watcher)[:1]]
    return resident(grader), max(map(resident, watchers + templates), default=0.0)


def whole_class(root: Path, count: int, jobs: int) -> None:
    """Grade a class; print how long it took, who got other marks than deserved, and the memory."""
    assignment, handout, _ = handed_out(root / "course", LESSON)
    everyone = list(classroom(count))
    hand_in(root / "downloads", assignment, handout, {who: written for who, written, _ in everyone})
    out, sizes = root / "results.jsonl", {}
    command = [str(Path(sys.executable).parent / "devlab"), "grade", "../downloads", "--jobs", str(jobs)]
    command += ["--seconds", "5", "--out", str(out)]
    start = time.perf_counter()
    with subprocess.Popen(command, cwd=root / "course", stdout=subprocess.DEVNULL) as grader:
        while grader.poll() is None:
            with contextlib.suppress(OSError, IndexError):  # it may end at any moment
                size = footprint(grader.pid)
                # Counted afterwards: when all are done, reports are written, which hold the whole class.
                done = out.read_text(encoding="utf-8").count("\n") if out.exists() else 0
                sizes |= {done: size} if 0 < done < count and all(size) else {}
            time.sleep(0.5)
    took = time.perf_counter() - start
    records = {one["student"]: one for one in map(json.loads, out.open(encoding="utf-8"))}
    wrong = []
    for who, _, points in everyone:
        got = {one["name"]: one["points"] for one in records.get(who, {}).get("exercises", ())}
        wrong += [f"{who}: {got}, not {points}"] if got != points else []
    hostile = sum(who.partition(" ")[2] in HARMFUL for who, _, _ in everyone)
    print(f"{assignment}, {count} submissions, {hostile} of them hostile, --jobs {jobs}")
    print(f"{len(records)} graded in {took:.0f} s; other marks than deserved: {len(wrong)}")
    print("\n".join(wrong[:20]))
    print(f"{'submissions done':<18}{'grader MiB':>12}{'beside MiB':>14}")
    marks = sorted(sizes)
    grown = max(sizes[done][0] for done in marks) - sizes[marks[0]][0]
    for done in (marks[0], marks[len(marks) // 2], marks[-1]):
        print(f"{done:<18}{sizes[done][0]:>12.0f}{sizes[done][1]:>14.0f}")
    promise(
        "marks other than deserved", len(wrong), f"of {count}", beside=f"{hostile} of them hostile", most=0
    )
    promise("the grader's growth", grown, "MiB", beside=f"{sizes[marks[0]][0]:.0f} MiB at first", most=20)


def main() -> None:
    """Print the table that the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lesson", default="5")
    parser.add_argument("--submissions", type=int, default=30, metavar="N")
    parser.add_argument(
        "--class", type=int, default=1000, metavar="N", dest="size", help="a class of N (1000)"
    )
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        if asked.submissions:
            (root / "few").mkdir()
            compare(root / "few", asked.lesson, asked.submissions, asked.jobs)
        if asked.size:
            (root / "many").mkdir()
            whole_class(root / "many", asked.size, asked.jobs)


if __name__ == "__main__":
    main()
