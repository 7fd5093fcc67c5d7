"""Every lesson and every solution runs to its end on a device that follows Apple's rules.

Outputs differ there (one device, no float64), so they are not compared: what counts is that no cell
fails that does not fail elsewhere. `make test` runs the same notebooks under CUDA's rules, by nbval.
"""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from notebooks import plain

from factory import kernel

ROOT = Path(__file__).parents[2]
FIRST = "import devlab.sim\ndevlab.sim.enable()\nrules = devlab.sim.rules('mps')\nrules.__enter__()"
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
EXERCISES = sorted((ROOT / "source" / "exercises").glob("*.py"))


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_no_cell_fails_under_apples_rules(path, monkeypatch):
    """As on a Mac: one device, no float64, operators that are missing."""
    monkeypatch.setenv("DEVLAB_DEVICE", "sim")
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(FIRST))
    NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(path.parent)}}).execute()


@pytest.mark.parametrize("source", EXERCISES, ids=lambda path: path.stem)
def test_no_solution_fails_under_apples_rules(source, tmp_path):
    """As plain scripts, each check strict."""
    said = tmp_path / "said.txt"
    status = plain.run(source, kernel.environment(tmp_path, strict=True), said, rules="mps")
    assert status == 0, f"{source.name}:\n{said.read_text(encoding='utf-8')}"
