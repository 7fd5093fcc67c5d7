"""Lessons 02 and 03 on machines that are pretended: a Mac, one with NVIDIA GPUs, one with the CPU alone.

Their cells take the accelerator that is there. A pretended one lends tensors that say where they are, and
nothing is refused between them, so the outputs are not compared: what counts is that no line asks for what
only the simulated accelerator has, and that the answers that name devices name those.
"""

import subprocess
import sys
from pathlib import Path

import jupytext
import pytest

from factory import kernel

ROOT = Path(__file__).parents[2]
CASES = [
    ("02_cuda", "mps:0"),
    ("02_cuda", "cuda:0"),
    ("03_mps", "mps:0"),
    ("03_mps", "cuda:0"),
    ("03_mps", "cpu"),
]
MACHINES = {
    "mps:0": 'devlab.pretend(accelerator="mps")',
    "cuda:0": 'devlab.pretend("NVIDIA L4", "NVIDIA L4")',
    "cpu": "devlab.pretend()",
}
# A pretended GPU has no events to time by, so the host's clock times the work.
TIMED = """time_op = devlab.time_op
devlab.time_op = lambda fn, device, **options: time_op(fn, "cpu", **options)
"""


def code(lesson: str) -> str:
    """Return the code of a lesson's cells as one program."""
    cells = jupytext.read(ROOT / "source" / "lessons" / f"{lesson}.py").cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "code")


@pytest.mark.parametrize(("lesson", "device"), CASES)
def test_a_lesson_runs_on_the_accelerator_that_is_there(lesson, device, tmp_path):
    """Each in a process of its own, in which the simulator was never enabled."""
    program = tmp_path / "program.py"
    block = "\n".join("    " + line for line in code(lesson).splitlines())
    program.write_text(f"import devlab\n\n{TIMED}\nwith {MACHINES[device]}:\n{block}\n", "utf-8")
    environment = kernel.environment(tmp_path) | {"DEVLAB_DEVICE": "cpu" if device == "cpu" else ""}
    ran = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert not ran.stderr
    first = ran.stdout.splitlines()[0]
    assert ("cpu only" if device == "cpu" else device) in first
    assert "sim:" not in ran.stdout
