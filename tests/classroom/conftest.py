"""One course, handed out, handed in and marked by nbgrader's own commands, for all tests that read it."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from classroom.students import LESSON, hand_in


@dataclass
class Marked:
    """A course marked by nbgrader: its folder, the downloads, and what each command said."""

    folder: Path
    downloads: Path
    said: dict[str, subprocess.CompletedProcess] = field(default_factory=dict)

    def run(self, *command: str) -> subprocess.CompletedProcess:
        """Run a command in the course, as a teacher does in a terminal; raises where it fails."""
        here = str(Path(sys.executable).parent)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DEVLAB_")}
        # nbgrader finds alembic, and Jupyter its kernel, on the path.
        environment |= {"PATH": os.pathsep.join([here, environment["PATH"]]), "PYTHONUTF8": "1"}
        # A kernel's settings and a user's own may not decide what the test sees.
        own = self.folder.parent / "home"
        environment |= {"JUPYTER_CONFIG_DIR": str(own / "jupyter"), "IPYTHONDIR": str(own / "ipython")}
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, encoding="utf-8", check=False
        )
        assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
        self.said[command[1]] = done
        return done


@pytest.fixture(scope="session")
def marked(tmp_path_factory) -> Marked:
    """Lay out a course, collect a class's notebooks, and run nbgrader from assignment to export."""
    root = tmp_path_factory.mktemp("nbgrader")
    course = Marked(root / "course", root / "downloads")
    course.folder.mkdir()
    (root / "home" / "ipython").mkdir(parents=True)
    course.run("devlab", "course", ".", "--lessons", "0")
    course.run("nbgrader", "generate_assignment", LESSON)
    hand_in(course.folder / "release" / LESSON / f"{LESSON}.ipynb", course.downloads)
    course.run("devlab", "collect", str(course.downloads))
    course.run("nbgrader", "autograde", LESSON)
    course.run("nbgrader", "generate_feedback", LESSON)
    course.run("nbgrader", "export")
    return course
