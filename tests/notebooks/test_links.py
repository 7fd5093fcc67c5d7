"""Every link of a notebook leads somewhere: to a file that is there, and to a heading in it."""

import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted(path for folder in ("notebooks", "exercises") for path in (ROOT / folder).glob("*.ipynb"))
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")


def prose(path: Path) -> str:
    """Return the notebook's prose, with links that were wrapped over two lines in one piece."""
    cells = nbformat.read(path, as_version=4).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def anchors(path: Path) -> set[str]:
    """Return what JupyterLab makes of the notebook's headings: the text, with hyphens for blanks."""
    headings = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    return {heading.strip().replace(" ", "-") for heading in headings}


def is_still_to_be_written(path: Path) -> bool:
    """Tell whether the link names a lesson of which there is no notebook yet, under any name."""
    number = path.name[:2]
    return number.isdigit() and not list((ROOT / "notebooks").glob(f"{number}_*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_links_lead_somewhere(notebook):
    """A renamed lesson or heading breaks the links to it, and this names them."""
    for target, anchor in LINK.findall(prose(notebook)):
        path = (notebook.parent / target).resolve() if target else notebook
        if is_still_to_be_written(path):
            continue
        assert path.exists(), f"{target} is not there"
        if anchor:
            assert anchor in anchors(path), f"{target or notebook.name} has no heading for #{anchor}"


def test_there_are_links_to_check():
    """The pattern finds links and anchors at all."""
    found = [link for notebook in NOTEBOOKS for link in LINK.findall(prose(notebook))]
    assert sum(bool(anchor) for _, anchor in found) >= 10
