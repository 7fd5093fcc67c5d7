"""`devlab grade` on machines set up otherwise: packages that come by a path, others that fail to import."""

import csv
import os
import subprocess
import sys
import venv
from pathlib import Path

import numpy
import pytest
import torch
from classroom.students import LESSON, RIGHT, hand_in

import devlab
from devlab.classroom import course

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's")
BROKEN = "raise ImportError('libcudart.so.12: cannot open shared object file')"


@pytest.fixture
def bare(tmp_path) -> Path:
    """Return a Python without packages, as a cluster's is before modules are loaded; and hand in for Anna."""
    venv.create(tmp_path / "bare", symlinks=True)
    course.lay_out(tmp_path / "course", ["0"])
    handed_out = tmp_path / "course" / "handout" / LESSON / f"{LESSON}.ipynb"
    hand_in(handed_out, tmp_path / "downloads", {"Anna": (RIGHT, {})})
    return tmp_path / "bare" / "bin" / "python"


def graded(python: Path, *first: str, **environment: str) -> subprocess.CompletedProcess:
    """Grade what was handed in, in its folder; packages come by PYTHONPATH, some folders first."""
    lent = {str(Path(one.__file__).parents[1]) for one in (torch, numpy, devlab)}
    paths = {"PYTHONPATH": os.pathsep.join([*first, *lent])}
    command = "from devlab import cli; raise SystemExit(cli.main())"
    return subprocess.run(
        [python, "-P", "-c", command, "grade", "downloads", "--course", "course", "--out", "out/r.jsonl"],
        cwd=python.parents[2],
        env=os.environ | paths | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_packages_may_come_by_pythonpath(bare):
    """As modules of a cluster bring them; but no module comes from the folder that a teacher works in."""
    (bare.parents[2] / "torch.py").write_text(BROKEN, encoding="utf-8")
    done = graded(bare, ".", "")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "exercises: 2 passed" in done.stdout


@pytest.mark.parametrize(
    ("first", "device", "words"),
    [
        ("broken", "", "ImportError: libcudart.so.12: cannot open shared object file."),
        ("", "cuda:7", "DEVLAB_DEVICE is set to 'cuda:7', which is not here."),
    ],
)
def test_what_keeps_everybody_from_being_graded_is_said_once(bare, first, device, words):
    """Nobody gets a zero for it: nothing is written, and the same command grades all when it is mended."""
    broken = bare.parents[2] / "broken"
    (broken / "torch").mkdir(parents=True)
    (broken / "torch" / "__init__.py").write_text(BROKEN, encoding="utf-8")
    done = graded(bare, str(broken) if first else "", DEVLAB_DEVICE=device)
    assert done.returncode == 1
    assert done.stderr.startswith("Grading stopped: no process that grades could begin: ")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    out = bare.parents[2] / "out"
    assert [(path.name, path.stat().st_size) for path in out.iterdir()] == [("r.jsonl", 0)]


def test_what_a_machine_cannot_judge_is_said_and_judged_again_elsewhere(bare):
    """On the CPU alone nobody can tell what goes on between two places, and that is no student's zero."""
    done = graded(bare, DEVLAB_DEVICE="cpu")
    assert done.returncode == 1
    assert "Anna, 00_start_here: 3 of 8  (device_of skipped; same_place skipped)" in done.stdout
    assert "not judged in full: 1; the same command grades these again" in done.stdout
    done = graded(bare)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Anna, 00_start_here: 8 of 8\n" in done.stdout
    assert "not judged" not in done.stdout
    grades = (bare.parents[2] / "out" / "grades.csv").read_text(encoding="utf-8")
    (marks,) = csv.DictReader(grades.splitlines())
    assert (marks["student_id"], marks["score"]) == ("Anna", "8.0")
