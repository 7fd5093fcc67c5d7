"""The factory keeps its promises on small sources of its own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbgrader.nbgraderformat import MetadataValidator
from nbgrader.preprocessors import ClearSolutions, ComputeChecksums, LockCells

import build
from devlab.classroom.handout import students
from factory.make import make, sources
from factory.reading import SourceError, read

ROOT = Path(__file__).resolve().parents[2]
LESSON = """\
# %% [markdown] facts=["B1", "B2"]
# # A title

# %%
import os

print(os.environ["DEVLAB_DEVICE"])

# %% tags=["raises-exception"]
{}["nothing"]
"""

EXERCISE = '''\
# %% [markdown]
# Return the argument.


# %% exercise="same"
def same(x):
    """Return x."""
    ### BEGIN SOLUTION
    return x
    ### END SOLUTION


# %% check="same"
print("passed" if same(1) == 1 else "failed")
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A course of one lesson and one exercise."""
    (tmp_path / "source" / "lessons").mkdir(parents=True)
    (tmp_path / "source" / "exercises").mkdir()
    (tmp_path / "source" / "lessons" / "01_one.py").write_text(LESSON, encoding="utf-8")
    (tmp_path / "source" / "exercises" / "01_one.py").write_text(EXERCISE, encoding="utf-8")
    return tmp_path


@pytest.fixture
def no_kernel(monkeypatch):
    """Number the cells as if a kernel had run them, for tests of everything around the running."""

    def pretend(source, notebook, folder, strict):
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        for count, cell in enumerate(code, start=1):
            cell.execution_count = count
            if "tags" in cell.metadata:
                cell.outputs = [
                    nbformat.v4.new_output("error", ename="KeyError", evalue="nothing", traceback=[])
                ]

    monkeypatch.setattr("factory.running._execute", pretend)


def two_points(name: str) -> int:
    """Stand in for the lesson modules: they know `same` alone, worth two points."""
    if name != "same":
        raise LookupError(f"there is no {name}")
    return 2


def lesson(root: Path, text: str) -> Path:
    """Write the lesson's source."""
    path = root / "source" / "lessons" / "01_one.py"
    path.write_text(text, encoding="utf-8")
    return path


def exercise(root: Path, text: str) -> Path:
    """Write the exercise's source."""
    path = root / "source" / "exercises" / "01_one.py"
    path.write_text(text, encoding="utf-8")
    return path


def made(root: Path, path: Path) -> list[nbformat.NotebookNode]:
    """Make a source's notebooks, without writing them."""
    return [nbformat.reads(text, as_version=4) for text in make(path, root, two_points).values()]


def test_a_lesson_is_executed_on_the_simulated_device_and_keeps_its_facts(root):
    """A lesson's cells run in order, on `sim`, and a cell says which facts it teaches."""
    (notebook,) = made(root, root / "source" / "lessons" / "01_one.py")
    prose, prints, raises = notebook.cells
    assert prose.metadata == {"facts": ["B1", "B2"]}
    assert prints.outputs[0].text == "sim\n"
    assert raises.outputs[0].ename == "KeyError"
    assert [cell.get("execution_count") for cell in notebook.cells] == [None, 1, 2]


# By what Jupyter talks with the kernel that runs this.
TALKED = "import json, ipykernel\n\nprint(json.loads(ipykernel.get_connection_info())['transport'])\n"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such sockets, only ports")
def test_a_kernel_takes_no_port(root):
    """Neither the factory's nor nbval's: of ports that are free now another process may take one."""
    (notebook,) = made(root, lesson(root, f"# %%\n{TALKED}"))
    assert notebook.cells[0].outputs[0].text == "ipc\n"
    nbformat.write(notebook, root / "talk.ipynb")
    shutil.copy(ROOT / "conftest.py", root)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--nbval", "talk.ipynb"],
        cwd=root,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "source"), str(ROOT / "tests")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout


def test_an_exercise_becomes_its_solution_and_its_blank(root):
    """The two notebooks of an exercise differ in solution and outputs, not in ids or nbgrader's metadata."""
    solution, blank = made(root, root / "source" / "exercises" / "01_one.py")
    assert solution.cells[2].outputs[0].text == "passed\n"
    assert blank.cells[2].outputs == []
    assert blank.cells[1].source == (
        'def same(x):\n    """Return x."""\n    raise NotImplementedError("your code here")'
    )
    assert [cell.id for cell in blank.cells[1:]] == ["same", "check_same"]
    assert [cell.id for cell in blank.cells] == [cell.id for cell in solution.cells]
    assert blank.cells[1].metadata.nbgrader == {
        "schema_version": 3, "cell_type": "code", "grade_id": "same",
        "solution": True, "grade": False, "locked": False, "task": False,
    }  # fmt: skip
    assert blank.cells[2].metadata.nbgrader == {
        "schema_version": 3, "cell_type": "code", "grade_id": "check_same", "points": 2,
        "solution": False, "grade": True, "locked": True, "task": False,
    }  # fmt: skip


BROKEN = """\
    ### BEGIN BROKEN
    # for item in [x]:
    #     return item + 1
    ### END BROKEN
    ### BEGIN SOLUTION"""


def test_a_broken_program_is_handed_out_in_place_of_the_stub(no_kernel, root):
    """The solutions keep it as comments beside the mended one; the blank holds it as code, and no stub."""
    text = EXERCISE.replace("    ### BEGIN SOLUTION", BROKEN)
    solution, blank = made(root, exercise(root, text))
    assert "    #     return item + 1\n" in solution.cells[1].source
    assert blank.cells[1].source == (
        'def same(x):\n    """Return x."""\n    for item in [x]:\n        return item + 1'
    )
    assert blank.cells[1].metadata.nbgrader.solution
    assert students(solution)["cells"][1]["source"] == blank.cells[1].source


@pytest.mark.parametrize(
    ("found", "mistake", "problem"),
    [
        ("    ### END BROKEN\n", "", "is no comment: raise NotImplementedError"),
        ("    # for item", "    for item", "is no comment: for item"),
        ("    ### BEGIN SOLUTION", "    y = x\n    ### BEGIN SOLUTION", "has no solution right below it"),
    ],
)
def test_a_broken_program_badly_marked_is_refused(no_kernel, root, found, mistake, problem):
    """The factory says what is wrong with the region, rather than hand out half a program."""
    text = EXERCISE.replace("    ### BEGIN SOLUTION", BROKEN.replace(found, mistake))
    with pytest.raises(SourceError, match=problem):
        made(root, exercise(root, text))


def test_nbgrader_clears_the_solutions_notebook_itself(no_kernel, root):
    """A teacher's nbgrader takes the solutions as its source and hands out what `exercises/` holds."""
    solution, blank = made(root, root / "source" / "exercises" / "01_one.py")
    MetadataValidator().validate_nb(solution)
    resources = {}
    for step in (LockCells, ClearSolutions, ComputeChecksums):
        solution, resources = step().preprocess(solution, resources)
    assert "return x" not in solution.cells[1].source
    assert solution.cells[2].metadata.nbgrader.checksum
    assert [cell.id for cell in solution.cells] == [cell.id for cell in blank.cells]


def test_a_rebuild_changes_no_byte(root):
    """Building twice gives the same bytes."""
    build.build(root, points=two_points)
    before = {path: path.read_bytes() for path in root.glob("*/*.ipynb")}
    build.build(root, points=two_points, force=True)
    assert len(before) == 3
    assert {path: path.read_bytes() for path in root.glob("*/*.ipynb")} == before


def test_an_inserted_cell_changes_no_other_cells_id(root):
    """An id depends on its own cell alone."""
    before = read(root / "source" / "lessons" / "01_one.py", root).cells
    after = read(lesson(root, "# %%\nnew = 1\n\n" + LESSON), root).cells
    assert [cell.id for cell in after[1:]] == [cell.id for cell in before]


def test_a_heading_names_its_cell_and_links_name_the_cell(no_kernel, root):
    """JupyterLab finds a cell in a notebook that is not open yet, a heading only in an open one."""
    text = "# %% [markdown]\n# ## Two, at once\n\n# %% [markdown]\n# [back](01_one.ipynb#Two,-at-once), [on]("
    text += "../exercises/01_one.ipynb#task_same), [all](../exercises/01_one.ipynb)\n\n# %%\n1 + 1\n"
    (notebook,) = made(root, lesson(root, text + "\n# %% [markdown]\n# ## Two, at once\n"))
    assert [notebook.cells[place].id for place in (0, 3)] == ["Two-at-once", "Two-at-once-2"]
    assert notebook.cells[1].source == (
        "[back](01_one.ipynb#cell-id=Two-at-once), "
        "[on](../exercises/01_one_exercises.ipynb#cell-id=task_same), "
        "[all](../exercises/01_one_exercises.ipynb)"
    )


def test_equal_cells_have_different_ids(root):
    """Ids are unique even where cells are equal."""
    cells = read(lesson(root, "# %%\nx = 1\n\n# %%\nx = 1\n"), root).cells
    assert cells[0].id != cells[1].id


def test_only_what_changed_is_built(no_kernel, root, capsys):
    """A changed source rebuilds its own notebooks and no others."""
    build.build(root, points=two_points)
    capsys.readouterr()
    lesson(root, LESSON + "\n# %%\n1 + 1\n")
    build.build(root, points=two_points)
    assert capsys.readouterr().out.splitlines() == [
        "built       notebooks/01_one.ipynb",
        "up to date  solutions/01_one.ipynb",
        "up to date  exercises/01_one_exercises.ipynb",
    ]


def test_a_notebook_changed_by_hand_or_missing_is_built_again(no_kernel, root):
    """What is on disk counts, not only what was built."""
    build.build(root, points=two_points)
    blank, shown = root / "exercises" / "01_one_exercises.ipynb", root / "notebooks" / "01_one.ipynb"
    before = blank.read_bytes(), shown.read_bytes()
    blank.write_text("{}", encoding="utf-8")
    shown.unlink()
    build.build(root, points=two_points)
    assert (blank.read_bytes(), shown.read_bytes()) == before


def test_a_change_of_the_package_builds_everything_again(no_kernel, root, capsys):
    """Every notebook depends on the package."""
    build.build(root, points=two_points, only="01")
    (root / "src" / "devlab").mkdir(parents=True)
    (root / "src" / "devlab" / "new.py").touch()
    capsys.readouterr()
    build.build(root, points=two_points)
    assert "up to date" not in capsys.readouterr().out


def test_a_damaged_memory_costs_a_rebuild_and_no_more(no_kernel, root, capsys):
    """The memory of earlier builds may be lost at any time."""
    (root / "build").mkdir()
    (root / "build" / "notebooks.json").write_text("{", encoding="utf-8")
    assert build.build(root, points=two_points) == 0
    assert json.loads((root / "build" / "notebooks.json").read_text(encoding="utf-8"))


def test_only_the_asked_lesson_is_looked_at(root, capsys):
    """`--only` leaves other lessons alone."""
    build.build(root, points=two_points, only="02")
    assert capsys.readouterr().out == ""


def test_a_notebook_without_source_is_removed_and_a_learners_own_is_not(root, capsys):
    """Only notebooks named like the course's are ever removed."""
    for name in ("02_gone_exercises.ipynb", "my notes.ipynb"):
        (root / "exercises").mkdir(exist_ok=True)
        (root / "exercises" / name).touch()
    build.build(root, points=two_points, only="none")
    assert [path.name for path in root.glob("exercises/*")] == ["my notes.ipynb"]
    assert "removed     exercises/02_gone_exercises.ipynb" in capsys.readouterr().out


def test_a_measurement_is_kept_while_its_cell_stays(root):
    """A cell tagged nbval-ignore-output is measured once, so rebuilds stay identical."""
    measured = '# %% tags=["nbval-ignore-output"]\nimport time\n\ntime.perf_counter_ns()\n'
    lesson(root, measured)
    build.build(root, points=two_points)
    before = (root / "notebooks" / "01_one.ipynb").read_bytes()
    build.build(root, points=two_points, force=True)
    assert (root / "notebooks" / "01_one.ipynb").read_bytes() == before


def test_a_failing_cell_names_its_line_and_leaves_the_old_notebook(root, capsys):
    """A failure points into the source file and writes nothing."""
    build.build(root, points=two_points)
    before = (root / "notebooks" / "01_one.ipynb").read_bytes()
    lesson(root, "# %%\nx = 1\n\n# %%\ny = 0\n# a comment\nx / y\n")
    assert build.build(root, points=two_points) == 1
    said = capsys.readouterr().err
    assert "source/lessons/01_one.py:7: this cell raised ZeroDivisionError: division by zero" in said
    assert 'tags=["raises-exception"]' in said
    assert (root / "notebooks" / "01_one.ipynb").read_bytes() == before


def test_a_saved_traceback_shows_the_notebooks_own_frames_alone(root):
    """Frames of installed files hold paths of one machine and are not saved."""
    text = '# %% tags=["raises-exception"]\nimport json\n\njson.loads("{")\n'
    (notebook,) = made(root, lesson(root, text))
    traceback = "\n".join(notebook.cells[0].outputs[0].traceback)
    assert "json.loads" in traceback
    assert str(Path(sys.base_prefix)) not in traceback
    assert "decoder.py" not in traceback


def test_versions_are_saved_as_every_machine_can_say_them(root):
    """What varies.ini lists reads the same wherever the notebook is built, in text and in HTML."""
    text = """# %%
print("Python 3.11.2 · torch 2.13.0+cu130 · sim:0")

# %%
from IPython.display import HTML

HTML("<b>Python 3.12.1</b>")
"""
    (notebook,) = made(root, lesson(root, text))
    assert notebook.cells[0].outputs[0].text == "Python 3 · torch 2 · sim:0\n"
    assert notebook.cells[1].outputs[0].data["text/html"] == "<b>Python 3</b>"


REFUSED_LESSONS = {
    "x = 1\n": "01_one.py:1: no cell found",
    "import os\n\n# %%\nx = 1\n": "begin the file with a cell",
    '# %%\nx = """\n# %%\n"""\n': "begin no line inside a string with `# %%`",
    '# %% fact=["B1"]\nx = 1\n': "01_one.py:1: the header has `fact`, which means nothing here",
    '# %% facts="B1"\nx = 1\n': 'write facts as a list of words: facts=["…", "…"]',
    "# %%\n\n# %%\nx = 1\n": "01_one.py:1: this cell is empty",
    "# %% [markdown]\n# Prose.\n#\n# ## More\n": "01_one.py:1: links lead to cells; begin one",
    '# %% exercise="same"\nx = 1\n': "put exercises into source/exercises",
    '# %%\nx = 1\n\n# %% tags=["raises-exception"]\nx\n': "01_one.py:4: tagged raises-exception, but nothing",
    '# %%\nimport sys\n\nprint("oh", file=sys.stderr)\n': "writes to stderr",
    "# %%\nobject()\n": "shows an address (0x",
    "# %%\nimport sys\n\nprint(sys.prefix + '/bin')\n": "shows a folder of this machine",
    "# %%\nimport os\n\nos._exit(1)\n": "01_one.py:1: the kernel died in this cell",
}


@pytest.mark.parametrize(("text", "message"), REFUSED_LESSONS.items(), ids=REFUSED_LESSONS.values())
def test_a_lesson_that_cannot_be_made_says_why(root, text, message):
    """Each mistake in a lesson is told with its place and its cure."""
    with pytest.raises(SourceError) as refusal:
        make(lesson(root, text), root, two_points)
    assert message in str(refusal.value)
    assert str(refusal.value).startswith("source/lessons/01_one.py:")


CHECK = '\n\n# %% check="same"\nprint("passed" if same(1) == 1 else "failed")\n'
REFUSED_EXERCISES = {
    EXERCISE.replace(
        CHECK, "\n"
    ): '01_one.py:5: same is never judged; add a cell `# %% check="same"` below it',
    EXERCISE.replace("### BEGIN SOLUTION", "# here"): "same has no solution to clear",
    EXERCISE + "\n" + EXERCISE: "01_one.py:20: a second cell with exercise='same'",
    EXERCISE
    + '\n\n# %% check="sane"\n1\n': "01_one.py:17: this cell checks sane, but no cell in this file has "
    '`exercise="sane"` (did you mean same?)',
    EXERCISE.replace("same", "other"): "01_one.py:13: ask src/devlab/lessons: there is no other",
    EXERCISE + "\n\n# %%\n### BEGIN SOLUTION\n### END SOLUTION\n": "a solution outside an exercise",
    CHECK.lstrip() + "\n\n" + EXERCISE.replace(CHECK, ""): "same is judged before it is written",
    EXERCISE.replace('exercise="same"', "exercise=1"): "write exercise as the name of a function or class",
    EXERCISE.replace("[markdown]", '[markdown] check="same"'): "`check` belongs on a code cell",
}


@pytest.mark.parametrize(("text", "message"), REFUSED_EXERCISES.items(), ids=REFUSED_EXERCISES.values())
def test_an_exercise_that_cannot_be_made_says_why(root, text, message):
    """Each mistake in an exercise is told with its place and its cure."""
    with pytest.raises(SourceError) as refusal:
        make(exercise(root, text), root, two_points)
    assert message in str(refusal.value)


def test_a_source_with_a_name_out_of_order_is_refused(root):
    """The number in a source's name is its place in the course."""
    (root / "source" / "lessons" / "Notes.py").touch()
    with pytest.raises(SourceError, match=r"name it NN_name\.py"):
        sources(root)
