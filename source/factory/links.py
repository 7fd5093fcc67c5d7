"""Where links lead: to the cell that a heading begins.

JupyterLab does not wait until the cells of a notebook are drawn: a link to a heading leads to the top of a
notebook that is not open yet, a link to a cell to that cell.
"""

import re

from nbformat import NotebookNode

from devlab.carried import notebook

HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
TASK = re.compile(r"`(?:class )?(\w+)")
LINK = re.compile(r"\]\((?:\.\./(?P<folder>\w+)/)?(?P<lesson>\d\d_\w+)\.ipynb(?:#(?P<anchor>[^)\s]+))?\)")


def cell_id(heading: str) -> str:
    """Return the id of the cell that a heading begins, given the heading or the anchor made of it.

    >>> cell_id("Two addresses, no sum"), cell_id("Two-addresses,-no-sum"), cell_id("`move(batch, device)`")
    ('Two-addresses-no-sum', 'Two-addresses-no-sum', 'task_move')
    """
    if task := TASK.match(heading):
        return f"task_{task[1]}"
    return re.sub(r"[^A-Za-z0-9_-]", "", heading.replace(" ", "-"))[:64]


def headings(cell: NotebookNode) -> list[str]:
    """Return the headings of a cell of prose, the text of each."""
    return HEADING.findall(cell.source) if cell.cell_type == "markdown" else []


def settled(prose: str, folder: str) -> str:
    """Return prose whose links name notebooks as they are called, and the cell in place of its heading.

    `folder` is where the prose stands. Sources call a notebook as its source is called.

    >>> settled("[MPS](03_mps.ipynb#One-GPU)", "notebooks")
    '[MPS](03_mps.ipynb#cell-id=One-GPU)'
    """

    def lead(link: re.Match) -> str:
        there = link["folder"] or folder
        path = notebook(there, link["lesson"])
        path = path.removeprefix(f"{folder}/") if there == folder else f"../{path}"
        cell = f"#cell-id={cell_id(link['anchor'])}" if link["anchor"] else ""
        return f"]({path}{cell})"

    return LINK.sub(lead, prose)
