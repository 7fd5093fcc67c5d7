"""Every lesson and every solution runs to its end on a device that follows Apple's rules.

Outputs differ there (one device, no float64), so they are not compared: what counts is that no cell
fails that does not fail elsewhere. `make test` runs the same notebooks under CUDA's rules, by nbval.
"""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
FIRST = "import devlab.sim\ndevlab.sim.enable()\nrules = devlab.sim.rules('mps')\nrules.__enter__()"
NOTEBOOKS = [path for kind in ("notebooks", "solutions") for path in sorted((ROOT / kind).glob("*.ipynb"))]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_cell_fails_under_apples_rules(path, monkeypatch):
    """As on a Mac: one device, no float64, operators that are missing."""
    monkeypatch.setenv("DEVLAB_DEVICE", "sim")
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(FIRST))
    NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(path.parent)}}).execute()
