"""Gradescope: `devlab course DIR --gradescope` packs autograders, and this module runs in them.

Gradescope unpacks the zip into `source` below its own folder, runs `setup.sh` once, and then for each
submission `run_autograder`, which reads `submission` and writes `results/results.json`. (Its documentation,
"Autograder Specifications".) `run` does the work.
"""

import json
import shutil
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from devlab import carried
from devlab.classroom import course
from devlab.classroom.results import WORDS, Graded, Record, by_device, number, read_all

SETUP = """\
#!/usr/bin/env bash
# Gradescope runs this once, when it builds the image. It makes an environment with PyTorch and NumPy, at the
# versions of the machine that made this zip; devlab itself is in the zip.
set -euo pipefail
root="$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)"
if python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))'; then
  python3 -m venv "$root/environment"
else
  echo "Python here is older than devlab's 3.11, or makes no environments: uv brings another."
  python3 -m pip install --quiet uv
  python3 -m uv venv --quiet --seed --python 3.12 "$root/environment"
fi
# uv takes PyTorch's wheel for the CPU, which is a tenth as large as the one for GPUs.
"$root/environment/bin/python" -m pip install --quiet uv
"$root/environment/bin/uv" pip install --quiet --torch-backend=cpu --python "$root/environment" {packages}
"""

RUN = """\
#!/usr/bin/env bash
# Gradescope runs this for each submission; it writes results/results.json.
root="$(cd "$(dirname "$(readlink -f "$0")")" && pwd)"
[ -d "$root/source" ] || root="$(dirname "$root")"
export PYTHONPATH="$root/source/package" DEVLAB_DEVICE=sim DEVLAB_PROGRESS=/dev/null
exec "$root/environment/bin/python" - "$root" <<'END'
import sys
from devlab.classroom.gradescope import run
from devlab.cli import main
run(sys.argv[1], main)
END
"""


def pack(folder: Path, assignment: str) -> Path:
    """Write a course's autograder for one assignment, `gradescope/ASSIGNMENT.zip`, and return its path.

    The zip holds devlab, the assignment with its solutions and the two scripts, so that the image needs
    nothing but PyTorch and NumPy.
    """
    source = f"source/{assignment}/{assignment}.ipynb"
    files = {
        "setup.sh": SETUP.format(
            packages=f"torch=={version('torch').split('+')[0]} numpy=={version('numpy')}"
        ),
        "run_autograder": RUN,
        f"course/{source}": (Path(folder) / source).read_text(encoding="utf-8"),
    }
    for path in sorted(carried.PACKAGE.rglob("*")):
        inside = path.relative_to(carried.PACKAGE)
        if path.is_file() and "__pycache__" not in inside.parts and inside.parts[0] != "course":
            files[f"package/devlab/{inside.as_posix()}"] = path.read_bytes()
    archive = Path(folder) / "gradescope" / f"{assignment}.zip"
    course.write_zip(archive, files, programs=("setup.sh", "run_autograder"))
    return archive


def run(root: str, devlab: Callable[[list[str]], int]) -> None:
    """Grade the submission below Gradescope's folder and write its results.json, whatever was handed in.

    `devlab` is the command line, `devlab.cli.main`.
    """
    folder = Path(root)
    with tempfile.TemporaryDirectory() as work:
        # All files are one student's: of several notebooks the notebook that holds work counts.
        shutil.copytree(folder / "submission", Path(work) / "in" / "submission")
        out = Path(work) / "out" / "results.jsonl"
        where = ["--course", str(folder / "source" / "course"), "--out", str(out), "--jobs", "1"]
        devlab(["grade", f"{work}/in", *where])
        made = results_json(_one(list(read_all([out])) if out.exists() else []))
    (folder / "results").mkdir(exist_ok=True)
    (folder / "results" / "results.json").write_text(made, encoding="utf-8")


def _one(records: list[Record]) -> Record:
    """Return the record that counts: the one that was graded, else one that says what was wrong with all."""
    graded = [one for one in records if not one.problem]
    if graded:
        return graded[0]
    wrong = "; ".join(f"{Path(one.path).name}: {one.problem}" for one in records)
    return Record("", "", "", problem=wrong or "nothing was handed in that devlab can grade")


def results_json(record: Record) -> str:
    """Return one submission's results.json as Gradescope's autograder expects it."""
    made = {
        "score": record.points,
        "execution_time": round(record.seconds, 3),
        "output": record.problem,  # remarks are the teacher's to read
        "output_format": "text",
        "visibility": "visible",
        # Students do not see the output of grading: their code could print the numbers that judge it.
        "stdout_visibility": "hidden",
        "tests": [_test(position, one) for position, one in enumerate(record.exercises, start=1)],
        "extra_data": {
            "student": record.student,
            "assignment": record.assignment,
            "isolation": record.isolation,
        },
    }
    return json.dumps(made, indent=1)


def _test(position: int, one: Graded) -> dict:
    lines = [f"{WORDS[one.outcome][1]}: {one.headline}".strip(": ")]
    lines += [f"{label}: {by_device(outcomes)}".removesuffix(": ") for label, outcomes in one.rows]
    lines += [f"{label}: {text}" for label, text in one.details]
    return {
        "name": one.name,
        "number": str(position),
        "score": one.points,
        "max_score": one.possible,
        "status": "passed" if one.outcome == "passed" else "failed",
        "output": "\n".join(lines) if one.outcome != "passed" else f"{number(one.points)} points",
        "output_format": "text",
        "visibility": "visible",
    }
