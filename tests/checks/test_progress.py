"""Progress is kept, shared and never silently lost."""

import json
import subprocess
import sys

import pytest

import devlab
from devlab.checks import progress


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
    code = "from devlab.checks import progress; print(progress.has_passed('device_of'))"
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
    assert "next: device_of in exercises/00_start_here.ipynb" in panel.text()
    solve()
    assert devlab.progress().next == "same_place"
    assert "device_of" in panel.html()


def test_two_kernels_may_write_at_once(progress_file):
    """No line is lost or torn; an empty one may stand between where one saw the other's write half done."""
    code = "from devlab.checks import progress\nfor n in range(200): progress.record_hint('h%d' % n, 1)"
    writers = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    lines = [line for line in progress_file.read_text().splitlines() if line]
    assert len(lines) == 600
    assert all(json.loads(line)["hint"] == 1 for line in lines)


@pytest.mark.parametrize(
    "damage",
    [b"\x00\xff\xfe half a li", b"[1, 2]\n", b'{"exercise": "device_of"', b'{"exercise": 3, "points": {}}\n'],
)
def test_damage_costs_only_itself(progress_file, damage, capsys):
    """Lines that cannot be read stay in the file, are counted aloud, and nothing else is lost."""
    progress_file.parent.mkdir()
    progress_file.write_bytes(damage)
    solve()
    assert progress.has_passed("device_of")
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
    from devlab.checks.registry import find

    total = len(find("device_of").hints)
    assert f"has {total} hints left" in str(devlab.solution("device_of"))
    for number in range(1, total + 1):
        assert f"hint {number} of {total}" in str(devlab.hint("device_of"))
    assert f"hint {total} of {total}" in str(devlab.hint("device_of"))
    assert "return x.device" in str(devlab.solution("device_of"))


def test_solution_after_a_pass_or_on_request(capsys):
    """A pass opens the solution, and so does giving up."""
    assert "return x.device" in str(devlab.solution("device_of", give_up=True))
    assert "hints left" in str(devlab.solution("device_of"))
    solve()
    assert "return x.device" in str(devlab.solution("device_of"))


def test_every_exercise_has_a_solution_text():
    """What devlab.solution shows is the text that runs in the solutions, without markers."""
    from devlab.checks.help import solution_source
    from devlab.checks.registry import exercises

    for exercise in exercises():
        text = solution_source(exercise)
        assert exercise.name in text
        assert "SOLUTION" not in text
        assert "your code here" not in text
