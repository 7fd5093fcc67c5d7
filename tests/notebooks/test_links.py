"""Every link of a notebook leads somewhere: to a file that is there, and to a cell of prose in it."""

import re
from pathlib import Path

import nbformat
import pytest

from factory.links import cell_id

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted(path for folder in ("notebooks", "exercises") for path in (ROOT / folder).glob("*.ipynb"))
LESSONS = [path for path in NOTEBOOKS if path.parent.name == "notebooks"]
LINK = re.compile(r"\]\((?!https?:|data:)([^)#\s]*)(?:#([^)\s]+))?\)")


def prose(path: Path) -> str:
    """Return the notebook's prose, with links that were wrapped over two lines in one piece."""
    cells = nbformat.read(path, as_version=4).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def anchors(path: Path) -> set[str]:
    """Return what a link to the notebook may name: its cells of prose."""
    cells = nbformat.read(path, as_version=4).cells
    return {f"cell-id={cell.id}" for cell in cells if cell.cell_type == "markdown"}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_links_lead_somewhere(notebook):
    """A renamed lesson or heading breaks the links to it, and this names them."""
    for target, anchor in LINK.findall(prose(notebook)):
        path = (notebook.parent / target).resolve() if target else notebook
        assert path.exists(), f"{target} is not there"
        if anchor and target:
            assert anchor in anchors(path), f"{target} has no cell for #{anchor}"
        elif anchor:
            assert f"cell-id={cell_id(anchor)}" in anchors(path), f"{notebook.name} has no heading #{anchor}"


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_a_link_to_an_exercise_leads_to_its_task(lesson):
    """Not to the top of the exercises, but for the one at a lesson's end, which speaks of all of them."""
    whole = [link for link in LINK.findall(prose(lesson)) if "exercises/" in link[0] and not link[1]]
    assert len(whole) == 1, whole


def test_there_are_links_to_check():
    """The pattern finds links and anchors at all."""
    found = [link for notebook in NOTEBOOKS for link in LINK.findall(prose(notebook))]
    assert sum(bool(anchor) for _, anchor in found) >= 10
