"""`devlab grade` as a teacher runs it: interrupted, run again, on a terminal, side by side and in parts."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from classroom.students import CLASS, LESSON, RIGHT, deserved, fill, hand_in, handed_out
from classroom.test_hostile import processes

from devlab import cli
from devlab.classroom import course
from devlab.classroom.collect import collect
from devlab.classroom.engine import grade as grading
from devlab.classroom.engine import quota
from devlab.classroom.engine.processes import EngineError, Family, Settings
from devlab.classroom.engine.quota import Limits
from devlab.classroom.engine.walls import isolation_available
from devlab.classroom.results import read_all

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="devlab grade needs Linux")
SLOW = {"device_of": "import time\ntime.sleep(0.5)\n" + RIGHT["device_of"], "same_place": RIGHT["same_place"]}


def laid_out(tmp_path: Path, answers) -> list[str]:
    """Lay out a course, hand answers in, and return the command that grades them."""
    folder = tmp_path / "course"
    course.lay_out(folder, ["0"])
    hand_in(folder / "handout" / LESSON / f"{LESSON}.ipynb", tmp_path / "downloads", answers)
    (tmp_path / "temporary").mkdir()
    return ["grade", str(tmp_path / "downloads"), "--course", str(folder)]


def started(tmp_path: Path, *command: str, **streams) -> subprocess.Popen:
    """Start devlab as a process of its own, whose temporary files are in the test's folder."""
    environment = os.environ | {"TMPDIR": str(tmp_path / "temporary"), "PYTHONUTF8": "1"}
    program = [str(Path(sys.executable).with_name("devlab")), *command]
    # Tests that a shell started with & are deaf to Ctrl-C, and so would be what they start.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(program, env=environment, **streams)
    finally:
        signal.signal(signal.SIGINT, before)


def lines_of(out: Path) -> list[str]:
    """Return the lines of a file of results that may not be there yet."""
    return out.read_text(encoding="utf-8").splitlines() if out.exists() else []


# SIGTERM is thorough: one handler stands for both.
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.thorough)])
def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path, number):
    """Ctrl-C leaves what is finished, no process and no file; the same command grades only the rest."""
    names = [f"Student {letter}" for letter in "ABCD"]
    command = laid_out(tmp_path, {name: (SLOW, {}) for name in names})
    out = tmp_path / "results" / "results.jsonl"
    command += ["--out", str(out), "--jobs", "1"]
    with started(
        tmp_path, *command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as interrupted:
        deadline = time.monotonic() + 120
        while len(lines_of(out)) < 2 and interrupted.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        interrupted.send_signal(number)
        _, said = interrupted.communicate(timeout=60)
    first = lines_of(out)
    assert interrupted.returncode == 130, said
    assert said.strip() == f"Stopped. What is finished is in {out}; the same command goes on from there."
    assert 2 <= len(first) < len(names)
    assert processes(str(tmp_path)) == []
    assert list((tmp_path / "temporary").iterdir()) == []

    out.write_text("\n".join(first) + '\n{"student": "Stud', encoding="utf-8")  # as a power cut leaves it
    with started(tmp_path, *command, stdout=subprocess.PIPE, text=True) as again:
        said, _ = again.communicate(timeout=120)
    assert again.returncode == 0, said
    todo = len(names) - len(first)
    assert f"{len(first)} were graded before, {todo} are to do." in said
    assert len(re.findall(r"^ *\d/\d  Student", said, re.M)) == todo
    whole = lines_of(out)
    assert whole[: len(first)] == first
    assert sorted(json.loads(line)["student"] for line in whole if line.endswith("}")) == names
    assert {record.student: record.points for record in read_all([out])} == dict.fromkeys(names, 8)
    assert "4 graded, 0 not" in said
    assert (out.parent / "grades.csv").exists()


def marks(records) -> dict:
    """Return the points by student and exercise."""
    return {record.student: {one.name: one.points for one in record.exercises} for record in records}


def test_side_by_side_and_in_parts_give_the_marks_of_the_whole(tmp_path, capsys):
    """--jobs changes the order at most; the parts' files concatenate to the whole."""
    command = laid_out(tmp_path, CLASS)
    whole = tmp_path / "whole" / "results.jsonl"
    assert cli.main([*command, "--out", str(whole), "--jobs", "2"]) == 0
    assert marks(read_all([whole])) == deserved()
    parts = [tmp_path / "parts" / f"part_{part}.jsonl" for part in (1, 2, 3)]
    for part, out in enumerate(parts, start=1):
        assert cli.main([*command, "--out", str(out), "--shard", f"{part}/3"]) == 0
    together = tmp_path / "together.jsonl"
    together.write_text("".join(out.read_text(encoding="utf-8") for out in parts), encoding="utf-8")
    assert [len(lines_of(out)) for out in parts] == [2, 2, 1]
    assert marks(read_all([together])) == marks(read_all([whole]))
    assert marks(read_all(parts)) == marks(read_all([whole]))
    assert "5 graded, 0 not" in capsys.readouterr().out


def test_a_part_that_is_none(tmp_path, capsys):
    """It says how a part is written."""
    command = laid_out(tmp_path, {"Anna": (RIGHT, {})})
    for shard in ("0/3", "4/3", "one", "1/0", "-1/3"):
        assert cli.main([*command, "--out", str(tmp_path / "r.jsonl"), f"--shard={shard}"]) == 1
        assert "write 2/5 for the second of five" in capsys.readouterr().err


def test_each_assignment_has_processes_of_its_own(tmp_path, monkeypatch):
    """They end with it, also where nobody wants the rest."""
    made, folder = [], tmp_path / "course"

    def counted(settings: Settings, steps: list) -> Family:
        made.append(Family(settings, steps))
        return made[-1]

    monkeypatch.setattr(grading, "Family", counted)
    for lesson in ("0", "10"):
        assignment, handout, solutions = handed_out(folder, lesson)
        file = tmp_path / "downloads" / "Anna" / f"{assignment}.ipynb"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(fill(handout, solutions)), encoding="utf-8")
    found = collect([tmp_path / "downloads"], course.handouts_of(folder))
    records = grading.grade(found, folder, Settings(isolation_available()))
    for number in range(1, 3):
        record = next(records)
        assert record.points == record.possible > 0
        assert [one.process.poll() is None for one in made] == [*[False] * (number - 1), True]
    records.close()
    assert [one.process.poll() is None for one in made] == [False, False]
    assert not any(Path(one.folder.name).exists() for one in made)


def begun(limits, jobs=1):
    """A family that grades a notebook without cells."""
    return Family(Settings(isolation_available(), limits, jobs), [])


def test_a_template_that_gives_no_answer_is_ended(tmp_path, monkeypatch):
    """What a submission of level 1 does to its template must not hold up the class for ever."""
    monkeypatch.setattr("devlab.classroom.engine.processes.SPARE", 1)
    started = begun(Limits(seconds=0.1))
    try:
        os.kill(started.process.pid, signal.SIGSTOP)
        with pytest.raises(EngineError, match=r"gave no answer for 1\.2 seconds"):
            started.handles[0].ask({"steps": [], "names": [], "beside": {}})
        assert all(handle.ended for handle in started.handles)
    finally:
        started.close()
    assert started.process.returncode == -signal.SIGKILL
    assert not Path(started.folder.name).exists()


def test_a_process_that_one_look_misses_is_ended_all_the_same(monkeypatch):
    """Its parent forked it and was gone within that look: as processes that build walls do."""
    program = (
        "import os, time\nfrom devlab.classroom.engine.walls import adopt_orphans\nadopt_orphans()\n"
        "print([os.fork() or time.sleep(60) or os._exit(0) for _ in range(2)], flush=True)\ntime.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as root:
        gone, missed = json.loads(root.stdout.readline())
        looks = iter([[gone], []])
        seen = quota.descendants
        monkeypatch.setattr(
            quota,
            "descendants",
            lambda process: seen(process) if (look := next(looks, None)) is None else look,
        )
        quota.kill(root.pid)
        assert missed not in quota._parents()
    assert root.returncode == -signal.SIGKILL


def test_what_a_template_ends_is_not_waited_for():
    """A fork bomb's process that some looks miss would sleep out its minute, and the class with it."""
    program = (
        "import os, time\nfrom devlab.classroom.engine import quota\n"
        "seen, missed = [os.fork() or time.sleep(60) or os._exit(0) for _ in range(2)]\n"
        "looks, descendants = iter([[seen]] * 3), quota.descendants\n"
        "quota.descendants = lambda root: next(looks, None) or descendants(root)\n"
        "quota.end(os.getpid())"
    )
    done = subprocess.run([sys.executable, "-c", program], timeout=30, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("killed", ["watcher", "template"])
def test_a_process_of_ours_that_is_killed_takes_its_submission_along(killed):
    """As a machine short of memory does it: whoever asked is told that nobody is there, nothing is left."""
    started = begun(Limits(seconds=30))
    handle, sleeping = started.handles[0], ["setup", "", "import time\ntime.sleep(60)"]
    try:
        assert handle.ask({"steps": [], "names": [], "beside": {}})["exercises"] == {}
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(handle.ask, {"steps": [sleeping], "names": [], "beside": {}})
            while len(below := quota.descendants(handle.process)) < 3 and not waiting.done():
                time.sleep(0.02)
            template = next(one for one in below if quota._parents()[one] == handle.process)
            os.kill(handle.process if killed == "watcher" else template, signal.SIGKILL)
            with pytest.raises(EngineError, match="the template process ended"):
                waiting.result(timeout=30)
        assert all(handle.ended for handle in started.handles)
        deadline = time.monotonic() + 10
        while (left := set(below) & quota._parents().keys()) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not left
    finally:
        started.close()


def test_a_template_that_hangs_costs_no_other_one(tmp_path, monkeypatch):
    """It alone is ended; another one goes on, and answers."""
    monkeypatch.setattr("devlab.classroom.engine.processes.SPARE", 5)
    started = begun(Limits(seconds=30), jobs=2)
    try:
        first, second = started.handles
        assert first.ask({"steps": [], "names": [], "beside": {}})["exercises"] == {}
        assert second.ask({"steps": [], "names": [], "beside": {}})["exercises"] == {}
        os.kill(first.process, signal.SIGSTOP)
        first.seconds = 0
        with pytest.raises(EngineError, match="gave no answer for 5 seconds"):
            first.ask({"steps": [], "names": [], "beside": {}})
        assert first.ended
        assert not second.ended
        assert second.ask({"steps": [], "names": [], "beside": {}})["exercises"] == {}
    finally:
        started.close()
    assert started.process.returncode == 0
