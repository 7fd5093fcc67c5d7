"""One course, handed out, handed in and marked by nbgrader's own commands, for all tests that read it."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from classroom.students import LESSON, hand_in
from filelock import FileLock

# Each notebook has a kernel of its own, as in a classroom; PyTorch is imported once for all of them.
KERNELS = """
from jupyter_client.provisioning import local_provisioner
from notebooks.forked_kernel import First
local_provisioner.launch_kernel = First().launch
"""


@dataclass
class Marked:
    """A course marked by nbgrader: its folder, the downloads, and what each command said."""

    folder: Path
    downloads: Path
    said: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *command: str, may_fail: bool = False) -> str:
        """Run a command in the course, as a teacher does in a terminal; return all that it printed."""
        here = str(Path(sys.executable).parent)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DEVLAB_")}
        # nbgrader finds alembic, and Jupyter its kernel, on the path.
        environment |= {"PATH": os.pathsep.join([here, environment["PATH"]]), "PYTHONUTF8": "1"}
        # A kernel's settings and a user's own may not decide what the test sees.
        own = self.folder.parent / "home"
        environment |= {"JUPYTER_CONFIG_DIR": str(own / "jupyter"), "IPYTHONDIR": str(own / "ipython")}
        environment |= self.environment
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, encoding="utf-8", check=False
        )
        assert may_fail or done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
        self.said[command[1]] = done.stdout + done.stderr
        return self.said[command[1]]


@pytest.fixture(scope="session")
def marked(tmp_path_factory, worker_id) -> Marked:
    """Lay out a course, collect a class's notebooks, and run nbgrader from assignment to export.

    It takes most of a minute, so the processes of a parallel run share one.
    """
    here = tmp_path_factory.getbasetemp()
    root = (here if worker_id == "master" else here.parent) / "nbgrader"
    course, said = Marked(root / "course", root / "downloads"), root / "said.json"
    with FileLock(f"{root}.lock"):
        if said.exists():
            course.said = json.loads(said.read_text(encoding="utf-8"))
        else:
            mark(course)
            said.write_text(json.dumps(course.said), encoding="utf-8")
    return course


def mark(course: Marked) -> None:
    """Do all that a teacher does with nbgrader, from the new course to the table of marks."""
    course.folder.mkdir(parents=True)
    (course.folder.parent / "home" / "ipython").mkdir(parents=True)
    course.run("devlab", "course", ".", "--lessons", "0")
    with (course.folder / "nbgrader_config.py").open("a", encoding="utf-8") as stream:
        stream.write(KERNELS)
    course.environment["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
    course.run("nbgrader", "generate_assignment", LESSON)
    hand_in(course.folder / "release" / LESSON / f"{LESSON}.ipynb", course.downloads)
    course.run("devlab", "collect", str(course.downloads))
    course.run("nbgrader", "autograde", LESSON)
    course.run("nbgrader", "generate_feedback", LESSON)
    course.run("nbgrader", "export")
