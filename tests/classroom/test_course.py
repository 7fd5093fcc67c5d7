"""`devlab course`: what a teacher gets, what students get, and that neither is ever lost or mixed up."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest
import torch

from devlab import cli
from devlab.classroom import course, handout
from devlab.classroom.course import CourseError

ROOT = Path(__file__).resolve().parents[2]
LESSONS = sorted(path.stem for path in (ROOT / "solutions").glob("*.ipynb"))


@pytest.fixture(scope="module")
def laid(tmp_path_factory) -> Path:
    """A course of all lessons."""
    folder = tmp_path_factory.mktemp("course") / "mine"
    course.lay_out(folder)
    return folder


def code(path: Path) -> dict[str, str]:
    """Return the source of each code cell of a notebook, by the cell's id."""
    notebook = nbformat.read(path, as_version=4)
    return {cell.id: cell.source for cell in notebook.cells if cell.cell_type == "code"}


def test_one_assignment_a_lesson(laid):
    """Each lesson has its source, its handout and its zip, and each notebook is valid."""
    assert course.assignments(laid) == LESSONS
    for lesson in LESSONS:
        for kind in ("source", "handout"):
            nbformat.validate(nbformat.read(laid / kind / lesson / f"{lesson}.ipynb", as_version=4))
        with zipfile.ZipFile(laid / "handout" / f"{lesson}.zip") as zipped:
            assert zipped.namelist() == [f"{lesson}/{lesson}.ipynb", f"{lesson}/AGENTS.md"]
            for name in zipped.namelist():
                assert zipped.read(name) == (laid / "handout" / name).read_bytes()
        assert (laid / "handout" / lesson / "AGENTS.md").read_bytes() == (ROOT / "AGENTS.md").read_bytes()


@pytest.mark.parametrize("lesson", LESSONS)
def test_students_get_the_exercises_and_nothing_of_the_solutions(lesson, laid):
    """Cell by cell what the course's own `exercises/` hold, which nbgrader cleared; but checks give marks."""
    wanted = code(ROOT / "exercises" / f"{lesson}_exercises.ipynb")
    for name, source in code(laid / "handout" / lesson / f"{lesson}.ipynb").items():
        assert source.removesuffix(".points") == wanted[name]
    text = (laid / "handout" / lesson / f"{lesson}.ipynb").read_text(encoding="utf-8")
    assert "SOLUTION" not in text
    assert '"outputs": []' in text
    assert '"execution_count": 1' not in text


def test_students_need_devlab_and_what_it_brings(laid):
    """A handed-out notebook imports devlab, torch, NumPy and what Python has, nothing else."""
    sources = "\n".join(
        source
        for path in sorted(laid.glob("handout/*/*.ipynb"))
        for source in code(path).values()
        if "import " in source
    )
    lines = re.findall(r"^(?:from|import) (\w+)", sources, re.MULTILINE)
    assert {"torch", "devlab"} <= set(lines)
    assert set(lines) - {"devlab", "torch", "numpy"} <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("lesson", LESSONS)
def test_no_link_leads_out_of_a_students_folder(lesson, laid):
    """The lessons' notebooks are not beside a handed-out copy, so it only names them."""
    cells = nbformat.read(laid / "handout" / lesson / f"{lesson}.ipynb", as_version=4).cells
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert re.findall(r"\]\((?!https?:)[^)]*\)", prose) == []
    assert "Needed: " in prose


def test_pages_are_handed_out_beside_the_exercises(laid):
    """The questions name the lesson that answers each, for the lessons are not in that folder."""
    page = (laid / "handout" / "questions.md").read_text(encoding="utf-8")
    assert "Without waiting (lesson 04)" in page
    assert "](" not in page


def test_the_points_are_those_of_the_verdict(laid):
    """A check's points are the rows of its exercise, and its cell gives as many as passed."""
    from devlab.checks.exercise import find

    for lesson in LESSONS:
        for cell in nbformat.read(laid / "source" / lesson / f"{lesson}.ipynb", as_version=4).cells:
            if facts := handout.grade_facts(cell):
                name = facts["grade_id"].removeprefix("check_")
                assert facts["points"] == find(name).possible
                assert cell.source == f"devlab.check({name}).points"


@pytest.mark.parametrize("lesson", LESSONS)
def test_an_untouched_notebook_is_worth_nothing(lesson, laid, monkeypatch):
    """Handed in as it was handed out it earns no point, broken programs included."""
    # start() stands by to explain errors from then on, and other tests run in this process.
    monkeypatch.setattr("devlab.start", lambda account=False: torch.device("cpu"))
    space = {"__name__": "__main__"}
    earned = {}
    for cell in nbformat.read(laid / "handout" / lesson / f"{lesson}.ipynb", as_version=4).cells:
        if facts := handout.grade_facts(cell):
            earned[facts["grade_id"]] = eval(cell.source, space)
        elif cell.cell_type == "code":
            exec(cell.source, space)
    assert earned
    assert set(earned.values()) == {0}


def test_whole_marks_give_all_or_nothing(tmp_path):
    """With `--marks whole` a check's cell is worth all its points or none, as nbgrader reads it."""
    import devlab

    course.lay_out(tmp_path / "mine", ["0"], marks="whole")
    cells = nbformat.read(tmp_path / "mine/source/00_start_here/00_start_here.ipynb", as_version=4).cells
    check = next(cell.source for cell in cells if handout.grade_facts(cell))

    def device_of(x):
        return x.device

    assert eval(check, {"devlab": devlab, "device_of": device_of}) == 3

    def device_of(x):
        import torch

        return torch.device("cpu")

    assert eval(check, {"devlab": devlab, "device_of": device_of}) == 0


def test_a_teachers_changes_are_never_overwritten(tmp_path, capsys):
    """A second call adds lessons and renews the handout; what the teacher changed stays and is named."""
    folder = tmp_path / "mine"
    assert cli.main(["course", str(folder), "--lessons", "0"]) == 0
    source = folder / "source/00_start_here/00_start_here.ipynb"
    source.write_text(source.read_text(encoding="utf-8").replace("Two short", "Two of my"), encoding="utf-8")
    (folder / "nbgrader_config.py").write_text("c = get_config()\n")
    assert cli.main(["course", str(folder), "--lessons", "0", "5"]) == 0
    said = capsys.readouterr().out
    assert (
        "left as you changed them:\n  source/00_start_here/00_start_here.ipynb\n  nbgrader_config.py" in said
    )
    assert "2 assignments (00_start_here, 05_buffers)" in said
    assert "Two of my" in source.read_text(encoding="utf-8")
    assert "Two of my" in (folder / "handout/00_start_here/00_start_here.ipynb").read_text(encoding="utf-8")


def test_a_second_call_adds_nothing_that_was_left_out(tmp_path, capsys):
    """Nor does it report as changed what nobody touched, whatever the first call was told."""
    assert cli.main(["course", str(tmp_path / "mine"), "--lessons", "5", "8", "--marks", "whole"]) == 0
    for command in (["--lessons", "0"], []):
        assert cli.main(["course", str(tmp_path / "mine"), *command]) == 0
    assert course.assignments(tmp_path / "mine") == ["00_start_here", "05_buffers", "08_memory"]
    assert "left as you changed them" not in capsys.readouterr().out


def test_hidden_tests_stay_with_the_teacher(tmp_path):
    """As nbgrader clears them; half a region is refused."""
    cell = {
        "cell_type": "code",
        "metadata": {"nbgrader": {"grade": True, "grade_id": "check_f", "locked": True}},
    }
    text = "devlab.check(f).points\n### BEGIN HIDDEN TESTS\nassert f(7) == 49\n### END HIDDEN TESTS\n1"
    made = handout.students({"cells": [cell | {"source": text}]})
    assert made["cells"][0]["source"] == "devlab.check(f).points\n1"
    with pytest.raises(ValueError, match="### BEGIN HIDDEN TESTS has no ### END HIDDEN TESTS"):
        handout.students({"cells": [cell | {"source": text.replace("### END", "### AND")}]})


@pytest.mark.parametrize("own", ["assert device_of(1) == 1", "device_of(torch.ones(1)) and 3"])
def test_a_task_that_only_nbgrader_can_judge_is_refused(tmp_path, capsys, own):
    """At `devlab course` in a word, at `devlab grade` for good: its points must not be lost unseen."""
    course.lay_out(tmp_path / "mine", ["0"])
    source = tmp_path / "mine/source/00_start_here/00_start_here.ipynb"
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("devlab.check(device_of).points", own), encoding="utf-8")
    assert cli.main(["course", str(tmp_path / "mine")]) == 0
    assert (
        "`devlab grade` will refuse 00_start_here: the cell check_device_of gives" in capsys.readouterr().out
    )
    with pytest.raises(CourseError, match="mark this assignment with nbgrader"):
        course.handouts_of(tmp_path / "mine")


def test_the_same_course_is_the_same_bytes(tmp_path):
    """Two courses laid out alike are alike, zips included."""
    for name in ("one", "two"):
        course.lay_out(tmp_path / name, ["5"])

    def content(folder: Path) -> dict[Path, bytes]:
        return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}

    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path, capsys):
    """A course goes into a new folder, not between somebody's files."""
    (tmp_path / "thesis.tex").touch()
    assert cli.main(["course", str(tmp_path)]) == 1
    assert "holds other things and is no course. Name a new folder." in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_lessons_are_named_by_number_or_name():
    """A number, a padded number, an id, and several with commas; a wrong one is told what there is."""
    assert course.choose(["0,05", "8"], LESSONS) == ["00_start_here", "05_buffers", "08_memory"]
    with pytest.raises(CourseError, match=r"There is no lesson 05_bufers\. Did you mean 05_buffers\?"):
        course.choose(["05_bufers"], LESSONS)


def test_half_a_solution_is_never_handed_out(tmp_path):
    """A teacher's slip with the marks is refused, naming the file, before anything is written."""
    course.lay_out(tmp_path / "mine", ["0"])
    source = tmp_path / "mine/source/00_start_here/00_start_here.ipynb"
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("### END SOLUTION", "### END"), encoding="utf-8")
    (tmp_path / "mine/handout/00_start_here.zip").unlink()
    with pytest.raises(CourseError, match="cannot be handed out: ### BEGIN SOLUTION"):
        course.lay_out(tmp_path / "mine")
    assert not (tmp_path / "mine/handout/00_start_here.zip").exists()


def test_an_installed_wheel_lays_out_the_same_course(laid, tmp_path):
    """The wheel carries the solutions: without a clone `devlab course` makes the very same files."""
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path / "dist"), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    with zipfile.ZipFile(next((tmp_path / "dist").glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path / "installed")
    script = f"""
import sys
sys.path.insert(0, {str(tmp_path / "installed")!r})
import devlab.cli
assert "installed" in devlab.cli.__file__
sys.exit(devlab.cli.main(["course", "mine"]))
"""
    command = [sys.executable, "-I", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for path in laid.rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "mine" / path.relative_to(laid)).read_bytes(), path


def test_damaged_sources_are_named(tmp_path):
    """A source that is no notebook any more is named, with the reason."""
    course.lay_out(tmp_path / "mine", ["0"])
    (tmp_path / "mine/source/00_start_here/00_start_here.ipynb").write_text("{")
    with pytest.raises(CourseError, match=r"00_start_here\.ipynb cannot be read as a notebook"):
        course.handouts_of(tmp_path / "mine")
