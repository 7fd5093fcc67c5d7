"""Every lesson and every solution runs to its end on a device that follows Apple's rules.

Outputs differ there (one device, no float64), so they are not compared: what counts is that no cell
fails that does not fail elsewhere. `make test` runs the same notebooks under CUDA's rules, by nbval.
"""

from pathlib import Path

import nbformat
import pytest
from bank import one_of_each
from notebooks import forked

from factory import kernel

ROOT = Path(__file__).parents[2]
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
EXERCISES = sorted((ROOT / "source" / "exercises").glob("*.py"))


def about_macs(path: Path) -> bool:
    """Tell which lesson `make test` runs here of all: the one about MPS, and one other."""
    return path.stem.startswith("03")


# PyTorch's GradScaler spares float64 where the device is called mps:0, and the simulated one is called sim:0.
SCALING = "12_less_memory_less_time"


def of_each(paths: list[Path]) -> list:
    """Return all but the lesson whose GradScaler works on a Mac and cannot under a Mac's rules here."""
    return one_of_each([path for path in paths if path.stem != SCALING], about_macs)


@pytest.mark.parametrize("path", of_each(LESSONS), ids=lambda path: path.stem)
def test_no_cell_fails_under_apples_rules(path, tmp_path):
    """As on a Mac: one device, no float64, operators that are missing."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    for cell, ran in zip(cells, forked.cells(path, kernel.environment(tmp_path), rules="mps"), strict=True):
        failing = "raises-exception" in cell.metadata.get("tags", [])
        assert not ran.error or failing, f"{cell.source}\n{ran.error}"


@pytest.mark.parametrize("source", of_each(EXERCISES), ids=lambda path: path.stem)
def test_no_solution_fails_under_apples_rules(source, tmp_path):
    """As plain scripts, each check strict."""
    said = tmp_path / "said.txt"
    status = forked.script(source, kernel.environment(tmp_path, strict=True), said, rules="mps")
    assert status == 0, f"{source.name}:\n{said.read_text(encoding='utf-8')}"
