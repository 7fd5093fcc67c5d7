"""`devlab lab`: the course laid out for a learner, and JupyterLab started on it."""

import asyncio
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from ipykernel.ipkernel import IPythonKernel

import devlab
from devlab import cli, lab
from devlab.carried import PAGES
from devlab.contents import Contents

ROOT = Path(__file__).parents[1]
EXERCISE = "exercises/00_start_here_exercises.ipynb"


def test_every_lesson_and_exercise_is_laid_out(tmp_path):
    """As they are in the repository, and found where the lessons' links lead."""
    laid = lab.lay_out(tmp_path / "course")
    theirs = {
        path.relative_to(ROOT).as_posix() for kind in lab.CARRIED for path in (ROOT / kind).glob("*.ipynb")
    } | {"AGENTS.md", *(f"docs/{name}" for name in PAGES)}
    assert set(laid.new) == theirs
    assert (laid.folder / lab.FIRST).exists()
    for name in theirs:
        assert (laid.folder / name).read_bytes() == (ROOT / name).read_bytes()


def test_a_learners_work_is_never_overwritten(tmp_path):
    """A changed file is kept and said; an untouched one is not rewritten."""
    lab.lay_out(tmp_path)
    (tmp_path / EXERCISE).write_text("my answers", encoding="utf-8")
    again = lab.lay_out(tmp_path)
    assert (again.new, again.updated, again.kept) == ([], [], [EXERCISE])
    assert (tmp_path / EXERCISE).read_text(encoding="utf-8") == "my answers"


def test_an_untouched_file_of_an_older_course_is_brought_up_to_date(tmp_path):
    """The ledger knows what the course itself laid there."""
    import hashlib

    lab.lay_out(tmp_path)
    (tmp_path / EXERCISE).write_text("an older text", encoding="utf-8")
    ledger = json.loads((tmp_path / lab.LEDGER).read_text(encoding="utf-8"))
    ledger[EXERCISE] = hashlib.sha256(b"an older text").hexdigest()
    (tmp_path / lab.LEDGER).write_text(json.dumps(ledger), encoding="utf-8")
    assert lab.lay_out(tmp_path).updated == [EXERCISE]
    assert (tmp_path / EXERCISE).read_bytes() == (ROOT / EXERCISE).read_bytes()


@pytest.mark.parametrize("damage", ["", "{", "[]", '"text"'])
def test_a_damaged_ledger_costs_no_work(tmp_path, damage):
    """What differs counts as the learner's."""
    lab.lay_out(tmp_path)
    (tmp_path / EXERCISE).write_text("my answers", encoding="utf-8")
    (tmp_path / lab.LEDGER).write_text(damage, encoding="utf-8")
    assert lab.lay_out(tmp_path).kept == [EXERCISE]


def test_a_folder_that_cannot_be_one_gets_an_answer(tmp_path, capsys):
    """No traceback, and what to do."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert cli.main(["lab", str(tmp_path / "file"), "--no-open"]) == 1
    assert "Name a folder that you may write" in capsys.readouterr().err


def test_without_jupyterlab_the_notebooks_are_there(tmp_path, capsys, monkeypatch):
    """It says what to install; the course is of use in other editors, too."""
    monkeypatch.setattr(lab.importlib.util, "find_spec", lambda name: None)
    assert cli.main(["lab", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert "files new" in said.out
    assert 'pip install "devlab[lab]"' in said.err
    assert (tmp_path / lab.FIRST).exists()


def test_jupyterlab_is_started_on_the_first_lesson(tmp_path, monkeypatch):
    """In the folder, with the learner's own options at the end."""
    commands = []
    answer = subprocess.CompletedProcess([], 0)
    monkeypatch.setattr(lab.subprocess, "run", lambda command, check: commands.append(command) or answer)
    assert cli.main(["lab", str(tmp_path), "--", "--port=9999"]) == 0
    (command,) = commands
    assert command[:3] == [sys.executable, "-m", "jupyterlab"]
    assert f"--ServerApp.root_dir={tmp_path.resolve()}" in command
    assert f"--LabApp.default_url=/lab/tree/{lab.FIRST}" in command
    assert lab.CONTENTS in command
    assert lab.PAGE in command
    assert command[-1] == "--port=9999"


def test_make_lab_reads_notebooks_in_the_same_way():
    """The Makefile starts JupyterLab by itself."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"CONTENTS := {lab.CONTENTS}\n" in makefile
    assert f"PAGE := {lab.PAGE}\n" in makefile
    assert "$(BIN)/jupyter lab --ServerApp.root_dir=. $(CONTENTS) $(PAGE)" in makefile


def read(folder: Path, name: str) -> dict:
    """Return what JupyterLab is handed of a file."""
    return asyncio.run(Contents(root_dir=str(folder)).get(name))


def test_a_notebook_is_read_with_the_version_that_runs(tmp_path):
    """As the kernel will name it, so nothing changes when it has started. The file stays as it is."""
    lab.lay_out(tmp_path)
    before = (tmp_path / EXERCISE).read_bytes()
    language = read(tmp_path, EXERCISE)["content"]["metadata"]["language_info"]
    assert language["version"] == IPythonKernel.language_info["version"]
    assert language | {"version": ""} == IPythonKernel.language_info | {"version": ""}
    assert (tmp_path / EXERCISE).read_bytes() == before
    assert read(tmp_path, "exercises")["type"] == "directory"


def test_a_notebook_in_another_language_is_read_as_it_is(tmp_path):
    """And one without a language."""
    for metadata in ({"language_info": {"name": "julia", "version": "1.10"}}, {}):
        nbformat.write(nbformat.v4.new_notebook(metadata=metadata), tmp_path / "other.ipynb")
        assert read(tmp_path, "other.ipynb")["content"]["metadata"] == metadata


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> dict[str, str]:
    """An environment in which devlab comes from its built wheel and from nowhere else."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(folder), str(ROOT)], check=True, timeout=300)
    (wheel,) = folder.glob("devlab-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(folder / "site"), str(wheel)], check=True)
    return {**os.environ, "PYTHONPATH": str(folder / "site"), "DEVLAB_DEVICE": "sim"}


def in_wheel(installed: dict[str, str], folder: Path, *arguments: str) -> str:
    """Run Python in a folder with the installed wheel and return what it prints."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=installed, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_a_package_index_shows_of_the_wheel_leads_somewhere(installed):
    """Without the repository's address, a link or picture of the README that needs it becomes words."""
    (wheel,) = Path(installed["PYTHONPATH"]).parent.glob("devlab-*.whl")
    assert runpy.run_path(str(ROOT / ".ci" / "release.py"))["faults"](wheel) == []


JUDGING = """
import devlab
def device_of(x):
    return x.device
devlab.start()
assert devlab.check(device_of).passed
devlab.solution(device_of)
print(devlab.__file__)
"""


def test_the_wheel_judges_and_shows_solutions(installed, tmp_path):
    """A clean environment needs the wheel, torch and NumPy."""
    (tmp_path / "answer.py").write_text(JUDGING, encoding="utf-8")
    said = in_wheel(installed, tmp_path, "answer.py")
    assert "✓ device_of" in said
    assert said.splitlines()[-1].startswith(installed["PYTHONPATH"])


def test_the_wheel_lays_out_the_learners_course_and_the_teachers(installed, tmp_path):
    """All notebooks of the repository are carried by the wheel."""
    run = "import sys; from devlab.cli import main; sys.exit(main(sys.argv[1:]))"
    said = in_wheel(installed, tmp_path, "-c", run, "lab", "mine", "--no-open")
    count = len(list((ROOT / "notebooks").glob("*.ipynb"))) + len(list((ROOT / "exercises").glob("*.ipynb")))
    assert f"{count + 5} files new" in said  # with AGENTS.md and four pages
    assert (tmp_path / "mine" / "docs" / "questions.md").exists()
    assert "assignment" in in_wheel(installed, tmp_path, "-c", run, "course", "class", "--lessons", "00")


def test_notebooks_for_colab_begin_with_a_cell_that_installs_devlab(tmp_path, monkeypatch):
    """Where devlab is missing, the cell takes a wheel that lies beside the notebook, or the release."""
    import importlib.util

    from IPython.core.interactiveshell import InteractiveShell

    assert cli.main(["lab", "--colab", str(tmp_path)]) == 0
    for path in tmp_path.rglob("*.ipynb"):
        made = nbformat.read(path, as_version=4)
        nbformat.validate(made)
        assert made.cells[0].id == "install-devlab"
        kind = path.parent.name
        assert made.cells[1:] == nbformat.read(ROOT / kind / path.name, as_version=4).cells
    shell, asked = InteractiveShell(), []
    shell.register_magic_function(asked.append, "line", "pip")
    monkeypatch.chdir(tmp_path)
    shell.run_cell(made.cells[0].source).raise_error()
    assert asked == []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    shell.run_cell(made.cells[0].source).raise_error()
    (tmp_path / "devlab-9.0.0-py3-none-any.whl").touch()
    shell.run_cell(made.cells[0].source).raise_error()
    wheel = tmp_path / "devlab-9.0.0-py3-none-any.whl"
    assert asked == [
        f"install -q devlab=={devlab.__version__} anywidget",
        f"install -q {wheel} anywidget",
    ]
