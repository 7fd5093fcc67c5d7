"""A class graded on a Dask cluster of real processes: one task a part, each with a template of its own."""

import sys
from pathlib import Path

import pytest
from classroom.students import CLASS, LESSON, deserved, hand_in
from classroom.test_hostile import processes

from devlab import cli
from devlab.classroom import course
from devlab.classroom.collect import collect
from devlab.classroom.engine.command import on_dask
from devlab.classroom.engine.grade import EngineError
from devlab.classroom.engine.quota import Limits
from devlab.classroom.results import read_all

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="devlab grade needs Linux")


def class_of(tmp_path: Path) -> tuple[Path, Path]:
    """Lay out a course and hand in a class's notebooks; return the folders of both."""
    folder = tmp_path / "course"
    course.lay_out(folder, ["0"])
    return folder, hand_in(folder / "handout" / LESSON / f"{LESSON}.ipynb", tmp_path / "downloads")


def test_dask_gives_the_marks_of_one_machine(tmp_path, capsys, monkeypatch):
    """The command that a teacher runs, and again, when there is nothing left to do."""
    folder, downloads = class_of(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))  # workers inherit it, and what they start
    out = tmp_path / "results" / "results.jsonl"
    command = ["grade", str(downloads), "--course", str(folder), "--out", str(out), "--dask", "local"]
    assert cli.main([*command, "--jobs", "2"]) == 0
    marks = {record.student: {one.name: one.points for one in record.exercises} for record in read_all([out])}
    assert marks == deserved()
    assert "5 graded, 0 not" in capsys.readouterr().out
    assert processes(str(tmp_path)) == []
    assert cli.main([*command, "--jobs", "2"]) == 0
    assert "5 were graded before, 0 are to do." in capsys.readouterr().out
    assert len(out.read_text(encoding="utf-8").splitlines()) == len(CLASS)


def test_a_part_says_which_machine_cannot_grade_it(tmp_path):
    """Each machine looks for itself what it allows; one that allows less stops the class."""
    folder, downloads = class_of(tmp_path)
    found = collect([downloads], course.handouts_of(folder))
    graded = on_dask("local", [downloads], folder, found, Limits(), 4, set(), 1)
    with pytest.raises(EngineError, match=r"part 1/1: it allows isolation level \d, and 4 is required"):
        list(graded)


def test_a_scheduler_that_is_not_there(tmp_path, monkeypatch):
    """No traceback: where it was looked for."""
    monkeypatch.setattr("devlab.classroom.engine.command.PATIENCE", "1s")
    folder, downloads = class_of(tmp_path)
    found = collect([downloads], course.handouts_of(folder))
    nowhere = "tcp://127.0.0.1:9"
    with pytest.raises(EngineError, match=f"no Dask scheduler at {nowhere}"):
        list(on_dask(nowhere, [downloads], folder, found, Limits(), 1, set(), 1))
