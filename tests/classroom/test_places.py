"""Course, submissions and results are out of a submission's sight, wherever a teacher keeps them."""

import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest
from classroom.students import LESSON, RIGHT, hand_in

from devlab import cli
from devlab.classroom import course, results
from devlab.classroom.engine import walls

pytestmark = pytest.mark.skipif(walls.isolation_available() < 2, reason="this machine has no such walls")
# What is right in places where nothing can be read nor listed, and nowhere else.
LOOKS = """
def device_of(x):
    import os
    seen = []
    for place in {places!r}:
        for look in (os.listdir, open):
            try:
                seen.append(look(place))
            except OSError:
                pass
    return seen or x.device
"""


@pytest.fixture
def inside():
    """Return a new folder within this Python's own, which every submission may read."""
    folder = Path(tempfile.mkdtemp(dir=sys.prefix))
    yield folder
    shutil.rmtree(folder)


def handed_in(folder: Path) -> list[str]:
    """Lay out a course, results and what was handed in within a folder; return the command that grades it."""
    laid, out = folder / "course", folder / "results" / "r.jsonl"
    course.lay_out(laid, ["0"])
    out.parent.mkdir()
    out.write_text("", encoding="utf-8")
    places = [folder, laid, laid / "source" / LESSON, folder / "in", out.parent, out]
    places += [laid / "source" / LESSON / f"{LESSON}.ipynb", laid / "nbgrader_config.py"]
    answers = {**RIGHT, "device_of": LOOKS.format(places=[str(place) for place in places])}
    hand_in(laid / "handout" / LESSON / f"{LESSON}.ipynb", folder / "in", {"Anna": (answers, {})})
    return ["grade", str(folder / "in"), "--course", str(laid), "--out", str(out), "--jobs", "1"]


def test_a_course_within_pythons_own_folder_is_kept_back(inside):
    """Nothing of it is read or listed, though all around it may be."""
    assert cli.main(handed_in(inside)) == 0
    (one,) = results.read_all([inside / "results" / "r.jsonl"])
    assert {exercise.name: exercise.outcome for exercise in one.exercises} == dict.fromkeys(RIGHT, "passed")


def test_what_is_kept_back_is_no_more_than_that(inside):
    """The proof that the walls are what hides it: without them the same folder is readable."""
    (inside / "beside").mkdir()
    hidden = (inside / "course",)
    hidden[0].mkdir()
    granted = walls.readable(hidden)
    assert any((inside / "beside").is_relative_to(path) for path in granted)
    assert not any(hidden[0].is_relative_to(path) for path in granted)
    assert any(hidden[0].is_relative_to(path) for path in walls.readable())


@pytest.mark.parametrize("place", [sysconfig.get_path("purelib"), walls.PACKAGE.parent])
def test_where_nothing_can_be_kept_back_nothing_is_graded(place, tmp_path, capsys):
    """Folders that another Python lists as a whole: the words name the place, and nothing is written."""
    command = handed_in(tmp_path)
    out = Path(place) / "results_of_a_test" / "r.jsonl"
    command[command.index("--out") + 1] = str(out)
    assert cli.main(command) == 1
    said = capsys.readouterr().err
    assert "Nothing was graded" in said
    assert str(out.parent) in said
    assert "move it elsewhere" in said
    assert not out.parent.exists()


def test_pythons_own_folder_is_no_place_for_a_course():
    """It has to be read as a whole."""
    assert "move it elsewhere" in walls.in_the_way([Path(sys.prefix)])
    assert walls.in_the_way([Path(tempfile.gettempdir())]) == ""
