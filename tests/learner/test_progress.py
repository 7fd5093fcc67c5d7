"""Progress is kept, shared and never silently lost."""

import json
import subprocess
import sys

import pytest
from bank import ANSWERS, load

import devlab
from devlab.checks import exercise
from devlab.checks.help import solution_source
from devlab.checks.judge import judge
from devlab.checks.result import Outcome
from devlab.learner import progress
from devlab.learner.overview import standing


def solve():
    """Pass device_of."""

    def device_of(x):
        return x.device

    return devlab.check(device_of)


def fail():
    """Fail device_of."""

    def device_of(x):
        return "cpu"

    return devlab.check(device_of)


def test_a_pass_is_remembered_by_a_new_process(progress_file):
    """What one kernel wrote, the next one reads."""
    solve()
    code = "from devlab.learner import progress; print(progress.has_passed('device_of'))"
    heard = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert heard.stdout.strip() == "True"


def test_a_pass_is_not_lost_by_a_later_failure(capsys):
    """The overview keeps the pass and says that the last try failed."""
    solve()
    fail()
    text = devlab.progress().text()
    assert "✓ device_of" in text
    assert "last try failed" in text


def test_overview_says_what_is_next():
    """The first exercise not passed, and where it is."""
    fail()
    panel = devlab.progress()
    assert panel.next == "device_of"
    assert "✗ device_of" in panel.text()
    assert "next: device_of in exercises/00_start_here_exercises.ipynb" in panel.text()
    solve()
    assert devlab.progress().next == "same_place"
    assert "device_of" in panel.html()


def keep(path, *entries):
    """Write lines as an earlier devlab left them."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def tried(name: str, outcome: str, points: int = 0, **devices: str) -> dict:
    """Return a line of a try; `sim_0` stands for the device sim:0."""
    named = {device.replace("_", ":"): here for device, here in devices.items()}
    return {"exercise": name, "outcome": outcome, "points": points, "devices": named}


def line_of(name: str):
    """Return what the overview knows of an exercise."""
    return next(line for line in standing().lines if line.name == name)


def test_where_nothing_was_judged_nothing_is_said(capsys):
    """All rows of bytes_kept are for accelerators: the CPU neither passed nor failed."""
    for name in ("bytes_kept", "ddp_gradients"):
        answer = load(ANSWERS / f"{name}.py")[0]
        assert answer.fragment is None
        progress.record(judge(exercise.find(name), answer.code))
    assert [line_of("bytes_kept").on(device) for device in ("cpu", "sim:0")] == [None, Outcome.PASSED]
    assert [line_of("ddp_gradients").on(device) for device in ("cpu", "sim:0")] == [Outcome.PASSED, None]


def test_each_device_keeps_its_last_outcome(progress_file):
    """A laptop and a machine with a GPU share one file, and neither wipes out the other's columns."""
    keep(
        progress_file,
        tried("move", "failed", 2, cpu="passed", sim_0="failed"),
        tried("move", "error", 1, cpu="error", cuda_0="error"),
    )
    line = line_of("move")
    assert [line.on(name) for name in ("cpu", "sim:0", "cuda:0")] == ["error", "failed", "error"]
    assert (line.outcome, line.points, line.record.attempts) == ("error", 2, 2)
    assert standing().devices == ["cpu", "cuda:0", "sim:0"]


def test_a_device_keeps_its_pass_only_from_a_try_that_passed_everywhere(progress_file):
    """Two halves, each right on another device, are no pass."""
    keep(
        progress_file,
        tried("move", "failed", 2, cpu="passed", sim_0="failed"),
        tried("move", "failed", 2, cpu="failed", sim_0="passed"),
    )
    assert [line_of("move").on(name) for name in ("cpu", "sim:0")] == ["failed", "passed"]
    with progress_file.open("a") as stream:
        stream.write(json.dumps(tried("move", "passed", 4, cpu="passed", sim_0="passed")) + "\n")
        stream.write(json.dumps(tried("move", "failed", 4, cpu="failed", sim_0="skipped")) + "\n")
    assert [line_of("move").on(name) for name in ("cpu", "sim:0")] == ["passed", "passed"]
    assert "last try failed" in line_of("move").remark


def test_a_fresh_notebook_run_again_takes_nothing_back(progress_file):
    """Run All over blank cells is no try."""
    keep(
        progress_file,
        tried("move", "failed", 2, cpu="passed", sim_0="failed"),
        tried("move", "not attempted"),
    )
    line = line_of("move")
    assert (line.outcome, line.record.attempts, line.on("sim:0")) == ("failed", 1, "failed")


def test_next_goes_on_in_the_lesson_worked_on_last(progress_file):
    """Then through the lessons after it, and only then to what was left out before."""
    lessons = exercise.lessons()
    assert standing().step.startswith("nothing tried yet: read notebooks/00_start_here.ipynb, then solve")
    keep(progress_file, {"exercise": "cast_and_move", "hint": 1})
    assert standing().step == "next: move in exercises/04_transfers_exercises.ipynb (lesson 04 Transfers)"
    transfers = [tried(one.name, "passed", 4, cpu="passed") for one in lessons[4].exercises]
    keep(progress_file, *transfers)
    assert standing().step == (
        "next: lesson 05 Models and buffers: read notebooks/05_buffers.ipynb, then solve CausalMask in "
        "exercises/05_buffers_exercises.ipynb"
    )
    later = [tried(one.name, "passed", cpu="passed") for lesson in lessons[5:] for one in lesson.exercises]
    keep(progress_file, *transfers, *later)
    assert standing().next == "device_of"
    keep(progress_file, *(tried(one.name, "passed", cpu="passed") for one in exercise.exercises()))
    assert (standing().next, standing().step) == (None, "every exercise passed")


def test_what_this_course_does_not_have_is_named(progress_file):
    """An exercise that a later devlab renamed is not lost without a word, nor counted."""
    keep(progress_file, tried("renamed", "passed", 3, cpu="passed"), tried("move", "amazed", 3, cpu="amazed"))
    said = standing().text()
    assert "kept, but not in this devlab's course: renamed" in said
    assert said.startswith("0 of ")
    assert line_of("move").outcome is Outcome.NOT_ATTEMPTED  # an outcome of a newer devlab has no name here


def test_the_text_says_what_its_signs_mean_and_what_is_simulated(capsys):
    """Only the signs that occur are explained."""
    fail()
    said = devlab.progress().text().splitlines()
    assert "✗ failed  ○ not attempted" in said
    assert "a sim device is a simulated accelerator: it follows a real one's rules" in said


def test_two_kernels_may_write_at_once(progress_file):
    """No line is lost or torn; an empty one may stand between where one saw the other's write half done."""
    code = "from devlab.learner import progress\nfor n in range(200): progress.record_hint('h%d' % n, 1)"
    writers = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    lines = [line for line in progress_file.read_text().splitlines() if line]
    assert len(lines) == 600
    assert all(json.loads(line)["hint"] == 1 for line in lines)


@pytest.mark.parametrize(
    "damage",
    [
        b"\x00\xff\xfe half a li",
        b"[1, 2]\n",
        b'{"exercise": "device_of"',
        b'{"exercise": 3, "points": {}}\n',
        b'{"exercise": "same_place", "outcome": "passed", "points": 5, "devices": ["cpu"]}\n',
        b'{"exercise": "same_place", "outcome": "passed", "points": Infinity, "devices": {}}\n',
        b'{"exercise": "same_place", "outcome": "passed", "points": 5, "devices": {"<b>": "passed"}}\n',
        b'{"exercise": "same_place", "outcome": "passed", "points": 5, "devices": {}, "time": "noon"}\n',
        b'{"exercise": "same_place", "hint": "two"}\n',
        b"[" * 100_000 + b"\n",
    ],
    ids=range(10),
)
def test_damage_costs_only_itself(progress_file, damage, capsys):
    """Lines that cannot be read stay in the file, are counted aloud, and nothing else is lost."""
    progress_file.parent.mkdir()
    progress_file.write_bytes(damage)
    solve()
    assert progress.has_passed("device_of")
    assert not progress.has_passed("same_place")
    assert progress_file.read_bytes().startswith(damage)
    assert "that could not be read, and were left alone: 1" in devlab.progress().text()


def test_a_disk_that_takes_no_writes(progress_file, capsys, monkeypatch):
    """The lesson goes on, the learner is told once, and this kernel remembers."""
    progress_file.mkdir(parents=True)  # a folder stands where the file should be
    solve()
    solve()
    shown = capsys.readouterr().out
    assert shown.count("Progress cannot be saved") == 1
    assert progress.has_passed("device_of")


def test_hints_come_in_steps_and_then_the_solution(capsys):
    """Each call shows the next hint; the solution opens after the last."""
    total = len(exercise.find("device_of").hints)
    assert f"has {total} hints left" in str(devlab.solution("device_of"))
    for number in range(1, total + 1):
        assert f"hint {number} of {total}" in str(devlab.hint("device_of"))
    last = devlab.hint("device_of")
    assert f"hint {total} of {total}" in str(last)
    assert "<code>return x.device</code>" in last.html()
    assert "<code>devlab.solution(device_of)</code> now shows" in last.html()
    assert "return x.device" in str(devlab.solution("device_of"))


def test_solution_after_a_pass_or_on_request(capsys):
    """A pass opens the solution, and so does giving up."""
    assert "return x.device" in str(devlab.solution("device_of", give_up=True))
    assert "hints left" in str(devlab.solution("device_of"))
    solve()
    assert "return x.device" in str(devlab.solution("device_of"))


def test_a_reset_forgets_tries_hints_and_the_pass(progress_file):
    """What was written stays in the file; what comes after counts from the beginning."""
    fail()
    solve()
    devlab.hint("device_of")
    said = str(devlab.reset("device_of"))
    assert said.startswith("devlab has forgotten 2 tries and 1 hint of device_of, a pass among them")
    assert len(progress_file.read_text("utf-8").splitlines()) == 4
    assert not standing().begun
    assert "○ device_of" in devlab.progress().text()
    assert "hints left" in str(devlab.solution("device_of"))
    assert "hint 1 of" in str(devlab.hint("device_of"))
    fail()
    known = progress.load()[0]["device_of"]
    assert (known.attempts, known.hints, known.passed, known.last) == (1, 1, False, "failed")
    assert standing().damaged == 0


def test_a_reset_is_of_one_exercise_given_as_its_function_too():
    """The others keep their tries; the function may be what was tried."""

    def device_of(x):
        return "cpu"

    devlab.check(device_of)
    devlab.hint("move")
    assert str(devlab.reset(device_of)).startswith("devlab has forgotten 1 try of device_of: it counts")
    assert progress.hints_seen("move") == 1


def test_a_reset_of_nothing_writes_nothing(progress_file):
    """It says that there is nothing to forget."""
    assert "nothing to forget" in str(devlab.reset("device_of"))
    assert not progress_file.exists()


def test_every_exercise_has_a_solution_text():
    """What devlab.solution shows is the text that runs in the solutions, without markers."""
    for one in exercise.exercises():
        text = solution_source(one)
        assert one.name in text
        assert "SOLUTION" not in text
        assert "your code here" not in text
