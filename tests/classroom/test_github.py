"""`devlab course --github`: the template's own workflow, step by step, with GitHub's command replaced."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from classroom.students import LESSON, TYPES_ONLY
from classroom.test_gradescope import notebook

import devlab
from devlab import cli
from devlab.classroom import markdown
from devlab.classroom.results import Graded, Record

DEVICES = {"cpu": "passed", "sim:0": "failed"}


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    """The template repository of lesson 00."""
    folder = tmp_path_factory.mktemp("github") / "course"
    assert cli.main(["course", str(folder), "--lessons", "0", "--github"]) == 0
    return folder / "github" / LESSON


def steps(template: Path) -> dict[str, dict]:
    """Return the steps of the workflow that run commands, by their names."""
    workflow = yaml.safe_load((template / ".github" / "workflows" / "grade.yml").read_text("utf-8"))
    return {step["name"]: step for step in workflow["jobs"]["grade"]["steps"] if "run" in step}


def test_the_template_holds_what_students_get(template):
    """The tasks, the rules for AI helpers, the workflow; no solutions."""
    held = {path.relative_to(template).as_posix() for path in template.rglob("*") if path.is_file()}
    assert held == {f"{LESSON}.ipynb", "AGENTS.md", "README.md", ".gitignore", ".github/workflows/grade.yml"}
    assert "SOLUTION" not in (template / f"{LESSON}.ipynb").read_text("utf-8")


def test_no_template_is_made_of_an_assignment_that_the_workflow_could_not_grade(tmp_path, capsys):
    """A teacher's own; the lesson beside it has its template all the same."""
    course = tmp_path / "course"
    assert cli.main(["course", str(course), "--lessons", "0"]) == 0
    (course / "source" / "mine").mkdir()
    shutil.copy(course / "source" / LESSON / f"{LESSON}.ipynb", course / "source" / "mine" / "mine.ipynb")
    assert cli.main(["course", str(course), "--lessons", "0", "--github"]) == 1
    assert "No template was made of mine" in capsys.readouterr().err
    assert [path.name for path in (course / "github").iterdir()] == [LESSON]


def test_the_workflow_installs_the_wheel_that_lies_there_or_this_release(template, tmp_path):
    """A teacher can commit a wheel before devlab is on an index."""
    (tmp_path / "python").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "python").chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    command = [
        "bash",
        "-ec",
        steps(template)["install devlab, from a wheel in this repository if there is one"]["run"],
    ]
    said = [subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True).stdout]
    (tmp_path / "devlab-1.0-py3-none-any.whl").touch()
    said.append(subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True).stdout)
    assert said == [
        f"-m pip install devlab=={devlab.__version__}\n",
        "-m pip install devlab-1.0-py3-none-any.whl\n",
    ]


def test_a_push_is_graded_and_the_feedback_is_commented(template, tmp_path):
    """The steps of the workflow run as they stand; only `gh` is not GitHub's."""
    repository, temporary, programs = (tmp_path / name for name in ("repository", "runner", "bin"))
    for folder in (repository, temporary, programs):
        folder.mkdir()
    (repository / f"{LESSON}.ipynb").write_bytes(notebook(tmp_path, {"same_place": TYPES_ONLY}))
    (programs / "gh").write_text('#!/bin/sh\necho "$@" > "$RUNNER_TEMP/asked"\n')
    run = "import sys; from devlab.cli import main; sys.exit(main(sys.argv[1:]))"
    (programs / "devlab").write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{run}" "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "RUNNER_TEMP": str(temporary),
        "GITHUB_STEP_SUMMARY": str(temporary / "summary.md"),
        "GITHUB_REPOSITORY": "class/anna",
        "GITHUB_SHA": "abc123",
    }
    for name in ("grade", "comment the feedback"):
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", steps(template)[name]["run"]],
            cwd=repository, env=environment, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    summary = (temporary / "summary.md").read_text("utf-8")
    assert summary.startswith(f"## {LESSON}: 2 of 8 points")
    assert "| `device_of` | 0 of 3 | ○ not attempted |" in summary
    assert "### `same_place`" in summary
    asked = (temporary / "asked").read_text()
    assert asked.startswith("api repos/class/anna/commits/abc123/comments -F body=@")


def test_nothing_that_a_student_wrote_leaves_its_block():
    """Feedback quotes the student's values, and GitHub would make links and pictures of them."""
    hostile = "got ``` ![x](y) | @everyone\n````"
    made = markdown.page(
        Record(
            "a", "b", "c", (Graded("f", "failed", 0, 1, hostile, (("row", DEVICES),), (("got", hostile),)),)
        )
    )
    fence = "`````"
    assert made.count(f"\n{fence}") == 2
    assert "row: cpu passed, sim:0 failed" in made
