"""The notebooks of the course are what their sources make, and they run."""

import difflib
import os
import subprocess
from pathlib import Path

import nbformat
import pytest
from nbgrader.nbgraderformat import MetadataValidator
from notebooks import forked

from devlab.carried import notebook
from devlab.classroom.handout import BEGIN_BROKEN as BROKEN
from factory import kernel, running
from factory.exercises import BEGIN, END, STUB, rows_of
from factory.make import NAME, make, orphans, sources, targets
from factory.reading import read

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sources(ROOT)
EXERCISES = [source for source in SOURCES if source.parent.name == "exercises"]
NOTEBOOKS = [target for source in SOURCES for target in targets(source)]
EXECUTED = [target for target in NOTEBOOKS if not target.startswith("exercises/")]
BLANK = [target for target in NOTEBOOKS if target.startswith("exercises/")]

every_source = pytest.mark.parametrize("source", SOURCES, ids=lambda s: f"{s.parent.name}/{s.stem}")
every_exercise_source = pytest.mark.parametrize("source", EXERCISES, ids=lambda s: s.stem)
every_notebook = pytest.mark.parametrize("target", NOTEBOOKS)
every_executed = pytest.mark.parametrize("target", EXECUTED)
every_blank = pytest.mark.parametrize("target", BLANK)


def opened(target: str) -> nbformat.NotebookNode:
    """Read a notebook of the course."""
    assert (ROOT / target).exists(), f"{target} was never built; run `make notebooks`"
    return nbformat.read(ROOT / target, as_version=4)


def code_cells(target: str) -> list[nbformat.NotebookNode]:
    """List a notebook's code cells."""
    return [cell for cell in opened(target).cells if cell.cell_type == "code"]


def errors(cell: nbformat.NotebookNode) -> list[str]:
    """List the errors that a cell shows."""
    return [f"{out.ename}: {out.evalue}" for out in cell.outputs if out.output_type == "error"]


# Executed a second time, for the same bytes. The others get the outputs that are committed, and nbval, which
# `make test` runs over all, executes them and compares.
TWICE = ("lessons/05_buffers", "exercises/00_start_here")


def with_committed_outputs(source, notebook, folder, strict):
    """Give cells what they showed when they were executed, in the place of executing them."""
    committed = {cell.id: cell for cell in opened(targets(Path(source.name))[0]).cells}
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.id in committed:
            earlier = committed[cell.id]
            cell.outputs, cell.execution_count = earlier.outputs, earlier.execution_count


@every_source
def test_the_committed_notebooks_are_what_the_source_makes(source, monkeypatch):
    """Every byte comes from the source or from executing it, so nobody edited a notebook by hand."""
    name = source.relative_to(ROOT).as_posix()
    if not name.removeprefix("source/").startswith(TWICE):
        monkeypatch.setattr(running, "_execute", with_committed_outputs)
    for target, text in make(source, ROOT).items():
        path = ROOT / target
        committed = path.read_text(encoding="utf-8") if path.exists() else ""
        if committed != text:
            lines = difflib.unified_diff(
                committed.splitlines(), text.splitlines(), target, name, n=1, lineterm=""
            )
            changes = "\n".join(line[:160] for line in list(lines)[:40])
            pytest.fail(
                f"{target} is not what {name} makes.\n"
                f"Edit {name}, never the notebook, then run `make notebooks`.\n{changes}",
                pytrace=False,
            )


def test_no_notebook_outlives_its_source():
    """Whatever lies in the three folders is made from something."""
    left = [path.relative_to(ROOT).as_posix() for path in orphans(ROOT)]
    assert not left, f"no source makes {', '.join(left)}; `make notebooks` removes what has none"


@every_executed
def test_every_code_cell_was_executed(target):
    """nbval compares nothing in a cell without an execution count, so such a cell would pass unseen."""
    counts = [cell.execution_count for cell in code_cells(target)]
    assert counts == list(range(1, len(counts) + 1)), f"{target}: run `make notebooks`"


@every_executed
def test_an_error_is_shown_where_it_is_the_lesson_and_nowhere_else(target):
    """nbval permits an error in a cell tagged raises-exception; the course demands it."""
    for cell in code_cells(target):
        meant = "raises-exception" in cell.metadata.get("tags", [])
        assert bool(errors(cell)) == meant, f"{target}: {errors(cell)} in the cell\n{cell.source}"


@every_blank
def test_exercises_are_handed_out_blank(target):
    """A learner gets stubs or broken programs: no output, no marker, and something left to do."""
    lesson = Path(target).stem.removesuffix("_exercises")
    solved = {cell.id: cell.source for cell in code_cells(notebook("solutions", lesson))}
    for cell in code_cells(target):
        assert cell.outputs == []
        assert cell.execution_count is None
        assert BEGIN not in cell.source
        assert END not in cell.source
        assert BROKEN not in cell.source
        if cell.metadata.get("nbgrader", {}).get("solution"):
            to_do = STUB in cell.source or BROKEN in solved[cell.id]
            assert to_do, f"{target}: nothing left to do in {cell.id}"


@every_exercise_source
def test_no_line_of_a_solution_is_handed_out(source):
    """Not one line between the markers reaches the learner."""
    blank = {cell.id: cell.source.splitlines() for cell in opened(targets(source)[1]).cells}
    for cell in read(source, ROOT).cells:
        if BEGIN in cell.source:
            solution = cell.source.split(BEGIN)[1].split(END)[0].splitlines()
            around = cell.source.split(BEGIN)[0] + cell.source.split(END)[1]
            secret = [line for line in solution if line.strip() and line not in around.splitlines()]
            assert not set(secret) & set(blank[cell.id])


@every_blank
def test_an_unsolved_exercise_notebook_runs_to_its_end_without_one_traceback(target, tmp_path):
    """Run All on a notebook that nobody has touched shows "not attempted" or a verdict, nothing red."""
    shown = forked.cells(ROOT / target, kernel.environment(tmp_path))
    for cell, ran in zip(code_cells(target), shown, strict=True):
        assert not ran.error, f"{target}: {cell.source}"
        assert not ran.red, f"{target}: {cell.source}"
        if cell.metadata.get("nbgrader", {}).get("grade"):
            name = cell.metadata.nbgrader.grade_id.removeprefix("check_")
            (verdict,) = (data["text/plain"] for data in ran.displayed)
            assert name in verdict
            assert f"{name}: passed" not in verdict, f"{target}: {name} passes as it is handed out"


@every_exercise_source
def test_the_solutions_pass_their_checks_as_a_plain_script(source, tmp_path):
    """The source is ordinary Python: no notebook, no IPython, each check strict."""
    said = tmp_path / "said.txt"
    status = forked.script(source, kernel.environment(tmp_path, strict=True), said)
    assert status == 0, f"{source.name}:\n{said.read_text(encoding='utf-8')}"


@every_exercise_source
def test_a_source_asks_for_exactly_the_exercises_of_its_lesson(source):
    """What the lesson's module declares and what the notebook asks for are the same, in the same order."""
    from devlab.checks.exercise import exercises

    declared = [exercise.name for exercise in exercises() if exercise.lesson == source.stem]
    asked = [cell.metadata["exercise"] for cell in read(source, ROOT).cells if "exercise" in cell.metadata]
    assert asked == declared


@every_notebook
def test_the_saved_kernel_is_python3(target):
    """The kernel's name is the one that every Jupyter has."""
    kernelspec = opened(target).metadata.kernelspec
    assert kernelspec == {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


@every_notebook
def test_nbgrader_reads_the_notebook_and_its_points(target):
    """nbgrader accepts the metadata, and an exercise is worth a point a row."""
    notebook = opened(target)
    MetadataValidator().validate_nb(notebook)
    for cell in notebook.cells:
        marks = cell.metadata.get("nbgrader", {})
        if marks.get("grade"):
            assert marks["points"] == rows_of(marks["grade_id"].removeprefix("check_"))


@every_notebook
def test_a_notebook_holds_nothing_of_the_machine_that_built_it(target):
    """No path of the checkout or of a home folder is saved."""
    text = (ROOT / target).read_text(encoding="utf-8")
    assert str(ROOT) not in text
    assert str(Path.home()) + os.sep not in text


@pytest.mark.parametrize("lesson", ["00_start_here", "01_cpu", "05_buffers"])
def test_a_complete_lesson_has_its_three_notebooks(lesson):
    """The lessons that the course opens with are there."""
    for folder in ("notebooks", "solutions", "exercises"):
        assert (ROOT / notebook(folder, lesson)).exists()


def test_the_folders_hold_only_notebooks_of_the_course():
    """No notebook of another name is committed into the three folders."""
    for folder in ("notebooks", "solutions", "exercises"):
        strays = [path.name for path in (ROOT / folder).glob("*.ipynb") if not NAME.fullmatch(path.stem)]
        tracked = subprocess.run(
            ["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.split()
        assert not {f"{folder}/{stray}" for stray in strays} & set(tracked)
