"""`devlab course --gradescope`: the zip, unpacked and run as Gradescope does."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from classroom.students import LESSON, POSSIBLE, RIGHT, TYPES_ONLY

from devlab import cli
from devlab.classroom import course


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory) -> Path:
    """Gradescope's folder after the upload: `source`, and the environment that setup.sh would make."""
    here = tmp_path_factory.mktemp("gradescope")
    assert cli.main(["course", str(here / "course"), "--lessons", "0", "--gradescope"]) == 0
    root = here / "autograder"
    with zipfile.ZipFile(here / "course" / "gradescope" / f"{LESSON}.zip") as zipped:
        for member in zipped.infolist():
            path = Path(zipped.extract(member, root / "source"))
            path.chmod(member.external_attr >> 16)
    (root / "environment" / "bin").mkdir(parents=True)
    python = root / "environment" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    # Gradescope copies the script beside `source`.
    (root / "run_autograder").write_bytes((root / "source" / "run_autograder").read_bytes())
    (root / "run_autograder").chmod(0o755)
    return root


def results(root: Path, submission: dict[str, bytes]) -> dict:
    """Hand in files, run the script, and return what it wrote."""
    folder = root / "submission"
    if folder.exists():
        for path in folder.iterdir():
            path.unlink()
    folder.mkdir(exist_ok=True)
    for name, content in submission.items():
        (folder / name).write_bytes(content)
    (root / "results" / "results.json").unlink(missing_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DEVLAB_")}
    done = subprocess.run(
        [root / "run_autograder"], cwd=root, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((root / "results" / "results.json").read_text(encoding="utf-8"))


def notebook(tmp_path: Path, answers: dict[str, str]) -> bytes:
    """Return lesson 00's hand-out with answers filled in."""
    course.lay_out(tmp_path / "again", ["0"])
    made = json.loads((tmp_path / "again" / "handout" / LESSON / f"{LESSON}.ipynb").read_text("utf-8"))
    for cell in made["cells"]:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
        if name in answers:
            cell["source"] = answers[name]
    return json.dumps(made).encode()


def test_right_answers_get_all_points(unpacked, tmp_path):
    """And nothing of what was printed is shown to students."""
    made = results(unpacked, {"mine.ipynb": notebook(tmp_path, RIGHT)})
    assert made["score"] == sum(POSSIBLE.values())
    assert [one["status"] for one in made["tests"]] == ["passed", "passed"]
    assert made["stdout_visibility"] == "hidden"


def test_of_several_files_the_notebook_with_work_counts(unpacked, tmp_path):
    """A student hands in everything in the folder, the untouched copy too."""
    wrong = RIGHT | {"same_place": TYPES_ONLY}
    files = {
        "notes.pdf": b"%PDF",
        "untouched.ipynb": notebook(tmp_path, {}),
        "mine.ipynb": notebook(tmp_path, wrong),
    }
    made = results(unpacked, files)
    assert [one["score"] for one in made["tests"]] == [3, 2]
    assert "not right yet" in made["tests"][1]["output"]


@pytest.mark.parametrize(("files", "said"), [({"a.pdf": b"%PDF"}, "not a notebook"), ({}, "empty")])
def test_what_cannot_be_graded_gets_a_result_that_says_why(unpacked, files, said):
    """Gradescope shows "the autograder failed" where results.json is missing, which helps nobody."""
    made = results(unpacked, files)
    assert (made["score"], made["tests"]) == (0, [])
    assert said in made["output"]


def test_the_setup_asks_for_pytorch_and_numpy_alone(unpacked):
    """devlab itself is in the zip, and so is no other lesson's solution."""
    script = (unpacked / "source" / "setup.sh").read_text()
    assert "torch==2." in script
    assert "numpy==" in script
    subprocess.run(["bash", "-n", unpacked / "source" / "setup.sh"], check=True)
    assert [path.parent.name for path in (unpacked / "source").rglob("*.ipynb")] == [LESSON]
